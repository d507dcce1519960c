"""The tables and figures in results/ are those that the committed records make, to the byte, and
the documentation's tables of 4-Goals have their numbers."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rspo.bench import command
from rspo.bench.catalogue import BENCHES
from rspo.bench.coverage import spans
from rspo.bench.four_goals import GOALS, distinct_after
from rspo.bench.markdown import seeds_of
from rspo.bench.record import Record
from rspo.bench.tables import Row

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results"


def published() -> Iterator[tuple[str, int | None]]:
    """Every bench with a page in results/, and the steps in its name."""
    for name in BENCHES:
        for page in sorted(RESULTS.glob(f"{name}*.md")):
            found = re.fullmatch(r"(?:-steps(\d+))?", page.stem.removeprefix(name))
            if found is not None:
                yield name, int(found[1]) if found[1] else None


@pytest.mark.parametrize(("name", "steps"), list(published()))
def test_results_are_what_their_records_make(name: str, steps: int | None, tmp_path: Path) -> None:
    """Remade by `rspo bench NAME --tables`. The benches of a domain share records: a new one changes
    the tables of all of them."""
    for records in RESULTS.glob("*.jsonl"):
        (tmp_path / records.name).write_bytes(records.read_bytes())
    options = command.Options(steps=steps, tables=True, out=tmp_path, runs=tmp_path / "runs")
    for path in command.publish(BENCHES[name], options, lambda _: None):
        if path.suffix in (".md", ".csv", ".svg"):  # the others are not committed
            assert path.read_bytes() == (RESULTS / path.name).read_bytes(), path.name


GAME = BENCHES["four-goals-modes"]
METHODS = [row for row in GAME.rows if not row.variant]
NAMED = {"no-switch": "no switching: the soft objective"}  # in the comparison


@cache
def published_runs() -> dict[tuple[str, str], list[Record]]:
    """Those with tuned settings, in the order of their seeds, by environment and row."""
    records = command.recorded(GAME, command.Options(out=RESULTS), lambda _: None)
    return {(env, row.key): runs for env, row, runs in seeds_of(GAME, records)}


def runs_of(row: Row, env: str) -> list[Record]:
    return published_runs().get((env, row.key), [])


def landmarks(row: Row) -> dict[str, tuple[str, str, str]]:
    """Of each mode: the seeds of the bench that were run, and the landmarks found on each of them in
    four and in all policies."""
    found = {}
    for column in GAME.columns:
        counts = {
            run["seed"]: distinct_after(run)
            for run in runs_of(row, column.env)
            if run["seed"] in GAME.own_seeds(row, column.env)
        }
        in_four, in_all = ([count[i] for count in counts.values()] for i in (GOALS - 1, -1))
        shown = lambda numbers: " ".join(map(str, numbers)) or "-"
        found[column.title] = spans(counts), shown(in_four), shown(in_all)
    return found


@pytest.mark.parametrize(
    "row",
    [row for row in METHODS if row.method not in ("rspo", "no-switch")],
    ids=lambda r: r.method,
)
def test_a_methods_page_has_the_landmarks_of_its_records(row: Row) -> None:
    page = (ROOT / "docs" / "methods" / f"{row.method}.md").read_text()
    assert re.findall(r"^\| (?:easy|medium|hard), .*", page, re.M) == [
        f"| {mode}, {seeds} | {four} | {every} |"
        for mode, (seeds, four, every) in landmarks(row).items()
        if seeds
    ]


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.method)
def test_the_comparison_has_the_landmarks_of_the_records(row: Row) -> None:
    own = [f"{four} | {every}" for _, four, every in landmarks(row).values()]
    line = f"| {NAMED.get(row.method, row.title)} | {' | '.join(own)} |"
    assert line in (ROOT / "docs" / "results.md").read_text().splitlines()


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.method)
def test_the_readme_counts_the_seeds_with_all_landmarks(row: Row) -> None:
    """By four policies, by all, of all seeds."""
    cells = []
    for column in GAME.columns:
        runs = [distinct_after(run) for run in runs_of(row, column.env)]
        by_four, by_all = (sum(count[i] == GOALS for count in runs) for i in (GOALS - 1, -1))
        cells.append(f"{by_four}, {by_all} of {len(runs)}" if runs else "-")
    lines = (ROOT / "README.md").read_text().splitlines()
    named = {"no-switch": "the soft objective: no switching", "pg": "PPO with restarts (PG)"}
    assert f"| {named.get(row.method, row.title)} | {' | '.join(cells)} |" in lines
