"""How far the jobs of a command are, and how long the rest takes at the pace so far."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rspo.config import Config
from rspo.runs import manifest
from rspo.runs.store import StoreError

EVERY = 5.0  # seconds between looks at the run folders
KNOWN = 0.02  # the share of the work after which the pace is known


@dataclass(frozen=True)
class Work:
    """A job to do."""

    name: str
    folder: Path
    config: Config
    seconds: float | None = None
    """About what it takes on one idle core, if that is known."""

    def share(self) -> float:
        """The finished share of its updates, from its folder."""
        found = len(manifest.finished(self.folder))
        try:
            round = manifest.updates(self.folder) / self.config.training.updates
        except (
            StoreError
        ):  # gone since, with the end of its round; what is damaged fails in the job
            round = 0.0
        return min((found + round * self.config.plan.per_round) / self.config.iterations, 1.0)


@dataclass(frozen=True)
class Progress:
    """How far all of them are."""

    total: int
    done: int
    failed: int
    share: float
    """Of the work of this command."""
    left: str
    running: tuple[tuple[str, float], ...] = ()
    """Names and finished shares."""

    @property
    def counts(self) -> str:
        return f"{self.done} of {self.total} done" + f", {self.failed} failed" * bool(self.failed)

    def __str__(self) -> str:
        running = [f"{name} {share:.0%}" for name, share in self.running]
        return "; ".join([", ".join(filter(None, (self.counts, self.left))), *running])


class Pace:
    """Watches jobs from the start of a command. What was finished before it says nothing about the
    pace."""

    def __init__(self, works: Sequence[Work], workers: int) -> None:
        self.works, self.workers = {work.name: work for work in works}, workers
        self.before = {work.name: work.share() for work in works}
        self.over: dict[str, float] = {}  # the share when it ended; less than 1 where it failed
        self.failed = 0
        self.began = self.shown = time.monotonic()

    def ended(self, name: str, *, failed: bool) -> None:
        self.over[name] = self.works[name].share() if failed else 1.0
        self.failed += failed

    def due(self) -> bool:
        """Whether it is time for another look."""
        return time.monotonic() - self.shown > EVERY

    def progress(self) -> Progress:
        self.shown = time.monotonic()
        going = {n: work.share() for n, work in self.works.items() if n not in self.over}
        now = self.over | going
        goal = self.over | dict.fromkeys(going, 1.0)
        cost = {name: work.seconds or 1.0 for name, work in self.works.items()}
        part = lambda shares: sum(cost[n] * (s - self.before[n]) for n, s in shares.items())
        total, done, passed = part(goal), part(now), self.shown - self.began
        known = all(work.seconds for work in self.works.values())
        left = time_left(total, done, passed, self.workers if known else None) if going else ""
        running = [(name, share) for name, share in going.items() if share > 0]
        return Progress(
            len(self.works),
            len(self.over) - self.failed,
            self.failed,
            done / total if total else 1.0,
            left,
            tuple(running[: self.workers]),
        )


def time_left(total: float, done: float, passed: float, workers: int | None) -> str:
    """At the pace so far; before that is known, as expected on `workers` idle cores."""
    if done > KNOWN * total:
        return f"about {clock(passed * (total - done) / done)} left"
    if workers is not None and passed < total / workers:
        return f"about {clock(total / workers - passed)} left"
    return "the time left is not known yet"


def clock(seconds: float) -> str:
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
