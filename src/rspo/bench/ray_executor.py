"""Jobs on a Ray cluster: one per CPU, each in its own process, retried from its checkpoint after a
crash or the loss of a node.

Where the run folders are on a file system that all nodes share, a retried job finds its checkpoint
there. Otherwise (`gather="store"`) every job works in a folder on its node, and changes are sent
through Ray's object store to the machine that started it, and from there to the node that the job
is retried on. Ray's own messages are pickles: a cluster must be trusted.
"""

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rspo.bench.executors import DEATHS, Ended, Task, error_of, start
from rspo.bench.jobs import RECORD
from rspo.core import interrupt
from rspo.errors import InputError, RspoError
from rspo.runs import store
from rspo.runs.parcel import Files, packed, unpack

RETRIES = 5  # after the death of a worker or a node
WAIT = 1.0  # seconds between checks of running jobs
SENT = 10.0  # seconds between transfers of changed files
PATIENCE = 10.0  # seconds until a cluster must answer


class Ray:
    """An existing cluster or, with `address` None and none running, this machine."""

    def __init__(
        self, address: str | None = None, gather: str = "shared", every: float = SENT
    ) -> None:
        self.ray = _ray()
        if not self.ray.is_initialized():
            _check_answers(address or os.environ.get("RAY_ADDRESS", ""))
            try:
                self.ray.init(address=address, log_to_driver=True, logging_level="warning")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"There is no Ray cluster at {address}: {error}. Start one with `ray start "
                    "--head`."
                ) from error
        self.gather, self.every = gather, every
        self.workers = max(int(self.ray.cluster_resources().get("CPU", 1)), 1)

    def run(self, tasks: Sequence[Task]) -> Iterator[Ended | None]:
        ray, keeper = self.ray, self._keeper(tasks) if self.gather == "store" else None
        job = ray.remote(num_cpus=1, max_retries=RETRIES)(_job)
        running = {job.remote(_absolute(task), keeper, self.every): task for task in tasks}
        try:
            while running:
                done, _ = ray.wait(list(running), num_returns=1, timeout=WAIT)
                interrupt.check()
                for reference in done:
                    ended = running.pop(reference)
                    yield Ended(ended, self._error(reference) or _absent(ended))
                yield None
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def _keeper(self, tasks: Sequence[Task]) -> Any:
        """The keeper, on this node, where the folders go."""
        ray = self.ray
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        folders = {task["name"]: _absolute(task)["folder"] for task in tasks}
        return ray.remote(num_cpus=0, scheduling_strategy=here)(Keeper).remote(folders)

    def _error(self, reference: Any) -> str | None:
        try:
            said: str | None = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        return said


def _absent(task: Task) -> str | None:
    """A node has finished the job: is its record here too?"""
    folder = Path(task["folder"])
    if folder.is_dir() and RECORD in store.names(folder):  # listed, so that a network looks anew
        return None
    return (
        f"It is finished on its node, but {folder} on this machine has no record of it. Give a "
        "folder that all nodes share, or add `--gather store`."
    )


def _check_answers(address: str) -> None:
    """Refuse HOST:PORT where nothing answers: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return  # "auto", or something that Ray refuses at once
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"There is no Ray cluster at {address}: nothing answers there. Start one with `ray "
            "start --head`."
        ) from error


def _ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise InputError(
            "The executor 'ray' needs Ray: install it with `pip install 'rspo[ray]'`."
        ) from error
    return ray


def _absolute(task: Task) -> dict[str, Any]:
    """Workers have their own working folders, so paths must be absolute."""
    return {**task, "folder": str(Path(task["folder"]).resolve())}


def _job(task: dict[str, Any], keeper: Any, every: float) -> str | None:
    """One job, run by a Ray worker; returns what went wrong, if anything."""
    try:
        return _here(task) if keeper is None else _away(task, keeper, every)
    except RspoError as error:
        return str(error)


def _here(task: dict[str, Any]) -> str | None:
    """In a separate process, as without Ray: it dies with the worker, its output is sent back to
    the driver, and it is restarted if it was killed."""
    for _ in range(1 + DEATHS):
        said: deque[str] = deque(maxlen=20)
        # Closing the pipe of a process that is already dead fails; its exit code says more.
        with contextlib.suppress(BrokenPipeError), start(task, subprocess.PIPE) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line.decode(errors="replace").rstrip())
                print(f"{task['name']}: {said[-1]}", flush=True)
        if (code := process.wait()) >= 0:
            break
    return error_of(task, code, said)


def _away(task: dict[str, Any], keeper: Any, every: float) -> str | None:
    """In a folder on this node, which starts from the files sent before, and is sent back."""
    ray = _ray()
    with tempfile.TemporaryDirectory(prefix="rspo-") as temporary:
        folder = Path(temporary) / task["name"]
        unpack(folder, ray.get(keeper.files.remote(task["name"])), last=RECORD)
        sent: Files = {}
        over = threading.Event()

        def send() -> None:
            now = packed(folder)
            changed = {name: data for name, data in now.items() if sent.get(name) != data}
            gone = [name for name in sent if name not in now]
            if changed or gone:
                ray.get(keeper.keep.remote(task["name"], changed, gone))
            sent.clear()
            sent.update(now)

        def send_on() -> None:
            while not over.wait(every):
                send()

        sender = threading.Thread(target=send_on, name="rspo-sender", daemon=True)
        sender.start()
        try:
            return _here({**task, "folder": str(folder)})
        finally:
            over.set()
            sender.join()
            send()


class Keeper:
    """On the machine that started the jobs: writes their files as they arrive, and sends them to
    restarted jobs."""

    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = {name: Path(folder) for name, folder in folders.items()}

    def keep(self, name: str, changed: Files, gone: list[str]) -> None:
        unpack(self.folders[name], changed, last=RECORD)
        for path in gone:
            store.remove(self.folders[name] / path)

    def files(self, name: str) -> Files:
        return packed(self.folders[name])
