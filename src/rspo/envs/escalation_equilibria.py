"""Is a policy of Escalation an equilibrium? Exactly: what would an agent gain by leaving it?

Against a partner that does not change, the game is a finite decision problem, solved backwards
from the last step. Before the first meeting its state is where both agents and the light are, with
L = 0; after it the agents share a cell and the light is beside it: an agent follows it or leaves.

The best response may be any policy, even one that knows the time, which the agents do not observe:
against a partner without time or memory there is nothing else to know. Its return is an upper
bound on that of any deviation. The agents are homogeneous, so one is enough.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rspo.core.types import Descriptor
from rspo.envs.escalation import ALWAYS, Escalation
from rspo.envs.grid import ACTIONS, SIZE

Probabilities = Callable[[np.ndarray], np.ndarray]
"""pi(a | s): observations [..., 7] to probabilities [..., 5]."""

# A deviation may gain this much, or this share of what the policy earns if that is more. Distinct
# equilibria are two or more steps of cooperation apart, which are worth 2; a quarter of that leads
# to no other one. The share is for long cooperation: a sampled policy slips occasionally, and a
# deviation can anticipate that.
GAIN, SHARE = 0.5, 0.05

CELLS = SIZE * SIZE
_MOVES = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)])  # of `ACTIONS`
# Position of a cell's number.
_XY = np.stack([np.arange(CELLS) % SIZE, np.arange(CELLS) // SIZE], axis=-1)
_WALKED = np.clip(_XY[:, None] + _MOVES, 0, SIZE - 1)
_NEXT = _WALKED[..., 1] * SIZE + _WALKED[..., 0]  # [cell, action] the cell that an action leads to
_BESIDE = np.array([[np.abs(a - b).sum() == 1 for b in _XY] for a in _XY])
_WANDER = _BESIDE / _BESIDE.sum(1, keepdims=True)  # [cell, cell] where the light goes
_HERE = np.arange(CELLS)


class Pair(NamedTuple):
    """Two agents that both play one policy."""

    value: float
    """What each of them earns in an episode."""
    best: float
    """The most that one of them could earn by deviating."""
    length: int
    """L*: their likeliest final L."""
    unbroken: float
    """How often they cooperate to the end, for half of the horizon or more."""

    @property
    def gain(self) -> float:
        return self.best - self.value

    def describe(self, tolerance: float = 1.0) -> Descriptor:
        """What `rspo.envs.escalation.count_equilibria` counts: clear if neither gains by
        deviating, up to this multiple of the tolerance. Never meeting does not count."""
        stable = self.gain <= tolerance * max(GAIN, SHARE * self.value)
        label = ALWAYS if self.unbroken >= 0.8 else f"L={self.length}"
        return Descriptor(label, {"L*": float(self.length)}, clear=stable and self.length > 0)


class _Table(NamedTuple):
    """A policy in all states that can occur."""

    apart: np.ndarray  # [own cell, other's, light's, action] before the first meeting
    follow: np.ndarray  # [own cell, light's, L] the probability of stepping on the light


def examine(play: Probabilities) -> Pair:
    """Two agents that play `play`, and the best response to it."""
    env = Escalation()
    horizon = env.spec.horizon
    table = _tabulate(play, horizon)
    lengths, unbroken = _lengths(table, horizon)
    value, best = (_start(_values(env, horizon, table, own)) for own in (table, None))
    return Pair(value, best, int(lengths.argmax()), unbroken)


def _tabulate(play: Probabilities, horizon: int) -> _Table:
    own, other, light = np.meshgrid(_HERE, _HERE, _HERE, indexing="ij")
    apart = play(_observed(np.zeros_like(own), own, other, light))
    pairs = np.argwhere(_BESIDE)[:, None]  # [pair, 1, (cell, light's)]
    cell, lit, length = np.broadcast_arrays(pairs[..., 0], pairs[..., 1], np.arange(1, horizon + 1))
    steps_on_it = _NEXT[cell] == lit[..., None]  # one action does
    follow = np.zeros((CELLS, CELLS, horizon + 1))
    follow[cell, lit, length] = (play(_observed(length, cell, cell, lit)) * steps_on_it).sum(-1)
    return _Table(np.asarray(apart, np.float64), follow)


def _observed(
    length: np.ndarray, own: np.ndarray, other: np.ndarray, light: np.ndarray
) -> np.ndarray:
    """What an agent sees: as `Escalation._observe`."""
    relative = (_XY[other] - _XY[own], _XY[light] - _XY[own])
    return np.concatenate([length[..., None], _XY[own], *relative], axis=-1).astype(np.float32)


def _values(env: Escalation, horizon: int, partner: _Table, own: _Table | None) -> np.ndarray:
    """What an agent earns from every start, [own cell, partner's, light's], with `own` or, by
    default, the best response."""
    apart = np.zeros((CELLS, CELLS, CELLS))  # with no step left, then one more each time
    together = np.zeros((CELLS, CELLS, horizon + 2))  # [cell of both, light's, L]
    length = np.arange(horizon + 1)
    for _ in range(horizon):
        # [cell where they meet, the new L]
        after = env.cooperation + (_WANDER[..., None] * together).sum(1)
        ahead = apart.copy()
        ahead[_HERE, _HERE, _HERE] = after[:, 1]
        apart = _choose(_of_actions(ahead, partner.apart), None if own is None else own.apart)
        p = partner.follow
        followed = p * after[None, :, 1:] + (1 - p) * env.penalty * length
        together[..., :-1] = np.maximum(followed, 0.0) if own is None else own.follow * followed
    return apart


def _of_actions(ahead: np.ndarray, partner: np.ndarray) -> np.ndarray:
    """The mean of `ahead` [own cell, partner's, light's] over the partner's moves, with an extra
    axis for the own action."""
    theirs = partner.swapaxes(0, 1)  # the partner's own cell comes first in its table
    moved = sum(theirs[..., b][None] * ahead[:, _NEXT[:, b]][:, None] for b in range(len(ACTIONS)))
    # moved: [own next cell, own cell, partner's cell, light's]
    return np.stack([moved[_NEXT[:, a], _HERE] for a in range(len(ACTIONS))], axis=-1)


def _choose(values: np.ndarray, probabilities: np.ndarray | None) -> np.ndarray:
    return values.max(-1) if probabilities is None else (values * probabilities).sum(-1)


def _different() -> np.ndarray:
    """The probability of every start: all on different cells, equally likely."""
    own, other, light = np.meshgrid(_HERE, _HERE, _HERE, indexing="ij")
    different = (own != other) & (own != light) & (other != light)
    return different / different.sum()


def _start(values: np.ndarray) -> float:
    return float((_different() * values).sum())


def _lengths(table: _Table, horizon: int) -> tuple[np.ndarray, float]:
    """The distribution of the final L where both play `table`, and `Pair.unbroken`."""
    apart, together = _different(), np.zeros((CELLS, CELLS, horizon + 1))
    ended = np.zeros(horizon + 1)
    both = table.follow**2
    for _ in range(horizon):
        ended += (together * (1 - both)).sum((0, 1))
        met = np.zeros((CELLS, horizon + 1))  # [cell where they meet, the new L]
        met[:, 1:] = (together * both).sum(0)[:, :-1]
        apart = _walked(apart, table.apart)
        met[:, 1] += apart[_HERE, _HERE, _HERE]
        apart[_HERE, _HERE, _HERE] = 0.0
        together = _WANDER[..., None] * met[:, None]
    last = together.sum((0, 1))
    lengths = ended + last
    lengths[0] += apart.sum()
    return lengths, float(last[2 * np.arange(horizon + 1) >= horizon].sum())


def _walked(apart: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Where the agents, spread over `apart` [one, other, light], are a step later."""
    after = np.zeros_like(apart)
    theirs = policy.swapaxes(0, 1)
    for a in range(len(ACTIONS)):
        for b in range(len(ACTIONS)):
            np.add.at(
                after,
                (_NEXT[:, a][:, None], _NEXT[:, b][None]),
                apart * policy[..., a] * theirs[..., b],
            )
    return after
