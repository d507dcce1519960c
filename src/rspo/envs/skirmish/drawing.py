"""A skirmish as shapes, for terminals, films and the report: terrain, units with their health and
shields, shots and what they burn."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from rspo.core.types import Shape
from rspo.envs.skirmish.maps import Map, Side

GROUNDS = {".": "ground", "=": "plateau", "/": "ramp", "x": "cliff"}  # roles
BARS = 4  # larger teams have no health bars, which would hide everything else
BAR = 0.012  # half the thickness of a bar, in the drawing
NOWHERE = float("nan")


def place(game: Map, x: float, y: float) -> tuple[float, float]:
    """In the square [-1, 1]^2."""
    width, height = len(game.ground[0]), len(game.ground)
    return 2 * float(x) / width - 1, 2 * float(y) / height - 1


def cell(game: Map) -> float:
    """The width of a cell in the drawing."""
    return 2 / len(game.ground[0])


def backdrop(game: Map) -> list[Shape]:
    """Bands of identical rows, as strips of one kind of ground each."""
    shapes, top, size = [], len(game.ground), cell(game)
    for row, equal in groupby(game.ground):
        height = len(list(equal))
        middle = top - height / 2
        for first, last, kind in runs(row):
            if kind in GROUNDS:
                ends = place(game, first, middle), place(game, last, middle)
                shapes.append(Shape(GROUNDS[kind], *ends[0], size * height / 2, end=ends[1]))
        top -= height
    return shapes


def runs(row: str) -> Iterator[tuple[int, int, str]]:
    """Runs of cells of one kind: from, up to, and the kind."""
    at = 0
    for kind, run in groupby(row):
        length = len(list(run))
        yield at, at + length, kind
        at += length


def scene(game: Map, state: Any) -> list[Shape]:
    """Each thing keeps its index over time; what is absent has no position."""
    allies, enemies = state.allies, state.enemies
    shapes = [
        *_burnt(game, state),
        *_units(game, game.enemies, enemies, "enemy"),
        *_units(game, game.allies, allies, "agent"),
    ]
    for side, team in ((game.allies, allies), (game.enemies, enemies)):
        if side.count <= BARS:
            shapes += _bars(game, side, team)
    return [*shapes, *_shots(game, state)]


def _units(game: Map, side: Side, team: Any, role: str) -> list[Shape]:
    """Dead agents stay as dots where they fell, dead enemies are gone."""
    size, shapes = side.unit.radius * cell(game), []
    for i, (x, y, hp) in enumerate(zip(team.x, team.y, team.hp, strict=True)):
        label = str(i + 1) if role == "agent" and hp > 0 else ""
        if hp > 0:
            shapes.append(Shape(role, *place(game, x, y), size, label))
        elif role == "agent":
            shapes.append(Shape(role, *place(game, x, y), size / 4))
        else:
            shapes.append(Shape(role, NOWHERE, NOWHERE, size))
    return shapes


def _bars(game: Map, side: Side, team: Any) -> list[Shape]:
    """Above each unit its hit points, and above these its shields."""
    unit, shapes = side.unit, []
    half = max(unit.radius, 0.5)
    kinds = [("health", team.hp, unit.hp, 0.25)]
    if unit.shield:
        kinds.append(("shield", team.shield, unit.shield, 0.65))
    for role, values, most, above in kinds:
        for x, y, value in zip(team.x, team.y, values, strict=True):
            left = place(game, x - half, y + unit.radius + above)
            right = place(game, x - half + 2 * half * value / most, y + unit.radius + above)
            shown = value > 0
            shapes.append(Shape(role, *(left if shown else (NOWHERE, NOWHERE)), BAR, end=right))
    return shapes


def _targets(state: Any) -> list[tuple[float, float] | None]:
    """Where each ally shot in the last step."""
    return [
        (float(state.enemies.x[shot]), float(state.enemies.y[shot])) if shot >= 0 else None
        for shot in state.allies.shot
    ]


def _shots(game: Map, state: Any) -> list[Shape]:
    return [
        Shape("shot", *place(game, x, y), BAR / 2, end=place(game, *target))
        if target
        else Shape("shot", NOWHERE, NOWHERE, BAR / 2)
        for x, y, target in zip(state.allies.x, state.allies.y, _targets(state), strict=True)
    ]


def _burnt(game: Map, state: Any) -> list[Shape]:
    """The line across the target that a lance burns."""
    lance = game.allies.unit.lance
    if lance is None:
        return []
    reach = lance.thickness + game.enemies.unit.radius
    shapes = []
    for x, y, target in zip(state.allies.x, state.allies.y, _targets(state), strict=True):
        if target is None:
            shapes.append(Shape("splash", NOWHERE, NOWHERE, reach * cell(game)))
            continue
        ahead = np.array([target[0] - x, target[1] - y])
        ahead /= max(float(np.hypot(*ahead)), 1e-6)
        across = lance.half_length * np.array([-ahead[1], ahead[0]])
        ends = [place(game, *(np.array(target) + sign * across)) for sign in (-1, 1)]
        shapes.append(Shape("splash", *ends[0], reach * cell(game), end=ends[1]))
    return shapes
