"""Whole batches, and sums along each of their episodes; a column may hold several in sequence."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.devices import gathered
from rspo.core.types import Trajectory


def for_everyone(data: Trajectory) -> Trajectory:
    """The whole batch, [P, ...], on every device, except the last observations."""
    steps = gathered(dataclasses.replace(data, last=None))  # type: ignore[arg-type]
    return dataclasses.replace(steps, last=data.last)


def running_sum(data: Trajectory, steps: Array) -> Array:
    """Cumulative sum of [T, N, ...] from the start of each episode: the same shape."""
    starts = data.starts.reshape(data.starts.shape + (1,) * (steps.ndim - 2))

    def forwards(total: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        start, step = now
        total = jnp.where(start, 0.0, total) + step
        return total, total

    return jax.lax.scan(forwards, jnp.zeros_like(steps[0]), (starts, steps))[1]


def own_return(data: Trajectory) -> Array:
    """The return of the episode that each step belongs to: [T, N, A]. An episode truncated by the
    end of the batch has what it earned so far."""
    ends = jnp.concatenate([data.starts[1:], jnp.ones_like(data.starts[:1])])[..., None]

    def backwards(whole: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        end, so_far = now
        whole = jnp.where(end, so_far, whole)
        return whole, whole

    so_far = running_sum(data, data.reward)
    return jax.lax.scan(backwards, so_far[-1], (ends, so_far), reverse=True)[1]
