"""Ctrl-C, SIGTERM and a closed terminal (SIGHUP): where they take effect.

A handler that raises does so wherever Python happens to be: in a callback of the garbage collector,
where the exception is swallowed, or during a JAX computation, which continues while the
interpreter shuts down. So while there is something to keep, the first signal is only noted, and
`check` raises KeyboardInterrupt where that is safe; the second one ends the process at once.

Python's own handlers run on the main thread, once it returns from compiled code. Our own thread
receives a signal at once, reports it, and counts.
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

CODE = 130  # exit code of an interrupted process
# seconds within which a signal is not a second one: a terminal and a wrapper may both pass on one
# Ctrl-C
ECHO = 0.5
POLL = 0.1  # seconds between checks for a signal while waiting for something else
SAID = "stopping after the current update; press Ctrl-C again to end at once"

killed_too: list[Callable[[], None]] = []  # called before this process ends at once


class _Watch:
    """Receives signals from its creation until it is closed. `own`: we may end the process."""

    def __init__(self, names: tuple[str, ...], own: bool) -> None:
        self.own = own
        self.say: Callable[[str], None] | None = None  # while there is something to keep
        self.asked = self.known = self.twice = self.raised = False
        self.first = 0.0
        self.ends = os.pipe()
        if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12
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
        if self.twice and not self.raised:
            self.known = self.raised = True
            raise KeyboardInterrupt

    def _listen(self) -> None:
        while number := os.read(self.ends[0], 1)[0]:
            if number in self.before:
                self._hear()
            elif self.wakeup != -1:  # another handler's
                with contextlib.suppress(OSError):
                    os.write(self.wakeup, bytes([number]))

    def _hear(self) -> None:
        if self.say is None:
            if self.own:
                end_at_once()
        elif not self.first:
            self.first = time.monotonic()
            with contextlib.suppress(Exception):  # the terminal may be gone
                self.say(SAID)
        elif time.monotonic() - self.first < ECHO or self.twice:
            return
        elif self.own:
            end_at_once()
        else:
            self.twice = True
            self._insist()

    def _insist(self) -> None:
        """Until the handler has run again and raised. It does not run if the signal comes when the
        main thread is just about to wait in a system call, as one that slept and is to sleep on."""
        while not (self.raised or self.say is None):
            _signal_main()
            time.sleep(POLL)


def _signal_main() -> None:
    """Ctrl-C once more, for the main thread."""
    if hasattr(signal, "pthread_kill"):  # also wakes it from a system call
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


_watch: _Watch | None = None


def own_process() -> None:
    """From now on a signal ends this process at once, except where there is something to keep."""
    global _watch
    _watch = _Watch(("SIGINT", "SIGTERM", "SIGHUP"), own=True)


@contextlib.contextmanager
def deferred(say: Callable[[str], None]) -> Iterator[None]:
    """Within this context there is something to keep. In a process that is not ours only Ctrl-C is
    handled, only on the main thread, and only where it would raise KeyboardInterrupt. Inside
    another such context this one adds nothing."""
    global _watch
    nested = _watch is not None and _watch.say is not None
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    elsewhere = threading.current_thread() is not threading.main_thread()
    if nested or elsewhere or not (_watch or usual):
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
            if watch.asked and not watch.known:  # it came after the last check
                raise KeyboardInterrupt


def asked() -> bool:
    """Whether to stop; only on the main thread, which tells the others."""
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
    """The results of all, unless one fails or a stop is requested."""
    while True:
        check()
        done, left = wait(futures, POLL, FIRST_EXCEPTION)
        finished = [future.result() for future in futures if future in done]
        if not left:
            return finished


def wait_to_read(pipe: Any) -> None:
    """Wait until there is something to read, or a stop is requested."""
    check()
    if os.name == "nt":  # select takes only sockets there: a stop waits for the answer
        return
    while not select.select([pipe], [], [], POLL)[0]:
        check()


def end_at_once() -> NoReturn:
    """Exit without shutting down the interpreter, since other threads may still be computing."""
    with contextlib.suppress(BaseException):
        for kill in killed_too:
            kill()
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # show the cursor that a progress bar hid
    os._exit(CODE)


def _not_ignored(names: tuple[str, ...]) -> list[int]:
    """The signals that exist here and are not ignored, as by `nohup` or a background shell."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
