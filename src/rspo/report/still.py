"""A strategy's still picture, in its own colour: the paths of its agents, key frames of its limbs,
or lanes of observations and actions. It is visible before any script runs, and in print."""

import base64
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rspo.core import svg
from rspo.core.roles import STRIPS
from rspo.report.reading import Found
from rspo.text import shorten

SIDE = 280  # of the picture, and of all lengths below
JUMP = 0.5  # a longer step between two moments is a jump, not part of a path
FILMED = 3  # rendered frames per row, and rows
KEYS = 6  # frames, in two columns or in three
MARGIN = 0.06  # around them, in the plane
LANE, NAMED = 28, 90  # left margin of the lanes, without and with names
LANES = 10  # this many lanes are as high as the picture is wide
MOMENTS = 100  # of a lane
FLAT = (*STRIPS, "line", "health", "shield", "shot", "splash")  # have a length but are not limbs
OBSERVED, DONE = "o", "a"


@dataclass(frozen=True)
class Still:
    height: int
    drawing: str


def still(strategy: Found, extent: float, *, filmed: bool = False) -> Still | None:
    """The first recorded episode, in rendered frames if it is `filmed`; `extent` is half the side
    of the drawn square."""
    if not strategy.episodes or not strategy.episodes["episodes"]:
        return None
    arrays = {
        name.removeprefix("0."): array
        for name, array in strategy.arrays.items()
        if name.startswith("0.")
    }
    if filmed:
        facts = strategy.episodes["episodes"][0]["film"]
        return _moments(facts, arrays["film"].tobytes(), strategy.index)
    if "place" not in arrays:
        names = strategy.episodes.get("names") or {}
        lanes = [
            *_numbers(arrays["obs"], OBSERVED, names.get("obs", ())),
            *_numbers(arrays["action"], DONE, names.get("actions", ())),
        ]
        return _lanes(lanes, strategy.index, NAMED if names.get("obs") else LANE)
    scene = _Scene(strategy.episodes, arrays)
    limbs = any(role not in FLAT for role, _ in scene.limbs)
    parts = _keys(scene) if limbs else _ways(scene, extent)
    own = svg.element("g", *parts, class_=svg.colour_class(strategy.index))
    return Still(SIDE, own)


def film_id(index: int) -> str:
    """The element id of the frames of a strategy's first episode, which the page contains once."""
    return f"film-{index}"


def _moments(film: dict[str, int], data: bytes, index: int) -> Still:
    """Some rendered frames in rows, together as large as one frame of the animation."""
    width, height, number = film["width"], film["height"], film["pictures"]
    side, high = SIDE / FILMED, SIDE / FILMED * height / width
    whole = svg.element(
        "image",
        id=film_id(index),
        href=f"data:image/png;base64,{base64.b64encode(data).decode()}",
        width=width,
        height=height * number,
    )
    parts = [svg.element("defs", whole)]
    for n, moment in enumerate(np.linspace(0, number - 1, FILMED**2).round().astype(int).tolist()):
        across, down = n % FILMED * side, n // FILMED * high
        parts.append(
            svg.element(
                "svg",
                svg.element("use", href=f"#{film_id(index)}"),
                x=across,
                y=down,
                width=side,
                height=high,
                viewBox=f"0 {moment * height} {width} {height}",
            )
        )
        parts.append(
            svg.element("rect", x=across, y=down, width=side, height=high, class_="moment")
        )
    own = svg.element("g", *parts, class_=svg.colour_class(index))
    return Still(round(FILMED * high), own)


class _Scene:
    """The shapes of an episode, moment by moment."""

    def __init__(self, record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.unit, self.backdrop = record["unit"], record["backdrop"]
        self.kinds = record["episodes"][0]["kinds"]
        self.place = arrays["place"] / self.unit
        self.end = arrays["end"] / self.unit if "end" in arrays else self.place
        moments = len(self.place)
        self.size = np.broadcast_to(arrays["size"], (moments, self.place.shape[1])) / self.unit
        self.kind = np.broadcast_to(arrays["kind"], (moments, self.place.shape[1]))

    def role(self, moment: int, slot: int) -> tuple[str, str]:
        role, label = self.kinds[self.kind[moment, slot] - 1]
        return role, label

    @property
    def limbs(self) -> list[tuple[str, str]]:
        """Role and label of everything that ever has a length."""
        long = (self.place != self.end).any(-1)
        return [self.kinds[kind - 1] for kind in np.unique(self.kind[long]) if kind]

    def there(self, moment: int) -> list[int]:
        return [slot for slot in range(self.kind.shape[1]) if self.kind[moment, slot]]


Place = Callable[[Sequence[float]], tuple[float, float]]


def _ways(scene: _Scene, extent: float) -> Iterator[str]:
    """The surroundings at the start, the path of each agent (or of everything that moves, where
    there are none), and its end."""
    scale = SIDE / 2 / extent
    place: Place = lambda point: ((point[0] + extent) * scale, (extent - point[1]) * scale)
    yield from _backdrop(scene, place, scale)
    first, last = scene.there(0), len(scene.place) - 1
    agents = [slot for slot in first if scene.role(0, slot)[0] == "agent"]
    moving = agents or [slot for slot in first if np.ptp(scene.place[:, slot], axis=0).any()]
    for slot in first:
        role, label = scene.role(0, slot)
        if role == "enemy":
            at, radius = place(scene.place[0, slot]), scene.size[0, slot] * scale
            yield svg.disc(*at, radius, class_="enemy")
        elif slot not in moving and role not in FLAT:
            yield _landmark(role, label, place(scene.place[0, slot]), scene.size[0, slot] * scale)
    for rank, slot in enumerate(moving):
        dash = None if rank == 0 else "5 4"
        for way in _unbroken(scene.place[:, slot]):
            yield svg.element(
                "polyline", points=_points(place, way), class_="way", stroke_dasharray=dash
            )
        yield svg.disc(*place(scene.place[0, slot]), 3, class_="start")
        radius = max(scene.size[last, slot] * scale, 4.5)
        yield svg.disc(*place(scene.place[last, slot]), radius, class_="other" if rank else "own")


def _unbroken(way: np.ndarray) -> list[np.ndarray]:
    """The path split where it jumps."""
    steps = np.hypot(*np.diff(way, axis=0).T)
    pieces = np.split(way, np.flatnonzero(steps > JUMP) + 1)
    return [piece for piece in pieces if len(piece) > 1]


def _points(place: Place, way: np.ndarray) -> str:
    """Without repeated points."""
    places = [tuple(round(value, 1) for value in place(point)) for point in way]
    return svg.points((x, y) for (x, y), _ in itertools.groupby(places))


def _keys(scene: _Scene) -> Iterator[str]:
    """Equally spaced moments of the episode, row by row, as large as possible."""
    moments = np.linspace(0, len(scene.place) - 1, KEYS).round().astype(int).tolist()
    low, high = _box(scene, moments)
    across, up = high - low
    columns = 2 if across > up else 3
    width, height = SIDE / columns, SIDE / (KEYS // columns)
    scale = min(width / across, height / up)
    corner = 0.5 * (np.array([width, height]) / scale - (high - low))
    place: Place = lambda point: (
        (point[0] - low[0] + corner[0]) * scale,
        (high[1] - point[1] + corner[1]) * scale,
    )
    for i, moment in enumerate(moments):
        row, column = divmod(i, columns)
        parts = [*_backdrop(scene, place, scale), *_limbs(scene, moment, place, scale)]
        cell = {"x": column * width, "y": row * height, "width": width, "height": height}
        yield svg.element("svg", *parts, **cell)


def _box(scene: _Scene, moments: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The bounding box of the limbs in these moments, with a margin."""
    shown = [
        (ends[moment, slot], scene.size[moment, slot])
        for moment in moments
        for slot in scene.there(moment)
        if scene.role(moment, slot)[0] != "line"
        for ends in (scene.place, scene.end)
    ]
    points, sizes = (np.array(column) for column in zip(*shown, strict=True))
    return (points - sizes[:, None]).min(0) - MARGIN, (points + sizes[:, None]).max(0) + MARGIN


def _limbs(scene: _Scene, moment: int, place: Place, scale: float) -> Iterator[str]:
    for slot in scene.there(moment):
        ends = place(scene.place[moment, slot]), place(scene.end[moment, slot])
        width = max(2 * scene.size[moment, slot] * scale, 1.5)
        if scene.role(moment, slot)[0] == "line":
            yield _limb(ends, width, "line")
            continue
        # A light edge around each, so that crossing limbs can be told apart.
        yield _limb(ends, width + 1.2, "edge")
        yield _limb(ends, width, "limb")


def _limb(ends: tuple[tuple[float, float], tuple[float, float]], width: float, kind: str) -> str:
    (x1, y1), (x2, y2) = ((round(x, 1), round(y, 1)) for x, y in ends)
    return svg.element(
        "line", class_=kind, stroke_width=round(width, 1), x1=x1, y1=y1, x2=x2, y2=y2
    )


def _backdrop(scene: _Scene, place: Place, scale: float) -> Iterator[str]:
    for role, x, y, size, label, end in scene.backdrop:
        if end is not None:
            kind = role if role in STRIPS else "line"
            yield _limb((place((x, y)), place(end)), max(2 * size * scale, 0.8), kind)
        else:
            yield _landmark(role, label, place((x, y)), size * scale)


def _landmark(role: str, label: str, at: tuple[float, float], radius: float) -> str:
    (x, y), radius = at, max(radius, 2.0)
    body = svg.disc(x, y, radius, class_="landmark")
    if role == "monster":
        eyes = [
            svg.disc(x + side * radius, y - 0.2 * radius, 0.2 * radius, class_="eye")
            for side in (-0.35, 0.35)
        ]
        return body + "".join(eyes)
    if role == "apple":
        stem = ((x, y - 0.7 * radius), (x + 0.35 * radius, y - 1.5 * radius))
        return body + _limb(stem, 1.5, "stem")
    ring = svg.disc(x, y, radius + 4, class_="ring") if radius < 5 else ""
    below = (1 if y < SIDE - 24 else -1) * (max(radius, 6) + 9)
    return body + ring + (svg.text(label, x, y + below + 4, text_anchor="middle") if label else "")


def _lanes(lanes: Sequence[tuple[str, np.ndarray]], colour: int, left: int) -> Still:
    """Observations and actions over time, one lane per number, as the player draws them; names are
    on the left."""
    height = round(SIDE * max(1.0, len(lanes) / LANES))
    tall = (height - 4) / len(lanes)
    parts = []
    for i, (name, values) in enumerate(lanes):
        top = 2 + i * tall
        size = f"font-size:{min(10, tall):g}px"
        name = shorten(name, left // 5)
        parts.append(svg.text(name, left / 2, top + tall / 2 + 3, text_anchor="middle", style=size))
        low, high = _range(values)
        for agent, own in enumerate(values.T):
            y = top + tall * (0.9 - 0.8 * (own - low) / ((high - low) or 1.0))
            x = np.linspace(left, SIDE - 8, len(own))
            chosen = np.linspace(0, len(own) - 1, min(len(own), MOMENTS)).round().astype(int)
            way = svg.points(np.stack([x, y], -1)[chosen].round(1).tolist())
            dash = "4 4" if agent else None  # so that overlapping lines are visible
            parts.append(svg.element("polyline", points=way, class_="way", stroke_dasharray=dash))
    return Still(height, svg.element("g", *parts, class_=svg.colour_class(colour)))


def _numbers(
    array: np.ndarray, letter: str, names: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """From [moment, agent] or [moment, agent, number]: each number's name and values [moment,
    agent]."""
    array = array.reshape(*array.shape[:2], -1)
    for i in range(array.shape[2]):
        yield names[i] if i < len(names) else f"{letter}{i}", array[..., i].astype(float)


def _range(values: np.ndarray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
