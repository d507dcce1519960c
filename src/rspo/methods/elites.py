"""An archive of elites: the behaviour space is divided into cells, and each cell keeps the best
policy seen with that behaviour (MAP-Elites, Mouret and Clune, 2015).

A behaviour is one number from 0 to 1, and k cells are k equal parts of that range. It is a pytree
and its functions are pure, so that it lives inside compiled programs and in checkpoints.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

NOTHING = -jnp.inf  # the return of an empty cell


class Elites(eqx.Module):
    """One policy per cell; leaves [K, ...]."""

    policies: Any
    returns: Array  # [K] NOTHING where a cell is empty

    @property
    def filled(self) -> Array:
        return self.returns > NOTHING

    def add(self, policies: Any, returns: Array, cells: Array) -> "Elites":
        """Add candidates [B]; the best in each cell replaces the elite if it is at least as good:
        ties go to the newest, or a policy that was lucky once would stay forever."""
        size = self.returns.shape[0]
        ranked = jnp.where(cells[:, None] == jnp.arange(size), returns[:, None], NOTHING)  # [B, K]
        best, earned = ranked.argmax(0), ranked.max(0)
        better = (earned >= self.returns) & (earned > NOTHING)
        keep = lambda new, old: jnp.where(_column(better, old), new[best], old)
        return Elites(
            jax.tree.map(keep, policies, self.policies), jnp.where(better, earned, self.returns)
        )

    def sample(self, key: Array, count: int) -> Any:
        """Policies [count, ...], every elite equally likely; placeholders if all cells are
        empty."""
        weight = jnp.where(self.filled.any(), self.filled, True).astype(jnp.float32)
        chosen = jax.random.choice(key, weight.shape[0], (count,), p=weight / weight.sum())
        return jax.tree.map(lambda leaf: leaf[chosen], self.policies)

    def in_order(self) -> "Elites":
        """The best first, empty cells last."""
        order = jnp.argsort(-self.returns)
        return jax.tree.map(lambda leaf: leaf[order], self)


def no_elites(policy: Any, cells: int) -> Elites:
    """Empty cells, each with a copy of this policy as a placeholder."""
    copies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (cells, *leaf.shape)), policy)
    return Elites(copies, jnp.full(cells, NOTHING, jnp.float32))


def cells_of(behaviours: Array, cells: int) -> Array:
    """The cell of each policy [B]: the one that most of its episodes' behaviours [B, E] fall
    into."""
    each = jnp.clip((behaviours * cells).astype(jnp.int32), 0, cells - 1)
    return jax.nn.one_hot(each, cells).sum(1).argmax(-1)


def isoline(one: Any, other: Any, iso: float, line: float, key: Array) -> Any:
    """x + iso N(0, I) + line (y - x) N(0, 1) of parents x and y, leaves [B, ...] (Vassiliades and
    Mouret, 2018). The random number for the line is shared by all leaves of a child."""
    line_key, iso_key = jax.random.split(key)
    rows = lambda tree: jax.vmap(lambda own: ravel_pytree(own)[0])(tree)
    x, y = rows(one), rows(other)
    along = line * jax.random.normal(line_key, (x.shape[0], 1))
    children = x + iso * jax.random.normal(iso_key, x.shape) + along * (y - x)
    restored = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], one))[1]
    return jax.vmap(restored)(children)


def _column(numbers: Array, leaf: Array) -> Array:
    """[B] as [B, 1, ...], to go with a leaf [B, ...]."""
    return numbers.reshape(-1, *(1,) * (leaf.ndim - 1))
