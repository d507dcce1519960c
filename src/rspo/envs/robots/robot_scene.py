"""A robot seen from its side, as limbs: the drawing of one moment in `rspo play` and the report.

The camera follows the torso; marks on the ground stay in place, so that one sees the robot travel.
"""

import math
from collections.abc import Sequence

import numpy as np

from rspo.core.types import Shape
from rspo.envs.robots.linkage import Linkage

METRE = 0.75  # in the drawing, which is 2 wide
GROUND = -0.7
MARK = 0.5  # metres between two marks on the ground


def robot_scene(robot: Linkage, order: np.ndarray) -> list[Shape]:
    """The first moment of `robot`: its capsules in the given order, each labelled by its limb."""
    forward = float(robot.torso[0, 0])
    place = lambda end: ((float(end[0]) - forward) * METRE, GROUND + float(end[2]) * METRE)
    limbs = [
        Shape(
            "limb",
            *place(robot.ends[0, g, 0]),
            float(robot.radius[g]) * METRE,
            robot.limbs[g],
            place(end),
        )
        for g, end in ((g, robot.ends[0, g, 1]) for g in order)
    ]
    return [*_marks(forward), *limbs]


def _marks(forward: float) -> list[Shape]:
    """A fixed number of marks, each keeping its index until it leaves the picture."""
    count = math.floor(2 / METRE / MARK)
    first = math.ceil((forward - 1 / METRE) / MARK)
    shown = sorted(range(first, first + count), key=lambda mark: mark % count)
    places = [(mark * MARK - forward) * METRE for mark in shown]
    return [Shape("line", x, GROUND, 0.004, end=(x, GROUND - 0.06)) for x in places]


def ground() -> Sequence[Shape]:
    return [Shape("line", -1.0, GROUND, 0.004, end=(1.0, GROUND))]
