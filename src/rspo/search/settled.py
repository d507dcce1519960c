"""Whether an iteration may end early: there is nothing more to gain in it. Either its return has
settled and nothing is rejected any more, or over three times as many updates neither its return
nor its acceptance has risen: it is stuck, and going on would not get it accepted.

The decision uses only the metrics of its updates, and is made only after every tenth, so that a
resumed run decides the same. An iteration that ends early is not fully annealed: the learning rate
and the entropy bonus stay where they are in the schedule of `ppo.updates`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rspo.config import Config

EVERY = 10  # updates between two decisions
LEVEL = 0.02  # of what was gained since the first update: less than this is no change
ABOVE = 3.0  # standard deviations of a batch's return that the gain must exceed
ACCEPTED = 0.95  # share of a window's episodes that counts as all of them
PATIENCE = 3  # windows over which one that is stuck must not get better
CREEP = 0.01  # of what was gained since the first update: one that is stuck gains no more than this
RISE = 0.05  # of all episodes: nor are so many more of them accepted
Rows = Sequence[Mapping[str, Any]]


def over(config: Config, rows: Sequence[Rows]) -> bool:
    """Whether a round is trained to its end; `rows` are the metrics of each member's updates."""
    done = len(rows[0])
    if done >= config.training.updates:
        return True
    window = config.ppo.settled
    ended = lambda own: settled(own, window) or stuck(own, window)
    return window > 0 and done % EVERY == 0 and all(ended(own) for own in rows)


def settled(rows: Rows, window: int) -> bool:
    """Whether the mean return of the last `window` updates equals that of the `window` before, is
    clearly above the first, and all of their episodes were accepted. Their mean counts: of eight
    episodes in a batch, one is already an eighth."""
    if len(rows) < 2 * window:
        return False
    before, last = _two(_column(rows, "return"), window)
    gained = _gained(rows, window)
    return bool(
        gained > 0
        and abs(last.mean() - before.mean()) <= LEVEL * gained
        and _column(rows, "accepted")[-window:].mean() >= ACCEPTED
    )


def stuck(rows: Rows, window: int) -> bool:
    """Whether from `PATIENCE` windows to the next the return has not changed and the acceptance has
    not risen, nor begun to rise in the last window. Standard errors are added, because a batch may
    have few episodes and an iteration that does get better must go on."""
    patience = PATIENCE * window
    if len(rows) < 2 * patience:
        return False
    change, doubt = _change(_column(rows, "return"), patience)
    accepted = _column(rows, "accepted")
    rise, blur = _change(accepted, patience)
    begun, _ = _change(accepted, window)
    level = rise + blur <= RISE and begun <= RISE
    gained = _gained(rows, patience)
    return bool(gained > 0 and abs(change) + doubt <= CREEP * gained and level)


def _gained(rows: Rows, window: int) -> float:
    """The mean return of the last updates above that of the first; 0 if that may be chance."""
    returns = _column(rows, "return")
    gained = float(returns[-window:].mean() - returns[0])
    return gained if gained > ABOVE * returns[-window:].std() else 0.0


def _change(values: np.ndarray, window: int) -> tuple[float, float]:
    """From the mean of one window to that of the next, and the standard error of that."""
    before, last = _two(values, window)
    error = np.sqrt((before.var() + last.var()) / window)
    return float(last.mean() - before.mean()), float(error)


def _two(values: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """The last window, after the one before it."""
    return values[-2 * window : -window], values[-window:]


def _column(rows: Rows, name: str) -> np.ndarray:
    """A method without a filter accepts everything."""
    return np.array([row.get(name, 1.0) for row in rows], np.float64)
