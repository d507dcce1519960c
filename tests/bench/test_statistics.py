"""The statistics of few seeds against plain definitions, analytic values and rliable's own."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rspo.bench.statistics import (
    aggregate,
    bootstrap,
    interquartile_mean,
    mean_interval,
    performance_profile,
)

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=40)


@given(VALUES)
def test_the_interquartile_mean_is_a_mean_without_a_quarter_at_each_end(
    values: list[float],
) -> None:
    assert interquartile_mean(np.array(values)) == pytest.approx(
        scipy.stats.trim_mean(values, 0.25), abs=1e-9
    )


def test_outliers_do_not_move_it() -> None:
    assert interquartile_mean(np.array([1.0, 2.0, 3.0, 1000.0])) == 2.5
    assert interquartile_mean(np.array([1.0, 1000.0])) == 500.5  # too few to leave any out


def test_tasks_are_taken_together() -> None:
    tasks = [np.array([0.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, 9.0])]
    assert aggregate(tasks) == interquartile_mean(np.array([0, 0, 1, 1, 1, 1, 1, 9.0])) == 1.0


def test_a_task_does_not_count_more_for_having_more_runs() -> None:
    """One run of two tasks is worth five runs of the third."""
    few = [np.ones(5), np.ones(1), np.array([0.25])]
    assert aggregate(few) == aggregate([np.ones(5), np.ones(5), np.full(5, 0.25)]) == 7.5 / 9
    uneven = [np.array([0.0, 1.0]), np.array([0.0, 0.0, 1.0])]  # 3 of 6 and 4 of 6 are 0
    assert aggregate(uneven) == interquartile_mean(np.repeat([0.0, 1.0], [7, 5]))


@given(st.integers(1, 5), st.integers(1, 5))
def test_the_mean_and_the_profile_weigh_tasks_alike(one: int, two: int) -> None:
    """Scores are 0 or 1 and half of each task's runs, so that both must say one half."""
    tasks = [np.repeat([0.0, 1.0], one), np.repeat([0.0, 1.0], two)]
    assert aggregate(tasks) == pytest.approx(0.5)
    assert performance_profile(tasks, np.array([0.5])) == pytest.approx(0.5)
    unlike = [np.zeros(one), np.ones(two)]
    assert aggregate(unlike) == performance_profile(unlike, np.array([0.5])) == 0.5


def test_a_draw_keeps_to_its_task() -> None:
    """Each task has one value only, so whatever is drawn, the mean over tasks is the same."""
    tasks = [np.zeros(3), np.ones(5)]
    low, high = bootstrap(tasks, lambda drawn: float(np.mean([task.mean() for task in drawn])))
    assert low == high == 0.5


def test_the_interval_of_a_mean_is_that_of_its_normal_limit() -> None:
    values = np.random.default_rng(1).normal(size=400)
    low, high = bootstrap([values], lambda drawn: float(drawn[0].mean()), resamples=4000)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.01)
    assert high == pytest.approx(values.mean() + half, abs=0.01)
    assert mean_interval(tuple(values)) == pytest.approx((low, high), abs=0.01)


def test_the_same_seed_draws_the_same() -> None:
    scores = [np.arange(5.0), np.arange(7.0)]
    assert bootstrap(scores) == bootstrap(scores)


@given(VALUES, VALUES)
def test_a_profile_falls_from_all_to_none(one: list[float], two: list[float]) -> None:
    thresholds = np.linspace(-101, 101, 30)
    profile = performance_profile([np.array(one), np.array(two)], thresholds)
    assert profile[0] == 1
    assert profile[-1] == 0
    assert (np.diff(profile) <= 0).all()
    plain = [
        np.mean([np.mean([v > t for v in values]) for values in (one, two)]) for t in thresholds
    ]
    np.testing.assert_allclose(profile, plain)


def test_they_agree_with_rliable() -> None:
    """Its numbers are in `rliable.json`, made by `rliable_golden.py` in an environment of its own.
    Draws differ, so intervals agree only up to sampling noise."""
    golden = json.loads((Path(__file__).parent / "rliable.json").read_text())
    for scores, theirs in zip(golden["scores"], golden["rliable"], strict=True):
        tasks = list(np.array(scores).T)
        assert aggregate(tasks) == pytest.approx(theirs["iqm"], abs=1e-12)
        low, high = bootstrap(tasks, resamples=golden["resamples"])
        width = theirs["high"] - theirs["low"]
        assert low == pytest.approx(theirs["low"], abs=0.05 * width)
        assert high == pytest.approx(theirs["high"], abs=0.05 * width)
        profile = performance_profile(tasks, np.array(golden["thresholds"]))
        np.testing.assert_allclose(profile, theirs["profile"], atol=1e-12)
