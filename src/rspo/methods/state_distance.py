"""What the two forms of SIPO share (Fu et al., *Iteratively Learn Diverse Strategies with State
Distance Information*, NeurIPS 2023, by the group of the paper).

    max J(pi)  subject to  D(pi, pi_j) >= delta  for every kept policy j

D compares states, not actions: different actions may reach the same states. A multiplier per kept
policy weights its distance and follows the constraint by gradient descent-ascent:

    l_j <- clip( l_j + rate * (delta T - return_j), 0, largest )        return_j = sum_t r_j(s_t)
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.policies import Policy
from rspo.core.settings import Count, Positive, Share
from rspo.core.types import Spec, Trajectory
from rspo.methods.base import Method, Setup
from rspo.methods.references import References

NOTHING_SEEN = 1e9


class Bounds(eqx.Module):
    """The range of the states seen so far, [O] each."""

    low: Array
    high: Array

    def with_states(self, states: Array, counted: Array) -> "Bounds":
        """Extended by states [..., O]; `counted` [...] says which ones count."""
        axes, counted = tuple(range(states.ndim - 1)), counted[..., None]
        low = jnp.where(counted, states, NOTHING_SEEN).min(axes)
        high = jnp.where(counted, states, -NOTHING_SEEN).max(axes)
        return Bounds(jnp.minimum(self.low, low), jnp.maximum(self.high, high))

    def scaled(self, states: Array) -> Array:
        """Scaled to [-1, 1]; a constant dimension becomes -1."""
        return 2 * (states - self.low) / jnp.maximum(self.high - self.low, 1e-6) - 1


def no_bounds(size: int) -> Bounds:
    return Bounds(*(jnp.full(size, end, jnp.float32) for end in (NOTHING_SEEN, -NOTHING_SEEN)))


class Duals(eqx.Module):
    """The multipliers, and for how many more updates they stay at 0."""

    multiplier: Array  # [R]
    wait: Array  # []


@dataclass(frozen=True)
class StateDistance(Method):
    """Settings that both forms have."""

    delta: float = 1.0
    """How far from every kept policy a policy must be, per step."""
    rate: Positive = 0.01
    """Step size of the multipliers per update."""
    largest: Positive = 10.0
    """Upper bound of a multiplier."""
    warmup: Share = 0.05
    """First fraction of a round, in which multipliers stay at 0."""
    states: Count = 256
    """States kept from each finished policy."""

    def init_duals(self, setup: Setup) -> Duals:
        wait = jnp.asarray(round(self.warmup * setup.updates), jnp.int32)
        return Duals(jnp.zeros(setup.capacity), wait)

    def raised(self, duals: Duals, gap: Array, mask: Array) -> Duals:
        """The multipliers after an update in which the constraints fell short by `gap` [R]."""
        raised = jnp.clip(duals.multiplier + self.rate * gap, 0.0, self.largest)
        multiplier = jnp.where(mask & (duals.wait == 0), raised, duals.multiplier)
        return Duals(multiplier, jnp.maximum(duals.wait - 1, 0))

    def memory(self, spec: Spec, key: Array) -> Array:
        return jnp.zeros((self.states, spec.obs_size))

    def remember(
        self, state: Any, policy: Policy, play: Callable[[Any, Array], Trajectory], key: Array
    ) -> Array:
        play_key, choice_key = jax.random.split(key)
        return drawn_states(play(policy, play_key), self.states, choice_key)


def drawn_states(trajectory: Trajectory, count: int, key: Array) -> Array:
    """Random states among the counted steps: [count, O]."""
    counted = jnp.asarray(trajectory.counted).ravel()
    seen = jnp.asarray(trajectory.obs)
    chosen = jax.random.choice(key, counted.size, (count,), p=counted / counted.sum())
    return seen.reshape(-1, seen.shape[-1])[chosen]


def on_one_scale(
    bounds: Bounds, data: Trajectory, rivals: References
) -> tuple[Trajectory, Array, Bounds]:
    """A batch with scaled observations, the kept states [R, K, O] on the same scale, and the
    bounds of both."""
    bounds = bounds.with_states(data.obs, data.counted)
    mask = jnp.broadcast_to(rivals.mask[:, None], rivals.memory.shape[:2])
    bounds = bounds.with_states(rivals.memory, mask)
    data = dataclasses.replace(data, view=data.view._replace(obs=bounds.scaled(data.obs)))
    return data, bounds.scaled(rivals.memory), bounds


def with_memory(rivals: References, memory: Any) -> References:
    """The same policies with something else remembered of each."""
    return dataclasses.replace(rivals, memory=memory)


def per_step(numbers: Array, data: Trajectory) -> Array:
    """The mean of numbers [T, N, A, R] over the steps that count: [R]."""
    counted = data.counted[..., None]
    return (numbers * counted).sum((0, 1, 2)) / jnp.maximum(counted.sum(), 1)
