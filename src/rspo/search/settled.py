"""Whether an iteration may end early: there is nothing more to gain in it. Either its return has
settled and nothing is rejected any more, or over three times as many updates neither its return
nor its acceptance has risen: it is stuck, and going on would not get it accepted.

It is decided from the metrics of its updates alone, and only after every tenth, so that a run that
was killed and goes on decides the same. What ends early is not annealed: the learning rate and the
entropy bonus are then what they were at that update of all `ppo.updates`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rspo.config import Config

EVERY = 10  # updates between two decisions
LEVEL = 0.02  # of what was gained since the first update: less than this is no change
ABOVE = 3.0  # deviations of a batch's return, by which that gain is more than chance
ACCEPTED = 0.95  # share of a batch that counts as all of it
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
    """The mean return of the last `window` updates is that of as many before, it is clearly more
    than that of the first, and all of these batches were accepted."""
    if len(rows) < 2 * window:
        return False
    before, last = _two(_column(rows, "return"), window)
    gained = _gained(rows, window)
    return bool(
        gained > 0
        and abs(last.mean() - before.mean()) <= LEVEL * gained
        and (_column(rows, "accepted")[-window:] >= ACCEPTED).all()
    )


def stuck(rows: Rows, window: int) -> bool:
    """Over `PATIENCE` windows and as many before, the return has not changed and the acceptance
    has not risen. A standard error is added to either: a batch may have few episodes, and one
    that does get better must not be taken for one that does not."""
    patience = PATIENCE * window
    if len(rows) < 2 * patience:
        return False
    change, doubt = _change(_column(rows, "return"), patience)
    rise, blur = _change(_column(rows, "accepted"), patience)
    gained = _gained(rows, patience)
    return bool(gained > 0 and abs(change) + doubt <= CREEP * gained and rise + blur <= RISE)


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
