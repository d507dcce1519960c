"""Line charts as numbers that the template puts into SVG: too little for a library to be worth its
weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

WIDTH, HEIGHT = 260, 120
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 8, 20
POINTS = 120  # a line has no more: from longer ones, means of as many updates each


@dataclass(frozen=True)
class Line:
    """Values over x, perhaps with a band around them. There are seven colours; after these the
    lines are dashed."""

    label: str
    colour: int
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    short: str = ""
    """What the key says instead of the label."""


@dataclass(frozen=True)
class Mark:
    """Something that happened at `x`; `colour` None: in the colour of the text."""

    label: str
    x: float
    colour: int | None = None


@dataclass(frozen=True)
class Chart:
    """A chart ready to draw; all lengths are those of the SVG."""

    title: str
    summary: str
    width: int
    height: int
    paths: list[tuple[str, int, str]]
    bands: list[tuple[str, int]]
    marks: list[tuple[float, int | None, str]]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    x_label: str
    key: list[tuple[str, int]] = field(default_factory=list)


def chart(
    title: str,
    lines: Sequence[Line],
    marks: Sequence[Mark] = (),
    y_range: tuple[float, float] | None = None,
    key: bool = False,
    x_label: str = "update",
    width: int = WIDTH,
    height: int = HEIGHT,
) -> Chart:
    """Lay out lines over a common x axis."""
    lines = [_thinned(line) for line in lines if len(line.y)]
    low, high = y_range or bounds(
        [value for line in lines for value in (line.y, line.low, line.high)]
    )
    ticks = nice_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    most = max((float(line.x[-1]) for line in lines), default=1.0)
    least = min((float(line.x[0]) for line in lines), default=0.0)
    x = lambda value: round(
        LEFT + (value - least) / max(most - least, 1e-9) * (width - LEFT - RIGHT), 1
    )
    y = lambda value: round(TOP + (high - value) / (high - low) * (height - TOP - BOTTOM), 1)
    points = lambda xs, ys: " ".join(
        f"{x(a):g},{y(b):g}" for a, b in zip(xs, ys, strict=True) if math.isfinite(b)
    )
    bands = [
        (points([*line.x, *line.x[::-1]], [*line.high, *line.low[::-1]]), line.colour)
        for line in lines
        if line.low is not None and line.high is not None
    ]
    return Chart(
        title=title,
        summary=_summary(title, lines, marks),
        width=width,
        height=height,
        paths=[(points(line.x, line.y), line.colour, line.label) for line in lines],
        bands=bands,
        marks=[(x(mark.x), mark.colour, mark.label) for mark in marks],
        x_ticks=[(x(value), f"{value:g}") for value in (least, most)],
        y_ticks=[(y(value), number(value)) for value in ticks],
        x_label=x_label,
        key=[(line.short or line.label, line.colour) for line in lines] if key else [],
    )


@dataclass(frozen=True)
class Bars:
    """A histogram ready to draw in a box of `len(cells)` by 1; each bar has its height and what it
    says."""

    title: str
    summary: str
    cells: list[tuple[float, str]]
    ends: tuple[str, str]


def bars(title: str, shares: np.ndarray, places: Sequence[str], ends: tuple[str, str]) -> Bars:
    """One bar a share, the largest as high as there is room; `ends` is what to write below the
    first and the last."""
    most = int(shares.argmax())
    top = float(shares[most]) or 1.0
    cells = [
        (round(float(share) / top, 3), f"{title} {place}: {share:.0%}")
        for share, place in zip(shares, places, strict=True)
    ]
    return Bars(title, f"{title}: most often {places[most]}, {shares[most]:.0%}", cells, ends)


def bounds(values: Sequence[np.ndarray | None]) -> tuple[float, float]:
    """The range of all finite values, with 0 in it where that is near, and never empty."""
    known = [np.asarray(value, float)[np.isfinite(value)] for value in values if value is not None]
    every = np.concatenate(known) if known else np.zeros(0)
    if not every.size:
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    if 0 < low < high:
        low = 0.0
    if high - low <= 1e-8 * max(
        abs(low), abs(high)
    ):  # the same, but for rounding: no axis could tell them apart
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high) if low < high else (0.0, 1.0)


def nice_ticks(low: float, high: float) -> list[float]:
    """Two to four round numbers from just below `low` to just above `high`."""
    step = 10.0 ** math.floor(math.log10(high - low))
    for factor in (0.5, 1, 2, 5, 10):
        first, last = (
            math.floor(low / (step * factor) + 1e-9),
            math.ceil(high / (step * factor) - 1e-9),
        )
        if last - first <= 3:
            break
    return [round(i * step * factor, 12) for i in range(first, last + 1)]


def fixed(value: float, beside: float | None = None) -> str:
    """A return, to three places, to one from 100 on; a spread as exactly as what it stands
    `beside`."""
    places = 3 if abs(value if beside is None else beside) < 100 else 1
    return f"{value:.{places}f}".replace("-", "\N{MINUS SIGN}")


def number(value: float) -> str:
    """Anything else, to four digits, or whole."""
    text = f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return text.replace("e+0", "e").replace("e-0", "e-").replace("-", "\N{MINUS SIGN}")


def _thinned(line: Line) -> Line:
    """Means of equally many neighbours, the last ones of perhaps fewer."""
    size = -(-len(line.y) // POINTS)
    mean = lambda a: np.array([np.mean(a[i : i + size]) for i in range(0, len(a), size)])
    # The ends keep their place on the axis.
    x = np.linspace(line.x[0], line.x[-1], -(-len(line.x) // size)) if size > 1 else line.x
    low, high = (None if band is None else mean(np.asarray(band)) for band in (line.low, line.high))
    return Line(line.label, line.colour, x, mean(np.asarray(line.y, float)), low, high, line.short)


def _summary(title: str, lines: Sequence[Line], marks: Sequence[Mark]) -> str:
    """What a screen reader says."""
    said = [
        f"{line.label}: from {number(float(line.y[0]))} to {number(float(line.y[-1]))}, "
        f"between {number(float(np.nanmin(line.y)))} and {number(float(np.nanmax(line.y)))}"
        for line in lines
        if np.isfinite(line.y).any()
    ]
    return f"{title}. " + "; ".join(said + [mark.label for mark in marks]) + "."
