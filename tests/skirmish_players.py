"""Scripted players of the skirmishes: policies that read the global state, as no learner may."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rspo.core.distributions import Categorical
from rspo.core.policies import Memoryless
from rspo.core.types import Trajectory
from rspo.envs.skirmish import Skirmish
from rspo.envs.skirmish.contract import ATTACK, EAST, NORTH, SOUTH, WEST
from rspo.envs.skirmish.state import won
from rspo.rollout.collector import collector

STOP = 1


class Seen(NamedTuple):
    """The global state taken apart; [N, units] each."""

    x: Any
    y: Any
    hp: Any
    cooldown: Any  # seconds
    shield: Any
    enemy_x: Any
    enemy_y: Any
    enemy_hp: Any
    last: Any  # [N, agents] action


def read(env: Skirmish, state: Any) -> Seen:
    game = env.game
    allies, enemies = game.allies, game.enemies
    width = 4 + (allies.unit.shield > 0)
    theirs = 3 + (enemies.unit.shield > 0)
    own = state[..., : allies.count * width].reshape(-1, allies.count, width)
    rest = state[..., allies.count * width :]
    other = rest[..., : enemies.count * theirs].reshape(-1, enemies.count, theirs)
    last = rest[..., enemies.count * theirs :].reshape(-1, allies.count, ATTACK + enemies.count)
    place = lambda share: 32.0 * share + 16.0
    return Seen(
        place(own[..., 2]),
        place(own[..., 3]),
        own[..., 0],
        own[..., 1] * allies.unit.longest_cooldown / 16.0,
        own[..., -1],
        place(other[..., 1]),
        place(other[..., 2]),
        other[..., 0],
        last.argmax(-1),
    )


class Scripted(Memoryless):
    """Does what a function [N, agents] of `Seen` and the mask says; what is not allowed becomes a
    stop."""

    env: Skirmish = eqx.field(static=True)
    does: Callable[[Seen, Any], Any] = eqx.field(static=True)

    def act(self, view: Any) -> Categorical:
        action = self.does(read(self.env, view.state[..., 0, :]), view.mask)
        wanted = jnp.where(jnp.arange(view.mask.shape[-1]) == action[..., None], 99.0, 0.0)
        return Categorical(wanted.at[..., STOP].add(50.0)).allowing(view.mask)


def play(
    env: Skirmish, does: Callable[[Seen, Any], Any], episodes: int = 32, seed: int = 0
) -> Trajectory:
    run = jax.jit(
        lambda key: collector(env)(
            Scripted(env, does), episodes, key, padding="drop", greedy=True, record=True
        )
    )
    return jax.device_get(run(jax.random.key(seed)))


def win_rate(trajectory: Trajectory) -> float:
    return float(np.asarray(won(trajectory.state))[-1].mean())


# ---- what a unit can do


def distances(seen: Seen) -> Any:
    """[N, agents, enemies], infinite to the dead."""
    dx = seen.enemy_x[:, None] - seen.x[..., None]
    dy = seen.enemy_y[:, None] - seen.y[..., None]
    return jnp.where(seen.enemy_hp[:, None] > 0, jnp.sqrt(dx**2 + dy**2), 99.0)


def attack_nearest(seen: Seen, mask: Any) -> Any:
    return ATTACK + distances(seen).argmin(-1)


def go(dx: Any, dy: Any) -> Any:
    """The move along the longer of both ways."""
    sideways = jnp.where(dx > 0, EAST, WEST)
    return jnp.where(jnp.abs(dx) >= jnp.abs(dy), sideways, jnp.where(dy > 0, NORTH, SOUTH))


def walk_to(seen: Seen, x: Any, y: Any, near: float = 0.7) -> Any:
    dx, dy = x - seen.x, y - seen.y
    there = jnp.maximum(jnp.abs(dx), jnp.abs(dy)) < near
    return jnp.where(there, STOP, go(dx, dy))


def shoot_or(seen: Seen, mask: Any, otherwise: Any, ready: float = 0.01) -> Any:
    """Attack the nearest if one is in range and the weapon is ready, else do something else."""
    can = mask[..., ATTACK:].any(-1) & (seen.cooldown <= ready)
    return jnp.where(can, attack_nearest(seen, mask), otherwise)


def hold(x: Any, y: Any) -> Callable[[Seen, Any], Any]:
    """Walk to a place of each, and shoot whenever the weapon is ready."""
    return lambda seen, mask: shoot_or(seen, mask, walk_to(seen, jnp.asarray(x), jnp.asarray(y)))


def stand(seen: Seen, mask: Any) -> Any:
    return jnp.full(seen.x.shape, STOP)
