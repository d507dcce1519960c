"""Atomic files, pytrees as safetensors, JSON with a checksum. Nothing that is read is ever
executed.

Files are opened only here. A run folder may come from anywhere: a link in it is never followed,
and a pipe or a device in place of a file is refused at once, as is a file too large to be one of
ours.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import portalocker
import safetensors
import safetensors.numpy
from portalocker import LockFlags
from portalocker.exceptions import AlreadyLocked, LockException

from rspo.errors import InputError, RspoError

RECORD = 2**25  # bytes of a JSON file or a picture
METRICS = 2**28  # of metrics.jsonl
ARRAYS = 2**30  # of a safetensors file
DEEPEST = 16  # nested lists and objects; ours are less than half as deep

# 0 where a system lacks the flag: only `os.lstat` then checks the path.
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# Do not wait for the other end of a pipe.
SAFE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: "a file",
}


class StoreError(RspoError):
    """A file could not be written, or was changed after it was written."""


class RefusedError(StoreError, InputError):
    """A path may not be read, or is not a regular file or folder where one is needed."""


RESTORE = " Restore it from a copy, or start a new run."


def read(path: Path, most: int = RECORD, *, links: bool = False) -> bytes:
    """The content of a regular file of at most `most` bytes; `links` are followed if the user, not
    a folder, named it."""
    with _explained(path, "read"):
        handle = _open(path, os.O_RDONLY, links)
        with open(handle, "rb") as file:
            size = os.fstat(handle).st_size
            data = file.read(most) if size <= most else b""
    if size > most:
        raise StoreError(f"{path} is larger than {most:,} bytes, which no such file of rspo is.")
    return data


@contextlib.contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a file that exists for it alone; the operating system releases it when the
    process ends, however it ends. `wait` for another process that holds it, or raise
    AlreadyLocked."""
    with _explained(path):
        handle = _open(path, os.O_RDWR | os.O_CREAT)
    how = LockFlags.EXCLUSIVE if wait else LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
    try:
        try:
            portalocker.lock(handle, how)
        except LockException as error:
            if isinstance(error, AlreadyLocked) and not wait:
                raise
            raise StoreError(f"Cannot lock {path}: {error}.") from error
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """A log to append to, which another process may write while it is read here."""
    with _explained(path):
        handle = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with open(handle, "ab") as file:
            yield file


def _open(path: Path, flags: int, links: bool = False) -> int:
    """A handle of a regular file; a link created after the first check is refused by the
    system."""
    remedy = " Give the name of a file." if links else RESTORE
    _refuse_all_but(stat.S_IFREG, _mode(path, links), path, remedy)
    handle = os.open(path, flags | SAFE | (0 if links else NO_LINK), 0o666)
    try:
        _refuse_all_but(stat.S_IFREG, os.fstat(handle).st_mode, path, remedy)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _mode(path: Path, links: bool = False) -> int | None:
    """The mode of `path` itself, or of the target of its `links`; None if it does not exist."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.stat(path, follow_symlinks=links).st_mode
    return None


def _refuse_all_but(kind: int, mode: int | None, path: Path, remedy: str) -> None:
    if mode is not None and stat.S_IFMT(mode) != kind:
        found = KINDS.get(stat.S_IFMT(mode), "something else")
        raise RefusedError(f"{path} is {found}, but only {KINDS[kind]} is allowed there.{remedy}")


def exists(path: Path) -> bool:
    """Whether anything is there, including a broken link: reading it reports what is wrong."""
    with _explained(path, "read"):
        return _mode(path) is not None


def is_folder(path: Path) -> bool | None:
    """Whether a path given by the user, perhaps a link, is a folder; None if it does not exist."""
    with _explained(path, "read"):
        mode = _mode(path, links=True)
    return None if mode is None else stat.S_ISDIR(mode)


def names(folder: Path, *, links: bool = False) -> list[str]:
    """What is in a folder."""
    with _explained(folder, "read"):
        _refuse_all_but(stat.S_IFDIR, _mode(folder, links), folder, RESTORE)
        return sorted(os.listdir(folder))


def tree(folder: Path) -> list[str]:
    """Every file below a folder by its relative path, without half-written ones."""
    found = []
    for name in names(folder):
        mode = _mode(folder / name)
        if mode is None or is_leftover(name):
            continue
        if stat.S_ISDIR(mode):
            found += [f"{name}/{below}" for below in tree(folder / name)]
        else:
            found.append(name)
    return found


def write(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically: temporary name, fsync, rename. The old file stays until
    the new one is safe.

    The temporary file is always newly created, so nothing is written through an existing link;
    `sweep` removes what a killed process leaves.
    """
    with _explained(path):
        _refuse_all_but(stat.S_IFREG, _mode(path), path, " Remove it, or choose another name.")
        temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}.tmp")
        try:
            handle = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE | NO_LINK, 0o666
            )
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def make_folder(path: Path) -> None:
    """Create a folder and its parents; an existing one must not be a link."""
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_all_but(stat.S_IFDIR, _mode(path), path, " Choose another folder with --out.")
        path.mkdir(exist_ok=True)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files atomically."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    remove(temporary)
    with _explained(folder):
        temporary.mkdir()  # fails if it exists
        for name, data in files.items():
            write(temporary / name, data)
        os.rename(temporary, folder)
        sync_folder(folder.parent)


def remove(path: Path) -> None:
    """Remove a file, a link itself or a whole folder, if it exists."""
    with _explained(path):
        mode = _mode(path)
        if mode is not None and stat.S_ISDIR(mode):
            shutil.rmtree(path)
        elif mode is not None:
            path.unlink(missing_ok=True)


def sweep(folder: Path, *, links: bool = False) -> None:
    """Remove what a killed process left half-written."""
    for name in names(folder, links=links):
        if is_leftover(name):
            remove(folder / name)


def is_leftover(name: str, of: str = "") -> bool:
    """Whether this is a temporary name of the file `of`."""
    return name.startswith(f".{of}") and name.endswith(".tmp")


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _explained(path: Path, verb: str = "write") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        refused = error.errno in NO_NAME or (verb == "read" and error.errno in NOT_ALLOWED)
        kind = RefusedError if refused else StoreError
        raise kind(_sentence(error, path, verb)) from error
    except ValueError as error:  # NUL or half a surrogate in a name
        raise RefusedError(f"Cannot {verb} {path}: no file can have this name.") from error


def _sentence(error: OSError, path: Path, verb: str) -> str:
    """One sentence for an error of the operating system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"No room left on the disk to write {path}. "
            "Free some space, then continue with `rspo resume`."
        )
    if error.errno in NOT_ALLOWED:
        remedy = "Choose another folder with --out, or change" if verb == "write" else "Change"
        return f"No permission to {verb} {path}. {remedy} its permissions."
    if error.errno in (errno.ENOTDIR, errno.EEXIST) and verb == "write":
        return (
            f"Cannot write {path}: there is a file where a folder is needed. "
            "Choose another folder with --out."
        )
    return f"Cannot {verb} {path}: {error.strerror or error}."


def pack_json(record: Mapping[str, Any]) -> bytes:
    """JSON text with a checksum of its own content."""
    return (
        json.dumps({**record, "sha256": _digest(record)}, indent=1, allow_nan=True).encode() + b"\n"
    )


def read_json(path: Path) -> dict[str, Any]:
    """The record that `pack_json` wrote."""
    return unpack_json(read(path), path)


def unpack_json(text: bytes | str, source: Path) -> dict[str, Any]:
    """The record in `text`; anything edited, truncated or foreign is refused."""
    record = parse_json(text, source)
    if not isinstance(record, dict) or "sha256" not in record:
        raise StoreError(f"{source} is damaged: it is not a complete record of rspo.")
    if record.pop("sha256") != _digest(record):
        raise StoreError(f"{source} was changed after it was written: its checksum does not match.")
    return record


def parse_json(text: bytes | str, source: Path) -> Any:
    """The value of JSON text; refused if it has duplicate keys or is nested too deep."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (
        ValueError,
        RecursionError,
    ) as error:  # the former also for numbers with thousands of digits
        raise StoreError(f"{source} is damaged: it is not a complete record of rspo.") from error
    if too_deep(value):
        raise StoreError(f"{source} is damaged: it is nested more than {DEEPEST} deep.")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a name occurs twice")
    return record


def too_deep(value: Any) -> bool:
    """Whether lists and tables are nested too deep for Python's recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            part
            for whole in level
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
    return bool(level)


def _digest(record: Mapping[str, Any]) -> str:
    return sha256(json.dumps(record, sort_keys=True).encode())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their path, such as `policy.actor.weights.0`."""
    import jax  # here and below, so that reading records does not load it

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def fill(template: Any, arrays: Mapping[str, np.ndarray], source: Path) -> Any:
    """The inverse: a pytree of `template`'s structure from named arrays, refused if names, shapes
    or types differ."""
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [_name(path) for path, _ in leaves]
    if set(names) != set(arrays):
        raise StoreError(
            f"{source} does not hold the arrays that this version of rspo and the run's settings "
            "require."
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise StoreError(
                f"{source} holds '{name}' with another shape or type than this run's settings "
                "require."
            )
    return jax.tree_util.tree_unflatten(structure, [arrays[name] for name in names])


def _name(path: tuple[Any, ...]) -> str:
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")


def pack_arrays(
    arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> bytes:
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()},
        dict(metadata) if metadata else None,
    )


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file and its metadata."""
    return unpack_arrays(read(path, ARRAYS), path)


def unpack_arrays(data: bytes, source: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    try:
        arrays = dict(sorted(safetensors.numpy.load(data).items()))  # in a fixed order
        length = int.from_bytes(data[:8], "little")  # of the header, which has just been validated
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{source} is damaged: it is not a complete safetensors file.") from error
    return arrays, metadata


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """One checksum over names and contents, for arrays stored with metadata in one file."""
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        head = json.dumps([name, array.shape, str(array.dtype)]).encode()
        whole.update(head + array.tobytes())
    return whole.hexdigest()
