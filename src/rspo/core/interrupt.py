"""Ctrl-C, a polite kill (SIGTERM) and a closed terminal (SIGHUP): where they take effect.

A handler that raises does so wherever Python happens to be: in a callback of the garbage collector,
where the exception is swallowed, or amid a computation of JAX's, which goes on while the
interpreter is taken down around it. So while there is something to keep, the first signal is only
noted, and `check` raises KeyboardInterrupt where that is safe; the second one ends at once.

Python's own handlers run on the main thread, once that is back from compiled code. A thread of our
own hears of a signal at once, says so, and counts.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

CODE = 130  # with which an interrupted process ends
# seconds in which a signal is not a second one: a terminal and a wrapper may both pass on one
# Ctrl-C
ECHO = 0.5
POLL = 0.1  # seconds between two looks for a signal, where something else is waited for
SAID = "stopping after the current update; press Ctrl-C again to end at once"

killed_too: list[Callable[[], None]] = []  # called before this process ends at once


class _Watch:
    """Hears signals from when it is made until it is closed. `own`: the process is ours to end."""

    def __init__(self, names: tuple[str, ...], own: bool) -> None:
        self.own = own
        self.say: Callable[[str], None] | None = None  # while there is something to keep
        self.asked = self.known = self.twice = False
        self.first = 0.0
        self.ends = os.pipe()
        os.set_blocking(self.ends[1], False)
        self.before = {number: signal.signal(number, self._note) for number in _not_ignored(names)}
        self.wakeup = signal.set_wakeup_fd(self.ends[1], warn_on_full_buffer=False)
        self.thread = threading.Thread(target=self._listen, name="rspo-signals", daemon=True)
        self.thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self.wakeup)
        for number, handler in self.before.items():
            signal.signal(number, handler)
        os.write(self.ends[1], b"\0")
        self.thread.join()
        for end in self.ends:
            os.close(end)

    def _note(self, *_: Any) -> None:
        """On the main thread."""
        self.asked = True
        if self.twice:
            self.known = True
            raise KeyboardInterrupt

    def _listen(self) -> None:
        while number := os.read(self.ends[0], 1)[0]:
            if number in self.before:
                self._hear()
            elif self.wakeup != -1:  # somebody else's
                with contextlib.suppress(OSError):
                    os.write(self.wakeup, bytes([number]))

    def _hear(self) -> None:
        if self.say is None:
            if self.own:
                end_at_once()
        elif not self.first:
            self.first = time.monotonic()
            with contextlib.suppress(Exception):  # there may be no terminal any more
                self.say(SAID)
        elif time.monotonic() - self.first < ECHO or self.twice:
            return
        elif self.own:
            end_at_once()
        else:
            self.twice = True
            signal.pthread_kill(
                threading.main_thread().ident or 0, signal.SIGINT
            )  # to be told again, knowing that


_watch: _Watch | None = None


def own_process() -> None:
    """From now on a signal ends this process at once, but for where there is something to keep."""
    global _watch
    _watch = _Watch(("SIGINT", "SIGTERM", "SIGHUP"), own=True)


@contextlib.contextmanager
def deferred(say: Callable[[str], None]) -> Iterator[None]:
    """Meanwhile there is something to keep. In a process that is not ours this is about Ctrl-C
    alone, and only on the main thread and where it would be a KeyboardInterrupt."""
    global _watch
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not (_watch or usual):
        yield
        return
    watch = _watch = _watch or _Watch(("SIGINT",), own=False)
    watch.say = say
    try:
        yield
    finally:
        watch.say = None
        if not watch.own:
            watch.close()
            _watch = None
            if watch.asked and not watch.known:  # it came after the last look
                raise KeyboardInterrupt


def asked() -> bool:
    """Whether to stop; on the main thread alone, which tells the others."""
    if (
        _watch is None
        or not _watch.asked
        or threading.current_thread() is not threading.main_thread()
    ):
        return False
    _watch.known = True
    return True


def check() -> None:
    """Stop here, if asked to."""
    if asked():
        raise KeyboardInterrupt


def results(futures: Sequence[Future[T]]) -> list[T]:
    """Of all of them, unless one fails, or it is asked to stop."""
    while True:
        check()
        done, left = wait(futures, POLL, FIRST_EXCEPTION)
        finished = [future.result() for future in futures if future in done]
        if not left:
            return finished


def wait_to_read(pipe: Any) -> None:
    """Until there is something to read, or it is asked to stop."""
    check()
    while not select.select([pipe], [], [], POLL)[0]:
        check()


def end_at_once() -> NoReturn:
    """Without taking down the interpreter, under which other threads may still compute."""
    with contextlib.suppress(BaseException):
        for kill in killed_too:
            kill()
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the cursor, which a progress bar hides
    os._exit(CODE)


def _not_ignored(names: tuple[str, ...]) -> list[int]:
    """Those that the system has; `nohup`, or a shell's background, had its reasons."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
