"""A gait as a picture: equally spaced frames of one or two strides in a strip, as SVG. It needs no
OpenGL.

The robot is seen from its right side (x goes to the right, z up), each frame with a fading trail of
the moments before it. The ground has fixed marks, which move past as the robot travels. Below it,
for each foot, bars show when it is on the ground.
"""

from dataclasses import dataclass

import numpy as np

from rspo.core import svg
from rspo.envs.robots.gait import START_UP, TOUCH, Gait, describe
from rspo.envs.robots.linkage import Array, Linkage, far_to_near
from rspo.errors import InputError

WIDTH = 1000.0  # of the picture; all lengths below are in its units too
LABELS = 84.0  # the column of the feet's names
MARGIN = 16.0
HEAD = 52.0  # the title and the numbers
BAR, BAR_GAP = 9.0, 7.0
LARGEST = 170.0  # units per metre
GHOSTS = 3  # in the trail of each frame
MARK = 0.25  # metres between two marks on the ground
TRUNK = "#4c566a"
LEGS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")  # Okabe and Ito's colour-blind-safe palette
ARMS = ("#e69f00", "#56b4e9")
OUTLINE = "#ffffff"
INK, PALE = "#333333", "#9a9a9a"


@dataclass(frozen=True)
class Shots:
    """Which moments are shown: `count` frames, `step` moments apart."""

    start: int
    step: int
    count: int

    @property
    def frames(self) -> list[int]:
        return [self.start + i * self.step for i in range(self.count)]

    @property
    def first(self) -> int:
        """Bars begin half a frame before the first frame, or where the recording begins."""
        return max(0, self.start - self.step // 2)

    @property
    def stop(self) -> int:
        return self.start + self.count * self.step

    def trail(self, frame: int) -> list[int]:
        """The moments of a frame's ghosts, the oldest first."""
        back = {frame - round(self.step * i / (GHOSTS + 1)) for i in range(1, GHOSTS + 1)}
        return sorted(moment for moment in back if 0 <= moment < frame)


def shots(robot: Linkage, gait: Gait, frames: int = 8, strides: float = 2) -> Shots:
    """Up to `frames` moments over `strides` strides, from the first landing after the start-up.
    Frames are a whole number of moments apart, so that they are equally spaced; without strides
    they cover the recording, at most two seconds."""
    if frames < 2 or strides <= 0:
        raise InputError(
            f"A strip cannot have {frames} frames of {strides} strides; give 2 frames or more, of "
            "some strides."
        )
    length = len(robot.ends)
    start = min(int(length * START_UP), length - 1)
    seconds = strides / gait.stride_frequency if gait.stride_frequency else 2.0
    wanted = min(seconds / robot.dt, length - start)
    down = np.asarray((robot.clearance[:, np.asarray(robot.is_foot)] <= TOUCH).any(1))
    landings = start + 1 + np.flatnonzero(down[start + 1 :] & ~down[start:-1])
    start = int(next((moment for moment in landings if moment + wanted <= length), start))
    step = max(1, round(wanted / frames))
    return Shots(
        start, step, max(1, min(frames, round(wanted / step), (length - 1 - start) // step + 1))
    )


def strip(
    robot: Linkage, title: str, gait: Gait | None = None, frames: int = 8, strides: float = 2
) -> str:
    """The whole picture as the text of an SVG file."""
    gait = gait or describe(robot)
    shown = shots(robot, gait, frames, strides)
    view = _View(robot, shown)
    rows = _rows(robot, shown)
    height = view.ground + 40 + len(rows) * (BAR + BAR_GAP) + MARGIN
    return svg.document(
        WIDTH,
        round(height),
        svg.element("rect", width=WIDTH, height=round(height), fill="#ffffff"),
        svg.text(title, MARGIN, 24, font_size=16, font_weight="bold"),
        svg.text(numbers(gait), MARGIN, 42, fill="#666666"),
        *_earth(view),
        *(_frame(robot, view, i, moment) for i, moment in enumerate(shown.frames)),
        *(
            part
            for i, (name, colour, down) in enumerate(rows)
            for part in _bars(view, i, name, colour, down)
        ),
        font_family="sans-serif",
        font_size=12,
        fill=INK,
    )


def numbers(gait: Gait) -> str:
    """The gait in one line below its name."""
    stride = "no regular stride"
    if gait.stride_frequency and gait.stride_length is not None:
        stride = f"stride {gait.stride_frequency:.1f} Hz, {gait.stride_length:.2f} m"
    lean = f"tilt {gait.tilt:.0f}°" if gait.tilt > 90 else f"pitch {gait.pitch:.0f}°"
    feet = ", ".join(f"{foot.name} {foot.duty:.0%}" for foot in gait.feet)
    return (
        f"{gait.speed:.1f} m/s  ·  {stride}  ·  torso at {gait.height:.2f} m of "
        f"{gait.standing:.2f} m  ·  {lean}  ·  "
        f"on the ground: {feet}  ·  in the air {gait.flight:.0%}"
    )


class _View:
    """Where metres and moments lie in the picture."""

    def __init__(self, robot: Linkage, shown: Shots) -> None:
        self.shown = shown
        self.origin = {frame: float(_middle(robot, frame)) for frame in shown.frames}
        spans = [
            _span(robot, moment, self.origin[f])
            for f in shown.frames
            for moment in [*shown.trail(f), f]
        ]
        left, right, top = (
            min(s[0] for s in spans),
            max(s[1] for s in spans),
            max(s[2] for s in spans),
        )
        self.cell = (WIDTH - LABELS - MARGIN) / shown.count
        self.scale = min(LARGEST, self.cell / (right - left + 0.06))
        self.middle = 0.5 * (left + right)
        self.ground = HEAD + MARGIN + 8 + self.scale * top

    def centre(self, i: float) -> float:
        return LABELS + (i + 0.5) * self.cell

    def at(self, moment: float) -> float:
        """The position of a moment on the time axis of the frames."""
        return self.centre((moment - self.shown.start) / self.shown.step)

    def place(self, i: int, frame: int, points: Array) -> Array:
        """[..., 3] metres to [..., 2] in the cell of frame i."""
        x = self.centre(i) + (points[..., 0] - self.origin[frame] - self.middle) * self.scale
        return np.stack([x, self.ground - points[..., 2] * self.scale], -1)


def _middle(robot: Linkage, moment: int) -> float:
    return 0.5 * (robot.ends[moment, :, :, 0].min() + robot.ends[moment, :, :, 0].max())


def _span(robot: Linkage, moment: int, origin: float) -> tuple[float, float, float]:
    ends, radius = robot.ends[moment], robot.radius[:, None]
    x = ends[..., 0] - origin
    return (
        float((x - radius).min()),
        float((x + radius).max()),
        float((ends[..., 2] + radius).max()),
    )


def _frame(robot: Linkage, view: _View, i: int, frame: int) -> str:
    trail = view.shown.trail(frame)
    ghosts = [
        svg.element(
            "g",
            *_body(robot, view, i, frame, moment, False),
            opacity=round(0.10 + 0.14 * (age + 1) / len(trail), 2),
        )
        for age, moment in enumerate(trail)
    ]
    seconds = (frame - view.shown.start) * robot.dt
    place = (round(view.centre(i), 1), HEAD + MARGIN - 2)
    label = svg.text(f"{seconds:.2f} s", *place, text_anchor="middle", fill=PALE)
    return "".join([label, *ghosts, *_body(robot, view, i, frame, frame, True)])


def _body(
    robot: Linkage, view: _View, i: int, frame: int, moment: int, outlined: bool
) -> list[str]:
    colours, places = _colours(robot), view.place(i, frame, robot.ends[moment])
    shapes = []
    for g in far_to_near(robot):
        width = 2 * robot.radius[g] * view.scale
        if outlined:
            shapes.append(_capsule(places[g], width + 1.6, OUTLINE))
        shapes.append(_capsule(places[g], width, colours[g]))
    return shapes


def _capsule(ends: Array, width: float, colour: str) -> str:
    (x1, y1), (x2, y2) = ends.round(1).tolist()
    if abs(x1 - x2) + abs(y1 - y2) < 0.2:  # seen from its end, or a sphere
        return svg.disc(x1, y1, width / 2, fill=colour)
    line = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "stroke": colour}
    return svg.element("line", **line, stroke_width=round(width, 1), stroke_linecap="round")


def _colours(robot: Linkage) -> list[str]:
    legs = [limb for limb, foot in zip(robot.limbs, robot.is_foot, strict=True) if foot]
    arms = [limb for limb in dict.fromkeys(robot.limbs) if limb and limb not in legs]
    legs = list(dict.fromkeys(legs))
    paint = {limb: LEGS[i % len(LEGS)] for i, limb in enumerate(legs)}
    paint |= {limb: ARMS[i % len(ARMS)] for i, limb in enumerate(arms)}
    return [paint.get(limb, TRUNK) for limb in robot.limbs]


def _earth(view: _View) -> list[str]:
    """The ground, with marks that stay in place while the robot travels; every whole metre is
    numbered."""
    y = round(view.ground, 1)
    ends = {"x1": LABELS, "y1": y, "x2": WIDTH - MARGIN, "y2": y}
    parts = [svg.element("line", **ends, stroke=INK, stroke_width=1.2)]
    for i, frame in enumerate(view.shown.frames):
        reach = 0.5 * view.cell / view.scale
        at = view.origin[frame] + view.middle
        for mark in range(
            int(np.ceil((at - reach) / MARK)), int(np.floor((at + reach) / MARK)) + 1
        ):
            x = round(view.centre(i) + (mark * MARK - at) * view.scale, 1)
            whole = mark * MARK == round(mark * MARK)
            ends = {"x1": x, "y1": y, "x2": x, "y2": y + (9 if whole else 4)}
            parts.append(svg.element("line", **ends, stroke=PALE))
            if whole and abs(x - view.centre(i)) < 0.5 * view.cell - 12:
                metres, look = f"{round(mark * MARK)} m", {"text_anchor": "middle", "fill": PALE}
                parts.append(svg.text(metres, x, y + 20, font_size=10, **look))
    return parts


def _rows(robot: Linkage, shown: Shots) -> list[tuple[str, str, Array]]:
    """A name, a colour and [T] contacts: for each foot, and for all other parts together if any
    touches."""
    touches, colours = robot.clearance <= TOUCH, _colours(robot)
    rows = []
    for name in robot.feet:
        own = [g for g, part in enumerate(robot.parts) if part == name]
        rows.append((name, colours[own[0]], np.asarray(touches[:, own].any(1))))
    others = np.asarray(touches[:, ~np.asarray(robot.is_foot)].any(1))
    return (
        [*rows, ("other parts", TRUNK, others)] if others[shown.first : shown.stop].any() else rows
    )


def _bars(view: _View, row: int, name: str, colour: str, down: Array) -> list[str]:
    """When a foot is down. A moment's bar extends half a moment to both sides, so that each frame
    is centred above its own."""
    y = round(view.ground, 1) + 34 + row * (BAR + BAR_GAP)
    first, stop = view.shown.first, min(view.shown.stop, len(down))
    edges = np.flatnonzero(
        np.diff(np.concatenate([[False], down[first:stop], [False]]).astype(int))
    )
    spans = [
        (first, stop, "#eeeeee"),
        *((first + a, first + b, colour) for a, b in edges.reshape(-1, 2)),
    ]
    parts = [svg.text(name, LABELS - 10, y + BAR - 0.5, font_size=11, text_anchor="end")]
    for begin, end, paint in spans:
        x1, x2 = (
            round(min(max(view.at(moment - 0.5), LABELS), WIDTH - MARGIN), 1)
            for moment in (begin, end)
        )
        parts.append(svg.element("rect", x=x1, y=y, width=x2 - x1, height=BAR, fill=paint))
    return parts
