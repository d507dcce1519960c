"""Work shared among devices, which on a CPU are its cores, and cut into pieces that fit a core's cache.

XLA splits single operations over the threads of one device, which gains little for networks this small. One device a
core, each with its share of the episodes, gains more.
"""

import contextlib
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

PIECE = 512  # samples: activations of a layer of 64 then take 128 KB


def use_cores(count: int | None = None) -> None:
    """Make every usable core a device, or `count` of them; must come before anything else touches a device."""
    with contextlib.suppress(RuntimeError):  # the caller has used JAX before and keeps the devices that it chose
        jax.config.update("jax_num_cpu_devices", count or _cores())


def _cores() -> int:
    """Those this process may use, where the system tells; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), ("cores",), axis_types=(AxisType.Auto,))


def everywhere() -> NamedSharding:
    """The placement of what every device holds a copy of."""
    return NamedSharding(mesh(), PartitionSpec())


def share_episodes(leaf: Array, axis: int) -> Array:
    """Give every device its share of the episodes, which are on this axis, if they can be divided evenly."""
    if leaf.shape[axis] % jax.device_count():
        return leaf
    spec = PartitionSpec(*(None,) * axis, "cores")
    return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh(), spec))


def sum_over_samples(function: Callable[[Any, Any], Any], batch: Any, rest: Any) -> Any:
    """The sum of `function(piece, rest)` over all pieces of a batch, leaves [T, N, A, ...]; pieces come as [B, ...]."""
    episodes = jax.tree.leaves(batch)[0].shape[1]
    if jax.device_count() == 1 or episodes % jax.device_count():
        return _sum_over_pieces(function, batch, rest)
    share = lambda batch, rest: jax.lax.psum(_sum_over_pieces(function, batch, rest), "cores")  # noqa: E731
    specs = (PartitionSpec(None, "cores"), PartitionSpec())
    return jax.shard_map(share, mesh=mesh(), in_specs=specs, out_specs=PartitionSpec(), check_vma=False)(batch, rest)


def _sum_over_pieces(function: Callable[[Any, Any], Any], batch: Any, rest: Any) -> Any:
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), batch)
    size = jax.tree.leaves(flat)[0].shape[0]
    if size <= PIECE or size % PIECE:
        return function(flat, rest)
    pieces = jax.tree.map(lambda leaf: leaf.reshape(-1, PIECE, *leaf.shape[1:]), flat)
    shapes = jax.eval_shape(function, jax.tree.map(lambda leaf: leaf[0], pieces), rest)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    add = lambda total, piece: (jax.tree.map(jnp.add, total, function(piece, rest)), None)  # noqa: E731
    return jax.lax.scan(add, nothing, pieces)[0]
