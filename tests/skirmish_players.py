"""Scripted players of the skirmishes: policies that read the global state, as no learner may."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rspo.core.distributions import Categorical
from rspo.core.policies import Memoryless
from rspo.core.types import Trajectory
from rspo.envs.skirmish import Skirmish
from rspo.envs.skirmish.combat import burnt
from rspo.envs.skirmish.contract import ATTACK, EAST, NORTH, SOUTH, WEST
from rspo.envs.skirmish.state import won
from rspo.envs.skirmish.units import UNITS
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


Does = Callable[[Seen, Any], Any]
"""What to do [N, agents], from what is seen and the mask; what is not allowed becomes a stop."""


class Scripted(Memoryless):
    """One of several players, so that all of them share one compiled program."""

    which: Any
    env: Skirmish = eqx.field(static=True)
    players: tuple[Does, ...] = eqx.field(static=True)

    def act(self, view: Any) -> Categorical:
        seen = read(self.env, view.state[..., 0, :])
        does = [
            partial(lambda does: does(seen, view.mask).astype(int), does) for does in self.players
        ]
        action = jax.lax.switch(self.which, does)
        wanted = jnp.where(jnp.arange(view.mask.shape[-1]) == action[..., None], 99.0, 0.0)
        return Categorical(wanted.at[..., STOP].add(50.0)).allowing(view.mask)


class Hesitant(Memoryless):
    """Shoots whenever it may; of two marines the one that is nearer to the zealot, and nearer than
    4, makes a random move instead with some odds."""

    odds: Any
    env: Skirmish = eqx.field(static=True)

    def act(self, view: Any) -> Categorical:
        seen, mask = read(self.env, view.state[..., 0, :]), view.mask
        choice = jnp.arange(mask.shape[-1])
        shoot = choice == jnp.where(mask[..., ATTACK], ATTACK, STOP)[..., None]
        move = mask & (choice >= NORTH) & (choice < ATTACK)
        moves = move / jnp.maximum(move.sum(-1, keepdims=True), 1)
        odds = jnp.where(chased(seen, 4.0), self.odds, 0.0)[..., None]
        return Categorical(jnp.log((1 - odds) * shoot + odds * moves + 1e-9)).allowing(mask)


def play(
    env: Skirmish, players: Mapping[str, Does], episodes: int = 32, seed: int = 0
) -> dict[str, Trajectory]:
    """The (recorded, NumPy) episodes of each player."""

    @jax.jit
    def run(which: Any) -> Trajectory:
        policy = Scripted(which, env, tuple(players.values()))
        key = jax.random.key(seed)
        return collector(env)(policy, episodes, key, padding="drop", greedy=True, record=True)

    return {name: jax.device_get(run(jnp.asarray(i))) for i, name in enumerate(players)}


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


def stand(seen: Seen, mask: Any) -> Any:
    return jnp.full(seen.x.shape, STOP)


def flee(seen: Seen, mask: Any) -> Any:
    """The allowed move that leads most away from who is near."""
    distance = distances(seen)
    weight = (distance < 9) / jnp.maximum(distance, 0.3) ** 3
    dx, dy = seen.x[..., None] - seen.enemy_x[:, None], seen.y[..., None] - seen.enemy_y[:, None]
    away_x, away_y = (weight * dx).sum(-1), (weight * dy).sum(-1)
    gain = jnp.stack([away_y, -away_y, away_x, -away_x], -1)
    return NORTH + jnp.where(mask[..., NORTH:ATTACK], gain, -jnp.inf).argmax(-1)


# ---- players of 2c_vs_64zg


def attack_most(seen: Seen, mask: Any) -> Any:
    """Attack the enemy in range whose neighbours burn in the largest number."""
    shooter = (seen.x[..., None, None], seen.y[..., None, None])
    target = (seen.enemy_x[:, None, :, None], seen.enemy_y[:, None, :, None])
    victim = (seen.enemy_x[:, None, None], seen.enemy_y[:, None, None])
    lance, radius = UNITS["colossus"].lance, UNITS["zergling"].radius
    hit = burnt(lance, radius, shooter, target, victim) & (seen.enemy_hp > 0)[:, None, None]
    worth = hit.sum(-1) - 0.01 * distances(seen)
    return ATTACK + jnp.where(mask[..., ATTACK:], worth, -1.0).argmax(-1)


def burn_or(seen: Seen, mask: Any, otherwise: Any) -> Any:
    """Burn most if the weapon is ready, else do something else."""
    can = mask[..., ATTACK:].any(-1) & (seen.cooldown <= 0.01)
    return jnp.where(can, attack_most(seen, mask), otherwise)


def hold(x: Any, y: Any) -> Does:
    """Walk to a place of each, burn from there."""

    def does(seen: Seen, mask: Any) -> Any:
        walking = walk_to(seen, jnp.asarray(x), jnp.asarray(y))
        return jnp.where(walking == STOP, attack_most(seen, mask), walking)

    return does


def kite(seen: Seen, mask: Any) -> Any:
    close = distances(seen).min(-1) < 5
    return burn_or(seen, mask, jnp.where(close, flee(seen, mask), STOP))


def hop(seen: Seen, mask: Any) -> Any:
    """To and fro over the cliff, away from the side with more zerglings near by."""
    near, above = distances(seen) < 5, seen.enemy_y[:, None] > 13
    crowded = (near & above).sum(-1) > (near & ~above).sum(-1)
    return burn_or(
        seen, mask, walk_to(seen, jnp.asarray([14.0, 18.0]), jnp.where(crowded, 11.3, 14.7), 0.5)
    )


def snipe(seen: Seen, mask: Any) -> Any:
    """On the cliff, half a step to the side that has fewer zerglings."""
    near, above = distances(seen) < 4, seen.enemy_y[:, None] > 13
    crowded = (near & above).sum(-1) > (near & ~above).sum(-1)
    return burn_or(
        seen, mask, walk_to(seen, jnp.asarray([14.0, 18.0]), jnp.where(crowded, 12.3, 13.7), 0.5)
    )


def attract(seen: Seen, mask: Any) -> Any:
    """The first holds the pass; the second stays behind it, and away from everyone."""
    close = distances(seen).min(-1) < 4
    behind = walk_to(seen, 12.5, 17.0)
    sniper = burn_or(seen, mask, jnp.where(close, flee(seen, mask), behind))
    return jnp.stack([hold(7.5, 15.2)(seen, mask)[:, 0], sniper[:, 1]], -1)


def walk_the_cliff(seen: Seen, mask: Any) -> Any:
    """The first crosses the cliff again and again, the second stays on the right."""
    return jnp.stack([hop(seen, mask)[:, 0], hold(24.0, 16.0)(seen, mask)[:, 1]], -1)


COLOSSI: dict[str, Does] = {
    "stand": stand,
    "nearest": attack_nearest,
    "kite": kite,
    "hop": hop,
    "left wave": hold([7.5, 8.5], [15.2, 16.6]),
    "right wave": hold([23.5, 24.5], [16.6, 15.2]),
    "corner": hold([23.5, 23.5], [19.5, 18.0]),
    "cliff sniping": snipe,
    "attractor and sniper": attract,
    "cliff walk": walk_the_cliff,
}

# ---- players of 2m_vs_1z

X_MOVES, Y_MOVES = (False, False, True, True), (True, True, False, False)


def flee_along(seen: Seen, mask: Any, allowed: tuple[bool, ...]) -> Any:
    """Away from the zealot, by some of the four moves alone."""
    dx, dy = seen.x - seen.enemy_x, seen.y - seen.enemy_y
    gain = jnp.stack([dy, -dy, dx, -dx], -1)
    usable = mask[..., NORTH:ATTACK] & jnp.asarray(allowed)
    return NORTH + jnp.where(usable, gain, -jnp.inf).argmax(-1)


def chased(seen: Seen, near: float, margin: float = 0.0) -> Any:
    distance = distances(seen)[..., 0]
    return (distance < near) & (distance <= distance.min(-1, keepdims=True) + margin)


def shoot_or(mask: Any, otherwise: Any) -> Any:
    return jnp.where(mask[..., ATTACK], ATTACK, otherwise)


def swing(seen: Seen, mask: Any) -> Any:
    """To the left and right alone: whom the zealot chases flees, and whoever it is very near."""
    flees = chased(seen, 3.95) | (distances(seen)[..., 0] < 3.4)
    shoot = shoot_or(mask, jnp.where(seen.enemy_x > seen.x, EAST, WEST))
    return jnp.where(flees, flee_along(seen, mask, X_MOVES), shoot)


def alternate(seen: Seen, mask: Any) -> Any:
    """Up and down alone: who is chased flees, and so does the other one if it is hardly further
    away. As both follow the zealot in order to shoot, this leads upwards."""
    shoot = shoot_or(mask, jnp.where(seen.enemy_y > seen.y, NORTH, SOUTH))
    return jnp.where(chased(seen, 4.5, 0.7), flee_along(seen, mask, Y_MOVES), shoot)


def retreat(seen: Seen, mask: Any) -> Any:
    """Downwards between shots, side by side; away from the zealot once it is below, or at the
    wall."""
    ready = mask[..., ATTACK] & (seen.cooldown <= 0.01)
    down = mask[..., SOUTH] & (seen.enemy_y > seen.y - 1.6)
    flees = chased(seen, 3.0) | (chased(seen, 3.9) & ~ready)
    follows = ~chased(seen, 99.0) & ~ready & (seen.y - seen.y[:, ::-1] > 0.6)
    shoot = shoot_or(mask, go(seen.enemy_x - seen.x, seen.enemy_y - seen.y))
    away = jnp.where(down, SOUTH, flee(seen, mask))
    return jnp.where(flees, away, jnp.where(follows, SOUTH, shoot))


def one_sided(seen: Seen, mask: Any) -> Any:
    """The right one stands, and holds its fire while the zealot is near; the left one goes up and
    down, and shoots to lure the zealot away."""
    distance = distances(seen)[..., 0]
    shoot = shoot_or(mask, jnp.where(seen.enemy_y > seen.y, NORTH, SOUTH))
    flees = chased(seen, 4.95, 0.5) | (distance < 3.8)
    left = jnp.where(flees, flee_along(seen, mask, Y_MOVES), shoot)
    right = jnp.where(distance > 4.7, shoot_or(mask, STOP), STOP)
    return jnp.stack([left[:, 0], right[:, 1]], -1)


def decoy(seen: Seen, mask: Any) -> Any:
    """Whom the zealot chases flees as soon as it is nearer than 4, in any direction; the other one
    shoots, or comes near enough to."""
    shoot = shoot_or(mask, go(seen.enemy_x - seen.x, seen.enemy_y - seen.y))
    return jnp.where(chased(seen, 4.0), flee(seen, mask), shoot)


def toggle(seen: Seen, mask: Any) -> Any:
    """On the spot the left one shoots, the right one shoots and stops by turns."""
    left = attack_nearest(seen, mask)
    return jnp.stack([left[:, 0], jnp.where(seen.last == ATTACK, STOP, left)[:, 1]], -1)


def hold_fire(seen: Seen, mask: Any) -> Any:
    """On the spot: who is chased holds its fire, so that the zealot turns to the other one."""
    return jnp.where(chased(seen, 4.4, 1.5), STOP, shoot_or(mask, STOP))


MARINES: dict[str, Does] = {
    "stand": stand,
    "attack": attack_nearest,
    "toggle": toggle,
    "decoy": decoy,
    "swinging": swing,
    "parallel hit-and-run": retreat,
    "one-sided swinging": one_sided,
    "alternate distraction": alternate,
    "alternating fire": hold_fire,
}
