"""Metrics elsewhere: what other projects' readers read is what the run folder holds."""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import product
import rspo
from product import DISCOVER, assert_refused, here
from rspo.errors import InputError
from rspo.search.loop import Position

SCALARS = ("return", "accepted", "intrinsic", "entropy", "loss")


def metrics(run: Path, index: int) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (run / f"strategies/{index:03d}/metrics.jsonl").read_text().splitlines()
    ]


def events(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0}).Reload()


def series(reader: EventAccumulator, tag: str) -> dict[int, float]:
    return {event.step: float(event.tensor_proto.float_val[0]) for event in reader.Tensors(tag)}


@pytest.mark.slow
def test_tensorboard_gets_every_update(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert here(*DISCOVER, "--log", "tensorboard", "--out", run).code == 0
    for index in range(3):
        reader, rows = events(run / "tensorboard" / f"iteration-{index}"), metrics(run, index)
        for tag in SCALARS:
            expected = {row["update"]: pytest.approx(row[tag], rel=1e-6) for row in rows}
            assert series(reader, tag) == expected
        for j in range(index):
            expected = {
                row["update"]: pytest.approx(row["accepted_by"][j], rel=1e-6) for row in rows
            }
            assert series(reader, f"accepted_by/{j}") == expected
    found = json.loads((run / "summary.json").read_text())["strategies"]
    returns = series(events(run / "tensorboard" / "strategies"), "evaluation/return_mean")
    assert returns == {s["index"]: pytest.approx(s["return_mean"], rel=1e-6) for s in found}


@pytest.mark.slow
def test_a_resumed_run_logs_what_is_left(stopped: Path, tmp_path: Path) -> None:
    run = shutil.copytree(stopped, tmp_path / "run")
    assert here("resume", run, "--log", "tensorboard").code == 0
    logged = series(events(run / "tensorboard" / "iteration-2"), "return")
    rows = {row["update"]: pytest.approx(row["return"], rel=1e-6) for row in metrics(run, 2)}
    assert sorted(logged) == [
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
    ]  # it was killed after the tenth
    assert logged == {update: rows[update] for update in logged}


@pytest.mark.slow
def test_weights_and_biases_gets_the_run(tmp_path: Path) -> None:
    pytest.importorskip(
        "wandb", reason="Weights & Biases is not installed (pip install 'rspo[wandb]')"
    )
    run = tmp_path / "run"
    outcome = product.rspo(
        *DISCOVER, "--log", "wandb", "--out", run, WANDB_MODE="offline", WANDB_SILENT="true"
    )
    assert outcome.code == 0, outcome
    (record,) = (run / "wandb").glob("offline-run-*/run-*.wandb")
    data = record.read_bytes()
    for word in (b"total_update", b"entropy", b"strategy/return_mean", b"four-goals-easy"):
        assert word in data


def test_each_row_is_logged_once(tmp_path: Path) -> None:
    from rspo.runs.logs import Log

    class List(Log):
        def row(self, iteration: int, attempt: int, update: int, values: Any) -> None:
            kept.append((iteration, attempt, update, values))

        def strategy(self, index: int, values: Any) -> None: ...
        def close(self) -> None: ...

    kept: list[Any] = []
    rows = tuple({"update": t, "return": t / 2, "by": [0.5, t]} for t in range(1, 5))
    log = List(Position(1, 1, None, (rows[:1],)))  # type: ignore[arg-type]
    for position in ((1, 1, rows[:2]), (1, 1, rows[:4]), (1, 2, rows[:1]), (2, 1, rows[:1])):
        log.show(Position(*position[:2], None, (position[2],)))  # type: ignore[arg-type]
    assert [entry[:3] for entry in kept] == [(1, 1, 2), (1, 1, 3), (1, 1, 4), (1, 2, 1), (2, 1, 1)]
    assert kept[0][3] == {"return": 1.0, "by/0": 0.5, "by/1": 2.0}


def test_what_cannot_be_logged_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with pytest.raises(InputError, match="Did you mean 'tensorboard'"):
        rspo.discover("four-goals-easy", out=run, log="tensorbord")
    with pytest.raises(InputError, match="no run folder"):
        rspo.discover("four-goals-easy", log="tensorboard")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert_refused(here(*DISCOVER, "--log", "wandb", "--out", run), "pip install 'rspo[wandb]'")
    assert not run.exists()
