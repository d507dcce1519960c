"""A run folder as bytes, to be sent to another machine and unpacked there."""

import re
from pathlib import Path

from rspo.errors import InputError
from rspo.runs import store

Files = dict[str, bytes]  # of a run folder, by relative path
NAME = re.compile(r"(strategies/\d+/)?[\w-][\w.-]*")


def packed(folder: Path) -> Files:
    """All files of a run folder. The checkpoint is read first: if a strategy is finished
    meanwhile, the copy has a checkpoint of a finished iteration, which resuming ignores."""
    if not store.exists(folder):
        return {}
    found: Files = {}
    names = sorted(store.tree(folder), key=lambda name: not name.startswith("checkpoint"))
    for name in names:
        if name != "lock" and store.exists(folder / name):  # a checkpoint may be gone by now
            found[name] = store.read(folder / name, store.ARRAYS)
    return found


def unpack(folder: Path, files: Files, last: str = "") -> None:
    """Write the files; a strategy's folder appears atomically, and the file named `last` is written
    last."""
    homes: dict[str, Files] = {}
    for name, data in files.items():
        home, _, own = name.rpartition("/")
        if not NAME.fullmatch(name):
            raise InputError(f"{name!r} is not the name of a file in a run folder.")
        homes.setdefault(home, {})[own] = data
    store.make_folder(folder / "strategies")
    for home, whole in homes.items():
        if home and not store.exists(folder / home):
            store.write_folder(folder / home, whole)
    for name in sorted(homes.get("", {}), key=lambda name: name == last):
        store.write(folder / name, homes[""][name])
