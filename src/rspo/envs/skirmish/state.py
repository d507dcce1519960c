"""What a skirmish remembers from one step to the next."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from rspo.envs.skirmish.maps import Side


class Team(NamedTuple):
    """One side; every leaf is [units]. Coordinates are planes of their own: a trailing axis of two
    would be several times slower."""

    x: Array
    y: Array
    hp: Array  # 0 of the dead
    shield: Array
    cooldown: Array  # seconds until the next blow may begin; as far below 0 as it is overdue
    swing: Array  # seconds since the last blow began
    calm: Array  # seconds since the unit was hurt
    target: Array  # int32 whom it is after, by number; -1: nobody
    shot: Array  # int32 at whom it began a blow in the last step; -1: at nobody

    @property
    def alive(self) -> Array:
        return self.hp > 0

    @property
    def health(self) -> Array:
        return self.hp + self.shield


class State(NamedTuple):
    allies: Team
    enemies: Team
    point_x: Array  # [] where the enemies were told to go
    point_y: Array
    time: Array  # [] int32 steps so far
    last_action: Array  # [allies] int32; -1 before the first step


NEVER = 100.0  # seconds ago


def fresh(side: Side, x: Array, y: Array) -> Team:
    """A team at these places, unhurt and ready."""
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
    """[] whether no enemy lives, and an ally does."""
    return state.allies.alive.any(-1) & ~state.enemies.alive.any(-1)


def info(state: State) -> dict[str, Array]:
    """What SMAC says of a state beside observations; leading axes may stand before."""
    return {
        "battle_won": won(state),
        "dead_allies": (~state.allies.alive).sum(-1),
        "dead_enemies": (~state.enemies.alive).sum(-1),
    }
