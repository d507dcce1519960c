"""Recurrent networks: tanh layers, a gated recurrent unit (Cho et al., 2014), a linear layer."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.policies.mlp import MLP, init_mlp
from rspo.core.pytrees import pytree


@pytree
class GRU:
    """Any batch shape, NumPy or JAX weights. Its memory of an episode is a vector h."""

    body: MLP  # its last layer is a tanh layer too
    inputs: Array  # [H, 3 H] from the body to the gates: reset, update, candidate
    memory: Array  # [H, 3 H] from h to the gates
    bias: Array  # [2, 3 H] of each of the two
    head: MLP  # one linear layer

    recurrent: ClassVar[bool] = True

    def initial(self, *batch: int) -> Any:
        return self.memory.__array_namespace__().zeros(
            (*batch, self.memory.shape[0]), dtype=self.memory.dtype
        )

    def step(self, carry: Any, x: Any) -> tuple[Any, Any]:
        carry = self._cell(carry, self._gates(x))
        return carry, self.head(carry)

    def unroll(self, carry: Any, x: Any, starts: Any) -> tuple[Any, Any]:
        """Outputs [L, ..., K] for inputs [L, ..., O], with the memory reset where an episode
        starts [L, ...], and the memory before each step."""

        def one(h: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            gates, start = now
            before = jnp.where(start[..., None], 0.0, h)
            h = self._cell(before, gates)
            return h, (before, h)

        # What does not depend on the memory is computed for all steps at once.
        _, (before, after) = jax.lax.scan(one, carry, (self._gates(x), starts))
        return self.head(after), before

    def _gates(self, x: Any) -> Any:
        x = self.body(x)
        return x.__array_namespace__().tanh(x) @ self.inputs + self.bias[0]

    def _cell(self, h: Any, gates: Any) -> Any:
        xp = h.__array_namespace__()
        own = h @ self.memory + self.bias[1]
        size = h.shape[-1]
        sigmoid = lambda x: (xp.tanh(x / 2) + 1) / 2
        reset = sigmoid(gates[..., :size] + own[..., :size])
        update = sigmoid(gates[..., size : 2 * size] + own[..., size : 2 * size])
        candidate = xp.tanh(gates[..., 2 * size :] + reset * own[..., 2 * size :])
        return (1 - update) * candidate + update * h


def init_gru(sizes: tuple[int, ...], last_gain: float, key: Array) -> GRU:
    """`sizes` as for an MLP, whose last hidden width is also the memory's; orthogonal weights,
    zero biases."""
    *layers, outputs = sizes
    width = layers[-1]
    body_key, input_key, memory_key, head_key = jax.random.split(key, 4)
    orthogonal = jax.nn.initializers.orthogonal()
    gates = lambda key: jnp.concatenate(
        [orthogonal(k, (width, width), jnp.float32) for k in jax.random.split(key, 3)], axis=1
    )
    return GRU(
        body=init_mlp(tuple(layers), 2**0.5, body_key),
        inputs=gates(input_key),
        memory=gates(memory_key),
        bias=jnp.zeros((2, 3 * width)),
        head=init_mlp((width, outputs), last_gain, head_key),
    )
