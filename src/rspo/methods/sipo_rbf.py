"""SIPO with a Gaussian kernel: a state pays more the fewer states of a kept policy are nearby.

    r_j(s) = -scale * log( mean_{s' of pi_j} exp(-|s - s'|^2 / (2 width dim)) + 1e-5 )
    A = A_task + sum_j l_j A_j

States are scaled to [-1, 1] by the range seen so far. Each r_j is a stream with its own value
head; for the multipliers l_j see `rspo.methods.state_distance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from rspo.core.members import each_member
from rspo.core.settings import Positive
from rspo.core.types import Samples, Trajectory
from rspo.methods.base import Score, Settings, Setup, Stream
from rspo.methods.references import References
from rspo.methods.state_distance import (
    Bounds,
    Duals,
    StateDistance,
    no_bounds,
    on_one_scale,
    per_step,
    with_memory,
)

LEAST = 1e-5  # keeps the logarithm finite: no state pays more than 11.5 times the scale


class Learners(eqx.Module):
    """SIPO-RBF's own learners."""

    duals: Duals
    bounds: Bounds


@dataclass(frozen=True)
class SIPORBF(StateDistance):
    """Settings of SIPO-RBF."""

    delta: float = 5.0
    """How far from every kept policy a policy must be: the mean of r_j over its steps, before
    scaling."""
    scale: Positive = 0.05
    """Scale of r_j; with the rate and the horizon it determines how fast multipliers move."""
    width: Positive = 0.02
    """Width of the kernel, per state dimension."""

    tuned: ClassVar[Mapping[str, Settings]] = {
        "four-goals": {"method": {"delta": 3.1, "width": 0.005, "scale": 0.5}},
        "monster-hunt": {"method": {"delta": 5.66, "width": 0.1}},
        "robots": {"method": {"delta": 8.3, "scale": 0.1}},
        "2m_vs_1z": {"method": {"delta": 6.24}},
        "2c_vs_64zg": {"method": {"delta": 7.25}},
    }
    paper: ClassVar[Mapping[str, Settings]] = {
        **tuned,
        "skirmish": {"method": {"scale": 1e-3}},
    }

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        stream: Stream = "episodic"
        return (stream,) * (1 + capacity)

    def init(self, setup: Setup, key: Array) -> Learners:
        return Learners(self.init_duals(setup), no_bounds(setup.spec.obs_size))

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        distance, _ = self.distance(state, data, rivals)
        reward = jnp.concatenate([data.reward[..., None], distance], axis=-1)
        multiplier = jnp.where(rivals.mask, state.duals.multiplier, 0.0)
        weight = jnp.concatenate([jnp.ones(1), multiplier])
        metrics = {
            "distance_to": per_step(distance, data) / self.scale,
            "multiplier_of": multiplier,
        }
        return Score(reward, jnp.broadcast_to(weight, reward.shape), metrics)

    def distance(
        self, state: Learners, data: Trajectory, rivals: References
    ) -> tuple[Array, Bounds]:
        """r_j of every step, [T, N, A, R], 0 in empty slots; and the bounds of states."""
        data, kept, bounds = on_one_scale(state.bounds, data, rivals)
        return with_memory(rivals, kept).each(self._reward, data, rivals.mask), bounds

    def _reward(self, policy: Any, kept: Array, samples: Samples) -> Array:
        """Of samples [...], given a policy's states [K, O]."""
        states = samples.view.obs
        squares = jnp.square(states).sum(-1)[..., None] + jnp.square(kept).sum(-1)
        apart = jnp.maximum(squares - 2 * states @ kept.T, 0.0)
        near = jnp.exp(-apart / (2 * self.width * kept.shape[-1])).mean(-1)
        return jnp.where(samples.counted, -self.scale * jnp.log(near + LEAST), 0.0)

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        def one(state: Learners, data: Trajectory, rivals: References) -> Learners:
            distance, bounds = self.distance(state, data, rivals)
            lacking = self.delta * self.scale - per_step(distance, data)
            gap = data.reward.shape[0] * lacking
            return Learners(self.raised(state.duals, gap, rivals.mask), bounds)

        return each_member(one, states, data, rivals)
