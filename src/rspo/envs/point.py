"""Point (DvD's Point-v0): a disc is pushed across a plane, past a wall in the shape of a U that is
open towards it.

A force along either axis accelerates the disc; nothing brakes it. Heading straight for the goal
ends in the U, a local optimum; the way around, above or below, earns more. Contact is
frictionless: the velocity into a wall is lost, the velocity along it stays. The original's arrow,
its friction and its contact with the floor are left out.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtri

from rspo.core.spaces import Box
from rspo.core.types import Descriptor, Shape, Spec, Step, Trajectory
from rspo.envs.base import Env

ACCELERATION = 35.49  # of a full action: a force of 2000 on a mass of 56.36
RADIUS = 0.5
STEP = 0.04  # seconds: two of the original's physics steps
SUBSTEPS = 8  # so that even the fastest disc enters a wall by less than its radius
GOAL = (25.0, 0.0)
WALLS = (  # from (x, y) to (x, y)
    ((12.0, 1.7), (14.0, 2.3)),
    ((12.0, -2.3), (14.0, -1.7)),
    ((13.7, -2.0), (14.3, 2.0)),
)
SIDEWAYS = 10.0  # the lateral range of behaviours
MIDDLE, SCALE = 12.5, 15.0  # what is drawn: x from -2.5 to 27.5


class State(NamedTuple):
    position: Array  # [3] x, y and the angle
    velocity: Array  # [3]


class Point(Env):
    """Observation: x, y, angle, and their velocities. Reward: minus the distance from the goal
    after the step. Nothing turns the disc, as in the original."""

    wall: bool = eqx.field(static=True, default=True)
    """Whether the U-shaped wall exists."""

    @property
    def spec(self) -> Spec:
        return Spec(6, Box((-1.0, -1.0), (1.0, 1.0)), horizon=50, reset_noise=6)

    def reset(self, noise: Array) -> tuple[State, Array]:
        normal = ndtri(jnp.clip(noise[3:], 1e-6, 1 - 1e-6))
        state = State(0.2 * noise[:3] - 0.1, 0.1 * normal)
        return state, self._observe(state)

    def step(self, state: State, action: Array, noise: Array) -> tuple[State, Step]:
        push = ACCELERATION * jnp.append(jnp.clip(action[0], -1.0, 1.0), 0.0)
        time = STEP / SUBSTEPS
        position, velocity = state
        for _ in range(SUBSTEPS):
            position = position + time * velocity + time**2 / 2 * push
            velocity = velocity + time * push
            for low, high in WALLS if self.wall else ():
                position, velocity = _apart(position, velocity, low, high)
        state = State(position, velocity)
        reward = -jnp.linalg.norm(jnp.asarray(GOAL) - position[:2])
        return state, Step(self._observe(state), reward[None], jnp.asarray(False))

    def _observe(self, state: State) -> Array:
        return jnp.concatenate(state)[None]

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """How at least 80 % of the episodes deal with the wall; otherwise "mixed"."""
        ways = _ways(np.asarray(trajectory.state.position))
        share = {name: float(shown.mean()) for name, shown in ways.items()}
        label, most = max(share.items(), key=lambda item: item[1])
        return Descriptor(label if most >= 0.8 else "mixed", share, clear=most >= 0.8)

    def behaviour(self, trajectory: Trajectory) -> Array:
        """Its greatest distance to either side before it is past the wall: 0 far below, 1 far
        above."""
        x, y = trajectory.obs[:, :, 0, 0], trajectory.obs[:, :, 0, 1]
        before = jnp.where(x < WALLS[2][1][0], y, 0.0)
        furthest = jnp.where(before.max(0) > -before.min(0), before.max(0), before.min(0))
        return jnp.clip(0.5 + furthest / SIDEWAYS, 0.0, 1.0)

    def scene(self, state: Any) -> Sequence[Shape]:
        x, y, angle = (float(number) for number in state.position)
        reach = RADIUS / 2
        return [
            Shape("goal", *_drawn(*GOAL), RADIUS / SCALE, "goal"),
            Shape("agent", *_drawn(x, y), RADIUS / SCALE),
            Shape(
                "line",
                *_drawn(x, y),
                reach / 4 / SCALE,
                end=_drawn(x + reach * np.cos(angle), y + reach * np.sin(angle)),
            ),
        ]

    def backdrop(self) -> Sequence[Shape]:
        return [_beam(low, high) for low, high in WALLS] if self.wall else []


def _apart(position: Array, velocity: Array, low: Any, high: Any) -> tuple[Array, Array]:
    """A disc that overlaps a box is moved out the shortest way, and keeps the part of its velocity
    that does not lead back in."""
    away = position[:2] - jnp.clip(position[:2], jnp.asarray(low), jnp.asarray(high))
    distance = jnp.linalg.norm(away)
    outwards = away / jnp.maximum(distance, 1e-6)
    depth = jnp.maximum(RADIUS - distance, 0.0)
    inwards = jnp.where(depth > 0, jnp.minimum(velocity[:2] @ outwards, 0.0), 0.0)
    return (
        position.at[:2].add(depth * outwards),
        velocity.at[:2].add(-inwards * outwards),
    )


def _ways(position: np.ndarray) -> dict[str, np.ndarray]:
    """For each name, which episodes [N] of positions [T, N, 3] match it."""
    x, y = position[..., 0], position[..., 1]
    (left, _), (right, top) = WALLS[0]
    passing = (x >= left) & (x <= right)
    over, under = ((passing & beyond).any(0) for beyond in (y > top, y < -top))
    beyond, end = (x > right + RADIUS).any(0), (x[-1], y[-1])
    inside = (left <= end[0]) & (end[0] <= right) & (abs(end[1]) < top)
    ways = {
        "above": beyond & over & ~under,
        "below": beyond & under & ~over,
        "caught": ~beyond & inside,
    }
    return {**ways, "other": ~np.any(list(ways.values()), axis=0)}


def _drawn(x: float, y: float) -> tuple[float, float]:
    return (x - MIDDLE) / SCALE, y / SCALE


def _beam(low: tuple[float, float], high: tuple[float, float]) -> Shape:
    """A box as a thick line along its longer side."""
    middle, half = np.add(low, high) / 2, np.subtract(high, low) / 2
    along = np.where(half == half.max(), half.max() - half.min(), 0.0)
    start, end = (_drawn(*(float(c) for c in middle + sign * along)) for sign in (-1, 1))
    return Shape("line", *start, float(half.min()) / SCALE, end=end)
