"""Cores kept awake: only where that helps and harms nobody, only meanwhile, never longer than the process lives."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rspo import awake as module
from rspo.awake import awake, can_keep

VIRTUAL, REAL = "flags : fpu hypervisor lahf_lm\n", "flags : fpu lahf_lm\n"
linux = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="cores are kept awake on Linux")


@linux
@pytest.mark.parametrize(
    ("processor", "files", "can"),
    [
        (VIRTUAL, {}, True),
        (REAL, {}, False),
        (VIRTUAL, {"cpu.max": "max 100000\n"}, True),
        (VIRTUAL, {"cpu.max": "200000 100000\n"}, False),
        (VIRTUAL, {"cpu/cpu.cfs_quota_us": "-1\n"}, True),
        (VIRTUAL, {"cpu/cpu.cfs_quota_us": "150000\n"}, False),
    ],
)
def test_on_virtual_machines_whose_time_nobody_counts(tmp_path: Path, processor: str, files: dict, can: bool) -> None:
    for name, text in {"proc/cpuinfo": processor, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert can_keep(tmp_path) is can


def test_nowhere_else(tmp_path: Path) -> None:
    assert not can_keep(tmp_path)


@pytest.fixture
def keepers(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen]:
    """None yet, whatever this machine is."""
    kept: list[subprocess.Popen] = []
    monkeypatch.setattr(module, "can_keep", lambda: True)
    monkeypatch.setattr(module, "_KEEPERS", kept)
    yield kept
    for keeper in kept:
        keeper.communicate(timeout=5)  # no more words: it ends


@linux
def test_one_a_core_at_the_lowest_priority_and_only_meanwhile(keepers: list[subprocess.Popen]) -> None:
    with awake(devices=2), awake(devices=2):
        assert len(keepers) == len(os.sched_getaffinity(0))
        _until(lambda: all(os.sched_getscheduler(keeper.pid) == os.SCHED_IDLE for keeper in keepers))
        assert {core for keeper in keepers for core in os.sched_getaffinity(keeper.pid)} == os.sched_getaffinity(0)
        _until(lambda: not any(map(_sleeps, keepers)))
    _until(lambda: all(map(_sleeps, keepers)))
    with awake(devices=2):
        _until(lambda: not any(map(_sleeps, keepers)))


@linux
def test_one_device_waits_for_nobody(keepers: list[subprocess.Popen]) -> None:
    with awake(devices=1):
        assert keepers == []


@linux
def test_one_that_somebody_ended_is_not_missed(keepers: list[subprocess.Popen]) -> None:
    with awake(devices=2):
        for keeper in keepers:
            keeper.kill()
            keeper.wait()
    with awake(devices=2):
        pass


@linux
def test_none_outlives_a_process_that_is_killed() -> None:
    code = (
        "import time\nfrom rspo import awake\nawake.can_keep = lambda: True\n"
        "with awake.awake(2):\n    print(*(k.pid for k in awake._KEEPERS), flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert pids
    _until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and _state(pid) != "Z" for pid in pids))


def _sleeps(keeper: subprocess.Popen) -> bool:
    return _state(keeper.pid) == "S"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
