"""The records of finished runs: one JSON line each, a file per domain, shared by its benches."""

import json
from collections.abc import Iterable
from pathlib import Path

from rspo.bench.jobs import Job, difference
from rspo.bench.record import Record, steps_of_each
from rspo.errors import InputError
from rspo.runs import store


class Records:
    """One file. Two commands may add to it: each rereads it before writing, and a record lost in a
    race is still in its run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Record]:
        """By the job's name."""
        if not store.exists(self.path):
            return {}
        lines = store.read(self.path, store.METRICS).decode().splitlines()
        records = [store.parse_json(line, self.path) for line in lines if line.strip()]
        for record in records:
            if not isinstance(record, dict) or "job" not in record:
                raise InputError(
                    f"{self.path} is damaged: a line in it is not the record of a run."
                )
        return {record["job"]: record for record in records}

    def add(self, new: Iterable[Record]) -> None:
        """Add records, sorted by name, so that diffs are minimal."""
        records = self.read() | {record["job"]: record for record in new}
        lines = [json.dumps(records[name]) + "\n" for name in sorted(records)]
        store.make_folder(self.path.parent)
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
