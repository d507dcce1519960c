"""What binds the parts of a run folder together. Readers that need no JAX, such as the report, start here."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rspo import store
from rspo.errors import InputError
from rspo.store import StoreError

SCHEMA = 1


def read_manifest(path: Path) -> dict[str, Any]:
    """The record in `run.json` of the folder `path`, or one sentence on why this is no run."""
    manifest = path / "run.json"
    if not manifest.is_file():
        if path.is_file():
            raise InputError(f"{path} is a file, but a run is a folder: give the folder that holds run.json.")
        what = "is not a run of rspo: it has no run.json" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {what}. Start one with `rspo discover ENV --out {path}`.")
    record: dict[str, Any] = readable(store.read_json, manifest)
    if record.get("schema") != SCHEMA:
        raise InputError(
            f"{path} was written with schema {record.get('schema')}, but this version of rspo reads {SCHEMA}: "
            "install the version of rspo named in its run.json."
        )
    return record


def identity(record: Mapping[str, Any]) -> str:
    """What every part of a run carries too, so that no part of another one is taken for its own."""
    own = ("config", "spec", "devices", "players", "compiled")  # the last two came with later versions
    return store.sha256(json.dumps([record[name] for name in own if name in record]).encode())


def folders(path: Path, most: int) -> list[Path]:
    """The folders of the strategies found so far, in their order."""
    home = path / "strategies"
    if not home.is_dir():
        raise InputError(f"{path} is damaged: its folder of strategies is missing.")
    names = {p.name for p in home.iterdir() if not p.name.startswith(".")}
    wanted = [folder_name(i) for i in range(len(names))]
    if names != set(wanted) or len(names) > most:
        found = ", ".join(sorted(names))
        raise InputError(f"{path} is damaged: its strategies are {found}: some are missing, or too many.")
    return [home / name for name in wanted]


def folder_name(index: int) -> str:
    return f"{index:03d}"


def check_identity(record: dict[str, Any], source: Path, own: str, run: Path) -> None:
    """Refuse a part of another run; takes the mark off the record."""
    if record.pop("run") != own:
        raise StoreError(f"{source} belongs to another run than {run}.")


def check_files(folder: Path, files: Mapping[str, str]) -> None:
    """Refuse a strategy's folder if a file of it is missing or differs; the episodes came with a later version."""
    for name in ("policy.safetensors", "metrics.jsonl", *({"episodes.safetensors"} & files.keys())):
        if not (folder / name).is_file() or store.sha256((folder / name).read_bytes()) != files[name]:
            raise StoreError(f"{folder / name} is missing or was changed after it was written.")


def readable(
    read: Any, path: Path, *arguments: Any, remedy: str = "Restore it from a copy, or start a new run."
) -> Any:
    """A folder that cannot be read is bad input: say what is wrong with it and what to do."""
    try:
        return read(path, *arguments)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is damaged: it does not hold what a run of rspo does ({error}).") from error
    except OSError as error:
        raise InputError(f"Cannot read {error.filename or path}: {error.strerror or error}.") from error
    except StoreError as error:
        raise InputError(f"{error} {remedy}") from error
