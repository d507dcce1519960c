"""Drawing recorded episodes from an environment's `scene`: frames of text for the terminal, a
picture as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rspo.core import svg
from rspo.core.roles import STRIPS
from rspo.core.types import Shape
from rspo.envs.base import AnyEnv, at
from rspo.envs.given import own_code
from rspo.errors import InputError
from rspo.rollout.collector import collector
from rspo.rollout.filming import film
from rspo.runs import store
from rspo.search.archive import Strategy
from rspo.text import NAME, printable

WIDTH, HEIGHT = 61, 25  # characters; a character is about twice as high as wide
EXTENT = 1.15  # the drawn part of the plane extends a little beyond [-1, 1]
GLYPHS = {"agent": "@", "goal": "o", "monster": "M", "apple": "a", "light": "*"}
GLYPHS |= {"enemy": "e", "ground": ".", "plateau": "=", "ramp": "/", "cliff": "x", "shot": "*"}
UNSEEN = ("health", "shield", "splash")  # too fine for characters


@dataclass(frozen=True)
class Episode:
    """One recorded episode: a scene for each moment, the first before any action, and its
    return."""

    scenes: Sequence[Sequence[Shape]]
    reward: float
    pictures: Sequence[np.ndarray] = ()
    """The same moments as rendered by the environment, where it has no drawing."""


def record(
    env: AnyEnv, strategy: Strategy, episodes: int, seed: int, greedy: bool
) -> list[Episode]:
    """Play and record what to show; the same seed gives every strategy the same starts."""
    if not env.drawable and not env.filmed:
        raise InputError(
            f"There is no drawing of {env.title}; report.html in the run folder shows what it "
            "observes."
        )
    key = jax.random.key(seed)
    with collector(env) as collect:
        played = jax.device_get(collect(strategy.policy, episodes, key, greedy=greedy, record=True))
    if not env.drawable:
        return _filmed(env, played, episodes)
    with own_code(env.title, "its scene"):
        return [_episode(env, played, n) for n in range(episodes)]


def _filmed(env: AnyEnv, played: Any, episodes: int) -> list[Episode]:
    with own_code(env.title, "its render"):
        camera = env.camera()
        try:
            lengths = [int(played.live[:, n].sum()) for n in range(episodes)]
            pictures = [film(env, camera, played, n, range(t + 1)) for n, t in enumerate(lengths)]
        finally:
            camera.close()
    rewards = [float(played.reward[:, n].sum(0).mean()) for n in range(episodes)]
    return [Episode((), r, shown) for r, shown in zip(rewards, pictures, strict=True)]


def _episode(env: AnyEnv, played: Any, n: int) -> Episode:
    length = int(played.live[:, n].sum())
    scenes = [
        env.scene(at(played.start, n)),
        *(env.scene(at(played.state, t, n)) for t in range(length)),
    ]
    return Episode(scenes, float(played.reward[:, n].sum(0).mean()))


def text(scene: Sequence[Shape], backdrop: Sequence[Shape] = ()) -> str:
    """A scene as lines of characters, over the terrain of its background."""
    canvas = [[" "] * WIDTH for _ in range(HEIGHT)]
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    x = (columns / (WIDTH - 1) * 2 - 1) * EXTENT
    y = (1 - rows / (HEIGHT - 1) * 2) * EXTENT
    terrain = [shape for shape in backdrop if shape.role in STRIPS]
    for shape in (*terrain, *(shape for shape in scene if shape.role not in UNSEEN)):
        for row, column in zip(*np.nonzero(_covered(shape, x, y)), strict=True):
            canvas[row][column] = GLYPHS.get(shape.role, "*")
    edge = "+" + "-" * WIDTH + "+"
    return "\n".join([edge, *("|" + "".join(line) + "|" for line in canvas), edge])


def _covered(shape: Shape, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which of these points a shape covers: at least one, if it is in the picture."""
    if not max(abs(shape.x), abs(shape.y)) <= EXTENT:
        return np.zeros_like(x, bool)
    if shape.role in STRIPS and shape.end:
        return (shape.x <= x) & (x <= shape.end[0]) & (np.abs(y - shape.y) <= shape.size)
    distance = _distance(shape, x, y)
    # A limb must look unbroken: it covers everything within half a line of text.
    return distance <= max(shape.size, distance.min(), EXTENT / (HEIGHT - 1) if shape.end else 0.0)


def _distance(shape: Shape, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distance of each point from a disc's centre, or from the line between a limb's ends."""
    across, up = (shape.end[0] - shape.x, shape.end[1] - shape.y) if shape.end else (0.0, 0.0)
    square = across**2 + up**2
    along = (
        np.clip(((x - shape.x) * across + (y - shape.y) * up) / square, 0.0, 1.0) if square else 0.0
    )
    return np.hypot(x - shape.x - along * across, y - shape.y - along * up)


def save_svg(
    path: Path, strategies: Sequence[Strategy], episodes: Sequence[Sequence[Episode]]
) -> None:
    """One panel per strategy: the landmarks of its first episode and the agent's paths in all of
    them."""
    side, gap, caption = 220, 16, 40
    width, height = len(strategies) * (side + gap) + gap, side + caption + 2 * gap
    panels = [
        svg.group(gap + i * (side + gap), gap, *_panel(side, i, strategy, shown))
        for i, (strategy, shown) in enumerate(zip(strategies, episodes, strict=True))
    ]
    paper = svg.element("rect", width=width, height=height, fill="#fff")
    style = "text{font:13px sans-serif;fill:#333}"
    store.write(path, svg.document(width, height, paper, *panels, style=style).encode())


def _panel(side: int, index: int, strategy: Strategy, episodes: Sequence[Episode]) -> list[str]:
    scale, colour = side / 2 / EXTENT, svg.COLOURS[index % len(svg.COLOURS)]
    place = lambda shape: ((shape.x + EXTENT) * scale, (EXTENT - shape.y) * scale)
    parts = [
        svg.element("rect", width=side, height=side, fill="#fafafa", stroke="#bbb"),
        *(
            svg.disc(*place(shape), max(shape.size * scale, 2.0), fill="#999")
            for shape in episodes[0].scenes[0]
            if shape.role != "agent"
        ),
    ]
    for episode in episodes:
        agents = [[shape for shape in scene if shape.role == "agent"] for scene in episode.scenes]
        for shapes in zip(*agents, strict=True):
            parts += svg.path([place(shape) for shape in shapes], colour)
    found = strategy.evaluation
    title = printable(f"{strategy.index}: {found.descriptor or strategy.status}", NAME)
    return [
        *parts,
        svg.text(title, 0, side + 18, font_weight="bold"),
        svg.text(f"return {found.greedy_return_mean:.2f}", 0, side + 36),
    ]
