"""Names of recorded episodes: the strategies reported in the paper, by numbers derived from the
units' tracks.

An episode has the name of the first rule that holds, "other" if none does, and "defeat" if it was
not won; a batch has the name that at least half of its episodes have, or else "mixed". Thresholds
were chosen on scripted players that perform each strategy.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rspo.core.types import Descriptor, Trajectory
from rspo.envs.skirmish.maps import Map

DEFEAT, OTHER = "defeat", "other"
MAJORITY = 0.5
MOVED = 0.2  # cells per step: less is standing, or being pushed
TOGETHER = 4.0  # cells: closer units act as a pair
UNHURT = 35.0  # points: a tenth of a colossus
STANDING = 0.8  # share of its steps: a unit that stands for longer takes no part in the moving
ON_THE_SPOT = 0.7  # the same of two units that hardly move
SETTLED = 15  # steps after which colossi have found their place
CLIFF_Y = 13.0
CORNERS = ((8.0, 19.0), (24.0, 19.0))


class Tracks(NamedTuple):
    """Of each column's first episode; [T, N, allies] unless noted."""

    live: np.ndarray  # [T, N] the steps that were played
    x: np.ndarray
    y: np.ndarray
    dx: np.ndarray  # of the step
    dy: np.ndarray
    alive: np.ndarray
    fired: np.ndarray  # whether an attack began
    lost: np.ndarray  # health that the step took
    target: np.ndarray  # [T, N, enemies] the target of each enemy
    enemy_y: np.ndarray  # [T, N, enemies]
    enemy_alive: np.ndarray  # [T, N, enemies]
    won: np.ndarray  # [N]


def tracks(trajectory: Trajectory) -> Tracks:
    state, start = trajectory.state, trajectory.start
    live = np.asarray(trajectory.live & trajectory.first)
    with_start = lambda one, all_: np.concatenate([one[None], all_])
    x = with_start(start.allies.x, state.allies.x)
    y = with_start(start.allies.y, state.allies.y)
    health = with_start(start.allies.hp, state.allies.hp) + with_start(
        start.allies.shield, state.allies.shield
    )
    alive = with_start(start.allies.hp, state.allies.hp)[:-1] > 0
    alive &= live[..., None]
    last = np.maximum(live.sum(0) - 1, 0)
    ends = lambda team: (team.hp[last, np.arange(live.shape[1])] > 0).any(-1)
    return Tracks(
        live,
        x[1:],
        y[1:],
        np.where(alive, np.diff(x, axis=0), 0.0),
        np.where(alive, np.diff(y, axis=0), 0.0),
        alive,
        alive & (np.asarray(state.allies.shot) >= 0),
        np.where(alive, np.maximum(-np.diff(health, axis=0), 0.0), 0.0),
        np.asarray(state.enemies.target),
        np.asarray(state.enemies.y),
        (np.asarray(state.enemies.hp) > 0) & live[..., None],
        ends(state.allies) & ~ends(state.enemies),
    )


def describe(game: Map, trajectory: Trajectory) -> Descriptor:
    seen = tracks(trajectory)
    numbers, rules = READERS.get(game.name, _plain)(seen)
    names = np.select(list(rules.values()), list(rules), default=OTHER)
    names = np.where(seen.won, names, DEFEAT)
    share = {name: float((names == name).mean()) for name in [*rules, OTHER, DEFEAT]}
    label, most = max(share.items(), key=lambda item: item[1])
    stats = {"won": float(seen.won.mean()), "steps": float(seen.live.sum(0).mean())}
    stats["healing"] = float(_healing(trajectory, seen.live).mean())
    stats |= {name: float(value.mean()) for name, value in numbers.items()}
    clear = most >= MAJORITY and label not in (OTHER, DEFEAT)
    return Descriptor(label if most >= MAJORITY else "mixed", stats | share, clear)


def _healing(trajectory: Trajectory, live: np.ndarray) -> np.ndarray:
    """[N] the points by which enemies recovered in steps that hurt them less: SMAC's reward pays
    for them as for damage, so that a return can be high without a fight."""
    health = np.concatenate(
        [
            np.asarray(trajectory.start.enemies.health).sum(-1)[None],
            np.asarray(trajectory.state.enemies.health).sum(-1),
        ]
    )
    return np.where(live, np.maximum(np.diff(health, axis=0), 0.0), 0.0).sum(0)


Reading = tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]
"""Numbers of each episode [N], and the rules by name: whether each holds [N]."""


def _plain(seen: Tracks) -> Reading:
    return {"still": _share(_still(seen), seen.alive).mean(-1)}, {"victory": seen.won}


def marines(seen: Tracks) -> Reading:
    """one-sided swinging: one stands still, the other goes up and down, two turns or more.
    swinging: both mainly to the left and right, three turns or more each.
    parallel hit-and-run: from top to bottom; both end two cells further down than they began.
    alternate distraction: from bottom to top; the zealot changes its target three times or more,
    both marines move, but mostly one at a time, and on average they end further up.
    alternating fire, SMAC's own name for this map's trick: the zealot changes its target as often,
    but both stay on the spot, and the one that is chased holds its fire."""
    across, up = np.abs(seen.dx).sum(0), np.abs(seen.dy).sum(0)  # [N, 2]
    turns_x, turns_y = _turns(seen.dx), _turns(seen.dy)
    still = _share(_still(seen), seen.alive)
    switches = _switches(seen.target[..., 0], seen.live)
    moving = ~_still(seen) & seen.alive
    alone = (moving.sum(-1) == 1).sum(0) / np.maximum(moving.any(-1).sum(0), 1)
    drift = seen.dy.sum(0)  # [N, 2]
    numbers = {
        "across": across.mean(-1),
        "up and down": up.mean(-1),
        "turns across": turns_x.mean(-1),
        "turns up and down": turns_y.mean(-1),
        "still left": still[:, 0],
        "still right": still[:, 1],
        "one moves alone": alone,
        "drift upwards": drift.mean(-1),
        "target switches": switches,
    }
    steady = [
        (still[:, i] > STANDING) & (turns_y[:, 1 - i] >= 2) & (up > across)[:, 1 - i]
        for i in (0, 1)
    ]
    rules = {
        "one-sided swinging": steady[0] | steady[1],
        "swinging": (across > up).all(-1) & (turns_x >= 3).all(-1),
        "parallel hit-and-run": (drift < -2).all(-1),
        "alternate distraction": (switches >= 3)
        & (still <= STANDING).all(-1)
        & (alone > 0.4)
        & (drift.mean(-1) > 0),
        "alternating fire": (switches >= 3) & (still > ON_THE_SPOT).all(-1),
    }
    return numbers, rules


def colossi(seen: Tracks) -> Reading:
    """cliff walk: one colossus crosses the cliff twice or goes 10 cells along it, and late they are
    8 cells apart.
    cliff sniping: both spend more than half of the time at the cliff's edge.
    corner: after the first steps both are within 3 cells of a corner of the plateau for most of the
    time.
    attractor and sniper: apart; one takes most of the damage, the other nearly none in the second
    half.
    left wave, right wave: together on the plateau, firing from the left or right of it.
    """
    middle = (seen.x > 8) & (seen.x < 24)
    at_rim = middle & (np.abs(seen.y - CLIFF_Y) < 2.5)
    rim = _share(at_rim, seen.alive)
    plateau = _share((seen.y >= 14) & (seen.x >= 4) & (seen.x < 28), seen.alive).mean(-1)
    along = np.where(at_rim, np.abs(seen.dx), 0.0).sum(0).max(-1)
    crossings = _crossings(seen).max(-1)
    both = np.asarray(seen.alive.all(-1))
    apart = np.hypot(seen.x[..., 0] - seen.x[..., 1], seen.y[..., 0] - seen.y[..., 1])
    time = np.cumsum(seen.live, 0)
    late = both & (time > 2 / 3 * time[-1])
    separation, late_separation = _mean(apart, both), _mean(apart, late)
    corner = [np.hypot(seen.x - x, seen.y - y) < 3.0 for x, y in CORNERS]
    settled = seen.alive & (time > SETTLED)[..., None]
    corners = _share(corner[0] | corner[1], settled).min(-1)
    lost = seen.lost.sum(0)
    asymmetry = np.abs(lost[:, 0] - lost[:, 1]) / np.maximum(lost.sum(-1), 1.0)
    second = np.where((time > time[-1] / 2)[..., None], seen.lost, 0.0).sum(0)
    # Of the one that loses less in all: a dead attractor loses nothing late.
    sniper = np.take_along_axis(second, lost.argmin(-1)[:, None], -1)[:, 0]
    firing_x = _mean(seen.x, seen.fired, (0, 2))
    above = ((seen.enemy_y > CLIFF_Y) & seen.enemy_alive).sum((0, 2))
    partition = above / np.maximum(seen.enemy_alive.sum((0, 2)), 1)
    numbers = {
        "firing x": firing_x,
        "separation": separation,
        "late separation": late_separation,
        "plateau": plateau,
        "rim": rim.mean(-1),
        "along the rim": along,
        "crossings": crossings,
        "in a corner": corners,
        "damage asymmetry": asymmetry,
        "sniper's late damage": sniper,
        "enemies above": partition,
    }
    wave = (separation < TOGETHER) & (plateau > 0.7)
    rules = {
        "cliff walk": ((crossings >= 2) | (along > 10)) & (late_separation > 8),
        "cliff sniping": (rim > 0.5).all(-1),
        "corner": corners > 0.6,
        "attractor and sniper": (separation > 3) & (asymmetry > 0.7) & (sniper < UNHURT),
        "left wave": wave & (firing_x < 12),
        "right wave": wave & (firing_x > 20),
    }
    return numbers, rules


READERS: dict[str, Callable[[Tracks], Reading]] = {"2m_vs_1z": marines, "2c_vs_64zg": colossi}


def _still(seen: Tracks) -> np.ndarray:
    return np.hypot(seen.dx, seen.dy) < MOVED


def _share(where: np.ndarray, of: np.ndarray) -> np.ndarray:
    """[N, allies] the share of its steps in which something holds for a unit."""
    return (where & of).sum(0) / np.maximum(of.sum(0), 1)


def _mean(values: np.ndarray, where: np.ndarray, axis: Any = 0) -> np.ndarray:
    return np.where(where, values, 0.0).sum(axis) / np.maximum(where.sum(axis), 1)


def _turns(moves: np.ndarray) -> np.ndarray:
    """[N, allies] how often a unit reverses direction on one axis, ignoring pauses."""
    way = np.where(np.abs(moves) > MOVED, np.sign(moves), 0.0)
    turns, last = np.zeros(way.shape[1:]), np.zeros(way.shape[1:])
    for now in way:
        turns += (now * last) < 0
        last = np.where(now != 0, now, last)
    return turns


def _switches(target: np.ndarray, live: np.ndarray) -> np.ndarray:
    """[N] how often one target is followed by another, ignoring gaps."""
    count, last = np.zeros(target.shape[1]), np.full(target.shape[1], -1)
    for now, on in zip(target, live, strict=True):
        count += on & (now >= 0) & (last >= 0) & (now != last)
        last = np.where(on & (now >= 0), now, last)
    return count


def _crossings(seen: Tracks) -> np.ndarray:
    """[N, allies] how often a unit walks over the cliff, from ground to ground."""
    over = (seen.x >= 4) & (seen.x < 28) & seen.alive
    level = np.where(over & (seen.y >= 14), 1, np.where(over & (seen.y < 12), -1, 0))
    count, last = np.zeros(level.shape[1:]), np.zeros(level.shape[1:])
    for now, inside in zip(level, over, strict=True):
        count += now * last < 0
        last = np.where(inside, np.where(now != 0, now, last), 0)  # walking around starts over
    return count
