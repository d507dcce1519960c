"""Multi-agent variational exploration (MAVEN, Mahajan et al., NeurIPS 2019; a baseline of the
paper), on PPO in place of QMIX.

    r_t = r_task + beta (log q(z | tau up to t) - log q(z | tau up to t - 1))

One policy is given one of k latents z before an episode, by a bandit that prefers those with high
returns. The rewards of an episode add up to log q(z | tau) + log k: a lower bound on the mutual
information of latents and trajectories, by a discriminator that sees all agents' states and
actions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.members import each_member
from rspo.core.settings import Count, Share
from rspo.core.types import Trajectory
from rspo.methods.bandit import Window, boltzmann, init_window
from rspo.methods.base import Score, Settings, Setup
from rspo.methods.discriminator import Guessing, from_episodes, of_own
from rspo.methods.episodes import for_everyone
from rspo.methods.latents import Latents
from rspo.methods.references import References


class Learners(eqx.Module):
    """MAVEN's own learners."""

    guessing: Guessing
    window: Window  # of the last episodes: their latents and returns


@dataclass(frozen=True)
class MAVEN(Latents):
    """Settings of MAVEN."""

    beta: float = 1.0
    """Weight of the mutual information."""
    greed: float = 1.0
    """How much the bandit prefers latents with high returns; 0: not at all."""
    explore: Share = 0.1
    """Fraction of the episodes whose latent is drawn uniformly."""
    window: Count = 512
    """Episodes that the bandit looks back on."""

    tuned: ClassVar[Mapping[str, Settings]] = {
        "four-goals": {"ppo": {"normalize_reward": True}},
        # With 1 they do not learn the task.
        "four-goals-medium": {"method": {"beta": 0.1}},
        "four-goals-hard": {"method": {"beta": 0.1}},
    }

    def init(self, setup: Setup, key: Array) -> Learners:
        return Learners(self.init_guessing(setup, key, actions=True), init_window(self.window))

    def _chances(self, state: Learners) -> Array:
        return boltzmann(state.window, state.guessing.model.latents, self.greed, self.explore)

    def context(self, state: Any, key: Array, episodes: int) -> Array:
        drawn = jax.random.categorical(key, jnp.log(self._chances(state)), shape=(episodes,))
        return jax.nn.one_hot(drawn, state.guessing.model.latents)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        told = of_own(from_episodes(state.guessing.model, data), data)
        nothing_yet = -math.log(state.guessing.model.latents)
        before = jnp.concatenate([jnp.full_like(told[:1], nothing_yet), told[:-1]])
        before = jnp.where(data.starts[..., None], nothing_yet, before)
        reward = data.reward + self.beta * (told - before)
        chances = self._chances(state)
        metrics = {
            "information": told[-1].mean() - nothing_yet,
            "favourite": chances.max(),
        }
        return Score(reward[..., None], jnp.ones((*reward.shape, 1)), metrics)

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        return each_member(self._learned, states, for_everyone(data))

    def _learned(self, state: Learners, data: Trajectory) -> Learners:
        guessing = self.guessed(state.guessing, from_episodes, data)
        latent = data.view.latent[0, :, 0].argmax(-1)
        return Learners(guessing, state.window.record(latent, data.returns.mean(1)))
