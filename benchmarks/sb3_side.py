"""Stable-Baselines3's PPO on the same game with the same network, batch and epochs."""

import time
from functools import partial
from typing import NamedTuple

import torch
from four_goals_gym import FourGoalsGym
from four_goals_numpy import FourGoalsNumpy
from sb3_ppo import same_ppo
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from rspo.presets import preset


class Setup(NamedTuple):
    """One way to run it."""

    env: str
    kind: str  # a key of KINDS
    envs: int
    threads: int


KINDS = {
    "dummy-usual": "DummyVecEnv of a usual size",
    "dummy": "DummyVecEnv",
    "subproc": "SubprocVecEnv",
    "numpy": "NumPy-batched VecEnv",
    "numpy-terminate": "NumPy-batched VecEnv, no bootstrap at the horizon",
}


class Sb3Side:
    """Learners are built on first use and kept."""

    def __init__(self) -> None:
        self.learners: dict[tuple[str, str, int], PPO] = {}

    def train(self, setup: Setup, updates: int) -> dict[str, float]:
        """Time `updates` updates of a learner that has done at least one before."""
        torch.set_num_threads(setup.threads)
        place = setup[:3]
        if place not in self.learners:
            self.learners[place] = _learner(setup)
            self._learn(place, 1)
        start = time.perf_counter()
        self._learn(place, updates)
        return {
            "seconds": time.perf_counter() - start,
            "steps": updates * preset(setup.env).ppo.batch,
        }

    def _learn(self, place: tuple[str, str, int], updates: int) -> None:
        steps = updates * preset(place[0]).ppo.batch
        self.learners[place].learn(steps, log_interval=None, reset_num_timesteps=False)

    def close(self, *kept: Setup) -> None:
        """End all learners but these, with their processes."""
        places = [setup[:3] for setup in kept]
        for place in [place for place in self.learners if place not in places]:
            self.learners.pop(place).get_env().close()


def _learner(setup: Setup) -> PPO:
    return same_ppo(preset(setup.env).ppo, _games(setup))


def _games(setup: Setup) -> VecEnv:
    mode = setup.env.removeprefix("four-goals-")
    if setup.kind.startswith("numpy"):
        return FourGoalsNumpy(
            mode, setup.envs, "terminate" if setup.kind == "numpy-terminate" else "truncate"
        )
    makers = [partial(FourGoalsGym, mode)] * setup.envs
    # Forked for a fast start; the speed afterwards is the same.
    return (
        SubprocVecEnv(makers, start_method="fork")
        if setup.kind == "subproc"
        else DummyVecEnv(makers)
    )
