"""Running normalisation of observations and rewards."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from rspo.core.pytrees import pytree

CLIP = 10.0  # bound of normalised values


@pytree
class Normalizer:
    """Running mean and variance of everything seen in training; frozen outside it."""

    mean: Array
    variance: Array
    count: Array

    @property
    def deviation(self) -> Any:
        return self.variance.__array_namespace__().sqrt(self.variance + 1e-8)

    def __call__(self, x: Any) -> Any:
        return x.__array_namespace__().clip((x - self.mean) / self.deviation, -CLIP, CLIP)

    def update(self, x: Array, weight: Array) -> "Normalizer":
        """Merge a batch: x [..., O], weight [...] 0 or 1 (parallel variance, Chan et al.)."""
        axes = tuple(range(x.ndim - 1))
        weight = weight[..., None]
        n = weight.sum()
        mean = (x * weight).sum(axes) / jnp.maximum(n, 1.0)
        variance = (jnp.square(x - mean) * weight).sum(axes) / jnp.maximum(n, 1.0)
        total = self.count + n
        delta = mean - self.mean
        merged = (
            self.variance * self.count + variance * n + jnp.square(delta) * self.count * n / total
        )
        return Normalizer(self.mean + delta * n / total, merged / total, total)


def init_normalizer(size: int) -> Normalizer:
    # A tiny count, not zero: the first batch replaces the identity, without division by zero.
    return Normalizer(jnp.zeros(size), jnp.ones(size), jnp.asarray(1e-4, jnp.float32))
