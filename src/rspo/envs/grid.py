"""What the 5 x 5 grid worlds share: walking, walls, and free cells drawn from uniform numbers.

A position is a pair (x, y) of int32 from 0 to 4; x grows to the right and y upwards. The cell of a
position has the number 5 y + x.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rspo.core.types import Shape

SIZE = 5
ACTIONS = ("stay", "right", "left", "up", "down")
CELL_WIDTH = 2.0 / SIZE  # in drawings, where the grid fills [-1, 1]^2


def walk(position: Array, action: Array) -> Array:
    """One step [..., 2] by an action [...]; an agent that walks into the wall stays where it
    is."""
    # Comparisons instead of a table, because a gather is slower.
    right = (action == 1).astype(jnp.int32) - (action == 2).astype(jnp.int32)
    up = (action == 3).astype(jnp.int32) - (action == 4).astype(jnp.int32)
    return jnp.clip(position + jnp.stack([right, up], axis=-1), 0, SIZE - 1)


def same(a: Array, b: Array) -> Array:
    """Whether two positions [..., 2] are one cell."""
    return (a[..., 0] == b[..., 0]) & (a[..., 1] == b[..., 1])


def pick(uniform: Array, count: int, excluded: Array, most: int) -> Array:
    """A number below `count` that is not in the set `excluded`, each one equally likely.

    The set is an integer with one bit per member, at most `most` of them. The free number of rank
    r is the smallest c with c = r + (members up to c). Iterating this from c = r climbs past one
    more member each time, if not there already, so `most` rounds reach it: no loop of unknown
    length, no sum over all cells.
    """
    rank = (uniform * (count - lax.population_count(excluded))).astype(jnp.int32)
    number = rank
    for _ in range(most):
        number = rank + lax.population_count(excluded & ((2 << number) - 1))
    return number


def free_position(uniform: Array, *occupied: Array) -> Array:
    """A position on none of those given, each one equally likely; those given may coincide."""
    cells = jnp.zeros((), jnp.int32)
    for x, y in occupied:
        cells |= 1 << (SIZE * y + x)
    cell = pick(uniform, SIZE * SIZE, cells, len(occupied))
    return jnp.stack([cell % SIZE, cell // SIZE])


def spawn(noise: Array) -> list[Array]:
    """Different positions, uniformly at random: one for each number of `noise`."""
    positions: list[Array] = []
    for uniform in noise:
        positions.append(free_position(uniform, *positions))
    return positions


def drawn(position: np.ndarray) -> tuple[float, float]:
    """The middle of a position's cell in a drawing."""
    x, y = ((float(value) - SIZE // 2) * CELL_WIDTH for value in position)
    return x, y


def draw_agents(agents: np.ndarray) -> list[Shape]:
    """The two agents, each on its own side of a cell, so that both are visible when they share
    one."""
    left, right = (drawn(agent) for agent in agents)
    shift, size = 0.25 * CELL_WIDTH, 0.2 * CELL_WIDTH
    return [
        Shape("agent", left[0] - shift, left[1], size, "1"),
        Shape("agent", right[0] + shift, right[1], size, "2"),
    ]


def draw_grid() -> list[Shape]:
    """The borders of the cells."""
    ends = [(i / SIZE) * 2 - 1 for i in range(SIZE + 1)]
    across = [Shape("line", -1.0, y, 0.0, end=(1.0, y)) for y in ends]
    return across + [Shape("line", x, -1.0, 0.0, end=(x, 1.0)) for x in ends]
