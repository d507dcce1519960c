"""A game that shows all that a game may show: masks, a global state, agents that die, features of
its reward."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from host_worlds import Wrapped
from rspo.core.spaces import Discrete
from rspo.core.types import Spec, Step, View
from rspo.envs.base import Env

AGENTS, CHOICES, WEIGHTS = 3, 4, (2.0, -0.5)


class Cows(NamedTuple):
    """The state."""

    time: Array  # []
    length: Array  # [] steps of the episode
    alive: Array  # [A]
    fed: Array  # [A] the last choice


class Herd(Env):
    """Agents choose what to eat, and some die at random. The allowed choices rotate with time and
    agent, and choice 3 is never allowed twice in a row."""

    horizon: int = eqx.field(static=True, default=8)

    @property
    def spec(self) -> Spec:
        return Spec(
            AGENTS + 2,
            Discrete(CHOICES),
            self.horizon,
            AGENTS,
            1,
            AGENTS,
            state_size=2 + AGENTS,
            features=len(WEIGHTS),
        )

    @property
    def weights(self) -> np.ndarray:
        return np.array(WEIGHTS, np.float32)

    def reset(self, noise: Array) -> tuple[Cows, View]:
        length = 2.0 + jnp.floor(noise[0] * self.horizon)
        state = Cows(jnp.zeros(()), length, jnp.ones(AGENTS, bool), jnp.zeros(AGENTS, jnp.int32))
        return state, self._view(state)

    def step(self, state: Cows, action: Array, noise: Array) -> tuple[Cows, Step]:
        features = jnp.stack(
            [
                (action * state.alive).sum().astype(jnp.float32),
                state.alive.sum().astype(jnp.float32),
            ]
        )
        state = Cows(state.time + 1, state.length, state.alive & (noise > 0.15), action)
        reward = jnp.full(AGENTS, features @ jnp.asarray(WEIGHTS))
        return state, Step(
            self._view(state),
            reward,
            state.time >= state.length,
            state.alive,
            jnp.broadcast_to(features, (AGENTS, len(WEIGHTS))),
        )

    def _view(self, state: Cows) -> View:
        agent = jnp.arange(AGENTS)
        own = jnp.stack([jnp.full(AGENTS, state.time), state.fed.astype(jnp.float32)], -1)
        obs = jnp.concatenate([jnp.eye(AGENTS), own / 4], -1)
        turn = (state.time.astype(jnp.int32) + agent) % CHOICES
        mask = (jnp.arange(CHOICES) != turn[:, None]) & ~(
            (jnp.arange(CHOICES) == 3) & (state.fed == 3)[:, None]
        )
        whole = jnp.concatenate(
            [jnp.stack([state.time, state.length]), state.alive.astype(jnp.float32)]
        )
        return View(obs, mask, jnp.broadcast_to(whole, (AGENTS, whole.size)))


EPISODES, KEY = 13, jax.random.key(5)


class HostHerd(Wrapped):
    """The same, stepped by the host."""

    name = "herd"

    def __init__(self) -> None:
        super().__init__(Herd(), EPISODES, KEY)
        assert np.unique(list(self.episode)).size == EPISODES
