"""Whether an iteration may end early: its return has settled, and nothing is rejected any more.

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
ACCEPTED = 0.95  # share of a batch that counts as all of it
Rows = Sequence[Mapping[str, Any]]


def over(config: Config, rows: Sequence[Rows]) -> bool:
    """Whether a round is trained to its end; `rows` are the metrics of each member's updates."""
    done = len(rows[0])
    if done >= config.training.updates:
        return True
    window = config.ppo.settled
    return window > 0 and done % EVERY == 0 and all(settled(own, window) for own in rows)


def settled(rows: Rows, window: int) -> bool:
    """Whether the mean return of the last `window` updates equals that of the `window` before, is
    clearly above the first, and all of these batches were accepted."""
    if len(rows) < 2 * window:
        return False
    returns = np.array([row["return"] for row in rows], np.float64)
    before, last = returns[-2 * window : -window], returns[-window:]
    gained = last.mean() - returns[0]
    return bool(
        gained > ABOVE * last.std()
        and abs(last.mean() - before.mean()) <= LEVEL * gained
        and all(row.get("accepted", 1.0) >= ACCEPTED for row in rows[-window:])
    )
