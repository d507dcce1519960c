"""The figures of the benches as SVG."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rspo.bench import statistics
from rspo.bench.record import Record
from rspo.bench.results import PAPER, TUNED, cells, scores, settings_of
from rspo.bench.tables import Bench
from rspo.core import charts
from rspo.core.grouped_bars import Bar, grouped_bars
from rspo.core.lines import Line

STEPS = 50  # places on the axis of a learning curve
THRESHOLDS = 101  # of a performance profile


def bars(bench: Bench, records: Sequence[Record]) -> str:
    """One group of bars per column, one bar per method, with 95 % intervals; one panel per
    table."""
    panels: dict[str, dict[str, dict[str, Bar]]] = {}
    for column in bench.columns:
        panels.setdefault(column.group, {})[column.title] = {}
    for made in cells(bench, records):
        group = panels[made.column.group][made.column.title]
        group[title(made.row.name, made.settings)] = Bar(made.mean, made.interval)
    return grouped_bars(heading(bench, records), panels)


def curves(
    curve: Callable[[Record], Mapping[str, Sequence[float]] | None], y: str
) -> Callable[[Bench, Sequence[Record]], str]:
    """A figure of one line per method over environment steps: the mean over seeds of `y` in what
    `curve` returns, and its 95 % interval."""

    def draw(bench: Bench, records: Sequence[Record]) -> str:
        lines: list[Line] = []
        for row in bench.rows:
            for of in (TUNED, PAPER):
                found = [
                    made
                    for record in records
                    if row.made(record) and settings_of(record) == of
                    if (made := curve(record)) is not None and y in made
                ]
                if found:
                    name = title(row.name, of)
                    lines.append(_mean_line(name, len(lines), found, y))
        return charts.lines(heading(bench, records), lines, x_label="million environment steps")

    return draw


def _mean_line(
    name: str, colour: int, found: Sequence[Mapping[str, Sequence[float]]], y: str
) -> Line:
    """Over the steps that all seeds have."""
    least = min(float(curve["steps"][-1]) for curve in found)
    first = max(float(curve["steps"][0]) for curve in found)
    x = np.linspace(first, max(least, first), STEPS)
    values = np.array([np.interp(x, curve["steps"], curve[y]) for curve in found])
    mean = values.mean(0)
    if len(values) < 2:
        return Line(name, colour, x / 1e6, mean)
    place = np.arange(len(values), dtype=float)
    low, high = statistics.bootstrap(
        [place], lambda drawn: values[np.asarray(drawn[0], int)].mean(0), resamples=500
    )
    return Line(name, colour, x / 1e6, mean, low, high)


def profiles(bench: Bench, records: Sequence[Record]) -> str | None:
    """The share of runs above every score, as rliable draws it, of methods that have all columns;
    None if there are none."""
    thresholds = np.linspace(0.0, 1.0, THRESHOLDS)
    lines: list[Line] = []
    for row, of, own in scores(bench, records):
        share = lambda drawn: statistics.performance_profile(drawn, thresholds)
        # Nobody knows how much a single seed varies: no band, as there is no interval in the table.
        several = min(map(len, own)) > 1
        band = statistics.bootstrap(own, share, resamples=500) if several else (None, None)
        lines.append(Line(title(row.name, of), len(lines), thresholds, share(own), *band))
    if not lines:
        return None
    above = f"{heading(bench, records)}: share of runs above a score"
    label = f"score, as a share of {bench.ceiling:g}"
    return charts.lines(above, lines, y_range=(0.0, 1.0), x_label=label)


def title(name: str, settings: str) -> str:
    """The title of a row."""
    return f"{name}, paper's settings" if settings == PAPER else name


def heading(bench: Bench, records: Sequence[Record]) -> str:
    quick = any(record["quick"] for record in records)
    return bench.title + (" (quick version: numbers without meaning)" if quick else "")
