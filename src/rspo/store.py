"""Files that are whole or absent, pytrees as safetensors, JSON with its checksum. Nothing here runs what it reads."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from rspo.errors import RspoError


class StoreError(RspoError):
    """A file could not be written, or is not what it was when it was written."""


def write(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one stroke: temporary name, fsync, rename. The old file stays until the new is safe."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StoreError(explain(error, path)) from error


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    try:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(explain(error, path)) from error


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def explain(error: OSError, path: Path) -> str:
    """One sentence for what the operating system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"No room left on the disk to write {path}. Free some space, then go on with `rspo resume`."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"No permission to write {path}. Choose another folder with --out, or change its permissions."
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"Cannot write {path}: a file stands where a folder is needed. Choose another folder with --out."
    return f"Cannot write {path}: {error.strerror or error}."


def pack_json(record: Mapping[str, Any]) -> bytes:
    """JSON text with the checksum of its own content."""
    return json.dumps({**record, "sha256": _digest(record)}, indent=1, allow_nan=True).encode() + b"\n"


def read_json(path: Path) -> dict[str, Any]:
    """The record that `pack_json` wrote."""
    try:
        return unpack_json(path.read_bytes(), path)
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror or error}.") from error


def unpack_json(text: bytes | str, source: Path) -> dict[str, Any]:
    """The record in `text`; anything edited, cut short or foreign is refused."""
    try:
        record: dict[str, Any] = json.loads(text)
        checksum = record.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise StoreError(f"{source} is damaged: it is not a complete record of rspo.") from error
    if checksum != _digest(record):
        raise StoreError(f"{source} was changed after it was written: its checksum does not match.")
    return record


def _digest(record: Mapping[str, Any]) -> str:
    return sha256(json.dumps(record, sort_keys=True).encode())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their path, such as `policy.actor.weights.0`."""
    import jax  # here and below, so that who only reads records does not wait for it

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def fill(template: Any, arrays: Mapping[str, np.ndarray], source: Path) -> Any:
    """The inverse: a pytree of `template`'s structure from named arrays, refused if names, shapes or types differ."""
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [_name(path) for path, _ in leaves]
    if set(names) != set(arrays):
        raise StoreError(
            f"{source} does not hold the arrays that this version of rspo and the run's settings call for."
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise StoreError(f"{source} holds '{name}' with another shape or type than this run's settings call for.")
    return jax.tree_util.tree_unflatten(structure, [arrays[name] for name in names])


def _name(path: tuple[Any, ...]) -> str:
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")


def pack_arrays(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()},
        dict(metadata) if metadata else None,
    )


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file and its metadata."""
    try:
        with safetensors.safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise StoreError(f"{path} is damaged: it is not a complete safetensors file.") from error


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """One checksum over names and contents, for arrays that travel with metadata in one file."""
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        head = json.dumps([name, array.shape, str(array.dtype)]).encode()
        whole.update(head + array.tobytes())
    return whole.hexdigest()
