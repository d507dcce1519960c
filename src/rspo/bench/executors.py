"""Where the jobs of a bench run: by default in processes on this machine, one per core."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rspo.bench.jobs import RECORD
from rspo.core import interrupt
from rspo.core.devices import cores
from rspo.runs import store

Task = Mapping[str, Any]
TICK = 0.5  # seconds between checks of running jobs
# One device and one thread per job, so that a result does not depend on where it was computed.
ONE_CORE = {"RSPO_CORES": "1", "NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
DEATHS = 2  # how often a job is restarted after its process was killed


@dataclass(frozen=True)
class Ended:
    """A finished job; `error` says in one sentence what went wrong."""

    task: Task
    error: str | None = None


class Executor(Protocol):
    """Runs jobs. Iterating yields each job as it ends, and None in between, so that the caller can
    show progress."""

    workers: int

    def run(self, tasks: Sequence[Task]) -> Iterator[Ended | None]: ...


class Processes:
    """One process of one thread per job, with its output in a log beside its run folder."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()

    def run(self, tasks: Sequence[Task]) -> Iterator[Ended | None]:
        waiting, running = deque(tasks), dict[int, _Process]()
        deaths: dict[str, int] = {}
        try:
            while waiting or running:
                for slot in range(self.workers):
                    if waiting and slot not in running:
                        running[slot] = _Process(waiting.popleft())
                time.sleep(TICK)
                interrupt.check()
                for slot, process in list(running.items()):
                    if (code := process.handle.poll()) is None:
                        continue
                    del running[slot]
                    process.close()
                    name = process.task["name"]
                    if code < 0 and deaths.get(name, 0) < DEATHS:  # killed by a signal
                        deaths[name] = deaths.get(name, 0) + 1
                        waiting.append(process.task)
                    else:
                        yield Ended(process.task, process.error(code))
                yield None
        finally:
            for process in running.values():
                process.handle.terminate()  # SIGTERM, so that it saves its run
            for process in running.values():
                process.handle.wait()
                process.close()


def start(task: Task, output: Any) -> subprocess.Popen[bytes]:
    """Start the process of a job, which ends when its standard input is closed."""
    handle = subprocess.Popen(
        [sys.executable, "-m", "rspo.bench.work"],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=os.environ | ONE_CORE,
    )
    assert handle.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it is already dead, as its exit code will show
        handle.stdin.write(json.dumps(dict(task)).encode() + b"\n")
        handle.stdin.flush()
    return handle


def error_of(task: Task, code: int, said: Sequence[str]) -> str | None:
    """What went wrong with a job, from its exit code and output."""
    if code == 0 and store.exists(Path(task["folder"]) / RECORD):
        return None
    if code == interrupt.CODE:
        return "It was interrupted."
    if code < 0:
        hint = ", as when memory runs out" * (-code == signal.SIGKILL)
        return f"Its process was killed by signal {-code}{hint}."
    lines = [line.strip() for line in said if line.strip()]
    while lines and (lines[-1].startswith("For simplicity, JAX") or set(lines[-1]) == {"-"}):
        lines.pop()  # JAX's note on its own frames, below the error
    return lines[-1] if lines else f"Its process ended with {code}."


class _Process:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.log = Path(f"{task['folder']}.log")  # a name may contain dots
        store.make_folder(self.log.parent)
        with store.appending(self.log) as log:
            self.handle = start(task, log)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            if self.handle.stdin is not None:
                self.handle.stdin.close()

    def error(self, code: int) -> str | None:
        lines = store.read(self.log, store.METRICS).decode(errors="replace").split("\n")
        said = error_of(self.task, code, lines)
        return said and f"{said} (all of it: {self.log})"
