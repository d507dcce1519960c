"""The caller's callbacks during a run, and how they stop it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rspo.search.archive import Strategy
from rspo.search.loop import Found, Position


class Update(NamedTuple):
    """One update of one policy, as `on_update` gets it."""

    iteration: int
    """The round of training, from 0."""
    member: int
    """The policy within that round; 0 where it trains only one."""
    attempt: int
    """The attempt, from 1."""
    update: int
    """The update within the round, from 1."""
    metrics: Mapping[str, Any]
    """Its line in `metrics.jsonl`: `return`, `accepted`, `entropy`, `loss` and more."""


OnUpdate = Callable[[Update], Any]
OnStrategy = Callable[[Strategy], Any]


class StopRequested(Exception):
    """A callback asked to stop: what was found is kept, as after Ctrl-C."""


@dataclass
class Callbacks:
    """Passes on what is new in each event; a callback that returns True stops the run."""

    on_update: OnUpdate | None = None
    on_strategy: OnStrategy | None = None
    seen: dict[tuple[int, int], int] = field(default_factory=dict)
    """How many updates of each round and attempt were reported."""

    def begin(self, start: Position | None) -> None:
        """Updates before a checkpoint were reported by the process that made it."""
        self.seen = {} if start is None else {(start.round, start.attempt): len(start.rows[0])}

    def tell(self, event: Position | Found) -> None:
        if isinstance(event, Found):
            answers = [self.on_strategy(event.strategy)] if self.on_strategy else []
        else:
            answers = [self.on_update(update) for update in self._new(event) if self.on_update]
        # Only True itself: logging functions may return a number of characters.
        if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
            raise StopRequested

    def _new(self, position: Position) -> list[Update]:
        place = position.round, position.attempt
        done = self.seen.get(place, 0)
        self.seen[place] = len(position.rows[0])
        return [
            Update(position.round, member, position.attempt, row["update"], row)
            for rows in zip(*(rows[done:] for rows in position.rows), strict=True)
            for member, row in enumerate(rows)
        ]
