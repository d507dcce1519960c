"""How long `rspo discover` takes to show its first output."""

import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIGNS = {"first_return": rb"return -?\d", "first_strategy": rb"(novel|duplicate|failed)"}


def cold_and_warm(env: str) -> dict[str, dict[str, float]]:
    """Seconds to each sign, with an empty compilation cache and then with the one that this start
    has filled."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: first_output(env, Path(folder), name) for name in ("cold", "warm")}


def first_output(env: str, folder: Path, name: str) -> dict[str, float]:
    """Start the command on a terminal, note when each sign first shows, and stop it after the
    last."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rspo", "discover", env, "--out", str(folder / f"run-{name}")]
    surroundings = {
        **os.environ,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TERM": "xterm",
        "COLUMNS": "160",
    }
    surroundings.pop("JAX_COMPILATION_CACHE_DIR", None)
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, stdin=theirs, env=surroundings
    )
    os.close(theirs)
    seen, screen = {}, b""
    try:
        while len(seen) < len(SIGNS):
            screen += _read(ours)
            for sign in SIGNS.keys() - seen.keys():
                if re.search(SIGNS[sign], screen):
                    seen[sign] = time.perf_counter() - start
    finally:
        process.terminate()
        _drain(ours)
        process.wait()
        os.close(ours)
    return seen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as error:  # Linux raises this when the last writer has gone
        raise RuntimeError("rspo discover ended before it had found a strategy") from error


def _drain(terminal: int) -> None:
    """Otherwise a process that still writes could block forever."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass
