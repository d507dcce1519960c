"""Keeps cores awake while devices wait for each other, where that takes long: on Linux's virtual machines.

Devices that learn together meet in every gradient step, and whoever comes first sleeps until the others are there. A
virtual machine gives a core that sleeps back to its host, and gets it again after a tenth of a millisecond or more,
which is as long as half a step. So on every core a process waits without sleeping, and only when nothing else wants the
core; a training update of Half-Cheetah then takes an eighth less time (docs/experiments.md).
"""

import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

_KEEPERS: list[subprocess.Popen[bytes]] = []  # started when they are needed; they end with this process
_LOCK = threading.Lock()
_WANTED = 0  # by how many threads


@contextlib.contextmanager
def awake(devices: int) -> Iterator[None]:
    """Meanwhile the cores stay awake, if there are several devices, and if they can be kept so."""
    several = int(devices > 1)
    _want(several)
    try:
        yield
    finally:
        _want(-several)


def _want(change: int) -> None:
    global _WANTED
    with _LOCK:
        before, _WANTED = _WANTED, _WANTED + change
        if bool(before) == bool(_WANTED) or not can_keep():
            return
        if not _KEEPERS:
            _KEEPERS.extend(map(_keeper, sorted(os.sched_getaffinity(0))))
        for keeper in _KEEPERS:
            with contextlib.suppress(OSError):  # somebody has ended it, and all else works without
                os.write(keeper.stdin.fileno(), b".")  # type: ignore[union-attr]


def can_keep(root: Path = Path("/")) -> bool:
    """Whether this is a virtual machine, and nobody counts for how long its processor is used."""
    if not hasattr(os, "SCHED_IDLE"):
        return False
    quotas = (root / "sys/fs/cgroup/cpu.max", root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    unlimited = all(_first_word(quota) in ("", "max", "-1") for quota in quotas)
    return unlimited and " hypervisor " in _text(root / "proc/cpuinfo")


def _first_word(path: Path) -> str:
    return _text(path).partition(" ")[0].strip()


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _keeper(core: int) -> subprocess.Popen[bytes]:
    # Its own session: Ctrl-C is not for it, and the system then weighs it against other sessions by itself.
    command = [sys.executable, "-I", "-S", __file__, str(core)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _keep(core: int) -> None:
    """Until there are no more words: every other one says to wait, the next one to rest."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):  # where sessions are weighed
        Path("/proc/self/autogroup").write_text("19")
    while os.read(0, 1):
        while not select.select([0], [], [], 0)[0]:
            for _ in range(1000):
                os.sched_yield()  # or it would keep the core for milliseconds when it should not have it
        os.read(0, 1)


if __name__ == "__main__":
    _keep(int(sys.argv[1]))
