"""The run folder: whatever happens while it is written, it holds what was safe; whatever was done
to it is noticed."""

import errno
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import product
import rspo
from product import assert_refused, contents, here
from rigged import Changes
from rspo.config import Config, merge
from rspo.core.types import Spec
from rspo.errors import InputError
from rspo.presets import preset
from rspo.rollout.collector import collector
from rspo.runs import manifest
from rspo.runs.run import Run
from rspo.runs.store import StoreError
from rspo.search.archive import Archive
from rspo.search.loop import Found, Position, search


class Recording(NamedTuple):
    """A run without its folder."""

    config: Config
    spec: Spec
    events: tuple[Position | Found, ...]


@pytest.fixture(scope="module")
def recording() -> Recording:
    env = rspo.make("four-goals-easy")
    config = merge(preset("four-goals-easy"), product.SETTINGS | {"iterations": 2}, "test")
    return Recording(
        config,
        env.spec,
        tuple(jax.device_get(list(search(collector(env), config, Archive(config))))),
    )


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `stopped`, with another seed."""
    folder = tmp_path_factory.mktemp("other") / "run"
    arguments = (*product.DISCOVER, "--seed", "1", "--out", folder)
    product.rigged("KILL", 11, folder / ".checkpoint", *arguments)
    assert (folder / "checkpoint.safetensors").exists()
    return folder


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    """A copy of `stopped` to be damaged."""
    return shutil.copytree(stopped, tmp_path / "run")


def state(archive: Archive, position: Position | None) -> tuple[int, int]:
    """Where a run stands: strategies, and updates of the iteration under way."""
    return len(archive), len(position.rows[0]) if position else 0


def write(run: Run, recording: Recording) -> Iterator[tuple[int, int]]:
    """Write what the folder lacks of the recording; gives the state after each event."""
    with run.locked():
        archive = run.load()
        position = run.load_checkpoint(archive)
        reached = state(archive, position)
        yield reached
        for event in recording.events:
            if isinstance(event, Found):
                after = (event.strategy.index + 1, 0)
                if after > reached:
                    archive.add(event.strategy)
            else:
                after = (event.round, len(event.rows[0]))
            if after > reached:
                run.save(event, archive)
                yield after
        run.summarize(archive)


def start(folder: Path, recording: Recording) -> Run:
    """What a person does: resume a run that is there, else start it."""
    return (
        Run.open(folder)
        if (folder / "run.json").exists()
        else Run.create(folder, recording.config, recording.spec)
    )


@pytest.fixture(scope="module")
def whole(
    recording: Recording, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], int]:
    """The files of the recording written in peace, and how many changes that took."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    changes = Changes(str(folder), lambda count: None)
    states = list(write(start(folder, recording), recording))
    changes.stop()
    assert states == [(0, 0), (0, 10), (0, 20), (1, 0), (1, 10), (1, 20), (2, 0)]
    return product.results(folder), changes.count


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it, nothing cleans up after it."""


def refuse() -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def kill() -> None:
    raise Killed


@pytest.mark.slow
@pytest.mark.parametrize(("accident", "seen"), [(kill, Killed), (refuse, StoreError)])
def test_an_accident_at_any_change_loses_nothing_that_was_safe(
    recording: Recording,
    whole: tuple[dict[str, bytes], int],
    tmp_path: Path,
    accident: Callable[[], None],
    seen: type[BaseException],
) -> None:
    """Every moment between two changes of the folder, one after the other."""
    expected, total = whole
    for moment in range(1, total + 1):
        folder = tmp_path / f"{moment}" / "run"
        folder.parent.mkdir()
        changes = Changes(
            str(folder), lambda count, moment=moment: accident() if count == moment else None
        )
        safe: list[tuple[int, int]] = []
        with pytest.raises(seen):
            safe.extend(write(start(folder, recording), recording))
        changes.stop()
        again = list(write(start(folder, recording), recording))
        assert again[0] in [*safe[-1:], *_next(safe)], f"at change {moment}"
        assert product.results(folder) == expected, f"at change {moment}"
        assert not list(folder.rglob("*.tmp")), f"at change {moment}"
        assert not (folder / "checkpoint.safetensors").exists(), f"at change {moment}"


def _next(safe: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The state that was being written: also safe, if the accident came after its rename."""
    order = [(0, 0), (0, 10), (0, 20), (1, 0), (1, 10), (1, 20), (2, 0)]
    following = order.index(safe[-1]) + 1 if safe else 0
    return order[following : following + 1]


def test_what_comes_back_is_what_was_kept(recording: Recording, tmp_path: Path) -> None:
    found = [event for event in recording.events if isinstance(event, Found)]
    run = start(tmp_path / "run", recording)
    for _ in write(run, recording):
        pass
    archive = Run.open(run.path).load()
    assert archive.config == recording.config
    for before, after in zip(found, archive, strict=True):
        strategy = before.strategy
        assert (
            strategy.index,
            strategy.status,
            strategy.threshold,
            strategy.attempt,
            strategy.evaluation,
        ) == (
            after.index,
            after.status,
            after.threshold,
            after.attempt,
            after.evaluation,
        )
        assert jax.tree.structure(strategy.policy) == jax.tree.structure(after.policy)
        jax.tree.map(np.testing.assert_array_equal, strategy.policy, after.policy)
        lines = (
            (run.path / "strategies" / f"{strategy.index:03d}" / "metrics.jsonl")
            .read_text()
            .splitlines()
        )
        assert [json.loads(line) for line in lines] == list(before.rows)


def test_a_checkpoint_comes_back_as_it_was(recording: Recording, tmp_path: Path) -> None:
    position = recording.events[0]
    assert isinstance(position, Position)
    run = start(tmp_path / "run", recording)
    assert manifest.updates(run.path) == 0
    run.save(position, Archive(recording.config))
    assert manifest.updates(run.path) == len(position.rows[0]) > 0
    back = run.load_checkpoint(Archive(recording.config))
    assert back is not None
    assert (back.round, back.attempt, back.rows) == (
        position.round,
        position.attempt,
        position.rows,
    )
    jax.tree.map(np.testing.assert_array_equal, back.state, position.state)
    found = next(event.strategy for event in recording.events if isinstance(event, Found))
    done = Archive(recording.config, [found])
    assert run.load_checkpoint(done) is None  # of an iteration that is done already


def test_only_one_works_on_a_folder(run: Path) -> None:
    before = contents(run)
    with Run.open(run).locked():
        with (
            pytest.raises(InputError, match="Another process is working on"),
            Run.open(run).locked(),
        ):
            pass
        assert_refused(here("resume", run), "Another process is working on", str(run))
        assert len(rspo.load(run)) == 2  # reading is free
    assert contents(run) == before


def test_leftovers_are_ignored_and_swept(run: Path) -> None:
    before = contents(run)
    (run / ".run.json.tmp").write_bytes(b"half")
    (run / "strategies" / ".002.tmp").mkdir()
    (run / "strategies" / ".002.tmp" / ".policy.safetensors.tmp").write_bytes(b"half")
    assert len(rspo.load(run)) == 2
    with Run.open(run).locked():
        assert contents(run) == before


def test_more_than_a_thousand_strategies_keep_their_order(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "_strategy", lambda self, folder: int(folder.name))
    with product.rewritten(run / "run.json") as record:
        record["config"]["iterations"] = 2000
    for index in range(2, 1002):
        (run / "strategies" / f"{index:03d}").mkdir()
    assert list(Run.open(run).load()) == list(range(1002))


@pytest.mark.parametrize("name", ["full", "half"])
def test_a_folder_that_is_not_empty_is_refused(
    recording: Recording, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "thesis.tex").write_bytes(b"years of work")
    if name == "half":
        (folder / "strategies").mkdir()
    with pytest.raises(InputError, match="is not empty"):
        Run.create(folder, recording.config, recording.spec)
    assert (folder / "thesis.tex").read_bytes() == b"years of work"


def test_an_empty_folder_is_welcome(recording: Recording, tmp_path: Path) -> None:
    Run.create(tmp_path, recording.config, recording.spec)
    assert Run.open(tmp_path).config == recording.config


@pytest.mark.parametrize("inside", ["", "deeper", "deeper/still"])
def test_a_folder_below_a_file_is_refused(
    recording: Recording, tmp_path: Path, inside: str
) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(StoreError, match="there is a file where a folder is needed"):
        Run.create(tmp_path / "file" / inside, recording.config, recording.spec)
    assert contents(tmp_path) == {"file": b"mine"}


# ---- damage: every verb answers with one sentence and leaves everything as it is

POLICY, METRICS, STRATEGY = (
    f"strategies/000/{name}" for name in ("policy.safetensors", "metrics.jsonl", "strategy.json")
)


def refused_by_all(folder: Path, *words: str) -> None:
    before = contents(folder)
    with pytest.raises(InputError):
        rspo.load(folder)
    for arguments in (
        ("evaluate",),
        ("evaluate", "--json"),
        ("resume",),
        ("play",),
        ("play", "--svg", "picture.svg"),
    ):
        verb, *options = arguments
        assert_refused(here(verb, folder, *options), str(folder), *words)
    assert contents(folder) == before


def empty(path: Path) -> None:
    path.write_bytes(b"")


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"0")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 1
    path.write_bytes(data)


def make_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"actor": np.zeros(3)}))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [empty, halve, lengthen, flip, make_pickle, make_folder, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["run.json", POLICY, METRICS, STRATEGY])
def test_damage_is_refused(run: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(run / name)
    refused_by_all(run)


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if damage is not Path.unlink])
def test_a_damaged_checkpoint_is_refused_by_resume_alone(
    run: Path, damage: Callable[[Path], None]
) -> None:
    damage(run / "checkpoint.safetensors")
    before = contents(run)
    assert_refused(here("resume", run), "checkpoint.safetensors")
    assert contents(run) == before
    assert len(rspo.load(run)) == 2


@pytest.mark.slow
@given(data=st.data())
def test_any_changed_byte_is_refused_or_means_the_same(
    stopped: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(
        st.sampled_from(["run.json", POLICY, METRICS, STRATEGY, "checkpoint.safetensors"])
    )
    folder = shutil.copytree(stopped, tmp_path_factory.mktemp("changed") / "run")
    damaged = bytearray((stopped / name).read_bytes())
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(damaged)
    try:
        opened = Run.open(folder)
        read = opened.load(), opened.load_checkpoint(opened.load())
    except InputError as error:
        assert str(folder) in str(error)  # noqa: PT017
    else:
        intact = Run.open(stopped)
        assert _bytes(read) == _bytes((intact.load(), intact.load_checkpoint(intact.load())))
    finally:
        shutil.rmtree(folder)


def _bytes(read: tuple[Archive, Position | None]) -> Any:
    archive, position = read
    leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves([s.policy for s in archive])]
    assert position is not None
    return archive.config, leaves, [s.evaluation for s in archive], str(position)


@pytest.mark.slow
def test_a_deleted_checkpoint_or_lock_costs_only_time(run: Path, finished: Path) -> None:
    (run / "checkpoint.safetensors").unlink()
    (run / "lock").unlink()
    (run / "summary.json").unlink()
    assert here("resume", run).code == 0
    assert product.results(run) == product.results(finished)


def test_a_missing_first_strategy_is_refused(run: Path) -> None:
    shutil.rmtree(run / "strategies" / "000")
    refused_by_all(run, "missing")


def test_missing_strategies_are_refused(run: Path) -> None:
    shutil.rmtree(run / "strategies")
    refused_by_all(run)


def test_strategies_that_changed_places_are_refused(run: Path) -> None:
    strategies = run / "strategies"
    os.rename(strategies / "000", strategies / "spare")
    os.rename(strategies / "001", strategies / "000")
    os.rename(strategies / "spare", strategies / "001")
    refused_by_all(run)


@pytest.mark.parametrize(
    "name", [POLICY, METRICS, STRATEGY, "strategies/000", "strategies", "run.json"]
)
def test_a_part_of_another_run_is_refused(run: Path, other: Path, name: str) -> None:
    if (run / name).is_dir():
        shutil.rmtree(run / name)
        shutil.copytree(other / name, run / name)
    else:
        shutil.copy(other / name, run / name)
    refused_by_all(run)


def test_the_checkpoint_of_another_run_is_refused(run: Path, other: Path) -> None:
    shutil.copy(other / "checkpoint.safetensors", run / "checkpoint.safetensors")
    before = contents(run)
    assert_refused(here("resume", run), "checkpoint.safetensors")
    assert contents(run) == before


def test_a_file_that_may_not_be_read_is_said(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is acted."""
    open_ = os.open

    def guarded(path: Any, *arguments: Any) -> int:
        if str(path).endswith("policy.safetensors"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_(path, *arguments)

    monkeypatch.setattr(os, "open", guarded)
    assert_refused(here("evaluate", run), "No permission to read", "policy.safetensors")


@pytest.mark.parametrize("schema", [999, 0, -1, None, "1", [1]])
def test_another_schema_is_refused(run: Path, schema: Any) -> None:
    with product.rewritten(run / "run.json") as record:
        record["schema"] = schema
    refused_by_all(run, "schema")


# Edits whose checksum fits: by a forger, or by a version of rspo that says the same schema and
# means another.


def put(record: dict[str, Any], path: str, value: Any) -> None:
    *groups, name = path.split(".")
    for group in groups:
        record = record[group]
    record[name] = value


def drop(record: dict[str, Any], path: str) -> None:
    *groups, name = path.split(".")
    for group in groups:
        record = record[group]
    del record[name]


RUN_EDITS = [
    partial(drop, path="config"),
    partial(drop, path="spec"),
    partial(drop, path="config.method.name"),
    partial(drop, path="spec.horizon"),
    partial(put, path="config", value=[]),
    partial(put, path="config", value="four-goals-easy"),
    partial(put, path="config.ppo", value=3),
    partial(put, path="config.method.name", value="nothing"),
    partial(put, path="config.method.name", value=["rspo"]),
    partial(put, path="config.iterations", value=-1),
    partial(put, path="config.iterations", value=1),  # fewer than there are strategies
    partial(put, path="config.iterations", value="3"),
    partial(put, path="config.seed", value=-1),
    partial(put, path="config.seed", value=10**30),
    partial(put, path="config.ppo.batch", value=7),
    partial(put, path="config.ppo.hidden", value=-1),
    partial(put, path="config.ppo.hidden", value=65),
    partial(put, path="config.ppo.hidden", value=10**12),
    partial(put, path="config.measure.alpha", value=float("nan")),
    partial(put, path="config.method.lambda_b", value="much"),
    partial(drop, path="devices"),
    partial(put, path="devices", value=0),
    partial(put, path="devices", value=-1),
    partial(put, path="devices", value=10**9),
    partial(put, path="devices", value="two"),
    partial(put, path="players", value=0),
    partial(put, path="players", value=True),
    partial(put, path="spec", value=None),
    partial(put, path="spec.colour", value="red"),
    partial(put, path="spec.obs_size", value=-1),
    partial(put, path="spec.obs_size", value="ten"),
    partial(put, path="spec.obs_size", value=10**12),
    partial(put, path="spec.horizon", value=0),
    partial(put, path="spec.action_space", value="five"),
    partial(put, path="spec.action_space", value=[]),
    partial(put, path="spec.action_space", value=[-5]),
    partial(put, path="spec.action_space", value=5),
]
STRATEGY_EDITS = [
    partial(drop, path="evaluation"),
    partial(drop, path="files"),
    partial(drop, path="status"),
    partial(drop, path="evaluation.return_mean"),
    partial(put, path="colour", value="red"),
    partial(put, path="index", value=1),
    partial(put, path="index", value="0"),
    partial(put, path="status", value="excellent"),
    partial(put, path="threshold", value="high"),
    partial(put, path="attempt", value=-1),
    partial(put, path="attempt", value=10**30),
    partial(put, path="evaluation", value=[]),
    partial(put, path="evaluation.colour", value="red"),
    partial(put, path="evaluation.return_mean", value="good"),
    partial(put, path="evaluation.descriptor", value=["up"]),
    partial(put, path="files", value=[]),
    partial(put, path="files", value={}),
    partial(put, path="files", value={"policy.safetensors": 5, "metrics.jsonl": None}),
]


def edit_name(edit: partial) -> str:
    return " ".join(str(value) for value in (edit.func.__name__, *edit.keywords.values()))


@pytest.mark.parametrize("edit", RUN_EDITS, ids=edit_name)
def test_a_forged_run_is_refused(run: Path, edit: partial) -> None:
    with product.rewritten(run / "run.json") as record:
        edit(record)
    refused_by_all(run)


@pytest.mark.parametrize("edit", STRATEGY_EDITS, ids=edit_name)
def test_a_forged_strategy_is_refused(run: Path, edit: partial) -> None:
    with product.rewritten(run / STRATEGY) as record:
        edit(record)
    refused_by_all(run)


@pytest.mark.parametrize("name", ["run.json", STRATEGY])
@pytest.mark.parametrize("text", [b"[]", b"{}", b"null", b'{"sha256": 1}', b"[" * 100_000])
def test_a_foreign_record_is_refused(run: Path, name: str, text: bytes) -> None:
    (run / name).write_bytes(text)
    refused_by_all(run)


@pytest.mark.parametrize("content", ["nothing", "file", "folder", "other files"])
def test_a_foreign_folder_is_refused(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "run"
    if content == "file":
        folder.write_bytes(b"no folder")
    elif content != "nothing":
        folder.mkdir()
    if content == "other files":
        (folder / "config.json").write_text("{}")
        (folder / "strategies").mkdir()
    remedy = "give the folder" if content == "file" else "rspo discover"
    for verb in ("evaluate", "resume", "play"):
        assert_refused(here(verb, folder), str(folder), remedy)
