"""SMAC's contract: actions and which of them are allowed, observations, the global state, rewards.

Sizes and orders are those of the StarCraft Multi-Agent Challenge with its default settings.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.types import View
from rspo.envs.skirmish.battle import Orders
from rspo.envs.skirmish.combat import Pairs, pairs
from rspo.envs.skirmish.maps import Map
from rspo.envs.skirmish.state import State, won

ACTIONS = ("no-op", "stop", "north", "south", "east", "west")  # then: attack enemy 0, 1, ...
NORTH, SOUTH, EAST, WEST, ATTACK = 2, 3, 4, 5, 6
SIGHT = 9.0
SHOOTING_RANGE = 6.0  # from centre to centre, whatever the weapon
LOOK_AHEAD = 1.0  # how far away a cell has to be passable for a move
LOOPS = 16.0  # per second
FEATURES = ("damage", "kills", "win")
KILL, WIN = 10.0, 200.0
BEST_RETURN = 20.0  # for killing all enemies; damage to regenerated health comes on top


def actions(game: Map) -> int:
    return ATTACK + game.enemies.count


def obs_size(game: Map) -> int:
    ally, enemy = _bodies(game)
    return 4 + game.enemies.count * (4 + enemy) + (game.allies.count - 1) * (4 + ally) + ally


def state_size(game: Map) -> int:
    ally, enemy = _bodies(game)
    units = game.allies.count * (3 + ally) + game.enemies.count * (2 + enemy)
    return units + game.allies.count * actions(game)


def _bodies(game: Map) -> tuple[int, int]:
    """How many numbers describe the health of an ally and of an enemy."""
    return 1 + (game.allies.unit.shield > 0), 1 + (game.enemies.unit.shield > 0)


def weights(game: Map) -> np.ndarray:
    """The weight of each of the `FEATURES`."""
    total = game.enemies.count * (KILL + game.enemies.unit.health) + WIN
    return np.array([1.0, KILL, WIN], np.float32) * np.float32(BEST_RETURN / total)


def orders(action: Array) -> tuple[Orders, Array]:
    """The order of each ally, and whom it attacks, or -1."""
    one = lambda this, other: (action == this).astype(jnp.float32) - (action == other)
    attacked = jnp.where(action >= ATTACK, action - ATTACK, -1)
    return Orders(one(EAST, WEST), one(NORTH, SOUTH)), attacked


def features(before: State, after: State) -> Array:
    """[3]: damage; deaths of enemies; a victory. SMAC takes the absolute value of what damage and
    deaths pay, so healing counts as damage where nobody died."""
    lost = (before.enemies.health - after.enemies.health).sum()
    kills = (before.enemies.alive & ~after.enemies.alive).sum().astype(jnp.float32)
    damage = jnp.abs(lost + KILL * kills) - KILL * kills
    return jnp.stack([damage, kills, won(after).astype(jnp.float32)])


def view(game: Map, passable: np.ndarray, state: State) -> View:
    """What each ally sees, may do, and the global state, which is the same for all."""
    between = pairs(state.allies, state.enemies)
    ways = moves(passable, state)
    attacks = _attacks(state, between)
    mask = _mask(state, ways, attacks)
    obs = _observations(game, state, between, ways, attacks)
    shared = _state(game, state)
    return View(obs, mask, jnp.broadcast_to(shared, (game.allies.count, *shared.shape)))


def moves(passable: np.ndarray, state: State) -> Array:
    """[4, allies] whether a move north, south, east or west is allowed."""
    table, width = jnp.asarray(np.pad(passable, 1).reshape(-1)), passable.shape[1] + 2
    x, y = state.allies.x, state.allies.y
    # Towards 0, as in SMAC: less than one cell from the left edge a move to the left is allowed.
    cell = lambda place: place.astype(jnp.int32) + 1
    at = lambda x, y: table[cell(y) * width + cell(x)]
    step = LOOK_AHEAD
    ahead = [at(x, y + step), at(x, y - step), at(x + step, y), at(x - step, y)]
    return jnp.stack(ahead) & state.allies.alive


def _attacks(state: State, between: Pairs) -> Array:
    """[allies, enemies] whether an attack is allowed."""
    near = between.square <= SHOOTING_RANGE**2
    return near & state.enemies.alive & state.allies.alive[:, None]


def _mask(state: State, ways: Array, attacks: Array) -> Array:
    alive = state.allies.alive
    return jnp.concatenate([jnp.stack([~alive, alive, *ways], 1), attacks], 1)


def _observations(game: Map, state: State, between: Pairs, ways: Array, attacks: Array) -> Array:
    allies, enemies = state.allies, state.enemies
    alive, count = allies.alive, len(allies.x)
    seen = (between.square < SIGHT**2) & enemies.alive & alive[:, None]
    of_enemies = _rows(
        seen,
        attacks.astype(jnp.float32),
        between,
        enemies.hp / game.enemies.unit.hp,
        enemies.shield / game.enemies.unit.shield if game.enemies.unit.shield else None,
    )
    among = pairs(allies, allies)
    seen = (among.square < SIGHT**2) & alive & alive[:, None]
    hp = allies.hp / game.allies.unit.hp
    shield = allies.shield / game.allies.unit.shield if game.allies.unit.shield else None
    of_allies = _rows(seen, seen.astype(jnp.float32), among, hp, shield)
    # Each ally's rows of the others, without its own.
    others = np.array([[j for j in range(count) if j != i] for i in range(count)], int)
    of_others = of_allies[np.arange(count)[:, None], others]
    own = jnp.stack([hp] if shield is None else [hp, shield], 1)
    flat = lambda rows: rows.reshape(count, -1)
    return jnp.concatenate([ways.T.astype(jnp.float32), flat(of_enemies), flat(of_others), own], 1)


def _rows(seen: Array, flag: Array, between: Pairs, hp: Array, shield: Array | None) -> Array:
    """[observer, observed, numbers]: a flag, distance, direction, health; zeros if not seen."""
    body = [hp] if shield is None else [hp, shield]
    columns = [
        flag,
        jnp.sqrt(between.square) / SIGHT,
        between.dx / SIGHT,
        between.dy / SIGHT,
        *(jnp.broadcast_to(part, seen.shape) for part in body),
    ]
    return jnp.stack([jnp.where(seen, column, 0.0) for column in columns], -1)


def _state(game: Map, state: State) -> Array:
    allies, enemies = state.allies, state.enemies
    width, height = len(game.ground[0]), len(game.ground)
    place = lambda team: [(team.x - width / 2) / width, (team.y - height / 2) / height]
    ally, enemy = game.allies.unit, game.enemies.unit
    cooldown = jnp.maximum(allies.cooldown, 0.0) * LOOPS / ally.longest_cooldown
    own = [allies.hp / ally.hp, cooldown, *place(allies)]
    theirs = [enemies.hp / enemy.hp, *place(enemies)]
    own += [allies.shield / ally.shield] if ally.shield else []
    theirs += [enemies.shield / enemy.shield] if enemy.shield else []
    rows = [
        jnp.where(team.alive[:, None], jnp.stack(columns, 1), 0.0).reshape(-1)
        for team, columns in ((allies, own), (enemies, theirs))
    ]
    done = state.last_action[:, None] == jnp.arange(actions(game), dtype=jnp.int32)
    return jnp.concatenate([*rows, done.astype(jnp.float32).reshape(-1)])
