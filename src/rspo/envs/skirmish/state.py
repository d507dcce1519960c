"""The state of a skirmish."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from rspo.envs.skirmish.maps import Side


class Team(NamedTuple):
    """One side; every leaf is [units]. Coordinates are separate arrays: a trailing axis of two
    would be slower."""

    x: Array
    y: Array
    hp: Array  # 0 if dead
    shield: Array
    cooldown: Array  # seconds until the next attack may begin; negative if overdue
    swing: Array  # seconds since the last attack began
    calm: Array  # seconds since the unit was last hit
    target: Array  # int32 index of its target; -1: none
    shot: Array  # int32 index of whom it attacked in the last step; -1: none

    @property
    def alive(self) -> Array:
        return self.hp > 0

    @property
    def health(self) -> Array:
        return self.hp + self.shield


class State(NamedTuple):
    allies: Team
    enemies: Team
    point_x: Array  # [] where the enemies were ordered to go
    point_y: Array
    time: Array  # [] int32 steps so far
    last_action: Array  # [allies] int32; -1 before the first step


NEVER = 100.0  # seconds ago


def fresh(side: Side, x: Array, y: Array) -> Team:
    """A team at these positions, with full health and ready."""
    count, unit = side.count, side.unit
    nobody = jnp.full(count, -1, jnp.int32)
    return Team(
        x,
        y,
        hp=jnp.full(count, unit.hp),
        shield=jnp.full(count, unit.shield),
        cooldown=jnp.zeros(count),
        swing=jnp.full(count, NEVER),
        calm=jnp.full(count, NEVER),
        target=nobody,
        shot=nobody,
    )


def won(state: State) -> Array:
    """[] whether all enemies are dead and an ally is alive."""
    return state.allies.alive.any(-1) & ~state.enemies.alive.any(-1)


def info(state: State) -> dict[str, Array]:
    """SMAC's `info` of a state; any leading axes."""
    return {
        "battle_won": won(state),
        "dead_allies": (~state.allies.alive).sum(-1),
        "dead_enemies": (~state.enemies.alive).sum(-1),
    }
