"""How units move: paths around obstacles, pushing, and sliding along walls.

Everything is for one skirmish; arrays are [units]. The collector vmaps it.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rspo.envs.skirmish.terrain import STRAIGHT, Terrain

PUSH = 0.25  # the furthest that others push a unit in one sub-step
FAR = 1e3  # where dead units are placed for pushing


def cell(terrain: Terrain, x: Array, y: Array) -> Array:
    """The number of the cell that contains a position."""
    return jnp.asarray(terrain.number)[y.astype(jnp.int32) * terrain.width + x.astype(jnp.int32)]


def next_point(
    terrain: Terrain, x: Array, y: Array, to: Array, to_x: Array, to_y: Array
) -> tuple[Array, Array, Array]:
    """The next point to walk to in a straight line on the way to a position in cell `to`, and
    whether it is the position itself."""
    starts = terrain.way.shape[1]
    way = jnp.asarray(terrain.way.reshape(-1).astype(np.int32))
    corner = way[to * starts + cell(terrain, x, y)]
    straight = corner == STRAIGHT
    row = corner // terrain.width
    corner_x = (corner - row * terrain.width).astype(jnp.float32) + 0.5
    corner_y = row.astype(jnp.float32) + 0.5
    return jnp.where(straight, to_x, corner_x), jnp.where(straight, to_y, corner_y), straight


def push(x: Array, y: Array, separation: np.ndarray, alive: Array) -> tuple[Array, Array]:
    """How far each unit has to give way to those it overlaps with; each of two goes half the
    way."""
    zero = jnp.zeros_like(x)
    if len(separation) == 1:
        return zero, zero
    x, radius = jnp.where(alive, x, FAR), jnp.asarray(separation)

    def one(j: Array, total: tuple[Array, Array]) -> tuple[Array, Array]:
        dx, dy = x - x[j], y - y[j]
        overlap = (radius + radius[j]) * lax.rsqrt(dx * dx + dy * dy + 1e-12) - 1.0
        share = 0.5 * jnp.maximum(overlap, 0.0)
        return total[0] + share * dx, total[1] + share * dy

    # A loop: a matrix of all pairs would not stay in the cache. Dead units affect only each other.
    push_x, push_y = lax.fori_loop(0, len(separation), one, (zero, zero), unroll=4)
    length = jnp.sqrt(push_x * push_x + push_y * push_y)
    share = alive * (PUSH / jnp.maximum(length, PUSH))
    return push_x * share, push_y * share


def slide(passable: np.ndarray, x: Array, y: Array, dx: Array, dy: Array) -> tuple[Array, Array]:
    """A step over cells [y, x]; where a wall is in the way, along it."""
    table = jnp.asarray(np.pad(passable, 1).reshape(-1))
    width = passable.shape[1] + 2
    column, row = (
        lambda x: (x + 1.0).astype(jnp.int32),
        lambda y: (y + 1.0).astype(jnp.int32) * width,
    )
    from_x, from_y, to_x, to_y = column(x), row(y), column(x + dx), row(y + dy)
    both = table[to_y + to_x]
    sideways = ~both & table[from_y + to_x]
    upwards = ~both & ~sideways & table[to_y + from_x]
    return jnp.where(both | sideways, x + dx, x), jnp.where(both | upwards, y + dy, y)
