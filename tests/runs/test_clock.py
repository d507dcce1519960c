"""How long a run took, over interruptions; said only where it is known."""

import json
import math
import shutil
from pathlib import Path

import pytest

from product import assert_refused, here, rewritten
from rspo.runs.clock import Clock


@pytest.fixture
def finished(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def stopped(stopped: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(stopped, tmp_path / "run")


def seconds(run: Path) -> float:
    return json.loads((run / "times.json").read_text())["seconds"]


def test_seconds_go_on_from_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 103.0, 107.0, 500.0, 502.5])
    monkeypatch.setattr("rspo.runs.clock.time.monotonic", lambda: next(now))
    clock = Clock(tmp_path, "mine")
    assert (clock.mark(), clock.mark()) == (3.0, 7.0)
    clock.write()
    again = Clock(tmp_path, "mine")
    again.read()
    assert again.worked == 7.0
    assert again.mark() == 9.5


def test_a_run_tells_how_long_it_took(finished: Path) -> None:
    assert 0 < seconds(finished) < 600


def test_a_finished_run_takes_no_longer_by_being_resumed(finished: Path) -> None:
    before = seconds(finished)
    assert here("resume", finished).code == 0
    assert seconds(finished) == before


@pytest.mark.slow
def test_a_killed_run_counts_what_it_did_before_and_after(stopped: Path) -> None:
    """It was killed in its third iteration; the checkpoint has the time until then."""
    before = seconds(stopped)
    assert here("resume", stopped).code == 0
    assert before < seconds(stopped) < 600


def test_what_is_not_known_is_not_said(stopped: Path) -> None:
    """A run that an older version began."""
    (stopped / "times.json").unlink()
    (stopped / "checkpoint.safetensors").unlink()
    assert here("resume", stopped).code == 0
    assert math.isnan(seconds(stopped))
    assert "found in" not in (stopped / "report.html").read_text()


@pytest.mark.parametrize("damage", ["changed", "foreign"])
def test_another_runs_time_is_refused(finished: Path, damage: str) -> None:
    if damage == "changed":
        path = finished / "times.json"
        path.write_text(path.read_text().replace("seconds", "minutes"))
    else:
        with rewritten(finished / "times.json") as record:
            record["run"] = "0" * 64
    for verb in ("resume", "report"):
        assert_refused(here(verb, finished), "times.json")
