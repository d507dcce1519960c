"""Fully connected networks."""

import itertools
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.pytrees import pytree


@pytree
class MLP:
    """Tanh layers and a linear one; any batch shape, NumPy or JAX weights."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    recurrent: ClassVar[bool] = False

    def initial(self, *batch: int) -> Any:
        """The memory before an episode: always empty."""
        return ()

    def step(self, carry: Any, x: Any) -> tuple[Any, Any]:
        return carry, self(x)

    def unroll(self, carry: Any, x: Any, starts: Any) -> tuple[Any, Any]:
        """Outputs for inputs [L, ...], and the carry before each of them."""
        return self(x), carry

    def __call__(self, x: Any) -> Any:
        tanh = x.__array_namespace__().tanh
        # Features first, samples last: faster in training than samples first.
        *batch, size = x.shape
        columns = x.reshape(math.prod(batch), size).T
        if isinstance(columns, Array):
            # Else XLA multiplies by the transposed rows as they lie in memory, which is slower.
            columns = jax.lax.optimization_barrier(columns)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            columns = tanh(weight.T @ columns + bias[:, None])
        columns = self.weights[-1].T @ columns + self.biases[-1][:, None]
        return columns.T.reshape(*batch, columns.shape[0])


def init_mlp(sizes: tuple[int, ...], last_gain: float, key: Array) -> MLP:
    """Orthogonal weights, gain sqrt(2) for tanh layers and `last_gain` for the output; zero
    biases."""
    gains = (2**0.5,) * (len(sizes) - 2) + (last_gain,)
    keys = jax.random.split(key, len(gains))
    weights = tuple(
        jax.nn.initializers.orthogonal(gain)(k, shape, jnp.float32)
        for k, gain, shape in zip(keys, gains, itertools.pairwise(sizes), strict=True)
    )
    return MLP(weights, tuple(jnp.zeros(n) for n in sizes[1:]))
