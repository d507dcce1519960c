"""Runs compared: seeds taken together, intervals as statistics has them, and nothing counted
twice."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from test_report import find, parsed, words

from pages import UPDATES, Undrawn, make_run
from product import assert_refused, here, rewritten
from rspo.report import write_comparison
from rspo.report.comparison import Group, _line, _training_returns, clearly_below, interval
from rspo.report.reading import read_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three seeds of one method, one of the same method with another setting, and one of another
    method."""
    home = tmp_path_factory.mktemp("compare")
    return [
        *(make_run(home / f"seed{seed}", Undrawn(), 3, seed=seed) for seed in range(3)),
        make_run(home / "other", Undrawn(), 3, measure={"alpha": 0.75}),
        make_run(home / "pg", Undrawn(), 2, method="pg"),
    ]


@pytest.mark.parametrize("count", [2, 3, 5, 40])
def test_intervals_are_students(count: int) -> None:
    values = np.random.default_rng(0).normal(size=(count, 4))
    mean, half = interval(values)
    low, high = scipy.stats.t.interval(
        0.95, count - 1, values.mean(0), scipy.stats.sem(values, axis=0)
    )
    np.testing.assert_allclose(mean - half, low)
    np.testing.assert_allclose(mean + half, high)


def test_seeds_are_taken_together(runs: list[Path], tmp_path: Path) -> None:
    root = parsed(write_comparison(runs, tmp_path / "comparison.html"))
    methods, single = find(root, "table")
    rows = [words(row) for row in find(methods, "tr")[1:]]
    assert len(rows) == 3
    best = [max(s.evaluation["return_mean"] for s in read_run(run).strategies) for run in runs[:3]]
    mean, half = interval(best)
    assert rows[0].startswith("rspo, measure.alpha 0.5 0, 1, 2 2 ± 0 ")
    assert f"{mean:.4g} ± {half:.4g}" in rows[0]
    assert rows[1].startswith("rspo, measure.alpha 0.75 0 2 (one seed)")
    assert rows[2].startswith("pg 0 2 (one seed)")
    of_each = UPDATES * 8 * Undrawn().spec.horizon
    steps = [f"{iterations * of_each:,} {of_each:,}" for iterations in (3, 3, 2)]
    assert all(text in row for text, row in zip(steps, rows, strict=True))
    listed = [words(row) for row in find(single, "tr")[1:]]
    assert len(listed) == 5
    for run, text in zip(runs, listed, strict=True):
        assert text.startswith(str(run))


def test_curves_have_bands_where_there_are_several_seeds(runs: list[Path], tmp_path: Path) -> None:
    root = parsed(write_comparison(runs, tmp_path / "comparison.html"))
    charts = find(root, "figure", class_="chart")
    assert len(charts) == 3
    for figure in charts:
        tags = [element.tag.split("}")[1] for element in figure.iter()]
        assert (tags.count("polyline"), tags.count("polygon")) == (3, 1)


def test_environments_are_kept_apart(runs: list[Path], tmp_path: Path) -> None:
    other = make_run(tmp_path / "easy", "four-goals-easy", 2)
    root = parsed(write_comparison([runs[0], other], tmp_path / "comparison.html"))
    assert [words(title) for title in find(root, "h2")] == ["Undrawn", "four-goals-easy", "Cite"]


def test_the_command(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = here("report", *runs)
    assert (outcome.code, outcome.err) == (0, "")
    assert "comparison.html" in outcome.out
    first = Path("comparison.html").read_bytes()
    assert here("report", *runs, "--out", "there.html").code == 0
    assert Path("there.html").read_bytes() == first


def test_one_run_is_not_compared_with_itself(runs: list[Path], tmp_path: Path) -> None:
    twin = shutil.copytree(runs[0], tmp_path / "twin")
    assert_refused(here("report", runs[0], twin), "same seed")
    assert_refused(here("report", runs[0], runs[0]), "same seed")


def test_a_run_without_strategies_can_be_compared(runs: list[Path], tmp_path: Path) -> None:
    empty = shutil.copytree(runs[1], tmp_path / "empty")
    for folder in (empty / "strategies").iterdir():
        shutil.rmtree(folder)
    root = parsed(write_comparison([runs[0], empty, runs[2]], tmp_path / "comparison.html"))
    assert "nan" not in words(root)
    methods, single = find(root, "table")
    assert "(2 of 3 seeds)" in words(find(methods, "tr")[1])
    assert "none yet" in words(find(single, "tr")[2])
    for figure in find(root, "figure", class_="chart"):  # those that have strategies go on
        (line,) = [element for element in figure.iter() if element.tag.endswith("}polyline")]
        assert len(line.get("points", "").split()) >= 3


def test_who_did_best_is_said(runs: list[Path], tmp_path: Path) -> None:
    root = parsed(write_comparison(runs, tmp_path / "comparison.html"))
    assert [read_run(run).distinct for run in runs] == [2] * 5
    (lead,) = find(root, "p", class_="lead")
    labels = ["rspo, measure.alpha 0.5", "rspo, measure.alpha 0.75", "pg"]
    level = [f"{name} (2)" for name in labels]
    assert words(lead).startswith(
        "On average over seeds, no method stands out in distinct strategies: "
        f"{level[0]}, {level[1]} and {level[2]}, and no method stands out in the best return: "
    )
    commands = words(find(find(root, "details")[0], "code")[0])
    assert commands.startswith(f"# {runs[0]} # from Python")
    assert commands.count("rspo.discover(") == 5


def test_a_method_leads_only_where_the_seeds_tell_it_from_the_others(
    runs: list[Path], tmp_path: Path
) -> None:
    """Three seeds of one method against two of another, whose returns are made up."""
    others = [
        make_run(tmp_path / f"other{seed}", Undrawn(), 3, seed=seed, measure={"alpha": 0.75})
        for seed in (0, 1)
    ]
    mine = [shutil.copytree(run, tmp_path / run.name) for run in runs[:3]]

    def said(*returns: float) -> str:
        for run, value in zip([*mine, *others], returns, strict=True):
            for index in range(3):
                with rewritten(run / f"strategies/00{index}/strategy.json") as record:
                    record["evaluation"]["return_mean"] = value
        page = write_comparison([*mine, *others], tmp_path / "comparison.html")
        return words(find(parsed(page), "p", class_="lead")[0])

    assert "rspo, measure.alpha 0.5 (2) leads in the best return" in said(2.1, 2.0, 1.9, 1.0, 1.1)
    assert "no method stands out in the best return" in said(2.1, 2.0, 0.4, 1.0, 1.1)


@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=6),
    st.lists(st.floats(-10, 10), min_size=2, max_size=6),
)
def test_clearly_below_is_welchs_test(low: list[float], high: list[float]) -> None:
    assume(min(np.std(low), np.std(high)) > 1e-3)
    found = scipy.stats.ttest_ind(high, low, equal_var=False)
    if abs(found.pvalue - 0.05) > 1e-6:
        assert clearly_below(low, high) == (found.pvalue < 0.05 and found.statistic > 0)


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [([1.0], [2.0, 2.0], False), ([3.0, 3.0], [4.0, 4.0], True), ([4.0, 4.0], [4.0, 4.0], False)],
)
def test_single_seeds_say_nothing_and_equal_ones_everything(
    low: list[float], high: list[float], clear: bool
) -> None:
    assert clearly_below(low, high) == clear


def test_bands_stay_where_runs_were() -> None:
    """The interval of two seeds is twelve times as wide as what was measured."""
    curves = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 3.0, 9.0])]
    line = _line(Group("rspo", 0, []), curves, (0.0, 9.0))
    np.testing.assert_allclose(line.y, [0.0, 1.5, 2.5])
    assert line.low is not None
    assert line.high is not None
    np.testing.assert_allclose(line.low, 0.0)
    np.testing.assert_allclose(line.high, [0.0, 7.853, 8.853], atol=1e-3)


def test_policies_that_were_trained_together_are_one_curve(runs: list[Path]) -> None:
    """Instead of following one another, as if they had taken as many updates each."""
    run = read_run(runs[0])
    apart = _training_returns(run)
    each = np.array([[row["return"] for row in one.rows] for one in run.strategies])
    np.testing.assert_allclose(apart, each.ravel())
    for strategy in run.strategies:
        object.__setattr__(strategy, "round", 0)
    np.testing.assert_allclose(_training_returns(run), each.mean(0))
