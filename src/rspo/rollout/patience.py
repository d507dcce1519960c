"""Reports an environment that has not answered for a while. Nothing is stopped: the run continues
when it answers."""

import contextlib
import math
import os
import threading
import time
import warnings
from collections.abc import Iterator

from rspo.errors import RspoWarning

VARIABLE, SECONDS = "RSPO_PATIENCE", 60.0


def patience() -> float:
    """Seconds without an answer until it is reported."""
    try:
        seconds = float(os.environ.get(VARIABLE, SECONDS))
    except ValueError:
        return SECONDS
    return seconds if 0 < seconds < math.inf else SECONDS


class Signs:
    """The time of the last sign of life."""

    def __init__(self) -> None:
        self.last = -math.inf

    def beat(self) -> None:
        self.last = time.monotonic()


@contextlib.contextmanager
def watching(title: str, *signs: Signs) -> Iterator[None]:
    """Within this context a sign is expected regularly, or a message names the environment that
    has not answered: after a while, after twice as long, and so on."""
    over, begun = threading.Event(), time.monotonic()
    watcher = threading.Thread(
        target=_watch, args=(title, signs, begun, over), name="rspo-patience", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()


def _watch(title: str, signs: tuple[Signs, ...], begun: float, over: threading.Event) -> None:
    said, limit = 0.0, patience()
    while True:
        last = max(begun, *(sign.last for sign in signs)) if signs else begun
        if last > said:
            limit = patience()
        quiet = time.monotonic() - last
        if quiet >= limit:
            warnings.warn(
                f"{title} has not answered for {quiet:.0f} seconds, at "
                f"{time.strftime('%H:%M:%S')}: its step or reset may hang. If it answers, the run "
                "continues; Ctrl-C, twice if necessary, ends it and keeps what was found.",
                RspoWarning,
                stacklevel=2,
            )
            said, limit = time.monotonic(), 2 * limit
        if over.wait(last + limit - time.monotonic()):
            return
