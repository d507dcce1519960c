"""A run folder as plain values, every part checked against its checksum. Without JAX, so that
reports build fast."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from rspo.core.png import size_of
from rspo.core.typed import checked, quoted
from rspo.errors import InputError
from rspo.runs import manifest, store
from rspo.runs.clock import read_seconds

Axes = dict[str, tuple[int, ...]]
MANY = 2**20  # maximum cells of a heat map, or bars of histograms
# Axes of an episode's arrays.
DRAWN: Axes = {"place": (3,), "size": (2,), "kind": (2,), "total": (1,)}
OBSERVED: Axes = {"obs": (3,), "action": (2, 3), "total": (1,)}

# The fields that the pages read from each file. It may have more.


class Updates(TypedDict):
    updates: int
    batch: int
    settled: NotRequired[int]


class Judge(TypedDict):
    references: Literal["all", "distant", "novel"]
    accept: float
    attempts: NotRequired[int]


class Method(TypedDict):
    name: str
    release: NotRequired[float]


class Measure(TypedDict):
    of: NotRequired[str]


class Settings(TypedDict):
    env: str
    seed: int
    iterations: int
    ppo: Updates
    judge: Judge
    method: Method
    measure: Measure


class Record(TypedDict):
    config: Settings
    spec: Mapping[str, Any]
    created: str
    command: str
    versions: Mapping[str, str]
    devices: int


class Evaluation(TypedDict):
    episodes: int
    return_mean: float
    return_std: float
    greedy_return_mean: float
    greedy_return_std: float
    accepted: float
    accepted_by: tuple[float, ...]
    distance: tuple[float, ...]
    threshold: tuple[float, ...]
    descriptor: str | None
    sampled_descriptor: str | None
    stats: Mapping[str, float]


class Strategy(TypedDict):
    index: int
    status: Literal["novel", "duplicate", "weak", "failed"]
    reason: NotRequired[str]
    attempt: int
    round: NotRequired[int]
    threshold: float
    evaluation: Evaluation
    files: Mapping[str, str]


Numbers = tuple[float, ...]
Row = TypedDict(
    "Row",
    {
        "update": int,
        "return": float,
        "accepted_by": NotRequired[Numbers],
        "intrinsic": NotRequired[float],
        "entropy": NotRequired[float],
    },
)


class Film(TypedDict):
    pictures: int
    width: int
    height: int


Episode = TypedDict(
    "Episode",
    {
        "mode": Literal["greedy", "sampled"],
        "return": float,
        "steps": int,
        "stride": int,
        "kinds": NotRequired[tuple[tuple[str, str], ...]],
        "observed": NotRequired[int],
        "film": NotRequired[Film],
    },
)


class Names(TypedDict):
    obs: tuple[str, ...]
    actions: tuple[str, ...]
    choices: tuple[str, ...]


class Episodes(TypedDict):
    unit: float
    episodes: tuple[Episode, ...]
    backdrop: tuple[tuple[str, float, float, float, str, tuple[float, float] | None], ...]
    maps: tuple[str, ...]
    names: NotRequired[Names]


class CrossPlay(TypedDict):
    strategies: tuple[str | int, ...]
    payoff: tuple[Numbers, ...]
    episodes: int


class Diversity(TypedDict):
    value: float
    matrix: tuple[Numbers, ...]


@dataclass(frozen=True, eq=False)
class Found:
    """A strategy: what `strategy.json` says, the metrics of its updates, and its episodes, if they
    were recorded."""

    index: int
    status: str
    reason: str
    """Why; unknown for strategies saved by earlier versions."""
    attempt: int
    round: int
    """Strategies of one round were trained together."""
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
    """Results of other commands: cross-play payoffs, population diversity."""

    @property
    def config(self) -> dict[str, Any]:
        return self.record["config"]

    @property
    def steps_of_each(self) -> int:
        """Environment steps of each policy, the same for every method: `Config.steps` by the number
        of policies."""
        return int(self.config["ppo"]["updates"] * self.config["ppo"]["batch"])

    @property
    def distinct(self) -> int:
        return sum(strategy.status == "novel" for strategy in self.strategies)

    def references(self, strategy: Found) -> list[Found]:
        """The earlier policies that this one was compared with, in the order of its `distance`."""
        earlier, judge = self.strategies[: strategy.index], self.config["judge"]
        distant = lambda s: min(s.evaluation["accepted_by"], default=1.0) >= judge["accept"]
        if judge["references"] == "all":
            return earlier
        if judge["references"] == "distant":
            return [s for s in earlier if s.status != "failed" and distant(s)]
        return [s for s in earlier if s.status == "novel"]


def read_run(path: Path) -> RunFolder:
    """The run in a folder, or one sentence on what is wrong with it, so that no page gets
    unexpected values."""
    record = manifest.read_manifest(path)
    return manifest.readable(partial(_run, record=record), path)


def _run(path: Path, record: dict[str, Any]) -> RunFolder:
    checked(Record, record, _complaint(path / "run.json", record))
    config, ppo = record["config"], record["config"]["ppo"]
    sizes = (config["iterations"], 10**4), (ppo["updates"], 10**9), (ppo["batch"], 10**7)
    if not all(1 <= size <= most for size, most in sizes):
        raise InputError(
            f"{path / 'run.json'} is damaged: iterations, ppo.updates and ppo.batch must be 1 or "
            "more."
        )
    identity = manifest.identity(record)
    folders = manifest.folders(path, config["iterations"])
    strategies = [manifest.readable(_strategy, folder, identity, path) for folder in folders]
    times = path / "times.json"
    seconds = manifest.readable(read_seconds, times, identity) if store.exists(times) else math.nan
    run = RunFolder(path, record, strategies, seconds if math.isfinite(seconds) else None, {})
    for strategy in strategies:
        _check_references(run, strategy)
    for name, (kind, fits) in EXTRAS.items():
        if store.exists(path / f"{name}.json"):
            run.extras[name] = manifest.readable(
                partial(_extra, kind=kind, fits=fits), path / f"{name}.json", run
            )
    return run


def _complaint(source: Path, record: Any) -> str:
    return f"{source} is damaged: it holds {quoted(record)}"


def _strategy(folder: Path, identity: str, run: Path) -> Found:
    source = folder / "strategy.json"
    record = store.read_json(source)
    manifest.check_identity(record, source, identity, run)
    record = checked(Strategy, record, _complaint(source, record))
    if record["index"] != int(folder.name):
        raise InputError(f"{source} is damaged: it is of strategy {record['index']}.")
    files = manifest.read_files(folder, record["files"])
    values = {
        name: record[name] for name in ("index", "status", "attempt", "threshold", "evaluation")
    }
    values["reason"] = record.get("reason", "")
    values["round"] = record.get("round", record["index"])
    return Found(**values, rows=_rows(folder / "metrics.jsonl", files), **_recorded(folder, files))


def _rows(source: Path, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    lines = files["metrics.jsonl"].splitlines()
    rows = [
        checked(Row, store.parse_json(line, source), f"{source} is damaged: it has a line")
        for line in lines
    ]
    for name in Row.__optional_keys__:
        if len({name in row for row in rows}) > 1:
            raise InputError(f"{source} is damaged: only some of its lines have '{name}'.")
    return rows


def _recorded(folder: Path, files: Mapping[str, bytes]) -> dict[str, Any]:
    """What `recording.py` kept."""
    if "episodes.safetensors" not in files:
        return {"episodes": None, "arrays": {}}
    source = folder / "episodes.safetensors"
    arrays, metadata = store.unpack_arrays(files["episodes.safetensors"], source)
    record = store.parse_json(metadata.get("rspo", ""), source)
    episodes = checked(Episodes, record, _complaint(source, record))
    if wrong := next(_wrong(episodes, arrays), None):
        raise InputError(f"{source} is damaged: {wrong}.")
    return {"episodes": episodes, "arrays": arrays}


def _wrong(episodes: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """What is not as `recording.py` says."""
    if not 0 < episodes["unit"] < math.inf:
        yield "its unit must be greater than 0"
    yield from (
        f"'{name}' must be numbers"
        for name, array in arrays.items()
        if array.dtype.kind not in "iuf"
    )
    axes: Axes = {f"map.{i}": (2,) for i, _ in enumerate(episodes["maps"])}
    if not any("kinds" in episode for episode in episodes["episodes"]):
        axes["actions"] = (1, 2)
    for n, episode in enumerate(episodes["episodes"]):
        if ("kinds" in episode) == ("observed" in episode) or ("observed" in episode) != (
            f"{n}.obs" in arrays
        ):
            yield f"episode {n} must be either drawn or observed"
        axes |= {
            f"{n}.{name}": allowed
            for name, allowed in (DRAWN if "kinds" in episode else OBSERVED).items()
        }
        if f"{n}.end" in arrays:
            axes[f"{n}.end"] = (3,)
        if ("film" in episode) != (f"{n}.film" in arrays):
            yield f"episode {n} must have its film"
        elif "film" in episode and not _is_film(arrays[f"{n}.film"], episode["film"]):
            yield f"'{n}.film' is not a film of the size that it should have"
    for name, allowed in axes.items():
        if name not in arrays or arrays[name].ndim not in allowed or not arrays[name].size:
            yield f"'{name}' must have {' or '.join(map(str, allowed))} axes"
        elif name.startswith(("map", "actions")) and arrays[name].size > MANY:
            yield f"'{name}' has more than {MANY} numbers"


def _is_film(array: np.ndarray, film: Mapping[str, int]) -> bool:
    """Whether it is a PNG file of this many pictures, stacked vertically."""
    width, height = film["width"], film["height"] * film["pictures"]
    data = array.tobytes()
    return (
        array.dtype == np.uint8
        and min(film.values()) >= 1
        and max(width, height) < 2**15
        and size_of(data) == (width, height)
    )


def _check_references(run: RunFolder, strategy: Found) -> None:
    """Every earlier policy must have values, in the evaluation and in every update."""
    found, count = strategy.evaluation, len(run.references(strategy))
    tables = [found[name] for name in ("accepted_by", "distance", "threshold")]
    tables += [row["accepted_by"] for row in strategy.rows if "accepted_by" in row]
    if any(len(table) != count for table in tables):
        raise InputError(
            f"{run.path} is damaged: strategy {strategy.index} does not fit the ones before it."
        )


def _extra(
    path: Path, run: RunFolder, kind: Any, fits: Callable[[RunFolder, dict[str, Any]], bool]
) -> dict[str, Any]:
    record = store.read_json(path)
    manifest.check_identity(record, path, manifest.identity(run.record), path.parent)
    record = checked(kind, record, _complaint(path, record))
    if not fits(run, record):
        raise InputError(f"{path} is damaged: its table does not fit the strategies.")
    return record


def _square(table: Sequence[Sequence[float]], size: int) -> bool:
    return len(table) == size > 0 and all(
        len(row) == size and not np.isinf(row).any() for row in table
    )


EXTRAS: dict[str, tuple[Any, Callable[[RunFolder, dict[str, Any]], bool]]] = {
    "crossplay": (
        CrossPlay,
        lambda run, record: _square(record["payoff"], len(record["strategies"])),
    ),
    "diversity": (Diversity, lambda run, record: _square(record["matrix"], run.distinct)),
}
