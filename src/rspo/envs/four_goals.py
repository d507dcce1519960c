"""4-Goals (paper, section 4.1 and appendix): a particle in a plane, four landmarks, the first one
touched pays.

Physics are those of OpenAI's multi-agent particle environments: a force of 5 along an axis, time
step 0.1, damping 0.25, mass 1; velocity is updated first, then position.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Shape, Spec, Step, Trajectory
from rspo.envs.base import Env

FORCE, DT, DAMPING = 5.0, 0.1, 0.25
AGENT_SIZE, GOAL_SIZE = 0.02, 0.04
# Stay, right, left, up, down.
DIRECTIONS = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
EASY_GOALS = ((0.0, 0.5), (0.5, 0.0), (0.0, -0.5), (-0.5, 0.0))
NOWHERE = -1


class State(NamedTuple):
    position: Array  # [2]
    velocity: Array  # [2]
    goals: Array  # [4, 2]
    touched: Array  # [] index of the landmark touched, or NOWHERE


class FourGoals(Env):
    """The three modes of the paper. Observation: the landmarks' positions relative to the agent,
    and its velocity."""

    mode: Literal["easy", "medium", "hard"] = eqx.field(static=True)
    velocity: bool = eqx.field(static=True, default=True)
    """Whether the agent sees its own velocity, as in the particle environments; the appendix lists
    positions only."""

    @property
    def spec(self) -> Spec:
        random_goals = 0 if self.mode == "easy" else 8
        return Spec(
            obs_size=10 if self.velocity else 8,
            action_space=Discrete(5),
            horizon=16,
            reset_noise=random_goals,
            features=4,
        )

    @property
    def sizes(self) -> np.ndarray:
        return GOAL_SIZE * np.array(
            (2.0, 1.0, 0.5, 0.25) if self.mode == "hard" else (1.0,) * 4, np.float32
        )

    @property
    def rewards(self) -> np.ndarray:
        return np.array((1.0, 1.1, 1.2, 1.3) if self.mode == "hard" else (1.0,) * 4, np.float32)

    @property
    def weights(self) -> np.ndarray:
        """The weights of the features, which say which landmark was reached."""
        return self.rewards

    @property
    def names(self) -> Sequence[str]:
        if self.mode == "easy":
            return ("up", "right", "down", "left")
        if self.mode == "medium":
            return ("goal 1", "goal 2", "goal 3", "goal 4")
        return ("largest", "large", "small", "smallest")

    def reset(self, noise: Array) -> tuple[State, Array]:
        goals = jnp.asarray(EASY_GOALS) if self.mode == "easy" else noise.reshape(4, 2) * 2.0 - 1.0
        state = State(jnp.zeros(2), jnp.zeros(2), goals, jnp.asarray(NOWHERE, jnp.int32))
        return state, self._observe(state)

    def step(self, state: State, action: Array, noise: Array) -> tuple[State, Step]:
        force = FORCE * jnp.asarray(DIRECTIONS)[action[0]]
        velocity = state.velocity * (1 - DAMPING) + force * DT
        position = state.position + velocity * DT
        distance = jnp.linalg.norm(state.goals - position, axis=-1)
        contact = distance < self.sizes + AGENT_SIZE
        # Landmarks may overlap.
        nearest = jnp.argmin(jnp.where(contact, distance, jnp.inf)).astype(jnp.int32)
        terminated = contact.any()
        state = State(position, velocity, state.goals, jnp.where(terminated, nearest, NOWHERE))
        reward = jnp.where(terminated, jnp.asarray(self.rewards)[nearest], 0.0)
        reached = (state.touched == jnp.arange(4)).astype(jnp.float32)[None]
        return state, Step(self._observe(state), reward[None], terminated, features=reached)

    def _observe(self, state: State) -> Array:
        relative = (state.goals - state.position).ravel()
        return (jnp.concatenate([relative, state.velocity]) if self.velocity else relative)[None]

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The landmark that at least 80 % of the episodes end at; without one the strategy is
        "mixed"."""
        touched = np.asarray(trajectory.state.touched)[-1]
        share = {name: float((touched == i).mean()) for i, name in enumerate(self.names)}
        label, most = max(share.items(), key=lambda item: item[1])
        return Descriptor(label if most >= 0.8 else "mixed", share, clear=most >= 0.8)

    def behaviour(self, trajectory: Trajectory) -> Array:
        """The landmark that is nearest at the end."""
        relative = trajectory.last.obs[:, 0, :8].reshape(-1, 4, 2)
        return (jnp.square(relative).sum(-1).argmin(-1) + 0.5) / 4

    def scene(self, state: Any) -> Sequence[Shape]:
        goals = [
            Shape("goal", float(x), float(y), float(size), name)
            for (x, y), size, name in zip(state.goals, self.sizes, self.names, strict=True)
        ]
        return [
            *goals,
            Shape("agent", float(state.position[0]), float(state.position[1]), AGENT_SIZE),
        ]
