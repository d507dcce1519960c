"""The run folder, the only disk format:

run.json                      settings, environment, versions, command
strategies/000/               one folder per finished iteration, written atomically
    policy.safetensors        policy and what the method keeps with it
    metrics.jsonl             one line per update
    episodes.safetensors      a few episodes as drawings, for the report
    strategy.json             status and why, evaluation, threshold, checksums of the files above
checkpoint.safetensors        the state of the current iteration
summary.json                  what `rspo evaluate --json` prints
crossplay.json                with two agents: what every strategy earns with every other
diversity.json                how different its distinct strategies are
*.svg, *.png                  pictures of the finished run
times.json                    seconds of work, separate because no two runs take equally long
report.html                   the page to open
lock                          held while a process works on the folder
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import math
import platform
import shlex
import sys
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from portalocker.exceptions import AlreadyLocked

from rspo import config as configuration
from rspo.config import Config
from rspo.core.devices import player_count
from rspo.core.spaces import ActionSpace, Box, Discrete, MultiDiscrete
from rspo.core.typed import checked, quoted
from rspo.core.types import Spec
from rspo.errors import InputError
from rspo.methods.base import TrainState
from rspo.runs import manifest, store
from rspo.runs.clock import Clock
from rspo.runs.manifest import readable
from rspo.runs.store import StoreError
from rspo.search.archive import Archive, Strategy
from rspo.search.crossplay import CrossPlay
from rspo.search.diversity import PopulationDiversity
from rspo.search.evaluation import Evaluation
from rspo.search.loop import Found, Position, kept_shapes, place_of, training_shapes
from rspo.text import NAME, printable

PROVENANCE = ("index", "status", "reason", "threshold", "attempt", "round", "member", "latent")


class Run:
    """One folder, open for reading; `locked` for writing."""

    def __init__(self, path: Path, record: dict[str, Any]) -> None:
        self.path, self.name = path, printable(str(path), NAME)
        source = str(path / "run.json")
        self.devices = _whole_number(record["devices"], 1, 4096, f"{source}: devices")
        self.players = _whole_number(
            record.get("players", self.devices), 1, 4096, f"{source}: players"
        )
        spec = dict(record["spec"])
        space = _action_space(spec.pop("action_space"), f"{source}: actions")
        sizes = {
            name: _whole_number(value, 0, 10**6, f"{source}: {name}")
            for name, value in spec.items()
        }
        self.spec = Spec(**sizes, action_space=space)
        _whole_number(self.spec.horizon, 1, 10**6, f"{source}: horizon")
        try:
            self.config: Config = configuration.from_dict(record["config"], source)
            configuration.validate(self.config, self.spec)
        except InputError as error:
            raise StoreError(f"{source} is damaged: {error}") from error
        self.identity = manifest.identity(record)
        self.clock = Clock(path, self.identity)

    @staticmethod
    def create(path: Path, config: Config, spec: Spec) -> "Run":
        """A new run in a folder that is absent or empty."""
        _check_free(path)
        store.make_folder(path / "strategies")
        record = {
            "schema": manifest.SCHEMA,
            "config": configuration.to_dict(config),
            "spec": {**spec._asdict(), "action_space": list(spec.action_space)},
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": _command(),
            "versions": versions(),
            "devices": jax.device_count(),
            "players": player_count(),
        }
        store.write(path / "run.json", store.pack_json(record))
        return Run.open(path)

    @staticmethod
    def open(path: Path) -> "Run":
        """An existing run, or one sentence on why this is not one."""
        return readable(Run, path, manifest.read_manifest(path))

    def extended(self, iterations: int) -> "Run":
        """The same run with more iterations to come."""
        config = dataclasses.replace(self.config, iterations=iterations)
        configuration.validate(config, self.spec)
        if iterations < self.config.iterations:
            raise InputError(
                f"iterations is {iterations}, but {self.name} was begun with "
                f"{self.config.iterations}: it must be more."
            )
        if config.plan.per_round != self.config.plan.per_round:
            raise InputError(
                f"{self.name} trains its policies side by side, so there can be no more of them: "
                f"start a new run with --iterations {iterations}."
            )
        with self.locked():
            record = manifest.read_manifest(self.path)
            record["config"]["iterations"] = iterations
            store.write(self.path / "run.json", store.pack_json(record))
            if iterations > self.config.iterations:
                store.remove(self.path / "crossplay.json")  # of fewer strategies
        return Run.open(self.path)

    def copy_to(self, path: Path) -> None:
        """Copy the run to a new folder, which becomes a run with its run.json, written last."""
        _check_free(path)
        store.make_folder(path / "strategies")
        for folder in manifest.folders(self.path, self.config.iterations):
            files = {name: store.read(folder / name, store.ARRAYS) for name in store.names(folder)}
            store.write_folder(path / "strategies" / folder.name, files)
        kept = ("checkpoint.safetensors", "crossplay.json", "diversity.json", "report.html")
        for name in store.names(self.path, links=True):
            if name in (*kept, "summary.json", "times.json") or name.endswith((".svg", ".png")):
                store.write(path / name, store.read(self.path / name, store.ARRAYS))
        store.write(path / "run.json", store.read(self.path / "run.json"))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for writing."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(store.locked(self.path / "lock", wait=False))
            except AlreadyLocked as error:
                raise InputError(
                    f"Another process is working on {self.path}. Wait for it to end, or choose "
                    "another folder with --out."
                ) from error
            store.sweep(self.path, links=True)
            readable(store.sweep, self.path / "strategies")
            self.clock.read()
            yield

    def load(self) -> Archive:
        """The strategies found so far."""
        folders = manifest.folders(self.path, self.config.iterations)
        return Archive(self.config, [readable(self._strategy, folder) for folder in folders])

    def _strategy(self, folder: Path) -> Strategy:
        source = folder / "strategy.json"
        record = store.read_json(source)
        self._check_identity(record, source)
        files = manifest.read_files(folder, record.pop("files"))
        arrays, _ = store.unpack_arrays(files["policy.safetensors"], folder / "policy.safetensors")
        policy, memory = store.fill(
            kept_shapes(self.config, self.spec), arrays, folder / "policy.safetensors"
        )
        evaluation = _typed(Evaluation, record.pop("evaluation"), source)
        if (
            record["index"] != int(folder.name)
            or not 1 <= record["attempt"] <= self.config.judge.attempts
        ):
            raise StoreError(f"{source} is not of this place in this run.")
        return _typed(Strategy, record, source, evaluation=evaluation, policy=policy, memory=memory)

    def _check_identity(self, record: dict[str, Any], source: Path) -> None:
        manifest.check_identity(record, source, self.identity, self.path)

    def save(self, event: Position | Found, archive: Archive) -> None:
        """Save the progress of a run: a checkpoint of the current iteration, or a finished
        iteration."""
        if isinstance(event, Position):
            self._save_checkpoint(event)
        else:
            self._save_strategy(event)
            self.clock.mark()
            if place_of(self.config.plan, len(archive)).round != event.strategy.round:
                # Only now: a kill in between leaves a checkpoint of a finished round, which
                # resuming ignores.
                store.remove(self.path / "checkpoint.safetensors")
            self.summarize(archive)

    def _save_strategy(self, found: Found) -> None:
        """The whole folder appears at once."""
        strategy = found.strategy
        folder = self.path / "strategies" / manifest.folder_name(strategy.index)
        files = {
            "policy.safetensors": store.pack_arrays(
                store.named_leaves((strategy.policy, strategy.memory))
            ),
            "metrics.jsonl": "".join(json.dumps(row) + "\n" for row in found.rows).encode(),
        }
        if found.recording is not None:
            metadata = {"rspo": json.dumps(found.recording.record)}
            files["episodes.safetensors"] = store.pack_arrays(found.recording.arrays, metadata)
        record = {
            "run": self.identity,
            **{name: getattr(strategy, name) for name in PROVENANCE},
            "evaluation": dataclasses.asdict(strategy.evaluation),
            "files": {name: store.sha256(data) for name, data in files.items()},
        }
        # It exists if an interruption came after the rename: it is already saved.
        if not store.exists(folder):
            store.write_folder(folder, {**files, "strategy.json": store.pack_json(record)})

    def summarize(self, archive: Archive) -> None:
        store.write(
            self.path / "summary.json", json.dumps(summary(archive), indent=1).encode() + b"\n"
        )
        self.clock.write()

    def save_cross_play(self, played: CrossPlay) -> None:
        tables = {name: getattr(played, name).tolist() for name in ("payoff", "mean", "roles")}
        record = {
            "run": self.identity,
            "strategies": played.strategies,
            "episodes": played.episodes,
            **tables,
        }
        store.write(self.path / "crossplay.json", store.pack_json(record))

    def load_cross_play(self) -> CrossPlay | None:
        """What every strategy earns with every other one; None before the run's end."""
        path = self.path / "crossplay.json"
        remedy = "Remove it, and `rspo resume` makes it again."
        return readable(self._cross_play, path, remedy=remedy) if store.exists(path) else None

    def _cross_play(self, path: Path) -> CrossPlay:
        record = store.read_json(path)
        self._check_identity(record, path)
        size = self.config.iterations
        hints = {
            "strategies": tuple[str, ...],
            "episodes": int,
            "roles": tuple[tuple[tuple[float, ...], ...], ...],
        }
        names, episodes, roles = (
            checked(hint, record[name], f"{path} has a '{name}'") for name, hint in hints.items()
        )
        table = np.array(roles)
        if table.shape != (size, size, 2) or len(names) != size:
            raise StoreError(f"{path} is not of this run: it has another number of strategies.")
        return CrossPlay(names, episodes, table)

    def visited(self, strategies: Sequence[Strategy]) -> list[np.ndarray]:
        """States that each of them visited; none if a strategy was saved by a version that
        recorded no episodes."""
        homes = [
            self.path / "strategies" / manifest.folder_name(s.index) / "episodes.safetensors"
            for s in strategies
        ]
        read = [readable(store.read_arrays, home)[0] for home in homes if store.exists(home)]
        states = [arrays["states"] for arrays in read if "states" in arrays]
        return states if len(states) == len(strategies) else []

    def save_diversity(self, score: PopulationDiversity, authors: PopulationDiversity) -> None:
        """Save a score, and the one by the recipe of the paper's authors."""
        scores = {**dataclasses.asdict(score), "authors": dataclasses.asdict(authors)}
        store.write(self.path / "diversity.json", store.pack_json({"run": self.identity, **scores}))

    def save_pictures(self, drawn: Mapping[str, str | bytes]) -> None:
        for name, picture in drawn.items():
            store.write(self.path / name, picture.encode() if isinstance(picture, str) else picture)

    def _save_checkpoint(self, position: Position) -> None:
        arrays = store.named_leaves(jax.device_get(position.state))
        record = {
            "run": self.identity,
            "round": position.round,
            "attempt": position.attempt,
            "rows": [list(rows) for rows in position.rows],
            "seconds": self.clock.mark(),
            "arrays": store.arrays_digest(arrays),
        }
        metadata = {"rspo": store.pack_json(record).decode()}
        store.write(self.path / "checkpoint.safetensors", store.pack_arrays(arrays, metadata))

    def load_checkpoint(self, archive: Archive) -> Position | None:
        """The state of the next round; None if it has no checkpoint."""
        path = self.path / "checkpoint.safetensors"
        if not store.exists(path):
            return None
        return readable(self._position, path, archive)

    def _position(self, path: Path, archive: Archive) -> Position | None:
        arrays, metadata = store.read_arrays(path)
        record = store.unpack_json(metadata.get("rspo", ""), path)
        self._check_identity(record, path)
        if record["arrays"] != store.arrays_digest(arrays):
            raise StoreError(
                f"{path} was changed after it was written: its checksum does not match."
            )
        plan = self.config.plan
        round = place_of(plan, len(archive)).round
        if record["round"] != round:
            # The process was killed between saving the strategy and removing this file.
            store.remove(path)
            return None
        self.clock.go_on_from(float(record.get("seconds", math.nan)))
        kept = sum(strategy.round < round for strategy in archive.kept)
        state: TrainState = store.fill(training_shapes(self.config, self.spec, kept), arrays, path)
        rows = tuple(tuple(rows) for rows in record["rows"])
        if len(rows) != plan.members:
            raise StoreError(f"{path} is not of this run: it has another number of policies.")
        return Position(round, record["attempt"], state, rows)


def summary(archive: Archive) -> dict[str, Any]:
    """The result of a run as plain JSON values."""
    names = (
        "return_mean",
        "return_std",
        "greedy_return_mean",
        "greedy_return_std",
        "episodes",
        "accepted",
    )
    more = ("descriptor", "sampled_descriptor", "stats", "accepted_by", "distance", "threshold")
    return {
        "env": archive.config.env,
        "method": archive.config.method.name,
        "seed": archive.config.seed,
        "strategies": [
            {
                name: getattr(s, name)
                for name in ("index", "status", "reason", "attempt", "round", "member", "latent")
            }
            | {name: getattr(s.evaluation, name) for name in names + more}
            for s in archive
        ],
        "distinct": archive.distinct,
    }


def versions() -> dict[str, str]:
    """Versions of everything that a result depends on, as far as it is in use."""
    packages = ["rspo", "jax", "jaxlib", "equinox", "optax", "numpy", "safetensors"]
    packages += [
        name for name in ("gymnasium", "mpe2", "mujoco", "pettingzoo") if name in sys.modules
    ]
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    return machine | {name: importlib.metadata.version(name) for name in packages}


def _check_free(path: Path) -> None:
    if store.is_folder(path) and not _is_free(path):
        raise InputError(
            f"The folder {path} is not empty. Choose another with --out, or continue with `rspo "
            f"resume {path}`."
        )


def _is_free(folder: Path) -> bool:
    """Whether it holds nothing but leftovers of a process that was killed before it wrote the
    first file."""
    return all(
        store.is_leftover(name, "run.json")
        or (name == "strategies" and not store.names(folder / name))
        for name in store.names(folder, links=True)
    )


def _command() -> str:
    """The command line that this process was started with, if it was ours."""
    program = Path(sys.argv[0])
    ours = program.stem == "rspo" or program.parts[-2:] == ("rspo", "__main__.py")
    return shlex.join(["rspo", *sys.argv[1:]]) if ours else "python"


def _whole_number(value: Any, least: int, most: int, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise StoreError(
            f"{what} is {value!r}, but it must be a whole number from {least} to {most}."
        )
    return value


def _action_space(record: Any, what: str) -> ActionSpace:
    """[n] for n choices; [[n, m]] for simultaneous choices; [lower bounds, upper bounds] for real
    numbers."""
    if len(record) == 1 and isinstance(record[0], list):
        if not 1 <= len(record[0]) <= 10**4:
            raise StoreError(f"{what}: there must be 1 to 10000 choices at once.")
        return MultiDiscrete(tuple(_whole_number(n, 1, 10**6, what) for n in record[0]))
    if len(record) == 1:
        return Discrete(_whole_number(record[0], 1, 10**6, what))
    low, high = (
        checked(tuple[float, ...], bounds, f"{what} has {quoted(bounds)}") for bounds in record
    )
    if not 1 <= len(low) == len(high) <= 10**6 or not all(
        a < b for a, b in zip(low, high, strict=True)
    ):
        raise StoreError(
            f"{what}: every lower bound must be less than its upper bound, but they are {record}."
        )
    return Box(low, high)


def _typed(kind: Any, record: dict[str, Any], source: Path, **parts: Any) -> Any:
    """A dataclass from a record in which every value has the type of its field; `parts` are taken
    as is."""
    hints = typing.get_type_hints(kind)
    values = {
        name: checked(hints[name], value, f"{source} has '{name}' as {quoted(value)}")
        for name, value in record.items()
    }
    return kind(**values, **parts)
