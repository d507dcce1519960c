"""A contender in its own process: only one of them works at a time, and none disturbs another's
threads."""

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class Worker:
    """`Worker(make)("name", ...)` calls `make().name(...)` in the other process and returns the
    result."""

    def __init__(self, make: Callable[[], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        # Not a daemon: SubprocVecEnv has children of its own.
        self.process = context.Process(target=_serve, args=(theirs, make), daemon=False)
        self.process.start()
        theirs.close()

    def __call__(self, name: str, *arguments: Any) -> Any:
        self.pipe.send((name, arguments))
        error, result = self.pipe.recv()
        if error is not None:
            raise RuntimeError(f"{name}{arguments} failed:\n{error}")
        return result

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self.pipe.close()
        self.process.join()


def _serve(pipe: Connection, make: Callable[[], Any]) -> None:
    contender = make()
    while True:
        try:
            name, arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send((None, getattr(contender, name)(*arguments)))
        except Exception:
            pipe.send((traceback.format_exc(), None))
