"""Target selection, attacks and damage. Pairs are [allies, enemies]."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from rspo.envs.skirmish.state import Team
from rspo.envs.skirmish.units import SCAN_RANGE, SHIELD_DELAY, Lance, Unit

NOBODY = 1e9  # as a square distance
LATER = 1e4  # above any square distance on a map: added to targets of lower priority


class Pairs(NamedTuple):
    """From each ally to each enemy."""

    dx: Array
    dy: Array
    square: Array


def pairs(allies: Team, enemies: Team) -> Pairs:
    dx, dy = enemies.x - allies.x[:, None], enemies.y - allies.y[:, None]
    return Pairs(dx, dy, dx * dx + dy * dy)


def aim(target: Array, count: int) -> Array:
    """[count, units] which of `count` others each unit targets, one-hot."""
    return target == jnp.arange(count, dtype=jnp.int32)[:, None]


def choose_targets(
    rule: str, order: str, allies: Team, enemies: Team, between: Pairs, kinds: tuple[Unit, Unit]
) -> Array:
    """The target of each enemy. A target in reach is kept, and so is one during an attack. Else
    the nearest of the allies that attack this enemy, or anyone from nearby, or that are nearby and
    fired within their weapon's period; else the nearest ally nearby; else, if the order was to
    attack units, the nearest one; else none.

    The game's own rule is not public. This one is "shooters". Three alternatives: by "attackers" an
    ally attacks only while it is ordered to, "nearest" gives attackers no preference, "sticky"
    keeps a target until it is dead.
    """
    ally, enemy = kinds
    alive, aimed = allies.alive[:, None], aim(enemies.target, len(allies.x))
    scan = (SCAN_RANGE + ally.radius + enemy.radius) ** 2
    near = between.square <= scan
    attacked = allies.target[:, None] == jnp.arange(len(enemies.x), dtype=jnp.int32)
    attacks = allies.target >= 0
    if rule == "shooters":
        attacks |= allies.swing < ally.period
    threat = (near & attacks[:, None]) | attacked
    rank = jnp.where(near, LATER, 2 * LATER if order == "units" else NOBODY)
    if rule in ("attackers", "shooters"):
        rank = jnp.where(threat, 0.0, rank)
    rank = jnp.where(alive, rank, NOBODY) + between.square
    best = jnp.where(rank.min(0) < NOBODY, rank.argmin(0).astype(jnp.int32), -1)
    kept = (between.square <= enemy.reach(ally) ** 2) | (rule == "sticky")
    kept = (aimed & alive & kept).any(0) | (enemies.swing < enemy.last_hit)
    return jnp.where(kept, enemies.target, best)


def begin_blows(team: Team, unit: Unit, in_reach: Array, jitter: Array) -> Team:
    """Begin an attack of each unit that is ready and has its target in reach."""
    ready = team.alive & in_reach & (team.cooldown <= 0) & (team.swing >= unit.last_hit)
    return team._replace(
        swing=jnp.where(ready, 0.0, team.swing),
        cooldown=jnp.where(ready, team.cooldown + unit.period + jitter, team.cooldown),
        shot=jnp.where(ready, team.target, team.shot),
    )


def landing(team: Team, unit: Unit, seconds: float) -> Array:
    """[units] how many hits of each unit's attack land within the next `seconds`."""
    moments = [unit.windup + k * unit.gap for k in range(unit.hits)]
    due = [(team.swing <= at) & (at < team.swing + seconds) for at in moments]
    return sum((hit.astype(jnp.float32) for hit in due), jnp.zeros_like(team.hp)) * team.alive


def burnt(
    lance: Lance,
    radius: float,
    shooter: tuple[Array, Array],
    target: tuple[Array, Array],
    victim: tuple[Array, Array],
) -> Array:
    """Whether a victim of this radius is near the line across the target, as seen by the
    shooter."""
    ahead_x, ahead_y = target[0] - shooter[0], target[1] - shooter[1]
    scale = lax.rsqrt(ahead_x**2 + ahead_y**2 + 1e-12)
    ahead_x, ahead_y = ahead_x * scale, ahead_y * scale
    dx, dy = victim[0] - target[0], victim[1] - target[1]
    along, across = dx * ahead_x + dy * ahead_y, dx * ahead_y - dy * ahead_x
    beyond = jnp.maximum(jnp.abs(across) - lance.half_length, 0.0)
    return along**2 + beyond**2 <= (lance.thickness + radius) ** 2


def hurt(team: Team, unit: Unit, hits: Array, damage: float, seconds: float) -> Team:
    """Health after this many hits of this damage each, first on shields and then, reduced by the
    armour, on hit points; and after `seconds` of recovery."""
    overflow = jnp.maximum(hits * damage - team.shield, 0.0)
    through = jnp.ceil(overflow / damage - 1e-5)  # hits that reach hit points, the first in part
    first = overflow - (through - 1.0) * damage
    loss = jnp.maximum(first - unit.armour, 0.0) + (through - 1.0) * (damage - unit.armour)
    hp = jnp.maximum(team.hp - jnp.where(through > 0, loss, 0.0), 0.0)
    shield = jnp.maximum(team.shield - hits * damage, 0.0)
    calm = jnp.where(hits > 0, 0.0, team.calm + seconds)
    if unit.hp_regeneration:
        hp = jnp.where(hp > 0, jnp.minimum(hp + unit.hp_regeneration * seconds, unit.hp), 0.0)
    if unit.shield_regeneration:
        recovers = (hp > 0) & (calm >= SHIELD_DELAY)
        more = jnp.minimum(shield + unit.shield_regeneration * seconds, unit.shield)
        shield = jnp.where(recovers, more, shield)
    shield = jnp.where(hp > 0, shield, 0.0)
    return team._replace(hp=hp, shield=shield, calm=calm)
