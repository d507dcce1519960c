"""The command line with an accident built in: `python rigged.py WHAT MOMENT DELAY WHERE
ARGUMENTS...`

WHAT happens DELAY seconds after the MOMENT-th change of a path that begins with WHERE (0: the start
of the process); `1,3` names two moments. It is the name of a signal that the process gets (KILL,
INT, TERM, STOP), or `limit` (the size of files), or `fill=FILE` (the disk that FILE is on), or
`nothing`. Checkpoints are written at every opportunity. Standard error ends with the number of
changes, where the process lives to tell.
"""

import atexit
import contextlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Changes:
    """Counts the changes of paths that begin with `where`, before each is made, and calls `then`
    with their number."""

    listening: ClassVar[list["Changes"]] = []

    def __init__(self, where: str, then: Callable[[int], None]) -> None:
        self.where, self.then, self.count = where, then, 0
        self.listening.append(self)

    def stop(self) -> None:
        self.listening.remove(self)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_change(event, arguments):
            self.count += 1
            self.then(self.count)

    def _is_change(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            if not arguments[2] & WRITING:
                return False
        elif event not in ("os.rename", "os.mkdir", "os.remove", "os.rmdir"):
            return False
        path = arguments[0]
        return not isinstance(path, int) and os.fsdecode(path).startswith(self.where)


def hear(event: str, arguments: tuple[Any, ...]) -> None:
    for changes in list(Changes.listening):
        changes.hear(event, arguments)


sys.addaudithook(hear)  # audit hooks cannot be removed


def accident(what: str) -> None:
    if what.startswith("fill="):
        with (
            contextlib.suppress(OSError),
            open(what.removeprefix("fill="), "wb", buffering=0) as ballast,
        ):
            while True:
                ballast.write(bytes(4096))
    elif what == "limit":
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )
    elif what != "nothing":
        os.kill(os.getpid(), signal.Signals[f"SIG{what}"])
        time.sleep(0.3)  # a signal that ends the process takes effect here


def main() -> None:
    what, moment, delay, where, *arguments = sys.argv[1:]

    def then(count: int) -> None:
        if str(count) in moment.split(","):
            if float(delay):
                threading.Timer(float(delay), accident, (what,)).start()
            else:
                accident(what)

    then(0)
    changes = Changes(where, then)
    atexit.register(lambda: print(f"changes: {changes.count}", file=sys.stderr))
    sys.argv = ["rspo", *arguments]
    import rspo.api
    import rspo.core.interrupt
    from rspo.__main__ import main

    rspo.core.interrupt.ECHO = 0.0  # two signals are two, however close
    rspo.api.CHECKPOINT_SECONDS = -1.0
    main()


if __name__ == "__main__":
    main()
