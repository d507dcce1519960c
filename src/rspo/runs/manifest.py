"""What links the parts of a run folder. Readers without JAX, such as the report, start here."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rspo.errors import InputError
from rspo.runs import store
from rspo.runs.store import StoreError

SCHEMA = 2


def read_manifest(path: Path) -> dict[str, Any]:
    """The record in `run.json` of the folder `path`, or one sentence on why this is not a run."""
    start = f"Start one with `rspo discover ENV --out {path}`."
    folder, source = store.is_folder(path), path / "run.json"
    if folder is None:
        raise InputError(f"{path} does not exist. {start}")
    if not folder:
        raise InputError(
            f"{path} is a file, but a run is a folder: give the folder that holds run.json."
        )
    if not store.exists(source):
        raise InputError(f"{path} is not a run of rspo: it has no run.json. {start}")
    record: dict[str, Any] = readable(store.read_json, source)
    if record.get("schema") != SCHEMA:
        raise InputError(
            f"{path} was written with schema {record.get('schema')}, but this version of rspo "
            f"reads {SCHEMA}: make the run again with the command in its run.json, or install the "
            "version of rspo that is named there."
        )
    return record


def identity(record: Mapping[str, Any]) -> str:
    """The identity stored in every part of a run, so that parts of other runs are recognised."""
    # Without the number of iterations: a run can be extended.
    config = record["config"]
    if isinstance(config, Mapping):
        config = {name: value for name, value in config.items() if name != "iterations"}
    own = [config, *(record[name] for name in ("spec", "devices", "players"))]
    return store.sha256(json.dumps(own).encode())


def is_run(path: Path) -> bool:
    """Whether a run was begun in this folder."""
    return store.exists(path / "run.json")


def finished(path: Path) -> list[str]:
    """The names of the folders of its finished strategies; none where no run was begun."""
    home = path / "strategies"
    return [name for name in store.names(home) if name.isdecimal()] if store.exists(home) else []


def updates(path: Path) -> int:
    """How many updates the checkpoint of the current round has behind it; 0 without one."""
    source = path / "checkpoint.safetensors"
    if not store.exists(source):
        return 0
    _, metadata = store.read_arrays(source)
    return len(store.unpack_json(metadata.get("rspo", ""), source)["rows"][0])


def pictures(path: Path) -> list[Path]:
    """The pictures of a finished run."""
    names = store.names(path, links=True)
    return [path / name for name in names if name.endswith((".svg", ".png"))]


def folders(path: Path, most: int) -> list[Path]:
    """The folders of the strategies found so far, in their order."""
    home = path / "strategies"
    if not store.exists(home):
        raise InputError(f"{path} is damaged: its folder of strategies is missing.")
    names = {name for name in store.names(home) if not name.startswith(".")}
    wanted = [folder_name(i) for i in range(len(names))]
    if names != set(wanted) or len(names) > most:
        found = ", ".join(sorted(names))
        raise InputError(
            f"{path} is damaged: its strategies are {found}: some are missing, or too many."
        )
    for name in wanted:
        store.names(home / name)  # refuses anything but a real folder
    return [home / name for name in wanted]


def folder_name(index: int) -> str:
    return f"{index:03d}"


def check_identity(record: dict[str, Any], source: Path, own: str, run: Path) -> None:
    """Refuse a part of another run; removes the identity from the record."""
    if record.pop("run") != own:
        raise StoreError(f"{source} belongs to another run than {run}.")


def read_files(folder: Path, files: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a strategy, refused if one is missing or differs; the episodes came with a later
    version."""
    most = {
        "policy.safetensors": store.ARRAYS,
        "metrics.jsonl": store.METRICS,
        "episodes.safetensors": store.ARRAYS,
    }
    read: dict[str, bytes] = {}
    for name in ("policy.safetensors", "metrics.jsonl", *({"episodes.safetensors"} & files.keys())):
        path = folder / name
        if (
            not store.exists(path)
            or store.sha256(data := store.read(path, most[name])) != files[name]
        ):
            raise StoreError(f"{path} is missing or was changed after it was written.")
        read[name] = data
    return read


def readable(read: Any, path: Path, *arguments: Any, remedy: str = store.RESTORE.strip()) -> Any:
    """A folder that cannot be read is bad input: say what is wrong with it and what to do."""
    try:
        return read(path, *arguments)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} is damaged: it does not hold what a run of rspo does ({error})."
        ) from error
    except InputError:
        raise
    except StoreError as error:
        raise InputError(f"{error} {remedy}") from error
