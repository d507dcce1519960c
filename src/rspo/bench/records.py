"""The records of finished runs: one JSON line each, a file per domain, shared by its benches."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rspo.bench.jobs import Job, difference
from rspo.bench.record import Record, steps_of_each
from rspo.errors import InputError
from rspo.runs import store

KINDS: dict[str, type | tuple[type, ...]] = {
    "job": str,
    "env": str,
    "method": str,
    "variant": str,
    "paper": bool,
    "quick": bool,
    "seed": int,
    "asked_steps": (int, type(None)),
    "steps": int,
    "strategies": list,
}
OWN: dict[str, type | tuple[type, ...]] = {  # of some domains, or of newer records
    "config": dict,
    "pairs": list,
    "diversity": dict,
    "second": (dict, type(None)),
    "after_apple": (dict, type(None)),
}
POLICY: dict[str, type | tuple[type, ...]] = {
    "status": str,
    "descriptor": (str, type(None)),
    "sampled_descriptor": (str, type(None)),
    "return_mean": (int, float),
    "greedy_return_mean": (int, float),
    "stats": dict,
    "accepted_by": list,
}


def is_record(found: Any) -> bool:
    """Whether it has what every table reads."""
    return (
        _has(found, KINDS)
        and found["strategies"] != []
        and all(_has(policy, POLICY) for policy in found["strategies"])
        and _has(found, {name: kind for name, kind in OWN.items() if name in found})
        and all(
            _has(score, {"value": (int, float)}) for score in found.get("diversity", {}).values()
        )
        and (found["env"] != "escalation" or _has(found, {"pairs": OWN["pairs"]}))
    )


def _has(found: Any, kinds: dict[str, type | tuple[type, ...]]) -> bool:
    return isinstance(found, dict) and all(
        name in found and isinstance(found[name], kind) for name, kind in kinds.items()
    )


class Records:
    """One file. Several commands may add to it: one after the other, each rereads it before
    writing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Record]:
        """By the job's name."""
        if not store.exists(self.path):
            return {}
        lines = store.read(self.path, store.METRICS).split(b"\n")
        records = [
            self._checked(line, number) for number, line in enumerate(lines, 1) if line.strip()
        ]
        return {record["job"]: record for record in records}

    def _checked(self, line: bytes, number: int) -> Record:
        """The record of a line. The file may come from a merge, an editor, or a full disk."""
        try:
            record = store.parse_json(line, self.path)
        except store.StoreError:
            record = None
        if not is_record(record):
            raise InputError(
                f"{self.path} is damaged: line {number} is not the record of a run. Restore the "
                "file from a copy, or delete the line: a run whose folder is still there is "
                "recorded again."
            )
        return dict(record)

    def add(self, new: Iterable[Record]) -> None:
        """Add records, sorted by name, so that diffs are minimal."""
        store.make_folder(self.path.parent)
        # A file of its own: the other one is replaced, which Windows refuses while it is held.
        with store.locked(self.path.with_name(f".{self.path.name}.lock"), wait=True):
            records = self.read() | {record["job"]: record for record in new}
            lines = [json.dumps(records[name]) + "\n" for name in sorted(records)]
            store.write(self.path, "".join(lines).encode())


def why_not(record: Record, job: Job) -> str | None:
    """Why the record is not the result of the job; None if it is."""
    wanted = job.configuration.iterations
    if len(record["strategies"]) < wanted:
        return f"it has {len(record['strategies'])} iterations, not {wanted}"
    return otherwise(record, job)


def otherwise(record: Record, job: Job) -> str | None:
    """How the run's settings differ from the job's. A record may hold only part of its
    configuration; the settings that both have must agree."""
    steps = steps_of_each(job.configuration)
    if record["steps"] != steps:
        return f"it has {record['steps']:,} steps of training for each policy, not {steps:,}"
    return difference(record.get("config", {}), job.config())
