"""Work sharded over devices, which on a CPU are its cores, and split into pieces that fit a core's
cache.

XLA splits single operations over the threads of one device, which gains little for networks this
small. One device per core, each with its share of the episodes, gains more.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

EPISODES = PartitionSpec(None, "cores")  # leaves [T, N, ...]
PIECE = 512  # samples: activations of a layer of 64 then take 128 KB
_PLAYERS: int | None = None  # the number of worker processes, where it was set


def use_cores(devices: int | None = None, players: int | None = None) -> None:
    """Make every usable core a JAX device, or the given number of them, with one thread each; must
    be called before anything else touches a device. `players` is the number of worker processes of
    a host environment, by default the number of devices."""
    global _PLAYERS
    with contextlib.suppress(RuntimeError):  # the caller has used JAX before and keeps its devices
        jax.config.update("jax_num_cpu_devices", devices or cores())
        if devices is not None:
            with _environment("NPROC", str(devices)):  # the minimum number of XLA's threads
                jax.devices()
    _PLAYERS = players or _PLAYERS


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


def player_count() -> int:
    return _PLAYERS or jax.device_count()


def cores() -> int:
    """The environment variable RSPO_CORES, or the number of cores that this process may use, where
    the system tells; else all."""
    if (given := os.environ.get("RSPO_CORES", "")).isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiler_options() -> dict[str, int]:
    """Of the large programs. On a CPU, LLVM's lighter optimisation compiles them sooner, and they
    were not seen to run slower."""
    return {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else {}


def mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), ("cores",), axis_types=(AxisType.Auto,))


def everywhere() -> NamedSharding:
    """The sharding of arrays that are replicated on every device."""
    return NamedSharding(mesh(), PartitionSpec())


def share(leaf: Array, axis: int) -> Array:
    """Shard this axis, such as the episodes, over the devices if it divides evenly."""
    if leaf.shape[axis] % jax.device_count():
        return leaf
    spec = PartitionSpec(*(None,) * axis, "cores")
    return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh(), spec))


def after(tree: Any, earlier: Any) -> Any:
    """The same tree, ordered after `earlier`.

    Two independent collectives in one program may deadlock, each device waiting in a different
    one. XLA does not order them in a program from its cache, so the later one must depend on the
    result of the earlier one.
    """
    signs = [jnp.ravel(leaf)[:1].sum() for leaf in jax.tree.leaves(earlier)]
    broken = jnp.isnan(sum(signs, jnp.zeros(())))
    return jax.tree.map(lambda leaf: jnp.where(broken, jnp.zeros_like(leaf), leaf), tree)


def gathered(tree: Any) -> Any:
    """A whole batch, leaves [P, T, N, ...], on every device, by a single collective."""
    if jax.device_count() == 1:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    rows = [leaf.astype(jnp.float32).reshape(*leaf.shape[:3], -1) for leaf in leaves]
    ends = np.cumsum([row.shape[-1] for row in rows])[:-1]
    together = jax.lax.with_sharding_constraint(jnp.concatenate(rows, axis=-1), everywhere())
    parts = jnp.split(together, ends, axis=-1)
    back = [
        part.reshape(leaf.shape).astype(leaf.dtype)
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, back)


def sum_over_samples(function: Callable[[Any, Any], Any], batch: Any, rest: Any) -> Any:
    """The sum of `function(piece, rest)` over all pieces of a batch, leaves [T, N, A, ...]; pieces
    come as [B, ...]."""
    if not _divides(batch):
        return _sum_over_pieces(function, batch, rest)

    def one_share(batch: Any, rest: Any) -> Any:
        # As one vector: every all-reduced array costs a barrier of all threads.
        vector, structured = ravel_pytree(_sum_over_pieces(function, batch, rest))
        return structured(jax.lax.psum(vector, "cores"))

    return _on_each(one_share, PartitionSpec())(batch, rest)


def map_samples(function: Callable[[Any, Any], Array], batch: Any, rest: Any) -> Array:
    """`function(piece, rest)` of all pieces of a batch, leaves [T, N, A, ...], reassembled in the
    batch's shape."""
    if not _divides(batch):
        return _map_pieces(function, batch, rest)
    return _on_each(lambda batch, rest: _map_pieces(function, batch, rest), EPISODES)(batch, rest)


def _divides(batch: Any) -> bool:
    """Whether there are several devices and the episodes divide evenly among them."""
    return jax.device_count() > 1 and jax.tree.leaves(batch)[0].shape[1] % jax.device_count() == 0


def _on_each(function: Callable[[Any, Any], Any], out: PartitionSpec) -> Callable[[Any, Any], Any]:
    """`function(batch, rest)` on every device's share of the batch."""
    return jax.shard_map(
        function, mesh=mesh(), in_specs=(EPISODES, PartitionSpec()), out_specs=out, check_vma=False
    )


def _cut(batch: Any) -> tuple[Any, bool]:
    """The flattened samples [B, ...], or [B / PIECE, PIECE, ...] and true, where PIECE divides
    them."""
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), batch)
    size = jax.tree.leaves(flat)[0].shape[0]
    if size <= PIECE or size % PIECE:
        return flat, False
    return jax.tree.map(lambda leaf: leaf.reshape(-1, PIECE, *leaf.shape[1:]), flat), True


def _map_pieces(function: Callable[[Any, Any], Array], batch: Any, rest: Any) -> Array:
    pieces, several = _cut(batch)
    result = (
        jax.lax.map(lambda piece: function(piece, rest), pieces)
        if several
        else function(pieces, rest)
    )
    return result.reshape(*jax.tree.leaves(batch)[0].shape[:3], *result.shape[1 + several :])


def _sum_over_pieces(function: Callable[[Any, Any], Any], batch: Any, rest: Any) -> Any:
    pieces, several = _cut(batch)
    if not several:
        return function(pieces, rest)
    shapes = jax.eval_shape(function, jax.tree.map(lambda leaf: leaf[0], pieces), rest)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    add = lambda total, piece: (jax.tree.map(jnp.add, total, function(piece, rest)), None)
    return jax.lax.scan(add, nothing, pieces)[0]
