"""How different the distinct strategies of a run are, as one number: Population Diversity on states
that they visit."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from rspo.config import Config
from rspo.core import interrupt
from rspo.core.distributions import Categorical, Gaussian, MultiCategorical
from rspo.core.spaces import Box
from rspo.core.types import Trajectory
from rspo.methods.references import Measure, cross_entropy
from rspo.rollout.base import Collector
from rspo.search.archive import Strategy
from rspo.search.diversity import (
    Categoricals,
    Gaussians,
    MultiCategoricals,
    PopulationDiversity,
    population_diversity,
    trajectory_diversity,
)

P = 1.0  # the kernel's scale; the paper gives none
STREAM = 2**31 + 2  # random stream, unlike any of iterations, first weights or cross-play
EPISODES = 32  # of each policy, as the paper evaluates
AUTHORS = Measure(gaussian="distance")  # their NLL of a Gaussian is |a - mu|² / 2
SAMPLED = ("humanoid",)  # of continuous environments; in the others the authors act greedily


def diversity_of(
    strategies: Sequence[Strategy],
    states: Sequence[np.ndarray],
    p: float = P,
    whose: str = "the distinct strategies",
) -> PopulationDiversity:
    """The paper's score of these policies on the union of the states [S, O] that each visited."""
    obs = np.concatenate(states).astype(np.float32)
    seen = [strategy.policy(obs) for strategy in strategies]
    source = f"sampled episodes of {whose}, equally many from each"
    if all(isinstance(one, Categorical) for one in seen):
        logits = np.stack([np.asarray(one.logits) for one in seen if isinstance(one, Categorical)])
        return population_diversity(Categoricals(logits), p=p, source=source)
    if all(isinstance(one, MultiCategorical) for one in seen):
        tables = [np.asarray(one.each.logits) for one in seen if isinstance(one, MultiCategorical)]
        return population_diversity(MultiCategoricals(np.stack(tables)), p=p, source=source)
    gaussians = [one for one in seen if isinstance(one, Gaussian)]
    mean = np.stack([np.asarray(one.mean) for one in gaussians])
    log_std = np.stack([np.broadcast_to(one.log_std, one.mean.shape) for one in gaussians])
    return population_diversity(Gaussians(mean, log_std), p=p, source=source)


def authors_diversity_of(
    collect: Collector,
    strategies: Sequence[Strategy],
    config: Config,
    whose: str = "the distinct strategies",
) -> PopulationDiversity:
    """The score as the paper's authors compute it, on newly played episodes: the summed NLL of
    each policy's episodes under every other policy."""
    episodes = min(EPISODES, config.judge.episodes)
    greedy = isinstance(collect.spec.action_space, Box) and config.env not in SAMPLED
    key = jax.random.fold_in(jax.random.key(config.seed), STREAM)

    @collect.program
    def play(policy: Any, key: Array) -> Trajectory:
        return collect(policy, episodes, key, padding=config.ppo.padding, greedy=greedy)

    @jax.jit
    def entropy(policy: Any, trajectory: Trajectory) -> Array:
        # It is a mean over agents, but the likelihood of a joint action is a product.
        return cross_entropy(policy, trajectory, AUTHORS) * collect.spec.agents

    rows = []
    for i, strategy in enumerate(strategies):
        interrupt.check()
        played = play(strategy.policy, jax.random.fold_in(key, i))
        rows.append([float(entropy(other.policy, played)) for other in strategies])
    kind = "greedy" if greedy else "sampled"
    source = f"{episodes} {kind} episodes of each of {whose}"
    steps = episodes * collect.spec.horizon
    return trajectory_diversity(np.array(rows), steps=steps, source=source)
