"""Runs of the real program with tiny settings that still train, in this process or in one of their
own."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest import mock

import jax
import numpy as np
import pytest

from rspo.cli import main as cli
from rspo.runs import manifest, store

HERE = Path(__file__).parent
# One setting for nearly all of these tests: its programs are compiled once.
SETTINGS: dict[str, Any] = {
    "iterations": 3,
    "ppo": {"updates": 20, "batch": 1024},
    "judge": {"episodes": 32},
}
# The same for the games: whatever is tested on a run of one, its programs are compiled once.
ESCALATION: dict[str, Any] = {
    "iterations": 2,
    "ppo": {"updates": 4, "batch": 400},
    "judge": {"episodes": 16},
}
HUNT: dict[str, Any] = {
    "iterations": 3,
    "ppo": {"updates": 15, "batch": 1600},
    "judge": {"episodes": 256},
}
TINY = ("--iterations", "3", "--ppo.updates", "20", "--ppo.batch", "1024", "--judge.episodes", "32")
DISCOVER = ("discover", "four-goals-easy", *TINY)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def lacking(reason: str) -> NoReturn:
    """Skip what cannot be tested on this machine; fail where everything must be testable."""
    (pytest.fail if os.environ.get("RSPO_TEST_ALL") else pytest.skip)(reason)


def same(one: Any, other: Any) -> bool:
    """To the last bit, leaf by leaf."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)


def environment(**more: str) -> dict[str, str]:
    """Compiled programs are shared with the tests; nothing the user's shell says about colours gets
    in."""
    dropped = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    inherited = {name: value for name, value in os.environ.items() if name not in dropped}
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.values["jax_compilation_cache_dir"]),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return inherited | cache | more


def rspo(*arguments: str | Path, cwd: Path | None = None, **more: str) -> Outcome:
    """The command in a process of its own."""
    return _outcome([sys.executable, "-m", "rspo", *map(str, arguments)], cwd, more)


def rigged(
    what: str, moment: int | str, where: Path, *arguments: str | Path, delay: float = 0.0
) -> Outcome:
    """The same with checkpoints at every opportunity, and where `what` happens at the `moment`-th
    change of `where`."""
    return _outcome(rigged_command(what, moment, where, *arguments, delay=delay), None, {})


def rigged_command(
    what: str, moment: int | str, where: Path, *arguments: str | Path, delay: float = 0.0
) -> list[str]:
    script = str(HERE / "rigged.py")
    return [sys.executable, script, what, str(moment), str(delay), str(where), *map(str, arguments)]


def _outcome(command: list[str], cwd: Path | None, more: Mapping[str, str]) -> Outcome:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(**more), cwd=cwd
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def here(*arguments: str | Path) -> Outcome:
    """The command in this process, which saves start-up time; an uncaught exception fails the
    test."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["rspo", *map(str, arguments)]),
        contextlib.ExitStack() as stack,
    ):
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return Outcome(int(stop.value.code or 0), out.getvalue(), err.getvalue())


def assert_refused(outcome: Outcome, *words: str, code: int = 2) -> None:
    """One sentence on standard error, nothing on standard output, no traceback."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("rspo: "), outcome.err
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.rstrip().endswith((".", "?")), outcome.err
    for word in words:
        assert word in outcome.err


def results(folder: Path) -> dict[str, bytes]:
    """What a run found: all but the run's own date and command."""
    kept = contents(folder / "strategies") | {
        "summary.json": (folder / "summary.json").read_bytes()
    }
    return {name: data for name, data in kept.items() if data is not None}


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, byte by byte; None for a folder."""
    paths = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in paths}


def said_by(finished: Path) -> Outcome:
    """What the program said while it made that run."""
    return Outcome(*json.loads(finished.with_suffix(".json").read_text()))


@contextlib.contextmanager
def rewritten(path: Path) -> Iterator[dict[str, Any]]:
    """Edit a record and give it a checksum that fits: what a forger would do, or another version of
    rspo."""
    record = json.loads(path.read_bytes())
    del record["sha256"]
    yield record
    path.write_bytes(store.pack_json(record))


def read_identity(run: Path) -> str:
    return manifest.identity(json.loads((run / "run.json").read_text()))
