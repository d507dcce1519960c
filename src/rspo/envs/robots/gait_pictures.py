"""Pictures of a strategy's gait: one episode that shows it, as frames by `gait_drawing` or by
MuJoCo itself."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rspo.core.png import png
from rspo.envs.robots import offscreen
from rspo.envs.robots.gait import describe
from rspo.envs.robots.gait_descriptor import Episode
from rspo.envs.robots.gait_drawing import shots
from rspo.envs.robots.gait_name import name
from rspo.envs.robots.linkage import Linkage, Model

WIDTH, HEIGHT = 240, 240  # pixels of a photograph


class Portrait(NamedTuple):
    robot: Linkage
    title: str


def portrait(title: str, label: str | None, episodes: Iterable[Episode]) -> Portrait:
    """The first episode of the gait that the strategy is named after; if there is none, the
    longest one."""
    seen: list[Episode] = []
    for episode in episodes:
        if (gait := episode.gait) and label == name(gait):
            return Portrait(episode.robot, f"{title}, then a fall" if episode.fell else title)
        seen.append(episode)
    longest = max(seen, key=lambda episode: episode.seconds)
    return Portrait(longest.robot, f"{title}: {name(describe(longest.robot), longest.fell)}")


def photographs(model: Model, robots: Sequence[Linkage]) -> list[bytes]:
    """For each robot the frames of its strip side by side, as a PNG file. One process renders them
    all."""
    moments = [robot.qpos[shots(robot, describe(robot)).frames] for robot in robots]
    taken = offscreen.render(model, np.concatenate(moments), WIDTH, HEIGHT)
    rows = np.split(taken, np.cumsum([len(each) for each in moments])[:-1])
    return [png(np.concatenate(list(row), axis=1)) for row in rows]
