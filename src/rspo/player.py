"""Processes that play: `python -m rspo.player NAME` makes the environment of that name and plays what it is asked to.

Python runs one thread at a time, so an environment that is not all C keeps one core busy, however many threads step it.
What crosses the pipes are words as JSON and arrays as safetensors: nothing in them is code.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
import traceback
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import load, save

from rspo.actor import Plain
from rspo.errors import InputError, RspoError
from rspo.host import Batch, HostEnv
from rspo.play import Record, play
from rspo.types import Padding

SIZES = struct.Struct("<QQ")  # of the words and of the arrays that follow
RECORDED = ("obs", "action", "reward", "terminated", "truncated", "live", "last_obs")


class Player:
    """This side of such a process. One thread uses it at a time."""

    def __init__(self, name: str) -> None:
        # As this process finds modules, so does that one; and one thread is enough for networks of this size.
        settings = {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rspo.player", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | settings,
            start_new_session=True,  # Ctrl-C is for this process
        )

    def knows(self) -> bool:
        """Whether the process could make the environment; to be asked once, before it plays. One that this process has
        registered itself has no name elsewhere."""
        return self._answer()[0]["known"]

    def play(self, policy: Plain, greedy: bool, noise: np.ndarray, seeds: np.ndarray, padding: Padding) -> Record:
        words = {"greedy": greedy, "padding": padding}
        _send(self.process.stdin, words, {"noise": noise, "seeds": seeds} | _to_arrays(policy))
        rows: dict[str, Any] = self._answer()[1]
        return Record(**rows)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _answer(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            words, arrays = _receive(self.process.stdout)
        except EOFError:
            raise RspoError(f"A process that played {self.name} died (exit code {self.process.wait()}).") from None
        if (refused := words.get("refused")) is not None:
            raise InputError(refused)
        if (failed := words.get("failed")) is not None:
            raise RuntimeError(f"{self.name} failed while it was played:\n{failed}")
        return words, arrays


def _to_arrays(policy: Plain) -> dict[str, np.ndarray]:
    layers = zip(policy.weights, policy.biases, strict=True)
    arrays = {f"{kind}{i}": array for i, pair in enumerate(layers) for kind, array in zip("wb", pair, strict=True)}
    return arrays | {name: array for name, array in policy._asdict().items() if isinstance(array, np.ndarray)}


def _to_policy(arrays: dict[str, np.ndarray]) -> Plain:
    count = sum(name.startswith("w") for name in arrays)
    weights, biases = (tuple(arrays[f"{kind}{i}"] for i in range(count)) for kind in "wb")
    return Plain(weights, biases, *(arrays.get(name) for name in Plain._fields[2:]))


def _send(pipe: Any, words: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    head, body = json.dumps(words).encode(), save({name: np.ascontiguousarray(a) for name, a in arrays.items()})
    with contextlib.suppress(BrokenPipeError):  # the one who reads will say why
        pipe.write(SIZES.pack(len(head), len(body)) + head + body)
        pipe.flush()


def _receive(pipe: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    head, body = SIZES.unpack(_exactly(pipe, SIZES.size))
    return json.loads(_exactly(pipe, head)), load(_exactly(pipe, body))


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    if len(data := pipe.read(size)) < size:
        raise EOFError
    return data


def serve(name: str, questions: BinaryIO, answers: BinaryIO) -> None:
    """The other side: until there are no more questions."""
    from rspo.env import make

    try:
        env = make(name)
    except InputError:
        return _send(answers, {"known": False}, {})
    _send(answers, {"known": True}, {})
    assert isinstance(env, HostEnv)
    batches: dict[int, Batch] = {}
    never = threading.Event()
    while True:
        try:
            words, arrays = _receive(questions)
        except EOFError:
            return None
        noise, seeds = arrays.pop("noise"), arrays.pop("seeds")
        try:
            lanes = noise.shape[1]
            batch = batches[lanes] = batches.get(lanes) or env.batch(lanes)
            act = _to_policy(arrays).actor(words["greedy"])
            rows = play(env, batch, act, noise, seeds, words["padding"], False, never)
            _send(answers, {}, {name: getattr(rows, name) for name in RECORDED})
        except InputError as error:
            _send(answers, {"refused": str(error)}, {})
        except Exception:
            _send(answers, {"failed": traceback.format_exc()}, {})


if __name__ == "__main__":
    mine = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an environment prints is not an answer
    serve(sys.argv[1], sys.stdin.buffer, mine)
