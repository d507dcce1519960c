"""Keeps cores awake while a host environment trains on all of them, on virtual machines.

Where players and learners take turns, and learners meet in every gradient step, cores have nothing to do for a fraction
of a millisecond again and again. A virtual machine gives a core that sleeps back to its host, and gets it again late.
So on every core a process waits without sleeping, at the lowest priority. What that gains, and where it was measured,
is in docs/experiments.md.
"""

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_KEEPERS: list[subprocess.Popen[bytes]] = []  # started when they are needed; they end with this process
_WANTED: set[object] = set()  # by whom
_LOCK = threading.Lock()
_AUTOGROUP = Path("/proc/self/autogroup")


@contextlib.contextmanager
def awake(devices: int) -> Iterator[None]:
    """Meanwhile the cores stay awake, if they can be kept so, and there are several, with a device for each."""
    from rspo.parallel import cores  # here: a keeper runs this file too, and should load nothing of that

    one = object()
    try:
        if 1 < devices >= cores():
            _want(one, True)
        yield
    finally:
        _want(one, False)


def _want(one: object, wanted: bool) -> None:
    with _LOCK:
        _WANTED.add(one) if wanted else _WANTED.discard(one)
        if _WANTED and not _KEEPERS and can_keep():
            with contextlib.suppress(OSError):  # there may be too many processes; all works without these
                _KEEPERS.extend(map(_keeper, sorted(os.sched_getaffinity(0))))
        for keeper in _KEEPERS:
            with contextlib.suppress(OSError):  # somebody has ended it, or it has not yet read what it was told before
                os.write(keeper.stdin.fileno(), b"1" if _WANTED else b"0")  # type: ignore[union-attr]


@cache
def can_keep(root: Path = Path("/")) -> bool:
    """Whether this is a virtual machine, and no quota of the processor's time would be used up by waiting."""
    if not (hasattr(os, "SCHED_IDLE") and sys.executable):
        return False
    return " hypervisor " in _text(root / "proc/cpuinfo") and set(_quotas(root)) <= {"", "max", "-1"}


def _quotas(root: Path) -> Iterator[str]:
    """Of the groups that this process belongs to: Linux's control groups, of either version."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            mount, file = ("cpu", "cpu.cfs_quota_us") if controllers else ("", "cpu.max")
            own = root / "sys/fs/cgroup" / mount / group.lstrip("/")
            for folder in (own, *own.parents):
                yield _text(folder / file).partition(" ")[0].strip()


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _keeper(core: int) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C is not for it, and where Linux weighs sessions it can have little weight. Should it
    # fail, that is nothing to tell the user.
    command = [sys.executable, "-I", "-S", __file__, str(core)]
    nowhere = subprocess.DEVNULL
    keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True)
    os.set_blocking(keeper.stdin.fileno(), False)  # type: ignore[union-attr]
    return keeper


def _keep(core: int) -> None:
    """Until who started this has no more words. The last one says whether the core is to be kept awake."""
    parent = os.getppid()
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    _weigh_little()
    while word := os.read(0, 64):
        while word.endswith(b"1") and not select.select([0], [], [], 0)[0]:
            if os.getppid() != parent:  # a child of the parent's may have kept the pipe open
                return
            for _ in range(100):
                os.sched_yield()  # or it would keep the core for milliseconds when it should not have it


def _weigh_little() -> None:
    """Against other sessions: Linux shares a core between them before it looks at priorities."""
    while _AUTOGROUP.exists():
        try:
            _AUTOGROUP.write_text("19")
        except BlockingIOError:  # ten times a second is the most that the system allows, all processes together
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    _keep(int(sys.argv[1]))
