"""Files are whole or absent, records are refused unless they are exactly what was written, and
nothing read is run."""

import contextlib
import errno
import json
import os
import pickle
import secrets
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from rigged import Changes
from rspo.errors import InputError
from rspo.runs import store
from rspo.runs.store import StoreError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.dictionaries(st.text().filter(lambda name: name != "sha256"), JSON, max_size=5)
TENSORS = st.dictionaries(
    st.text("abc.019", min_size=1),
    st.sampled_from([np.float32, np.int32, np.bool_]).flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    ),
    max_size=4,
)
NOWHERE = Path("nowhere")


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it, nothing cleans up after it."""


def lock(path: Path) -> None:
    with store.locked(path, wait=False):
        pass


@pytest.fixture
def changes(tmp_path: Path) -> Iterator[Changes]:
    """Counts what is changed below `tmp_path`; a test sets `then`."""
    counter = Changes(str(tmp_path), lambda count: None)
    yield counter
    counter.stop()


@pytest.mark.parametrize("moment", [1, 2])
def test_a_killed_write_leaves_the_old_file(tmp_path: Path, changes: Changes, moment: int) -> None:
    path = tmp_path / "file"
    store.write(path, b"old")

    def kill(count: int) -> None:
        if count == 2 + moment:
            raise Killed

    changes.then = kill
    with pytest.raises(Killed):
        store.write(path, b"new")
    assert path.read_bytes() == b"old"
    store.write(path, b"newer")  # what the killed one left is in nobody's way
    assert path.read_bytes() == b"newer"
    store.sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("moment", [1, 2])
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No room left on the disk"),
        (errno.EDQUOT, "No room left on the disk"),
        (errno.EFBIG, "No room left on the disk"),
        (errno.EACCES, "No permission to write"),
        (errno.EROFS, "No permission to write"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_refused_write_is_explained_and_leaves_the_old_file(
    tmp_path: Path, changes: Changes, moment: int, number: int, words: str
) -> None:
    path = tmp_path / "file"
    store.write(path, b"old")

    def refuse(count: int) -> None:
        if count == 2 + moment:
            raise OSError(number, os.strerror(number))

    changes.then = refuse
    with pytest.raises(StoreError, match=words) as error:
        store.write(path, b"new")
    assert str(path) in str(error.value)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"file": b"old"}


def test_a_file_where_a_folder_is_needed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="there is a file where a folder is needed"):
        store.write(tmp_path / "file" / "inside", b"new")


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: dict) -> None:
    assert store.unpack_json(store.pack_json(record), NOWHERE) == record


def test_numbers_that_are_not_finite_come_back() -> None:
    record = store.unpack_json(store.pack_json({"loss": [float("nan"), float("inf")]}), NOWHERE)
    assert str(record["loss"]) == "[nan, inf]"


@given(RECORDS, st.data())
def test_a_changed_record_is_refused_or_means_the_same(record: dict, data: st.DataObject) -> None:
    text = bytearray(store.pack_json(record))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(StoreError):
        assert store.unpack_json(bytes(text), NOWHERE) == record


@given(RECORDS, st.data())
def test_a_truncated_record_is_refused(record: dict, data: st.DataObject) -> None:
    text = store.pack_json(record)
    with pytest.raises(StoreError):
        store.unpack_json(text[: data.draw(st.integers(0, len(text) - 3))], NOWHERE)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_foreign_text_is_refused(text: bytes) -> None:
    with pytest.raises(StoreError):
        store.unpack_json(text, NOWHERE)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"sha256":' * 100_000,
        b"9" * 10_000,
        b"\xff\xfe{}",
        b"",
        b"null",
        b'{"sha256": []}',
    ],
)
def test_a_hostile_text_is_refused(text: bytes) -> None:
    with pytest.raises(StoreError):
        store.unpack_json(text, NOWHERE)


class Pair(NamedTuple):
    left: np.ndarray
    right: dict[str, np.ndarray]


@given(TENSORS, st.dictionaries(st.text("ab"), st.text(), max_size=2))
def test_arrays_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict, metadata: dict[str, str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "arrays"
    path.write_bytes(store.pack_arrays(tensors, metadata))
    read, read_metadata = store.read_arrays(path)
    assert read_metadata == metadata
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()
    assert store.arrays_digest(read) == store.arrays_digest(tensors)


@given(TENSORS.filter(len), st.data())
def test_the_digest_sees_every_change(tensors: dict, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(tensors)))
    array = tensors[name]
    others = {key: value for key, value in tensors.items() if key != name}
    changed = [
        others,
        others | {name + "x": array},
        others | {name: array[None]},
        others | {name: array.astype("f8")},
    ]
    if array.size:
        flipped = bytearray(array.tobytes())
        flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1
        changed.append(others | {name: np.frombuffer(flipped, array.dtype).reshape(array.shape)})
    assert store.arrays_digest(tensors) not in [store.arrays_digest(other) for other in changed]


def test_a_tree_is_stored_by_name(tmp_path: Path) -> None:
    tree = (
        Pair(np.arange(3.0, dtype=np.float32), {"b": np.array(True)}),
        [np.zeros((2, 0), np.int32)],
    )
    leaves = store.named_leaves(tree)
    assert sorted(leaves) == ["0.left", "0.right.b", "1.0"]
    template = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)
    back = store.fill(template, leaves, NOWHERE)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    jax.tree.map(np.testing.assert_array_equal, back, tree)


@pytest.mark.parametrize(
    "leaves",
    [
        {},
        {"a": np.zeros(2, np.float32)},
        {"a": np.zeros(3, np.float32), "b": np.zeros((), np.int32), "c": np.zeros(1)},
        {"a": np.zeros(2, np.float32), "b": np.zeros((), np.int32)},
        {"a": np.zeros(3, np.float64), "b": np.zeros((), np.int32)},
        {"a": np.zeros(3, np.float32), "b": np.zeros(1, np.int32)},
    ],
)
def test_other_arrays_than_expected_are_refused(leaves: dict[str, np.ndarray]) -> None:
    template = {
        "a": jax.ShapeDtypeStruct((3,), np.float32),
        "b": jax.ShapeDtypeStruct((), np.int32),
    }
    with pytest.raises(StoreError, match="nowhere"):
        store.fill(template, leaves, NOWHERE)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (os.mkdir, (str(self.path),))


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    trap, path = tmp_path / "sprung", tmp_path / "policy.safetensors"
    path.write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(StoreError, match="not a complete safetensors file"):
        store.read_arrays(path)
    assert not trap.exists()


def header(text: str, body: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text.encode() + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        header("", length=2**63),
        header("{}", length=10**12),
        header(
            '{"a": {"dtype": "F32", "shape": [4000000000000], "data_offsets": [0, 16000000000000]}}'
        ),
        header('{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', bytes(4)),
        header('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 0]}}', bytes(8)),
        header('{"a": {"dtype": "object", "shape": [1], "data_offsets": [0, 4]}}', bytes(4)),
        header('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', bytes(5)),
        header("[" * 10_000),
    ],
)
def test_a_hostile_safetensors_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "policy.safetensors"
    path.write_bytes(data)
    with pytest.raises(StoreError, match="not a complete safetensors file"):
        store.read_arrays(path)


@given(TENSORS, st.data())
def test_a_damaged_safetensors_file_is_refused_or_differs_in_its_digest(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    whole = bytearray(store.pack_arrays(tensors))
    place = data.draw(st.integers(0, len(whole) - 1))
    before = whole[place]
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != before))
    path.write_bytes(whole)
    try:
        read, _ = store.read_arrays(path)
    except StoreError:
        return
    same = {name: (a.shape, a.dtype, a.tobytes()) for name, a in read.items()} == {
        name: (a.shape, a.dtype, a.tobytes()) for name, a in tensors.items()
    }
    assert same == (store.arrays_digest(read) == store.arrays_digest(tensors))


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    for read in (store.read_json, store.read_arrays):
        for path in (tmp_path, tmp_path / "absent", tmp_path / "absent" / "deeper"):
            with pytest.raises(StoreError, match=str(path)):
                read(path)


# ---- what stands where a file should


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


def make_link(path: Path) -> None:
    outside = path.with_name("outside")
    outside.write_bytes(b"precious")
    path.symlink_to(outside)


def make_dangling(path: Path) -> None:
    path.symlink_to(path.with_name("made through the link"))


IMPOSTORS = [
    (make_link, "a symbolic link"),
    (make_dangling, "a symbolic link"),
    (make_fifo, "a pipe"),
    (make_socket, "a socket"),
    (Path.mkdir, "a folder"),
]


@pytest.mark.parametrize(("make", "kind"), IMPOSTORS)
def test_only_files_are_read_written_and_locked(
    tmp_path: Path, make: Callable[[Path], None], kind: str
) -> None:
    """And at once: nobody waits for the other end of a pipe."""
    path = tmp_path / "file"
    make(path)
    before = {p.name: os.lstat(p).st_mode for p in tmp_path.iterdir()}
    for act in (
        store.read,
        store.read_json,
        store.read_arrays,
        lambda p: store.write(p, b"new"),
        lock,
    ):
        with pytest.raises(InputError, match=f"file is {kind}, but only a file is allowed there"):
            act(path)
    assert {p.name: os.lstat(p).st_mode for p in tmp_path.iterdir()} == before
    assert not (tmp_path / "outside").exists() or (tmp_path / "outside").read_bytes() == b"precious"


def test_a_device_is_refused() -> None:
    for act in (store.read, lambda p: store.write(p, b"new"), lock):
        with pytest.raises(InputError, match="/dev/null is a device"):
            act(Path("/dev/null"))


def test_a_temporary_file_is_never_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if someone knew its name."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: "known")
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    (tmp_path / ".file.known.tmp").symlink_to(outside)
    with pytest.raises(StoreError):
        store.write(tmp_path / "file", b"new")
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "file").exists()


def test_a_link_put_there_after_the_first_look_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    make_link(path)
    monkeypatch.setattr(store, "_mode", lambda path, links=False: stat.S_IFREG)
    for act in (store.read, lock):
        with pytest.raises(InputError, match="Too many levels of symbolic links"):
            act(path)


def test_the_user_may_name_a_file_or_a_folder_by_a_link(tmp_path: Path) -> None:
    make_link(tmp_path / "file")
    assert store.read(tmp_path / "file", links=True) == b"precious"
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    assert store.is_folder(tmp_path / "link")
    assert store.names(tmp_path / "link", links=True) == []
    with pytest.raises(
        InputError, match="link is a symbolic link, but only a folder is allowed there"
    ):
        store.names(tmp_path / "link")


def test_removing_and_sweeping_follow_no_link(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "precious").write_bytes(b"")
    (folder / ".000.tmp").symlink_to(outside)
    (folder / ".pipe.1.tmp").symlink_to(outside / "precious")
    make_fifo(folder / ".fifo.2.tmp")
    (folder / "kept").write_bytes(b"")
    store.sweep(folder)
    assert [p.name for p in folder.iterdir()] == ["kept"]
    assert (outside / "precious").exists()


def test_a_folder_is_written_into_one_of_our_own(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / ".000.tmp").symlink_to(outside)
    store.write_folder(tmp_path / "000", {"file": b"new"})
    assert (tmp_path / "000" / "file").read_bytes() == b"new"
    assert not (tmp_path / "000").is_symlink()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("read", [store.read_json, store.read_arrays])
def test_a_huge_file_is_refused_unread(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    with open(path, "wb") as file:
        file.truncate(2**40)  # takes no room
    with pytest.raises(StoreError, match="is larger than"):
        read(path)


def test_a_record_that_says_something_twice_is_refused() -> None:
    text = store.pack_json({"seed": 1}).replace(b'"seed": 1', b'"seed": 2, "seed": 1')
    with pytest.raises(StoreError, match="damaged"):
        store.unpack_json(text, NOWHERE)


@pytest.mark.parametrize("depth", [17, 900])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_record_nested_deep_is_refused(depth: int, opening: str, closing: str) -> None:
    with pytest.raises(StoreError, match="damaged"):
        store.parse_json(opening * depth + "1" + closing * depth, NOWHERE)


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    for name in ("a\0b", "\ud800"):
        for act in (
            store.read,
            store.exists,
            store.is_folder,
            store.names,
            lambda p: store.write(p, b""),
        ):
            with pytest.raises(InputError, match="no file can have this name"):
                act(tmp_path / name)
    for act in (store.read, lambda p: store.write(p, b"")):
        with pytest.raises(InputError, match="File name too long"):
            act(tmp_path / ("x" * 300))
    store.write(tmp_path / ("x" * 255), b"the longest")
