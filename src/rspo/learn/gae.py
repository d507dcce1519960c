"""Generalised advantage estimation (Schulman et al., 2016) for one reward channel; callers map it
over channels."""

import jax
import jax.numpy as jnp
from jax import Array


def gae(
    reward: Array,
    value: Array,
    last_value: Array,
    terminated: Array,
    gamma: float,
    lam: float,
    truncated: Array | None = None,
) -> Array:
    """Advantages [T, ...] of one channel.

    `last_value` [...] is the value after the last step, so truncation at the horizon bootstraps; a
    terminated step does not. `terminated` [T, ...] must broadcast against the rewards, and so must
    `truncated`, if given: steps that also bootstrap from the value after them, but at which the
    episode ends.
    """
    carries_on = 1.0 - terminated
    next_value = jnp.concatenate([value[1:], last_value[None]])
    delta = reward + gamma * carries_on * next_value - value

    def backwards(advantage: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, carries_on = row
        advantage = delta + gamma * lam * carries_on * advantage
        return advantage, advantage

    if truncated is not None:
        carries_on = carries_on * (1.0 - truncated)
    return jax.lax.scan(backwards, jnp.zeros_like(last_value), (delta, carries_on), reverse=True)[1]
