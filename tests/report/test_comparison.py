"""Runs compared: seeds taken together, intervals as statistics has them, and nothing counted
twice."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from test_report import find, parsed, words

from pages import Undrawn, make_run
from product import assert_refused, here
from rspo.report import write_comparison
from rspo.report.comparison import interval
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
    returns = [max(s.evaluation["return_mean"] for s in read_run(run).strategies) for run in runs]
    mean = {
        "rspo, measure.alpha 0.5": np.mean(returns[:3]),
        "rspo, measure.alpha 0.75": returns[3],
        "pg": returns[4],
    }
    best = " and ".join(name for name, value in mean.items() if value == max(mean.values()))
    (lead,) = find(root, "p", class_="lead")
    assert words(lead) == (
        f"On average over seeds, most distinct strategies were found by {' and '.join(mean)} (2), "
        f"and the best return by {best} ({max(mean.values()):.4g})."
    )
    commands = words(find(find(root, "details")[0], "code")[0])
    assert commands.startswith(f"# {runs[0]} # from Python")
    assert commands.count("rspo.discover(") == 5
