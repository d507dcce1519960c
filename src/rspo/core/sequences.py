"""Steps as sequences, which policies with memory are trained and scored on.

A batch has leaves [T, N, A, ...]. Cut into chunks of L steps it has leaves [T / L, N, A, L, ...],
so that its first three axes can still be sharded and split into pieces like those of single steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.distributions import Distribution
from rspo.core.types import Samples


def chunked(tree: Any, length: int) -> Any:
    """Leaves [T, N, A, ...] -> [T / L, N, A, L, ...]; where L does not divide T, the end is padded
    with zeros."""

    def one(leaf: Array) -> Array:
        missing = -leaf.shape[0] % length
        leaf = jnp.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1))
        return jnp.moveaxis(leaf.reshape(-1, length, *leaf.shape[1:]), 1, 3)

    return jax.tree.map(one, tree)


def joined(leaf: Array, steps: int) -> Array:
    """The inverse for one array: [T / L, N, A, L, ...] -> [T, N, A, ...]."""
    leaf = jnp.moveaxis(leaf, 3, 1)
    return leaf.reshape(-1, *leaf.shape[2:])[:steps]


def time_first(tree: Any) -> Any:
    """Leaves [B, L, ...] -> [L, B, ...]."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 0), tree)


def score_function(policy: Any, samples: Samples, coefficient: float) -> Array:
    """`coefficient` times the mean of log pi(a_t | s_t) times `samples.extra`: its gradient is that
    of the expected extra, by the score function."""
    log_prob = replayed(policy, samples).log_prob(samples.action)
    count = jnp.maximum(samples.counted.sum(), 1)
    return coefficient * (log_prob * samples.extra * samples.counted).sum() / count


def replayed(policy: Any, samples: Samples) -> Distribution:
    """The policy's distribution at each of these steps [B], or at [B, T] of whole episodes for one
    with memory, which replays its own memory of them: the same axes."""
    if not policy.recurrent:
        return policy.step((), samples.view)[1]
    played = policy.replay(*time_first((samples.view, samples.starts)))
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1) if leaf.ndim > 2 else leaf, played)
