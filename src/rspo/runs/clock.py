"""Seconds of work on a run, over all the processes that worked on it.

They are in a separate file, `times.json`, because everything else in a run folder is the same for
the same seed.
"""

import math
import time
from pathlib import Path

from rspo.core.typed import checked, quoted
from rspo.runs import manifest, store


class Clock:
    """Starts when a process opens the run; NaN where the earlier time is unknown."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self.identity = path / "times.json", identity
        self.began = time.monotonic()
        self.worked = self.before = 0.0

    def read(self) -> None:
        """Continue from what earlier processes wrote; needed only when working on a run."""
        if store.exists(self.path):
            self.go_on_from(manifest.readable(read_seconds, self.path, self.identity))
        elif manifest.finished(self.path.parent):
            self.go_on_from(math.nan)  # from a version that did not count

    def go_on_from(self, seconds: float) -> None:
        self.worked = self.before = seconds

    def mark(self) -> float:
        """Work has just been saved: the seconds up to now count."""
        self.worked = self.before + time.monotonic() - self.began
        return self.worked

    def write(self) -> None:
        store.write(self.path, store.pack_json({"run": self.identity, "seconds": self.worked}))


def read_seconds(path: Path, identity: str) -> float:
    record = store.read_json(path)
    manifest.check_identity(record, path, identity, path.parent)
    return checked(float, record["seconds"], f"{path} has 'seconds' as {quoted(record['seconds'])}")
