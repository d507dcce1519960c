"""A run folder as plain values, every part checked against its checksum. Without JAX: a report builds in no time."""

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rspo import manifest, store
from rspo.clock import read_seconds
from rspo.errors import InputError

OPTIONAL = ("crossplay.json", "diversity.json")


@dataclass(frozen=True, eq=False)
class Found:
    """A strategy: what `strategy.json` says, the metrics of its updates, and its episodes, if they were recorded."""

    index: int
    status: str
    attempt: int
    threshold: float
    evaluation: dict[str, Any]
    rows: list[dict[str, Any]]
    episodes: dict[str, Any] | None
    arrays: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        return self.evaluation["descriptor"] or f"strategy {self.index}"

    @property
    def label(self) -> str:
        """Number and name, or the number alone where an environment has no names."""
        name = self.evaluation["descriptor"]
        return f"{self.index}: {name}" if name else f"Strategy {self.index}"


@dataclass(frozen=True, eq=False)
class RunFolder:
    """Everything that a page shows."""

    path: Path
    record: dict[str, Any]
    """`run.json`"""
    strategies: list[Found]
    seconds: float | None
    extras: dict[str, dict[str, Any]]
    """What other commands left there: cross-play payoffs, population diversity."""

    @property
    def config(self) -> dict[str, Any]:
        return self.record["config"]

    @property
    def distinct(self) -> int:
        return sum(strategy.status == "novel" for strategy in self.strategies)

    def references(self, strategy: Found) -> list[Found]:
        """The earlier policies that this one was compared with, in the order of its `distance`."""
        earlier = self.strategies[: strategy.index]
        return earlier if self.config["judge"]["references"] == "all" else [s for s in earlier if s.status == "novel"]


def read_run(path: Path) -> RunFolder:
    """The run in a folder, or one sentence on what is wrong with it."""
    record = manifest.read_manifest(path)
    return manifest.readable(partial(_run, record=record), path)


def _run(path: Path, record: dict[str, Any]) -> RunFolder:
    identity = manifest.identity(record)
    folders = manifest.folders(path, record["config"]["iterations"])
    strategies = [manifest.readable(_strategy, folder, identity, path) for folder in folders]
    times = path / "times.json"
    seconds = manifest.readable(read_seconds, times, identity) if times.is_file() else math.nan
    extras = {name.removesuffix(".json"): _extra(path / name, identity) for name in OPTIONAL if (path / name).is_file()}
    run = RunFolder(path, record, strategies, seconds if math.isfinite(seconds) else None, extras)
    for strategy in strategies:
        if len(run.references(strategy)) != len(strategy.evaluation["distance"]):
            raise InputError(f"{path} is damaged: strategy {strategy.index} does not fit the ones before it.")
    return run


def _strategy(folder: Path, identity: str, run: Path) -> Found:
    source = folder / "strategy.json"
    record = store.read_json(source)
    manifest.check_identity(record, source, identity, run)
    files = record["files"]
    manifest.check_files(folder, files)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    episodes: dict[str, Any] | None = None
    arrays: dict[str, np.ndarray] = {}
    if "episodes.safetensors" in files:
        arrays, metadata = store.read_arrays(folder / "episodes.safetensors")
        episodes = json.loads(metadata["rspo"])
    values = {name: record[name] for name in ("index", "status", "attempt", "threshold", "evaluation")}
    return Found(**values, rows=rows, episodes=episodes, arrays=arrays)


def _extra(path: Path, identity: str) -> dict[str, Any]:
    record = store.read_json(path)
    manifest.check_identity(record, path, identity, path.parent)
    return record
