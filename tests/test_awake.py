"""Cores kept awake: only where that helps and harms nobody, only meanwhile, never longer than the process lives."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

import rspo
from rspo import awake as module
from rspo import train
from rspo.awake import awake, can_keep

MANY = 10**6  # devices: at least one a core
VIRTUAL, REAL = "flags : fpu hypervisor lahf_lm\n", "flags : fpu lahf_lm\n"
linux = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="cores are kept awake on Linux")


@linux
@pytest.mark.parametrize(
    ("processor", "group", "quotas", "can"),
    [
        (VIRTUAL, "", {}, True),
        (REAL, "", {}, False),
        (VIRTUAL, "0::/\n", {"cpu.max": "max 100000\n"}, True),
        (VIRTUAL, "0::/\n", {"cpu.max": "200000 100000\n"}, False),
        (VIRTUAL, "0::/user.slice/one.scope\n", {"user.slice/cpu.max": "200000 100000\n"}, False),
        (VIRTUAL, "0::/user.slice/one.scope\n", {"another.slice/cpu.max": "200000 100000\n"}, True),
        (VIRTUAL, "4:memory:/\n1:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n"}, True),
        (VIRTUAL, "4:memory:/\n1:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "150000\n"}, False),
        # In a container: a path of the host's, of which only the end can be seen, in the place of the root.
        (VIRTUAL, "1:cpu:/docker/1f2e\n", {"cpu/cpu.cfs_quota_us": "150000\n"}, False),
    ],
)
def test_on_virtual_machines_without_a_quota(
    tmp_path: Path, processor: str, group: str, quotas: dict[str, str], can: bool
) -> None:
    files = {"proc/cpuinfo": processor, "proc/self/cgroup": group}
    for name, text in (files | {f"sys/fs/cgroup/{name}": text for name, text in quotas.items()}).items():
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
        keeper.kill()
        keeper.communicate()


@linux
def test_one_a_core_with_the_least_weight_and_only_meanwhile(keepers: list[subprocess.Popen]) -> None:
    with awake(MANY):
        with awake(MANY):
            assert len(keepers) == len(os.sched_getaffinity(0))
            _until(lambda: all(os.sched_getscheduler(keeper.pid) == os.SCHED_IDLE for keeper in keepers))
            assert {core for keeper in keepers for core in os.sched_getaffinity(keeper.pid)} == os.sched_getaffinity(0)
            _until(lambda: all(_weight(keeper) in (None, "19") for keeper in keepers))
            _until(lambda: all(map(_runs, keepers)))
        time.sleep(0.1)
        assert all(map(_runs, keepers))  # somebody still wants them
    _until(lambda: not any(map(_runs, keepers)))
    with awake(MANY):
        _until(lambda: all(map(_runs, keepers)))


@linux
def test_they_rest_after_an_error(keepers: list[subprocess.Popen]) -> None:
    def interrupted() -> None:
        with awake(MANY):
            _until(lambda: all(map(_runs, keepers)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    _until(lambda: not any(map(_runs, keepers)))


@linux
@pytest.mark.parametrize("devices", [1, len(os.sched_getaffinity(0)) - 1] if hasattr(os, "SCHED_IDLE") else [])
def test_not_where_some_cores_have_no_device(keepers: list[subprocess.Popen], devices: int) -> None:
    with awake(devices):
        assert keepers == []


@linux
def test_training_goes_on_where_no_process_can_start(
    keepers: list[subprocess.Popen], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with awake(MANY):
        assert keepers == []


def test_a_host_environment_trains_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    @contextlib.contextmanager
    def recorded(devices: int) -> Iterator[None]:
        asked.append(devices)
        yield

    monkeypatch.setattr(train, "awake", recorded)
    rspo.discover("gym:CartPole-v1", iterations=1, out=None, quiet=True, ppo={"updates": 2, "batch": 1000})
    assert set(asked) == {jax.device_count()}


@linux
def test_one_that_somebody_ended_is_not_missed(keepers: list[subprocess.Popen]) -> None:
    with awake(MANY):
        for keeper in keepers:
            keeper.kill()
            keeper.wait()
    with awake(MANY):
        pass


@linux
def test_none_outlives_a_process_that_is_killed() -> None:
    code = (
        "import time\nfrom rspo import awake\nawake.can_keep = lambda: True\n"
        "with awake.awake(10**6):\n    print(*(k.pid for k in awake._KEEPERS), flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert pids
    _until(lambda: all(_state(pid) == "Z" for pid in pids))


def _runs(keeper: subprocess.Popen) -> bool:
    return _state(keeper.pid) == "R"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"  # it is gone


def _weight(keeper: subprocess.Popen) -> str | None:
    """Of its session, where sessions have one."""
    file = Path(f"/proc/{keeper.pid}/autogroup")
    return file.read_text().split()[-1] if file.exists() else None


def _until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
