"""The maps: who fights whom, where, and for how long. A map is only data."""

from dataclasses import dataclass
from typing import Literal

from rspo.envs.skirmish.units import UNITS, Unit

Ground = tuple[str, ...]
"""Cells from the top row to the bottom one: "." low ground, "=" plateau, "/" ramp, "x" cliff, "#"
nothing."""


@dataclass(frozen=True)
class Side:
    """One team: units of one kind."""

    kind: str
    places: tuple[tuple[float, float], ...]
    """Where each of them starts, before jitter."""

    @property
    def unit(self) -> Unit:
        return UNITS[self.kind]

    @property
    def count(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class Map:
    name: str
    limit: int
    """Steps until the game is over."""
    allies: Side
    enemies: Side
    order: Literal["point", "units"]
    """What the enemies are ordered to attack: a point between the first and the last ally's start,
    or the allies, wherever they are."""
    ground: Ground


def _rows(*bands: tuple[int, str]) -> Ground:
    """Bands of identical rows, from the top; each is given as half of a symmetric row."""
    return tuple(half + half[::-1] for count, half in bands for _ in range(count))


def _block(
    x: float, y: float, columns: int, rows: int, apart: float
) -> tuple[tuple[float, float], ...]:
    """Positions in rows around a centre, with this spacing."""
    return tuple(
        (x + apart * (i - (columns - 1) / 2), y + apart * (j - (rows - 1) / 2))
        for j in range(rows)
        for i in range(columns)
    )


MAPS = {
    game.name: game
    for game in (
        Map(
            "2m_vs_1z",
            limit=150,
            allies=Side("marine", ((13.0, 12.0), (19.0, 12.0))),
            enemies=Side("zealot", ((16.0, 19.0),)),
            order="point",
            ground=_rows(
                (6, 16 * "#"),
                (2, 10 * "#" + 6 * "."),
                (2, 8 * "#" + 8 * "."),
                (12, 6 * "#" + 10 * "."),
                (2, 8 * "#" + 8 * "."),
                (2, 10 * "#" + 6 * "."),
                (6, 16 * "#"),
            ),
        ),
        Map(
            "2c_vs_64zg",
            limit=400,
            allies=Side("colossus", _block(16.0, 16.0, 2, 1, 1.5)),
            enemies=Side("zergling", _block(16.0, 9.0, 8, 8, 0.75)),
            order="units",
            ground=_rows(
                (12, 16 * "#"),
                (2, 8 * "#" + 8 * "="),
                (2, "##..///" + 9 * "="),
                (2, "....///" + 9 * "="),
                (2, "...." + 12 * "x"),
                (2, 16 * "."),
                (2, 2 * "#" + 14 * "."),
                (2, 4 * "#" + 12 * "."),
                (6, 16 * "#"),
            ),
        ),
        Map(
            "3m",
            limit=60,
            allies=Side("marine", _block(9.0, 16.0, 1, 3, 1.0)),
            enemies=Side("marine", _block(23.0, 16.0, 1, 3, 1.0)),
            order="point",
            ground=_rows((8, 16 * "#"), (16, 16 * "."), (8, 16 * "#")),
        ),
    )
}
