"""Small environments to check methods on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.spaces import ActionSpace, Box, Discrete
from rspo.core.types import Spec, Step, Trajectory
from rspo.envs.base import Env


class Probe(Env):
    """Agents walk along a line and are paid for their position and for standing still; an episode
    ends early if one gets far. It has everything a method may need."""

    agents: int = eqx.field(static=True, default=1)
    continuous: bool = eqx.field(static=True, default=False)

    @property
    def title(self) -> str:
        actions = "continuous" if self.continuous else "discrete"
        return f"a probe with {actions} actions and {self.agents} agent{'s'[: self.agents - 1]}"

    @property
    def spec(self) -> Spec:
        space: ActionSpace = Box((-1.0,), (1.0,)) if self.continuous else Discrete(3)
        return Spec(3, space, 4, self.agents, reset_noise=self.agents, features=2)

    @property
    def weights(self) -> np.ndarray:
        return np.array((1.0, 0.5), np.float32)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        place = noise - 0.5
        return place, self._observe(place)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        move = action[:, 0] if self.continuous else action.astype(jnp.float32) - 1.0
        place = state + move
        features = jnp.stack([jnp.tanh(place), jnp.exp(-jnp.square(move))], axis=-1)
        reward = (features * self.weights).sum(-1)
        far = (jnp.abs(place) > 3.0).any()
        return place, Step(self._observe(place), reward, far, features=features)

    def _observe(self, place: Array) -> Array:
        return jnp.stack([place, jnp.square(place), jnp.ones_like(place)], axis=-1)

    def behaviour(self, trajectory: Trajectory) -> Any:
        """Of each episode: how far to the right it ends, from 0 to 1."""
        return jax.nn.sigmoid(trajectory.last.obs[..., 0].mean(-1))
