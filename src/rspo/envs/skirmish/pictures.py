"""A picture of a strategy: the paths of the units over the terrain, in a few parts of one
episode."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rspo.core import charts, svg
from rspo.core.types import Trajectory
from rspo.envs.base import at
from rspo.envs.skirmish import drawing
from rspo.envs.skirmish.maps import Map
from rspo.envs.skirmish.state import won

PARTS = 4  # of an episode, one panel each
SIDE = 230.0  # width of a panel
ALLIES = (svg.COLOURS[0], svg.COLOURS[1])
ENEMY, DEAD, HEALTH, SHIELD = "#7a2d5a", "#c9a3bb", "#00805a", "#3f8fd2"
LEGEND = (
    "Rings: where paths begin; dots: where it fired; purple: enemies; crosses: the dead; bars: hit "
    "points (green), shields (blue)."
)
FILLS = {"ground": "#eee9dc", "plateau": "#d6cbb0", "ramp": "#e3dac5", "cliff": "#8a7f6a"}


def strip(game: Map, title: str, trajectory: Trajectory) -> str:
    """The first episode that was won, or else the first; each panel shows the positions at the end
    of its part, with the paths since its start."""
    n = _shown(trajectory)
    steps = max(int((trajectory.live & trajectory.first)[:, n].sum()), 1)
    moments = np.linspace(0, steps, PARTS + 1).round().astype(int)
    panels, frame = [], _frame(game)
    height = frame.height * frame.unit
    for i, (begin, end) in enumerate(pairwise(moments.tolist())):
        words = f"steps {begin} to {end}"
        inside = "".join(_panel(game, trajectory, n, begin, end))
        caption = svg.text(words, 0, height + 14, class_="quiet")
        panels.append(svg.group(i * (SIDE + charts.GAP), 0, inside, caption))
    panels.append(svg.text(LEGEND, 0, height + 34, class_="quiet"))
    return charts.page(title, PARTS * (SIDE + charts.GAP), height + 38, "".join(panels))


def _shown(trajectory: Trajectory) -> int:
    """The number of the episode to show."""
    steps = (trajectory.live & trajectory.first).sum(0)
    ends = [bool(won(at(trajectory.state, int(t) - 1, n))) for n, t in enumerate(steps)]
    return ends.index(True) if any(ends) else 0


def _state(trajectory: Trajectory, t: int, n: int) -> Any:
    return at(trajectory.start, n) if t == 0 else at(trajectory.state, t - 1, n)


def _panel(game: Map, trajectory: Trajectory, n: int, begin: int, end: int) -> Iterator[str]:
    states = [_state(trajectory, t, n) for t in range(begin, end + 1)]
    yield from _terrain(game)
    yield from _enemies(game, states)
    for i in range(game.allies.count):
        yield from _ally(game, states, i)


class _Frame(NamedTuple):
    """The part of the map that is drawn: everything with ground, in cells."""

    left: float
    top: float
    width: float
    height: float

    @property
    def unit(self) -> float:
        """The size of a cell in the picture."""
        return SIDE / self.width

    def point(self, x: float, y: float) -> tuple[float, float]:
        return (float(x) - self.left) * self.unit, (self.top - float(y)) * self.unit


def _frame(game: Map) -> _Frame:
    cells = np.array([list(row) for row in game.ground])[::-1] != "#"
    y, x = (np.flatnonzero(cells.any(axis)) for axis in (1, 0))
    return _Frame(x[0] - 1, y[-1] + 3, x[-1] - x[0] + 3, y[-1] - y[0] + 5)


def _terrain(game: Map) -> Iterator[str]:
    frame = _frame(game)
    height = frame.height * frame.unit
    yield svg.element("rect", width=SIDE, height=height, fill="#ffffff", stroke="#bbbbbb")
    top = float(len(game.ground))
    for row in game.ground:
        for first, last, kind in drawing.runs(row):
            if kind in drawing.GROUNDS:
                x, y = frame.point(first, top)
                box = {"x": x, "y": y, "width": (last - first) * frame.unit}
                fill = FILLS[drawing.GROUNDS[kind]]
                yield svg.element("rect", **box, height=frame.unit + 0.3, fill=fill)
        top -= 1


def _enemies(game: Map, states: list[Any]) -> Iterator[str]:
    """Crosses where they fell, discs where they are, and the paths of a few."""
    last, frame = states[-1].enemies, _frame(game)
    for j in range(game.enemies.count):
        alive = [state for state in states if state.enemies.hp[j] > 0]
        if not alive:
            continue
        way = [frame.point(s.enemies.x[j], s.enemies.y[j]) for s in alive]
        if game.enemies.count <= drawing.BARS:
            yield _way(way, ENEMY, 1.2)
        if last.hp[j] > 0:
            yield svg.disc(*way[-1], game.enemies.unit.radius * frame.unit, fill=ENEMY)
            if game.enemies.count <= drawing.BARS:
                yield from _health(game.enemies.unit, last, j, way[-1], frame.unit)
        else:
            yield _cross(*way[-1])


def _ally(game: Map, states: list[Any], i: int) -> Iterator[str]:
    """Its path, dots where it shot from, and the unit with its number and health."""
    alive = [state for state in states if state.allies.hp[i] > 0]
    if not alive:
        return
    frame, colour = _frame(game), ALLIES[i % len(ALLIES)]
    way = [frame.point(s.allies.x[i], s.allies.y[i]) for s in alive]
    yield _way(way, colour, 2.4)
    yield svg.disc(*way[0], 2.5, fill="#ffffff", stroke=colour, stroke_width=1.5)
    for point, state in zip(way, alive, strict=True):
        if state.allies.shot[i] >= 0:
            yield svg.disc(*point, 1.6, fill="#222222")
    if states[-1].allies.hp[i] <= 0:
        yield _cross(*way[-1])
        return
    x, y = way[-1]
    radius = max(game.allies.unit.radius * frame.unit, 5.0)
    yield svg.disc(x, y, radius, fill=colour, stroke="#ffffff")
    number = {"text_anchor": "middle", "fill": "#ffffff", "style": "font-size:9px;fill:#fff"}
    yield svg.text(str(i + 1), x, y + 3, **number)
    yield from _health(game.allies.unit, states[-1].allies, i, way[-1], frame.unit)


def _health(unit: Any, team: Any, i: int, at_: tuple[float, float], scale: float) -> Iterator[str]:
    width, top = 16.0, at_[1] - max(unit.radius * scale, 5.0) - 4.0
    bars = [(team.hp[i] / unit.hp, HEALTH)]
    if unit.shield:
        bars.append((team.shield[i] / unit.shield, SHIELD))
    for k, (share, colour) in enumerate(bars):
        box = {"x": at_[0] - width / 2, "y": top - 4.0 * k, "height": 2.5}
        yield svg.element("rect", **box, width=width, fill="#ffffff", stroke="#666666")
        yield svg.element("rect", **box, width=width * float(share), fill=colour)


def _way(points: list[tuple[float, float]], colour: str, width: float) -> str:
    return svg.element(
        "polyline",
        points=svg.points(points),
        fill="none",
        stroke=colour,
        stroke_width=width,
        stroke_linejoin="round",
        opacity=0.75,
    )


def _cross(x: float, y: float) -> str:
    size = 2.2
    lines = (
        f"M{x - size:.1f} {y - size:.1f}l{2 * size} {2 * size}m0 {-2 * size}l{-2 * size} {2 * size}"
    )
    return svg.element("path", d=lines, stroke=DEAD, stroke_width=1.2, fill="none")
