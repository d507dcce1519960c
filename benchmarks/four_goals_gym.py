"""4-Goals as a plain Gymnasium environment, one instance, the way one would write it for
Stable-Baselines3.

Values of one instance are Python floats: for four landmarks the overhead of NumPy's calls
dominates.
"""

import math
from typing import Any

import gymnasium
import numpy as np

from rspo.envs.four_goals import AGENT_SIZE, DAMPING, DIRECTIONS, DT, EASY_GOALS, FORCE, FourGoals


class FourGoalsGym(gymnasium.Env):
    """`mode` is "easy", "medium" or "hard"; `reset(options={"goals": [4, 2]})` places the
    landmarks."""

    def __init__(self, mode: str) -> None:
        game = FourGoals(mode)
        self.mode, self.horizon = mode, game.spec.horizon
        self.reach = [float(size) + AGENT_SIZE for size in game.sizes]
        self.rewards = [float(reward) for reward in game.rewards]
        self.push = [(x * FORCE * DT, y * FORCE * DT) for x, y in DIRECTIONS]
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (game.spec.obs_size,), np.float32
        )
        self.action_space = gymnasium.spaces.Discrete(game.spec.action_space.n)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if options and "goals" in options:
            self.goals = [tuple(goal) for goal in np.asarray(options["goals"], float).tolist()]
        elif self.mode == "easy":
            self.goals = list(EASY_GOALS)
        else:
            self.goals = [
                tuple(goal) for goal in self.np_random.uniform(-1.0, 1.0, (4, 2)).tolist()
            ]
        self.x = self.y = self.vx = self.vy = 0.0
        self.t = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        push = self.push[action]
        self.vx = self.vx * (1 - DAMPING) + push[0]
        self.vy = self.vy * (1 - DAMPING) + push[1]
        self.x += self.vx * DT
        self.y += self.vy * DT
        self.t += 1
        nearest, reward = math.inf, 0.0
        for (x, y), reach, worth in zip(self.goals, self.reach, self.rewards, strict=True):
            distance = math.hypot(x - self.x, y - self.y)
            if distance < reach and distance < nearest:
                nearest, reward = distance, worth
        return self._observe(), reward, nearest < math.inf, self.t >= self.horizon, {}

    def _observe(self) -> np.ndarray:
        numbers = []
        for x, y in self.goals:
            numbers += (x - self.x, y - self.y)
        return np.array([*numbers, self.vx, self.vy], np.float32)
