"""4-Goals as one NumPy program over a whole batch: the fastest form of the game that
Stable-Baselines3 can drive."""

from typing import Any, Literal

import gymnasium
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rspo.envs.four_goals import AGENT_SIZE, DAMPING, DIRECTIONS, DT, EASY_GOALS, FORCE, FourGoals


class FourGoalsNumpy(VecEnv):
    """`n` games side by side, each restarted when it ends.

    With `timeout="truncate"` the learner bootstraps at the horizon, as rspo does, for which
    Stable-Baselines3 evaluates its critic on each truncated episode, one by one;
    `timeout="terminate"` hides the truncation and spares it that.
    """

    def __init__(
        self,
        mode: str,
        n: int,
        timeout: Literal["truncate", "terminate"] = "truncate",
        seed: int = 0,
    ) -> None:
        game = FourGoals(mode)
        self.mode, self.horizon, self.timeout = mode, game.spec.horizon, timeout
        self.reach = game.sizes + np.float32(AGENT_SIZE)
        self.worth = game.rewards
        self.push = np.array(DIRECTIONS, np.float32) * np.float32(FORCE * DT)
        self.rng = np.random.default_rng(seed)
        self.goals = np.empty((n, 4, 2), np.float32)
        self.position, self.velocity = np.empty((n, 2), np.float32), np.empty((n, 2), np.float32)
        self.t = np.empty(n, np.int32)
        observed = gymnasium.spaces.Box(-np.inf, np.inf, (game.spec.obs_size,), np.float32)
        super().__init__(n, observed, gymnasium.spaces.Discrete(game.spec.action_space.n))

    def reset(self) -> np.ndarray:
        self._restart(np.arange(self.num_envs))
        return self._observe()

    def _restart(self, which: np.ndarray) -> None:
        random = (
            self.rng.random((len(which), 4, 2), np.float32) * 2 - 1
            if self.mode != "easy"
            else EASY_GOALS
        )
        self.goals[which] = random
        self.position[which] = self.velocity[which] = self.t[which] = 0

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        self.velocity = self.velocity * np.float32(1 - DAMPING) + self.push[self.actions]
        self.position = self.position + self.velocity * np.float32(DT)
        self.t += 1
        away = self.goals - self.position[:, None]
        distance = np.sqrt(away[..., 0] ** 2 + away[..., 1] ** 2)
        contact = distance < self.reach
        nearest = np.where(contact, distance, np.inf).argmin(-1)
        terminated = contact.any(-1)
        reward = np.where(terminated, self.worth[nearest], np.float32(0))
        done = terminated | (self.t >= self.horizon)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        obs = self._observe()
        ended = np.flatnonzero(done)
        if len(ended):
            for i in ended:
                truncated = self.timeout == "truncate" and not terminated[i]
                infos[i] = {"terminal_observation": obs[i], "TimeLimit.truncated": truncated}
            self._restart(ended)
            obs = self._observe()
        return obs, reward, done, infos

    def _observe(self) -> np.ndarray:
        relative = (self.goals - self.position[:, None]).reshape(self.num_envs, 8)
        return np.concatenate([relative, self.velocity], axis=1)

    # The rest of the VecEnv interface, as far as the learner uses it.

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
