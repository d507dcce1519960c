"""A few episodes as rendered by the environment: small pictures, so that a page with many
strategies stays small."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rspo.core.png import strip
from rspo.core.types import Trajectory
from rspo.envs import decoration
from rspo.envs.base import AnyEnv
from rspo.rollout.filming import film

FILMED = 2  # of the greedy episodes, and of the sampled ones
PICTURES = 48  # of an episode, at most
SIDE = 180  # pixels of their longer side, at most
BYTES = 120_000  # per episode: enough for twenty strategies on a page
Film = tuple[np.ndarray, dict[str, int]]
"""A PNG file with all pictures stacked vertically, and their number and size."""


def films(
    env: AnyEnv, trajectories: Sequence[Trajectory], moments: Sequence[Sequence[Sequence[int]]]
) -> list[list[Film | None]]:
    """Frames of the first episodes of each trajectory (recorded, NumPy); none where an environment
    has its own drawing, or does not render."""
    nothing: list[list[Film | None]] = [[None] * len(each) for each in moments]
    if not env.filmed or env.drawable:
        return nothing
    if any(trajectory.seeds is None for trajectory in trajectories):
        return nothing

    def take() -> list[list[Film | None]]:
        camera = env.camera()
        try:
            return [
                [
                    packed(film(env, camera, trajectory, n, _chosen(each[n])))
                    if n < FILMED
                    else None
                    for n in range(len(each))
                ]
                for trajectory, each in zip(trajectories, moments, strict=True)
            ]
        finally:
            camera.close()

    return decoration.decorated(env, "render", take, nothing, "reports show numbers instead")


def _chosen(moments: Sequence[int]) -> list[int]:
    """Equally spaced, including the first and the last."""
    count = min(PICTURES, len(moments))
    return [moments[i] for i in np.linspace(0, len(moments) - 1, count).round().astype(int)]


def packed(pictures: Sequence[np.ndarray]) -> Film:
    """Reduced to fit: first fewer pixels, then fewer pictures."""
    shrunk = np.stack([shrink(one, SIDE) for one in _alike(pictures)])
    data = strip(shrunk)
    while len(data) > BYTES and len(shrunk) > 12:
        keep = np.linspace(0, len(shrunk) - 1, len(shrunk) * 2 // 3).round().astype(int)
        shrunk = shrunk[keep]
        data = strip(shrunk)
    while len(data) > BYTES and min(shrunk.shape[1:3]) > 16:
        shrunk = np.stack([shrink(one, max(one.shape[:2]) // 2) for one in shrunk])
        data = strip(shrunk)
    number, height, width, _ = shrunk.shape
    facts = {"pictures": number, "width": width, "height": height}
    return np.frombuffer(data, np.uint8), facts


def _alike(pictures: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All in the size of the first: larger ones are cropped, smaller ones padded."""
    height, width, _ = pictures[0].shape
    same = []
    for one in pictures:
        room = np.zeros_like(pictures[0])
        part = one[:height, :width]
        room[: part.shape[0], : part.shape[1]] = part
        same.append(room)
    return same


def shrink(picture: np.ndarray, side: int) -> np.ndarray:
    """Downsample by averaging squares of pixels, until neither side is longer than this."""
    square = max(1, math.ceil(max(picture.shape[:2]) / side))
    if min(picture.shape[:2]) < square:
        square = min(picture.shape[:2])
    height, width = (length // square for length in picture.shape[:2])
    cut = picture[: height * square, : width * square].astype(np.float32)
    # One addition per offset within a square: several times faster than a mean over two axes.
    total = sum(cut[i::square, j::square] for i in range(square) for j in range(square))
    mean: Any = total / square**2
    return mean.round().astype(np.uint8)
