"""Worker processes: `python -m rspo.rollout.worker NAME HORIZON` makes that environment and plays
the requested shares.

Python runs one thread at a time, so an environment that is not all C keeps one core busy, however
many threads step it. Pipes carry JSON and safetensors: no code.
"""

import contextlib
import io
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import load, save

from rspo.core import interrupt
from rspo.core.distributions import Noise
from rspo.core.policies import Policy
from rspo.core.policies.packing import from_arrays, to_arrays
from rspo.core.types import Spec, View
from rspo.envs.base import HostEnv, Instances
from rspo.envs.given import own_code
from rspo.errors import EnvironmentFailure, InputError, RspoError
from rspo.rollout.patience import Signs, patience
from rspo.rollout.play import Record, Share, play

SIZES = struct.Struct("<QQ")  # of the JSON and the arrays that follow
PATIENCE = 5.0  # seconds for a process to end
PLAYING: dict[str, Any] = {"playing": True}  # sent regularly by a process that is still working
RECORDED = ("action", "reward", "terminated", "truncated", "live", "alive", "features")


class Player:
    """This side of a worker process."""

    def __init__(self, name: str, horizon: int) -> None:
        self.name, self.signs = name, Signs()
        self.lock = threading.Lock()  # threads take turns to send and to read
        self.asked = deque[Future[Record]]()  # requests whose answers are not yet read, in order
        paths = os.pathsep.join(path for path in sys.path if isinstance(path, str))
        self.process = subprocess.Popen(
            # This process already gave the warnings when it made the environment.
            [
                sys.executable,
                "-u",
                "-P",
                "-W",
                "ignore",
                "-m",
                "rspo.rollout.worker",
                name,
                str(horizon),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if sys.stderr else subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},  # same module search path as this process
            bufsize=0,  # read-ahead data would be invisible to select
            start_new_session=True,  # Ctrl-C is for the parent
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
        )
        self.questions = io.BufferedWriter(self.process.stdin)  # type: ignore[type-var]

    def knows(self, spec: Spec) -> bool:
        """Whether the process could make the same environment; call once, before it plays."""
        return self._answer()[0]["spec"] == repr(spec)

    def ask(self, policy: bytes, share: Share) -> Callable[[], Record]:
        """Request a share of episodes, which it plays in order while this process continues; call
        the returned function to wait for it."""
        future = Future[Record]()
        words = share._asdict() | {"seeds": share.seeds.tolist()}
        words["latent"] = None if share.latent is None else share.latent.tolist()
        with self.lock:
            self.asked.append(future)
            _write(self.process.stdin, words, policy)
        return partial(self._wait_for, future)

    def _wait_for(self, share: Future[Record]) -> Record:
        with self.lock:
            while not share.done():  # answers come in the order of the requests, wanted or not
                try:
                    record = _to_record(self._answer()[1])
                except Exception as error:
                    self.asked.popleft().set_exception(error)
                else:
                    self.asked.popleft().set_result(record)
        return share.result()

    def dismiss(self) -> None:
        """Close its input: it exits normally, and so does what its environment has started."""
        for pipe in (self.questions, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def kill(self) -> None:
        """Kill it at once, with everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def wait(self) -> None:
        """Wait briefly for its end, after `dismiss` or `kill`."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.dismiss()

    def _answer(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        words = PLAYING
        while words == PLAYING:
            try:
                words, arrays = _receive(self.process.stdout, interrupt.wait_to_read)
            except EOFError:
                raise RspoError(
                    f"A process that played {self.name} died (exit code {self.process.wait()})."
                ) from None
            self.signs.beat()
        if (failed := words.get("failed")) is not None:
            raise (InputError if words["unfit"] else EnvironmentFailure)(failed)
        return words, arrays


def to_bytes(policy: Policy) -> bytes:
    """A policy as players get it: serialised once for all, so that the last does not wait while
    the first already plays."""
    return _packed(to_arrays(policy))


def _of_record(rows: Record) -> dict[str, np.ndarray]:
    """A record as named arrays."""
    flat: dict[str, np.ndarray | None] = {name: getattr(rows, name) for name in RECORDED}
    for name in ("view", "last"):
        flat |= {f"{name}.{part}": array for part, array in getattr(rows, name)._asdict().items()}
    return {name: array for name, array in flat.items() if array is not None}


def _to_record(arrays: dict[str, np.ndarray]) -> Record:
    views: dict[str, Any] = {
        name: View(*(arrays.get(f"{name}.{part}") for part in View._fields))
        for name in ("view", "last")
    }
    rows: dict[str, Any] = {name: arrays[name] for name in RECORDED if name in arrays}
    return Record(**views, **rows)


def _packed(arrays: dict[str, np.ndarray]) -> bytes:
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def _write(pipe: Any, words: dict[str, Any], arrays: bytes = b"") -> None:
    head = json.dumps(words).encode()
    # If the process is gone, waiting for the answer will report it.
    with contextlib.suppress(OSError, ValueError):
        pipe.write(SIZES.pack(len(head), len(arrays)) + head + arrays)
        pipe.flush()


def _receive(
    pipe: Any, wait: Callable[[Any], None] = lambda pipe: None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    head, body = SIZES.unpack(_exactly(pipe, SIZES.size, wait))
    words, arrays = json.loads(_exactly(pipe, head, wait)), _exactly(pipe, body, wait)
    return words, load(arrays) if arrays else {}


def _exactly(pipe: Any, size: int, wait: Callable[[Any], None]) -> bytes:
    data = bytearray(size)
    missing = memoryview(data)
    try:
        while missing:
            wait(pipe)
            if not (count := pipe.readinto(missing)):
                raise EOFError
            missing = missing[count:]
    except ValueError:  # another thread has closed it
        raise EOFError from None
    return bytes(data)


def serve(name: str, horizon: int, questions: BinaryIO, answers: BinaryIO) -> None:
    """The worker's side: serve requests until the input is closed."""
    from rspo.rollout.adapt import adapt

    try:
        with own_code(name, "making it"):
            env = adapt(name, horizon)
    except InputError:
        return _write(answers, {"spec": None})
    except EnvironmentFailure as error:
        return _write(answers, _failed(error))
    _write(answers, {"spec": repr(env.spec)})
    assert isinstance(env, HostEnv)
    played: Answers = queue.SimpleQueue()
    threading.Thread(target=_write_all, args=(answers, played)).start()
    try:
        _play_all(env, questions, played)
    finally:
        played.put(None)


Answers = queue.SimpleQueue[tuple[dict[str, Any], bytes] | None]


def _play_all(env: HostEnv, questions: BinaryIO, answers: Answers) -> None:
    batches: dict[int, Instances] = {}
    pulse = _Pulse(answers)
    while True:
        try:
            words, arrays = _receive(questions)
        except EOFError:
            return
        try:
            share = _to_share(words)
            if share.lanes not in batches:
                with own_code(env.title, "making it"):
                    batches[share.lanes] = env.batch(share.lanes)
            policy = from_arrays(arrays, env.spec.action_space)
            rows = play(env, batches[share.lanes], policy, share, pulse.beat)
            answers.put(({}, _packed(_of_record(rows))))
        except RspoError as error:
            answers.put((_failed(error), b""))
        except Exception:
            answers.put(
                (
                    {
                        "failed": f"Playing {env.title} failed.\n{traceback.format_exc()}",
                        "unfit": False,
                    },
                    b"",
                )
            )


def _to_share(words: dict[str, Any]) -> Share:
    kind, shape = words.pop("noise")
    latent = words.pop("latent")
    latent = None if latent is None else np.array(latent, np.float32)
    return Share(
        np.array(words.pop("seeds")), noise=Noise(kind, tuple(shape)), latent=latent, **words
    )


def _failed(error: RspoError) -> dict[str, Any]:
    return {"failed": str(error), "unfit": isinstance(error, InputError)}


class _Pulse:
    """Signals the parent during a share that steps are still being made."""

    def __init__(self, answers: Answers) -> None:
        self.answers, self.between = answers, patience() / 4
        self.last = time.monotonic()

    def beat(self) -> None:
        if (now := time.monotonic()) - self.last > self.between:
            self.last = now
            self.answers.put((PLAYING, b""))


def _write_all(pipe: BinaryIO, answers: Answers) -> None:
    """On its own thread: while an answer waits to be read, the next share is played."""
    try:
        while (answer := answers.get()) is not None:
            _write(pipe, *answer)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # or the parent would wait forever


if __name__ == "__main__":
    # Separate pipes, so that the environment's own input and output do not interfere.
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    serve(sys.argv[1], int(sys.argv[2]), questions, answers)
