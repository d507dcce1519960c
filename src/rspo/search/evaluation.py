"""Playing a finished policy on fresh episodes: returns, sampled and greedy, and its distance from
the kept policies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.policies import Policy
from rspo.core.types import Padding, Trajectory
from rspo.envs.decoration import described
from rspo.methods.references import Measure, References, automatic_threshold
from rspo.rollout.base import Collector
from rspo.search.recording import Recording, record


@dataclass(frozen=True)
class Evaluation:
    """What fresh episodes say about one policy. A return is the undiscounted sum, averaged over
    agents."""

    episodes: int
    return_mean: float
    return_std: float
    greedy_return_mean: float
    greedy_return_std: float
    accepted: float
    """Share of sampled episodes accepted by every earlier policy."""
    accepted_by: tuple[float, ...]
    """The same, for each earlier policy alone."""
    distance: tuple[float, ...]
    """D(this policy, each earlier one): the mean over its sampled episodes of their NLL, unless
    `measure.of` says otherwise."""
    threshold: tuple[float, ...]
    """delta_j of each earlier policy."""
    descriptor: str | None = None
    """The name of what the greedy episodes show, if the environment has names."""
    clear: bool = False
    """Whether that name stands for a single strategy."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """The numbers behind the name."""
    sampled_descriptor: str | None = None
    """The name of what the sampled episodes show; exploration may still blur it."""


Evaluator = Callable[[Policy, References, Array], tuple[Evaluation, Recording]]


def make_evaluator(collect: Collector, episodes: int, padding: Padding) -> Evaluator:
    """`evaluate(policy, references, key)`: the evaluation and a recording. Jitted once for all of
    a run's policies."""
    env = collect.env
    play = partial(collect, episodes=episodes, padding=padding, record=True)

    @jax.jit
    def distances(references: References, sampled: Trajectory) -> tuple[Array, Array]:
        distance = references.distance(sampled, references.step_nll(sampled))
        return distance, references.accepts(distance)

    @collect.program
    def measure(
        policy: Policy, references: References, key: Array
    ) -> tuple[Trajectory, Trajectory, Array, Array]:
        sampled = play(policy, key=_sampled_key(key))
        return (
            sampled,
            play(policy, key=_greedy_key(key), greedy=True),
            *distances(references, sampled),
        )

    def evaluate(
        policy: Policy, references: References, key: Array
    ) -> tuple[Evaluation, Recording]:
        sampled, greedy, distance, accepts = jax.device_get(measure(policy, references, key))
        kept = np.asarray(references.mask)
        evaluation = Evaluation(
            episodes=episodes,
            **_returns("return", sampled),
            **_returns("greedy_return", greedy),
            accepted=float(accepts.all(-1).mean()),
            accepted_by=_floats(accepts.mean((0, 1))[kept]),
            distance=_floats(distance.mean((0, 1))[kept]),
            threshold=_floats(np.asarray(references.threshold)[kept]),
            **described(env, sampled, greedy),
        )
        return evaluation, record(env, greedy, sampled)

    return evaluate


def greedy_episodes(
    collect: Collector, policy: Policy, episodes: int, padding: Padding, key: Array
) -> Trajectory:
    """Those that an evaluation with this key plays, recorded (NumPy)."""

    @collect.program
    def play(policy: Policy, key: Array) -> Trajectory:
        return collect(
            policy, episodes, _greedy_key(key), padding=padding, greedy=True, record=True
        )

    return jax.device_get(play(policy, key))


def _sampled_key(key: Array) -> Array:
    return jax.random.split(key)[0]


def _greedy_key(key: Array) -> Array:
    return jax.random.split(key)[1]


def make_threshold(
    collect: Collector,
    episodes: int,
    padding: Padding,
    rival: Callable[[Array], Any],
    measure: Measure,
) -> Callable[[Policy, float, Array], tuple[Array, Array, Array]]:
    """`threshold(policy, its mean return, key)`: delta = alpha * D(rival, policy) from episodes of
    `rival(key)`, and the mean and standard deviation of their returns."""

    @jax.jit
    def score(
        policy: Policy, mean_return: Array, trajectory: Trajectory
    ) -> tuple[Array, Array, Array]:
        if measure.delta is None:
            delta = automatic_threshold(policy, mean_return, trajectory, measure)
        else:
            delta = jnp.asarray(measure.delta)
        returns = trajectory.returns
        return delta.astype(jnp.float32), returns.mean(), returns.mean(-1).std()

    @collect.program
    def play(
        random: Any, policy: Policy, mean_return: float, key: Array
    ) -> tuple[Array, Array, Array]:
        return score(policy, mean_return, collect(random, episodes, key, padding=padding))

    def threshold(policy: Policy, mean_return: float, key: Array) -> tuple[Array, Array, Array]:
        rival_key, play_key = jax.random.split(key)
        return play(rival(rival_key), policy, mean_return, play_key)

    return threshold


def _returns(name: str, trajectory: Trajectory) -> dict[str, Any]:
    returns = trajectory.returns.mean(-1, dtype=np.float64)
    return {f"{name}_mean": float(returns.mean()), f"{name}_std": float(returns.std())}


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
