"""Line charts as SVG, for the report's pages and, by `charts.lines`, for files of their own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rspo.core import svg
from rspo.core.axes import bounds, nice_ticks, number, tick

WIDTH, HEIGHT = 260, 120
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 8, 20
POINTS = 120  # per line; longer ones are averaged over groups of updates


@dataclass(frozen=True)
class Line:
    """Values over x with an optional band. There are seven colours; further lines are dashed."""

    label: str
    colour: int
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    short: str = ""
    """Text in the legend instead of the label."""


@dataclass(frozen=True)
class Mark:
    """Something that happened at `x`; `colour` None: in the colour of the text."""

    label: str
    x: float
    colour: int | None = None


@dataclass(frozen=True)
class Chart:
    """Lines over a common axis, drawn. `drawing` has the classes grid, band, mark, line and c0 to
    c6, whose colours the page chooses; the legend has a sample and a label for each line."""

    title: str
    summary: str
    width: int
    height: int
    drawing: str
    key: list[tuple[str, str]]
    zero: bool
    """Whether all values are 0."""


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
    plot = _Plot(lines, y_range, width, height)
    parts = [
        plot.grid(),
        svg.text(x_label, (width + 30) / 2, height - 5, text_anchor="middle"),
        *(plot.band(line) for line in lines),
        *(plot.mark(mark) for mark in marks),
        *(plot.line(line) for line in lines),
    ]
    samples = {line.short or line.label: sample(line.colour) for line in lines} if key else {}
    return Chart(
        title,
        _summary(title, lines, marks),
        width,
        height,
        "\n".join(part for part in parts if part),
        [(drawn, label) for label, drawn in samples.items()],
        zero=not any(line.y.any() for line in lines),
    )


class _Plot:
    """Where values lie in the picture."""

    def __init__(
        self,
        lines: Sequence[Line],
        y_range: tuple[float, float] | None,
        width: int,
        height: int,
    ) -> None:
        low, high = y_range or bounds(
            [value for line in lines for value in (line.y, line.low, line.high)]
        )
        self.ticks = nice_ticks(low, high)
        self.low, self.high = min(low, self.ticks[0]), max(high, self.ticks[-1])
        self.least = min((float(line.x[0]) for line in lines), default=0.0)
        self.most = max((float(line.x[-1]) for line in lines), default=1.0)
        self.width, self.height = width, height

    def x(self, value: float) -> float:
        share = (value - self.least) / max(self.most - self.least, 1e-9)
        return round(LEFT + share * (self.width - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (self.high - value) / (self.high - self.low)
        return round(TOP + share * (self.height - TOP - BOTTOM), 1)

    def places(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        return svg.points((self.x(a), self.y(b)) for a, b in zip(xs, ys, strict=True))

    def grid(self) -> str:
        """A line at each tick, and the two ends of the x axis."""
        parts = []
        for value in self.ticks:
            y = self.y(value)
            rule = {"x1": LEFT, "x2": self.width - RIGHT, "y1": y, "y2": y}
            parts.append(svg.element("line", class_="grid", **rule))
            parts.append(svg.text(tick(value), LEFT - 4, y + 3, text_anchor="end"))
        ends = {self.least: "start"} | ({self.most: "end"} if self.most > self.least else {})
        for value, anchor in ends.items():
            parts.append(svg.text(f"{value:g}", self.x(value), self.height - 5, text_anchor=anchor))
        return "\n".join(parts)

    def band(self, line: Line) -> str:
        if line.low is None or line.high is None:
            return ""
        around = self.places([*line.x, *line.x[::-1]], [*line.high, *line.low[::-1]])
        return svg.element(
            "polygon",
            class_=f"band {svg.colour_class(line.colour)}",
            points=around,
            fill="currentColor",
        )

    def mark(self, mark: Mark) -> str:
        x = self.x(mark.x)
        return svg.element(
            "line",
            svg.title(mark.label),
            class_=f"mark {'' if mark.colour is None else svg.colour_class(mark.colour)}".strip(),
            x1=x,
            x2=x,
            y1=TOP,
            y2=self.height - BOTTOM,
            stroke="currentColor",
        )

    def line(self, line: Line) -> str:
        if len(line.y) == 1:  # a polyline of one point shows nothing
            return self.dot(line) if np.isfinite(line.y[0]) else ""
        return svg.element(
            "polyline",
            svg.title(line.label),
            points=self.places(line.x, line.y),
            **_pen(line.colour),
        )

    def dot(self, line: Line) -> str:
        return svg.element(
            "circle",
            svg.title(line.label),
            class_=svg.colour_class(line.colour),
            cx=self.x(line.x[0]),
            cy=self.y(line.y[0]),
            r=3,
            fill="currentColor",
        )


def sample(colour: int) -> str:
    """A short piece of a line for the legend: 18 wide, 8 high."""
    return svg.element("line", x1=0, x2=18, y1=4, y2=4, **_pen(colour))


def _pen(colour: int) -> dict[str, str | None]:
    return {
        "class_": f"line {svg.colour_class(colour)}",
        "stroke": "currentColor",
        "stroke_dasharray": svg.dashes(colour),
    }


def _thinned(line: Line) -> Line:
    """Means over groups of neighbours, the last group perhaps smaller."""
    size = -(-len(line.y) // POINTS)
    mean = lambda a: np.array([np.mean(a[i : i + size]) for i in range(0, len(a), size)])
    # The ends keep their place on the axis.
    x = np.linspace(line.x[0], line.x[-1], -(-len(line.x) // size)) if size > 1 else line.x
    low, high = (None if band is None else mean(np.asarray(band)) for band in (line.low, line.high))
    return Line(line.label, line.colour, x, mean(np.asarray(line.y, float)), low, high, line.short)


def _summary(title: str, lines: Sequence[Line], marks: Sequence[Mark]) -> str:
    """Text for screen readers."""
    said = [
        f"{line.label}: from {number(float(line.y[0]))} to {number(float(line.y[-1]))}, "
        f"between {number(float(np.nanmin(line.y)))} and {number(float(np.nanmax(line.y)))}"
        for line in lines
        if np.isfinite(line.y).any()
    ]
    return f"{title}. " + "; ".join(said + [mark.label for mark in marks]) + "."
