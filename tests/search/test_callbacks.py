"""Callbacks: every update and strategy once, and True stops a run that can be resumed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import product
import rspo
from rspo.search.callbacks import Callbacks, StopRequested
from rspo.search.loop import Position

SMALL: dict[str, Any] = {**product.SETTINGS, "iterations": 2, "quiet": True}


def position(round: int, attempt: int, updates: int, members: int = 1) -> Position:
    rows = tuple({"update": n + 1, "return": float(n)} for n in range(updates))
    return Position(round, attempt, None, (rows,) * members)  # type: ignore[arg-type]


def told(callbacks: Callbacks, *events: Position) -> list[tuple[int, ...]]:
    heard: list[tuple[int, ...]] = []
    callbacks.on_update = lambda update: heard.append(update[:4])
    for event in events:
        callbacks.tell(event)
    return heard


def test_each_update_is_told_once_in_its_order() -> None:
    events = position(0, 1, 2), position(0, 1, 3), position(0, 2, 1), position(1, 1, 1, members=2)
    places = [(0, 0, 1, 1), (0, 0, 1, 2), (0, 0, 1, 3), (0, 0, 2, 1), (1, 0, 1, 1), (1, 1, 1, 1)]
    assert told(Callbacks(), *events) == places


def test_what_came_before_a_checkpoint_is_not_told_again() -> None:
    callbacks = Callbacks()
    callbacks.begin(position(1, 1, 2))
    assert told(callbacks, position(1, 1, 3), position(2, 1, 1)) == [(1, 0, 1, 3), (2, 0, 1, 1)]


@pytest.mark.parametrize(
    ("answer", "stops"),
    [(True, True), (np.True_, True), (None, False), (False, False), (1, False), ("yes", False)],
)
def test_only_true_stops(answer: Any, stops: bool) -> None:
    callbacks = Callbacks(on_update=lambda update: answer)
    if stops:
        with pytest.raises(StopRequested):
            callbacks.tell(position(0, 1, 1))
    else:
        callbacks.tell(position(0, 1, 1))


@pytest.mark.slow
def test_a_run_tells_all_of_it(tmp_path: Path) -> None:
    updates: list[rspo.Update] = []
    strategies: list[rspo.Strategy] = []
    archive = rspo.discover(
        "four-goals-easy", on_update=updates.append, on_strategy=strategies.append, **SMALL
    )
    assert strategies == list(archive)
    assert [(u.iteration, u.update) for u in updates] == [
        (i, n + 1) for i in range(2) for n in range(20)
    ]
    assert {"return", "loss", "entropy"} <= updates[0].metrics.keys()


@pytest.mark.slow
def test_a_stopped_run_keeps_what_was_found_and_goes_on(tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    rspo.discover("four-goals-easy", out=whole, **SMALL)
    stopped = rspo.discover("four-goals-easy", out=run, on_strategy=lambda found: True, **SMALL)
    assert (len(stopped), stopped.interrupted) == (1, True)
    assert (run / "report.html").exists()
    at_ten = lambda update: update.iteration == 1 and update.update == 10
    assert rspo.resume(run, quiet=True, on_update=at_ten).interrupted
    later: list[int] = []
    done = rspo.resume(run, quiet=True, on_update=lambda update: later.append(update.update))
    assert (later, done.interrupted) == (list(range(11, 21)), False)
    assert product.results(run) == product.results(whole)


def test_a_callback_that_fails_is_heard() -> None:
    def fails(strategy: rspo.Strategy) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rspo.discover("four-goals-easy", on_strategy=fails, **SMALL)
