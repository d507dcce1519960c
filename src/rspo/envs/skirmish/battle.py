"""One step of a skirmish: eight game loops, as four sub-steps of two.

A sub-step, in this order: enemies choose targets; units that are ready and have their target in
reach begin an attack; hits that are due land, all at once, and damaged units recover; the others
walk, push each other and slide along walls.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rspo.envs.skirmish import combat, movement
from rspo.envs.skirmish.maps import Map, Side
from rspo.envs.skirmish.state import Team
from rspo.envs.skirmish.terrain import Terrain, terrain
from rspo.envs.skirmish.units import COOLDOWN_JITTER

SECONDS = 0.5  # of a step
SUBSTEPS = 4
DT = SECONDS / SUBSTEPS

TargetRule = Literal["shooters", "attackers", "nearest", "sticky"]


@dataclass(frozen=True)
class Rules:
    game: Map
    targets: TargetRule
    commit: float | None
    """Seconds that an attack roots an enemy; None: by the unit's data."""
    slop: float

    @property
    def terrain(self) -> Terrain:
        return terrain(self.game.ground)

    @property
    def rooted(self) -> float:
        """Seconds."""
        return self.game.enemies.unit.commitment if self.commit is None else self.commit


class Orders(NamedTuple):
    """The orders of the allies, [allies] each; whom they attack is in `target`."""

    dx: Array  # which way to walk: -1, 0 or 1
    dy: Array


def fight(
    rules: Rules,
    allies: Team,
    enemies: Team,
    orders: Orders,
    point: tuple[Array, Array],
    noise: Array,
) -> tuple[Team, Team]:
    """noise [allies + enemies]: for each unit's next cooldown; no unit begins two attacks in a
    step."""
    low, high = COOLDOWN_JITTER
    jitter = low + (high - low) * noise
    nobody = lambda team: team._replace(shot=jnp.full_like(team.shot, -1))

    def body(_: Array, teams: tuple[Team, Team]) -> tuple[Team, Team]:
        return _substep(rules, *teams, orders, point, jitter)

    return lax.fori_loop(0, SUBSTEPS, body, (nobody(allies), nobody(enemies)))


def _substep(
    rules: Rules,
    allies: Team,
    enemies: Team,
    orders: Orders,
    point: tuple[Array, Array],
    jitter: Array,
) -> tuple[Team, Team]:
    game = rules.game
    kinds = game.allies.unit, game.enemies.unit
    between = combat.pairs(allies, enemies)
    target = combat.choose_targets(rules.targets, game.order, allies, enemies, between, kinds)
    enemies = enemies._replace(target=target)
    allies, enemies = _strike(rules, allies, enemies, between.square, jitter)
    steps = _ally_steps(rules, allies, enemies, orders), _enemy_steps(rules, allies, enemies, point)
    allies, enemies = _move(rules, allies, enemies, *steps)
    return _passed(allies), _passed(enemies)


Steps = tuple[Array, Array]


def _towards(
    team: Team, to_x: Array, to_y: Array, longest: float, short_of: Array | float
) -> Steps:
    """A step of at most this length, which stops at the given distance from the target
    position."""
    dx, dy = to_x - team.x, to_y - team.y
    square = dx * dx + dy * dy + 1e-12
    scale = lax.rsqrt(square)
    length = jnp.clip(square * scale - short_of, 0.0, longest) * scale
    return dx * length, dy * length


def _ally_steps(rules: Rules, allies: Team, enemies: Team, orders: Orders) -> Steps:
    """As ordered; towards a target that is out of reach."""
    unit, other = rules.game.allies.unit, rules.game.enemies.unit
    length = unit.speed * DT
    place = jnp.maximum(allies.target, 0)
    hunting = (allies.target >= 0) & enemies.alive[place]
    to_x, to_y = enemies.x[place], enemies.y[place]
    dx, dy = _towards(allies, to_x, to_y, length, unit.reach(other) * 0.99)
    free = allies.alive & (allies.swing >= unit.last_hit)
    dx = jnp.where(hunting, dx, orders.dx * length) * free
    return dx, jnp.where(hunting, dy, orders.dy * length) * free


def _enemy_steps(rules: Rules, allies: Team, enemies: Team, point: tuple[Array, Array]) -> Steps:
    """Towards the target, or to the ordered point, around what is in the way."""
    ground, unit, other = rules.terrain, rules.game.enemies.unit, rules.game.allies.unit
    aimed, nobody = combat.aim(enemies.target, rules.game.allies.count), enemies.target < 0
    number, place = movement.cell(ground, allies.x, allies.y), movement.cell(ground, *point)
    # A sum over the few allies is cheaper than a gather per enemy.
    of_target = lambda values, else_: jnp.where(
        nobody, else_, jnp.where(aimed, values[:, None], 0).sum(0, dtype=values.dtype)
    )
    goal_x, goal_y = of_target(allies.x, point[0]), of_target(allies.y, point[1])
    to = of_target(number, place)
    to_x, to_y, straight = movement.next_point(ground, enemies.x, enemies.y, to, goal_x, goal_y)
    square = (goal_x - enemies.x) ** 2 + (goal_y - enemies.y) ** 2
    there = ~nobody & (square <= unit.reach(other) ** 2)
    short_of = jnp.where(straight & ~nobody, unit.radius + other.radius, 0.0)
    dx, dy = _towards(enemies, to_x, to_y, unit.speed * DT, short_of)
    free = enemies.alive & ~there & (enemies.swing >= rules.rooted)
    return dx * free, dy * free


def _move(
    rules: Rules, allies: Team, enemies: Team, ally_steps: Steps, enemy_steps: Steps
) -> tuple[Team, Team]:
    """Walk, then push each other, except units that walk over the others."""
    sides = rules.game.allies, rules.game.enemies
    x, y = allies.x + ally_steps[0], allies.y + ally_steps[1]
    enemy_x, enemy_y = enemies.x + enemy_steps[0], enemies.y + enemy_steps[1]
    own, theirs = (np.full(side.count, side.unit.separation, np.float32) for side in sides)
    if sides[0].unit.tall == sides[1].unit.tall:
        join, split = (lambda a, b: jnp.concatenate([a, b])), sides[0].count
        alive = join(allies.alive, enemies.alive)
        radius = np.concatenate([own, theirs])
        pushed = movement.push(join(x, enemy_x), join(y, enemy_y), radius, alive)
        push, enemy_push = ((pushed[0][part], pushed[1][part]) for part in _parts(split))
    else:
        push = movement.push(x, y, own, allies.alive)
        enemy_push = movement.push(enemy_x, enemy_y, theirs, enemies.alive)
    return (
        _slid(rules.terrain, sides[0], allies, ally_steps, push),
        _slid(rules.terrain, sides[1], enemies, enemy_steps, enemy_push),
    )


def _parts(split: int) -> tuple[slice, slice]:
    return slice(split), slice(split, None)


def _slid(ground: Terrain, side: Side, team: Team, step: Steps, push: Steps) -> Team:
    """The team after a step and a push, along the walls."""
    passable = ground.scalable if side.unit.tall else ground.walkable
    x, y = movement.slide(passable, team.x, team.y, step[0] + push[0], step[1] + push[1])
    return team._replace(x=x, y=y)


def _strike(
    rules: Rules, allies: Team, enemies: Team, square: Array, jitter: Array
) -> tuple[Team, Team]:
    """`square`: distances [allies, enemies]."""
    ally, enemy = rules.game.allies.unit, rules.game.enemies.unit
    alive = allies.alive[:, None] & enemies.alive
    aimed_by_allies = alive & combat.aim(allies.target, len(enemies.x)).T
    aimed_by_enemies = alive & combat.aim(enemies.target, len(allies.x))
    within = lambda reach: square <= reach**2
    reach, enemy_reach = ally.reach(enemy), enemy.reach(ally)
    count = len(allies.x)
    allies = combat.begin_blows(
        allies, ally, (aimed_by_allies & within(reach)).any(1), jitter[:count]
    )
    enemies = combat.begin_blows(
        enemies, enemy, (aimed_by_enemies & within(enemy_reach)).any(0), jitter[count:]
    )
    landed = aimed_by_allies & within(reach + rules.slop)
    enemy_landed = aimed_by_enemies & within(enemy_reach + rules.slop)
    if ally.lance:
        landed = landed.any(1)[:, None] & alive & _burnt_enemies(rules, allies, enemies)
    hits = (landed * combat.landing(allies, ally, DT)[:, None]).sum(0)
    enemy_hits = (enemy_landed * combat.landing(enemies, enemy, DT)).sum(1)
    allies = combat.hurt(allies, ally, enemy_hits, enemy.damage, DT)
    return allies, combat.hurt(enemies, enemy, hits, ally.damage, DT)


def _burnt_enemies(rules: Rules, allies: Team, enemies: Team) -> Array:
    """[allies, enemies] which enemies each ally's lance would hit."""
    lance, radius = rules.game.allies.unit.lance, rules.game.enemies.unit.radius
    assert lance is not None
    target = jnp.maximum(allies.target, 0)
    column = lambda x, y: (x[:, None], y[:, None])
    return combat.burnt(
        lance,
        radius,
        column(allies.x, allies.y),
        column(enemies.x[target], enemies.y[target]),
        (enemies.x, enemies.y),
    )


def _passed(team: Team) -> Team:
    """Clocks, one sub-step later."""
    return team._replace(
        cooldown=jnp.maximum(team.cooldown - DT, -DT),
        swing=jnp.minimum(team.swing + DT, 100.0),
        calm=jnp.minimum(team.calm, 100.0),
    )
