"""Gymnasium's kind of environment that shows itself: a walk along a corridor, as a square that
moves. Also what `rspo discover picture_worlds:make_walk` names."""

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 6


class Walk(gymnasium.Env):
    """Starts at a cell that the seed says; steps to the right pay."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10, "obs_names": ["place", "time"]}
    observation_space = spaces.Box(-99, 99, (2,))
    action_space = spaces.Discrete(2)
    action_names = ("left", "right")

    def __init__(self, render_mode=None, broken=False):
        self.render_mode, self.broken = render_mode, broken

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time = int(self.np_random.integers(8, 12)), 0
        return self._obs(), {}

    def step(self, action):
        self.cell, self.time = self.cell + (1 if action == 1 else -1), self.time + 1
        return self._obs(), float(action), self.time >= STEPS, False, {}

    def _obs(self):
        return np.array([self.cell, self.time], np.float32)

    def render(self):
        if self.broken:
            raise OSError("no paint")
        picture = np.full((60, 400, 3), 255, np.uint8)
        picture[20:40, 20 * self.cell : 20 * self.cell + 20] = (200, 30, 30)
        return picture


def make_walk(render_mode=None):
    return Walk(render_mode)


def place_in(picture):
    """The cell that a picture shows."""
    height, width = picture.shape[:2]
    return float(np.flatnonzero(picture[height // 2, :, 1] < 140).mean()) / width * 20
