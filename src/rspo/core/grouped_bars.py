"""Bars side by side in groups, with intervals, as SVG: the kind of figure that compares methods."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rspo.core import charts, svg
from rspo.core.axes import bounds, nice_ticks, number

HEIGHT, THICK, SPACE, LEFT, TOP = 200, 16, 28, 46, 20
PANEL = HEIGHT + 50


class Bar(NamedTuple):
    """A value with an optional interval."""

    value: float
    interval: tuple[float, float] | None = None


Groups = Mapping[str, Mapping[str, Bar]]


def grouped_bars(title: str, panels: Mapping[str, Groups]) -> str:
    """One group of bars per entry of a panel, panels stacked vertically; a name has the same
    colour everywhere, and an entry in the legend."""
    every = [group for groups in panels.values() for group in groups.values()]
    names = list(dict.fromkeys(name for group in every for name in group))
    labels = [len(label) * charts.CHARACTER for groups in panels.values() for label in groups]
    wide = max([len(names) * THICK, *labels]) + SPACE
    width = wide * max(len(groups) for groups in panels.values())
    parts = []
    for i, (name, groups) in enumerate(panels.items()):
        heading = svg.text(name, 0, -8, class_="quiet")
        parts.append(svg.group(0, i * PANEL, heading, *_panel(groups, names, wide)))
    for i, name in enumerate(names):
        square = svg.element("rect", width=12, height=12, **_look(i))
        parts.append(svg.group(width + 16, 20 * i, square, svg.text(name, 18, 10)))
    key = 40 + charts.CHARACTER * max(map(len, names), default=0)
    tall = max(len(panels) * PANEL, 20 * len(names)) + TOP
    return charts.page(title, LEFT + width + key, tall, svg.group(LEFT, TOP, *parts))


def _panel(groups: Groups, names: Sequence[str], wide: float) -> list[str]:
    drawn = [bar for group in groups.values() for bar in group.values()]
    ends = np.array([0.0, *(v for bar in drawn for v in (bar.value, *(bar.interval or ())))])
    ticks = nice_ticks(*bounds([ends]))
    low, high = ticks[0], ticks[-1]
    y = lambda value: HEIGHT * (high - value) / (high - low)
    parts = []
    for value in ticks:
        rule = {"x1": 0, "x2": len(groups) * wide, "y1": y(value), "y2": y(value)}
        parts.append(svg.element("line", class_="grid", **rule))
        parts.append(svg.text(number(value), -6, y(value) + 4, text_anchor="end"))
    for g, (label, group) in enumerate(groups.items()):
        middle = (g + 0.5) * wide
        for i, name in enumerate(names):
            if name in group:
                x = middle + (i - len(names) / 2) * THICK
                parts.append(_bar(x, y, group[name], i, f"{label}, {name}"))
        parts.append(svg.text(label, middle, HEIGHT + 16, text_anchor="middle"))
    return parts


def _bar(x: float, y: Callable[[float], float], bar: Bar, colour: int, said: str) -> str:
    top, base = sorted((y(bar.value), y(0.0)))
    tall = max(base - top, 1.0)  # a value of 0 is a line on the axis
    drawn = svg.element(
        "rect",
        svg.title(f"{said}: {charts.short(bar.value)}"),
        x=x + 1,
        y=top if bar.value < 0 else base - tall,
        width=THICK - 2,
        height=tall,
        **_look(colour),
    )
    if bar.interval is None:
        return drawn
    middle, low, high = (svg.length(v) for v in (x + THICK / 2, *map(y, bar.interval)))
    left = svg.length(x + THICK / 2 - 3)
    whisker = f"M{middle} {low}V{high}M{left} {low}h6M{left} {high}h6"
    return drawn + svg.element("path", class_="frame", d=whisker)


def _look(colour: int) -> dict[str, str | float | None]:
    """From the eighth on, the colours repeat in a paler shade; from the fifteenth on, as
    outlines."""
    turn = min(colour // len(svg.COLOURS), 2)
    return {
        "class_": svg.colour_class(colour),
        "fill": "currentColor",
        "fill_opacity": (None, 0.45, 0.1)[turn],
        "stroke": (None, None, "currentColor")[turn],
    }
