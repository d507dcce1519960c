"""The members of a population side by side: leaves with a leading axis P.

They are computed one after the other. On a CPU the episodes of one keep all cores busy, and
batched small matrix products are slower than a loop.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def count(tree: Any) -> int:
    return int(jax.tree.leaves(tree)[0].shape[0])


def member(tree: Any, index: Any) -> Any:
    """One of them, without the leading axis."""
    return jax.tree.map(lambda leaf: _at(leaf, index), tree)


def _at(leaf: Any, index: Any) -> Any:
    """`leaf[index]`, which takes long to trace by JAX's general indexing."""
    if isinstance(leaf, np.ndarray):
        return leaf[index]
    if isinstance(index, int):
        return jax.lax.index_in_dim(leaf, index, keepdims=False)
    return jax.lax.dynamic_index_in_dim(leaf, index, keepdims=False)


def alone(tree: Any) -> Any:
    """A population of this one member."""
    return jax.tree.map(lambda leaf: jax.lax.expand_dims(leaf, (0,)), tree)


def each_member(function: Callable[..., Any], *trees: Any) -> Any:
    """`function` of every member's part of the trees: leaves [P, ...]."""
    if count(trees) == 1:
        return alone(function(*(member(tree, 0) for tree in trees)))
    return jax.lax.map(lambda parts: function(*parts), trees)
