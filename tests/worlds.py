"""Tiny environments with known answers, and policies that are tables."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.distributions import Categorical, Distribution
from rspo.core.policies import Memoryless
from rspo.core.spaces import Box, Discrete
from rspo.core.types import Descriptor, Spec, Step, Trajectory, View
from rspo.envs.base import AnyEnv, Env
from rspo.rollout.collector import collector


class Tabular(Memoryless):
    """A policy by its logits [states, actions], for environments that show their state as a one-hot
    vector."""

    logits: Array

    def act(self, view: View) -> Categorical:
        return Categorical(view.obs @ self.logits)


class Doing(Memoryless):
    """A policy by a function of what is observed."""

    does: Callable[[Any], Distribution] = eqx.field(static=True)

    def act(self, view: View) -> Distribution:
        return self.does(view.obs)


def collect(env: AnyEnv, policy: Any, *arguments: Any, **settings: Any) -> Trajectory:
    """Play in an environment of either kind; a policy may be a plain function of observations."""
    with collector(env) as play:
        return play(policy if hasattr(policy, "step") else Doing(policy), *arguments, **settings)


class Ladder(Env):
    """Every step up pays 1, and the other action ends the game: a policy's return is the height at
    which it stops."""

    height: int = eqx.field(static=True, default=8)

    @property
    def spec(self) -> Spec:
        return Spec(self.height, Discrete(2), horizon=self.height)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        state = jnp.zeros((), jnp.int32)
        return state, self._observe(state)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        up = action[0] == 1
        state = state + up
        return state, Step(self._observe(state), up.astype(jnp.float32)[None], ~up)

    def _observe(self, state: Array) -> Array:
        return jax.nn.one_hot(state, self.height)[None]


class Rooms(Env):
    """A door is chosen first; in the room behind door m only action m pays 1. So every door is a
    global optimum.

    Each state belongs to one moment and is seen as a one-hot vector. With several starts the first
    state is random.
    """

    doors: int = eqx.field(static=True, default=3)
    depth: int = eqx.field(static=True, default=2)
    starts: int = eqx.field(static=True, default=1)
    consolation: float = eqx.field(static=True, default=0.0)
    """What the other actions pay in the room behind door 0: random play prefers that door, no
    optimum changes."""
    blind: bool = eqx.field(static=True, default=False)
    """Only the moment is seen, so that a policy is a sequence of actions, and the optima repeat
    their door's."""

    @property
    def states(self) -> int:
        return self.starts + self.doors * self.depth

    @property
    def spec(self) -> Spec:
        seen = 1 + self.depth if self.blind else self.states
        return Spec(seen, Discrete(self.doors), horizon=1 + self.depth, reset_noise=1)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        state = jnp.floor(noise[0] * self.starts).astype(jnp.int32)
        return state, self._observe(state)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        at_start = state < self.starts
        room, moment = jnp.divmod(jnp.maximum(state - self.starts, 0), self.depth)
        wrong = jnp.where(room == 0, self.consolation, 0.0)
        reward = jnp.where(at_start, 0.0, jnp.where(action[0] == room, 1.0, wrong))
        onward = jnp.where(moment < self.depth - 1, state + 1, state)
        state = jnp.where(at_start, self.starts + action[0] * self.depth, onward)
        return state, Step(self._observe(state), reward[None], jnp.asarray(False))

    def _observe(self, state: Array) -> Array:
        if self.blind:
            state = jnp.where(state < self.starts, 0, 1 + (state - self.starts) % self.depth)
        return jax.nn.one_hot(state, self.spec.obs_size)[None]

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The door of at least 80 % of the episodes."""
        share = np.bincount(np.asarray(trajectory.action)[0].ravel(), minlength=self.doors)
        share = share / share.sum()
        stats = {f"door {i}": float(s) for i, s in enumerate(share)}
        return Descriptor(f"door {share.argmax()}", stats, clear=bool(share.max() >= 0.8))


class Bandit(Env):
    """One step, one payoff an action."""

    payoffs: tuple[float, ...] = eqx.field(static=True)

    @property
    def spec(self) -> Spec:
        return Spec(1, Discrete(len(self.payoffs)), horizon=1)

    def reset(self, noise: Array) -> tuple[tuple[()], Array]:
        return (), jnp.ones((1, 1))

    def step(self, state: tuple[()], action: Array, noise: Array) -> tuple[tuple[()], Step]:
        return (), Step(jnp.ones((1, 1)), jnp.asarray(self.payoffs)[action], jnp.asarray(True))


class Slope(Env):
    """Continuous actions: pays what it gets."""

    @property
    def spec(self) -> Spec:
        return Spec(1, Box((0.0,), (10.0,)), horizon=2)

    def reset(self, noise: Array) -> tuple[tuple[()], Array]:
        return (), jnp.ones((1, 1))

    def step(self, state: tuple[()], action: Array, noise: Array) -> tuple[tuple[()], Step]:
        return (), Step(jnp.ones((1, 1)), action[:, 0], jnp.asarray(False))


class Steady(Env):
    """Pays 1 a step and always looks the same; each step is the last one with probability
    `stop`."""

    horizon: int = eqx.field(static=True, default=8)
    stop: float = eqx.field(static=True, default=0.0)

    @property
    def spec(self) -> Spec:
        return Spec(1, Discrete(2), horizon=self.horizon, step_noise=1)

    def reset(self, noise: Array) -> tuple[tuple[()], Array]:
        return (), jnp.ones((1, 1))

    def step(self, state: tuple[()], action: Array, noise: Array) -> tuple[tuple[()], Step]:
        return (), Step(jnp.ones((1, 1)), jnp.ones(1), noise[0] < self.stop)


class Clock(Env):
    """Two agents that see (the time, the episode's length, themselves); reward: the time, 100 times
    the action.

    The length is 1 to `horizon` + 1 by chance; one above the horizon means that the episode never
    terminates.
    """

    horizon: int = eqx.field(static=True, default=5)

    @property
    def spec(self) -> Spec:
        return Spec(3, Discrete(3), horizon=self.horizon, agents=2, reset_noise=1, step_noise=2)

    def reset(self, noise: Array) -> tuple[tuple[Array, Array, Array], Array]:
        length = 1.0 + jnp.floor(noise[0] * (self.horizon + 1))
        state = (jnp.zeros(()), length, jnp.zeros(2))
        return state, self._observe(state)

    def step(
        self, state: tuple[Array, Array, Array], action: Array, noise: Array
    ) -> tuple[tuple[Array, Array, Array], Step]:
        time, length, _ = state
        state = (time + 1, length, noise)
        reward = time + 1 + 100.0 * action
        return state, Step(self._observe(state), reward, time + 1 >= length)

    def _observe(self, state: tuple[Array, Array, Array]) -> Array:
        time, length, _ = state
        return jnp.stack(
            [jnp.stack([time, length, jnp.asarray(float(agent))]) for agent in range(2)]
        )


class Corridor(Env):
    """Steps to the left or to the right; only the last cell pays, and random play hardly gets
    there."""

    length: int = eqx.field(static=True, default=12)

    @property
    def spec(self) -> Spec:
        return Spec(self.length, Discrete(2), horizon=self.length + 4)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        state = jnp.zeros((), jnp.int32)
        return state, self._observe(state)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        state = jnp.clip(state + 2 * action[0] - 1, 0, self.length - 1)
        reward = (state == self.length - 1).astype(jnp.float32)
        return state, Step(self._observe(state), reward[None], jnp.asarray(False))

    def _observe(self, state: Array) -> Array:
        return jax.nn.one_hot(state, self.length)[None]


class Toll(Env):
    """Whoever pays the toll can open the gate and then take the treasure; whoever does not, the
    hare. The treasure is worth its toll, but random play mostly misses it, and so avoids the
    toll."""

    @property
    def spec(self) -> Spec:
        return Spec(4, Discrete(4), horizon=3, features=3)

    @property
    def weights(self) -> np.ndarray:
        return np.array((4.0, -2.0, 0.5), np.float32)  # treasure, toll, hare

    def reset(self, noise: Array) -> tuple[Array, Array]:
        state = jnp.zeros((), jnp.int32)
        return state, self._observe(state)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        yes = action[0] == 1
        start, paid, hunting, opened = (state == place for place in range(4))
        events = jnp.stack([opened & yes, start & yes, hunting & yes])
        features = events.astype(jnp.float32)[None]
        state = jnp.where(start, jnp.where(yes, 1, 2), jnp.where(paid & yes, 3, state))
        reward = (features * self.weights).sum(-1)
        return state, Step(self._observe(state), reward, jnp.asarray(False), features=features)

    def _observe(self, state: Array) -> Array:
        return jax.nn.one_hot(state, 4)[None]

    def describe(self, trajectory: Trajectory) -> Descriptor:
        paid = float((np.asarray(trajectory.action)[0] == 1).mean())
        return Descriptor("treasure" if paid > 0.5 else "hare", {"paid": paid})
