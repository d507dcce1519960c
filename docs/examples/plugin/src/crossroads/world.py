"""A walk from a crossroads: each of four roads ends in a town that pays 1."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo import Env
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Spec, Step, Trajectory

TOWNS = ("east", "west", "north", "south")
STEPS = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
DISTANCE = 3


class State(NamedTuple):
    place: Array  # [2]


class Crossroads(Env):
    """One agent that sees where it is."""

    @property
    def spec(self) -> Spec:
        return Spec(obs_size=2, action_space=Discrete(4), horizon=8)

    def reset(self, noise: Array) -> tuple[State, Array]:
        state = State(jnp.zeros(2))
        return state, self._observe(state)

    def step(self, state: State, action: Array, noise: Array) -> tuple[State, Step]:
        state = State(state.place + jnp.asarray(STEPS)[action[0]])
        arrived = jnp.abs(state.place).max() >= DISTANCE
        reward = arrived.astype(jnp.float32)[None]
        return state, Step(self._observe(state), reward, arrived)

    def _observe(self, state: State) -> Array:
        return state.place[None] / DISTANCE

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The town that at least 80 % of the episodes end in."""
        x, y = np.asarray(trajectory.state.place)[-1].T
        share = {
            "east": float((x >= DISTANCE).mean()),
            "west": float((x <= -DISTANCE).mean()),
            "north": float((y >= DISTANCE).mean()),
            "south": float((y <= -DISTANCE).mean()),
        }
        town = max(TOWNS, key=share.__getitem__)
        return Descriptor(town, share, clear=share[town] >= 0.8)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Default settings of runs."""
        return {
            "ppo": {"batch": 2048, "updates": 40, "learning_rate": 1e-2, "horizon": "end"},
            "judge": {"episodes": 128},
        }
