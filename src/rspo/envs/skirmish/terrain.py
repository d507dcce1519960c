"""What a map's ground means to units: where they can walk, and how to get around obstacles.

Ground units follow a table: for each cell that a target can stand on and each cell that they can,
the cell to walk to in a straight line. It is made once, in NumPy: shortest paths over the eight
neighbours of a cell that cut no corners, pulled tight.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from rspo.envs.skirmish.maps import Ground

STRAIGHT = -1  # in the table of ways: nothing in between
CLIFF = "x"
MELEE = 1.5  # approximate distance from which the centre of a cliff cell can be struck


class Terrain(NamedTuple):
    """Tables by cell, [y, x] from the bottom left."""

    walkable: np.ndarray  # [H, W] bool: for those that stay on the ground
    scalable: np.ndarray  # [H, W] bool: for those that walk over cliffs too
    number: np.ndarray  # [H * W] int32: of a cell in `way`; walkable ones first, then cliffs
    way: np.ndarray  # [target, from] int16: the cell to walk to, or STRAIGHT

    @property
    def width(self) -> int:
        return self.walkable.shape[1]


@lru_cache
def terrain(ground: Ground) -> Terrain:
    cells = np.array([list(row) for row in ground])[::-1]
    scalable = cells != "#"
    walkable = scalable & (cells != CLIFF)
    floor, cliff = np.flatnonzero(walkable), np.flatnonzero(cells == CLIFF)
    number = np.zeros(cells.size, np.int32)
    number[floor] = np.arange(len(floor))
    number[cliff] = len(floor) + np.arange(len(cliff))
    way = _ways(walkable, floor, cliff)
    if (cells == cells[:, ::-1]).all():
        way = _mirrored(np.concatenate([floor, cliff]), number, way, cells.shape[1])
    return Terrain(walkable, scalable, number, way)


def _ways(walkable: np.ndarray, floor: np.ndarray, cliff: np.ndarray) -> np.ndarray:
    """[target, from]: cells as their places in a flat grid, or STRAIGHT."""
    y, x = np.divmod(floor, walkable.shape[1])
    distance, before = dijkstra(_steps(walkable, x, y), return_predecessors=True)
    seen = _sight(walkable, x, y)
    # From the target backwards along the path, up to the first cell that can be seen.
    start = np.arange(len(floor))[:, None]
    goal = np.broadcast_to(np.arange(len(floor)), distance.shape)
    while not (done := seen[start, goal]).all():
        goal = np.where(done, goal, before[start, goal])
    straight = goal == np.arange(len(floor))
    on_floor = np.where(straight, STRAIGHT, floor[goal]).T
    above_y, above_x = np.divmod(cliff, walkable.shape[1])
    far = np.hypot(above_x[:, None] - x, above_y[:, None] - y)
    # A unit on a cliff is attacked from the nearest of the cells from which it can be struck; in
    # the middle of a wide cliff there is none, so from one of the closest cells.
    from_there = far <= np.maximum(MELEE, far.min(1, keepdims=True))
    best = np.where(from_there[:, None], distance, np.inf).argmin(-1)  # [cliff, from]
    on_cliff = np.where(straight[start.T, best], STRAIGHT, floor[goal[start.T, best]])
    return np.concatenate([on_floor, on_cliff]).astype(np.int16)


def _steps(walkable: np.ndarray, x: np.ndarray, y: np.ndarray) -> csr_array:
    """Steps between adjacent walkable cells; diagonal only where both neighbouring cells are
    walkable too."""
    dx, dy = x[None] - x[:, None], y[None] - y[:, None]
    near = (np.abs(dx) <= 1) & (np.abs(dy) <= 1) & ((dx != 0) | (dy != 0))
    free = walkable[y[:, None], (x[:, None] + dx.clip(-1, 1)).clip(0, walkable.shape[1] - 1)]
    free &= walkable[(y[:, None] + dy.clip(-1, 1)).clip(0, walkable.shape[0] - 1), x[:, None]]
    return csr_array(np.where(near & free, np.hypot(dx, dy), 0.0))


def _sight(walkable: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[from, to]: whether a strip nearly one cell wide between the cells' centres is walkable."""
    from_x, from_y = x[:, None] + 0.5, y[:, None] + 0.5
    dx, dy = (x - x[:, None]).astype(float), (y - y[:, None]).astype(float)
    length = np.maximum(np.hypot(dx, dy), 1e-9)
    clear = np.ones(dx.shape, bool)
    for share in np.linspace(0.0, 1.0, 2 * max(walkable.shape) + 1):
        for aside in (-0.45, 0.0, 0.45):
            at_x = (from_x + share * dx - aside * dy / length).astype(int)
            at_y = (from_y + share * dy + aside * dx / length).astype(int)
            clear &= walkable[at_y, at_x]
    return clear


def _mirrored(cells: np.ndarray, number: np.ndarray, way: np.ndarray, width: int) -> np.ndarray:
    """The ways of the right half mirrored from the left, so that ties between equally long ways
    favour no side."""
    flipped = lambda cell: cell + width - 1 - 2 * (cell % width)
    other = number[flipped(cells)]
    starts = way.shape[1]
    mirror = way[other][:, other[:starts]]
    mirror = np.where(mirror == STRAIGHT, STRAIGHT, flipped(mirror))
    return np.where(cells[:starts] % width >= width // 2, mirror, way).astype(np.int16)
