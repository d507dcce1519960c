"""Ends a real run at random moments and at exact system calls, resumes it until it is done, and
compares every byte.

    python tests/kills.py --kills 100

SIGKILL comes a random time after the run's start or after a change of its folder, at a change, or,
where `strace` is installed, at the n-th system call; SIGINT and SIGTERM come too. After each the
folder must be readable, and nothing outside it may have changed. A failed run is repeated by its
number: `--seed 0 --only 17`.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    import conftest  # noqa: F401  (compiled programs are shared with the tests)

import product
import rspo
from rspo.core import interrupt
from rspo.errors import RspoError
from rspo.report import write_report

DISCOVER = (*product.DISCOVER, "--iterations", "2")
CALLS = ("openat", "write", "fsync", "rename", "unlink", "mkdir")
STRACE = shutil.which("strace")
SECONDS = 900  # that one process may take, on however slow a machine
PATIENCE = 12  # processes that one run may take


class Place:
    """A folder for a run, and beside it what must stay as it is."""

    def __init__(self, home: Path) -> None:
        self.home, self.run = home, home / "run"
        for name in ("beside", "tmp", "cwd"):
            (home / name).mkdir(parents=True)
        (home / "beside" / "file").write_text("untouched")
        self.before = self._outside()

    def _outside(self) -> dict[str, bytes | None]:
        return {
            name: data
            for name, data in product.contents(self.home).items()
            if name.split("/")[0] != "run"
        }

    def process(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a process, which must change nothing outside the run's folder and leave a readable
        folder."""
        environment = product.environment(
            TMPDIR=str(self.home / "tmp"), PYTHONDONTWRITEBYTECODE="1"
        )
        done = subprocess.run(
            command,
            cwd=self.home / "cwd",
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert self._outside() == self.before, "something outside the folder has changed"
        if (self.run / "run.json").exists():
            rspo.load(self.run)
        return done

    @property
    def command(self) -> tuple[str | Path, ...]:
        """What a person does: resume a run that is there, else start it."""
        return (
            ("resume", self.run)
            if (self.run / "run.json").exists()
            else (*DISCOVER, "--out", self.run)
        )

    def finish(self) -> None:
        done = self.process([sys.executable, "-m", "rspo", *map(str, self.command)])
        assert done.returncode == 0, done.stderr


class Harness:
    """Runs of one seed, all compared with one that nothing happened to."""

    def __init__(self, base: Path, seed: int) -> None:
        self.base, self.seed = base, seed
        self.reference = Place(base / "reference")
        self.reference.finish()
        self.counts = self._count_calls() if STRACE else {}
        self.ended: collections.Counter[str] = collections.Counter()

    def _count_calls(self) -> dict[str, int]:
        """How often the system is called in a run."""
        place = Place(self.base / "counted")
        log = self.base / "strace.txt"
        assert STRACE is not None
        place.process(
            [
                STRACE,
                "-f",
                "-o",
                str(log),
                "-e",
                f"trace={','.join(CALLS)}",
                *self._rigged(place, "nothing", 0),
            ]
        )
        names = collections.Counter(
            re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.M)
        )
        return {name: names[name] for name in CALLS if names[name]}

    def _rigged(self, place: Place, what: str, moment: int, delay: float = 0.0) -> list[str]:
        return product.rigged_command(what, moment, place.run, *place.command, delay=delay)

    def ways(self) -> dict[str, Callable[[random.Random, Place], list[str]]]:
        """The commands that end a run, by the name of how."""
        some_time = lambda draw: draw.choice([0.0, draw.uniform(0.0, 0.5)])
        ways: dict[str, Callable[[random.Random, Place], list[str]]] = {
            "at a random time": lambda draw, place: self._rigged(
                place, "KILL", 0, draw.uniform(0.5, 8.0)
            ),
            "after a change": lambda draw, place: self._rigged(
                place, "KILL", draw.randint(1, 30), draw.uniform(0.0, 0.5)
            ),
            "at a change": lambda draw, place: self._rigged(place, "KILL", draw.randint(1, 45)),
            "by SIGINT": lambda draw, place: self._rigged(
                place, "INT", draw.randint(1, 45), some_time(draw)
            ),
            "by SIGTERM": lambda draw, place: self._rigged(
                place, "TERM", draw.randint(1, 45), some_time(draw)
            ),
        }
        if STRACE:
            ways["at a system call"] = self._at_a_call
        return ways

    def _at_a_call(self, draw: random.Random, place: Place) -> list[str]:
        assert STRACE is not None
        name = draw.choice(list(self.counts))
        # Most files are opened by Python itself, at the start; the run's own come last.
        least = self.counts[name] - 150 if name == "openat" else 1
        moment = draw.randint(max(1, least), self.counts[name])
        inject = ("-e", f"trace={name}", "-e", f"inject={name}:signal=SIGKILL:when={moment}")
        return [STRACE, "-f", "-o", os.devnull, *inject, *self._rigged(place, "nothing", 0)]

    def one_run(self, number: int) -> int:
        """Kill it several times, let it finish, compare; returns how often it was killed."""
        draw, history = random.Random(f"{self.seed} {number}"), []
        place, ways = Place(self.base / f"run-{number}"), self.ways()
        often = sorted(ways) + ["at a system call"] * 2 * bool(STRACE)
        try:
            wanted = draw.randint(2, 6)
            for _ in range(PATIENCE):
                if len(history) == wanted:
                    break
                how = draw.choice(often)
                done = place.process(ways[how](draw, place))
                if done.returncode == 0:
                    break
                history.append(how)
                expected = interrupt.CODE if "SIG" in how else -signal.SIGKILL
                assert done.returncode == expected, (done.returncode, done.stderr)
            place.finish()
            assert not (found := differences(place.run, self.reference.run)), (
                f"these differ: {found}"
            )
        except (AssertionError, RspoError, subprocess.TimeoutExpired) as error:
            raise AssertionError(
                f"--seed {self.seed} --only {number}, ended {history}: {error}"
            ) from error
        self.ended.update(history)
        shutil.rmtree(place.home)
        return len(history)


def differences(folder: Path, reference: Path) -> list[str]:
    """Files that are not the same, but for dates, times and what follows from them."""
    one, other = known(folder), known(reference)
    return sorted(
        name
        for name in one.keys() | other.keys()
        if one.get(name, "none") != other.get(name, "none")
    )


def known(folder: Path) -> dict[str, object]:
    """The content of a folder, without dates and times."""
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "run"
        shutil.copytree(folder, copy)
        with product.rewritten(copy / "run.json") as record:
            record |= {"created": "2000-01-01T00:00:00+0000", "command": "rspo"}
        with product.rewritten(copy / "times.json") as record:
            record["seconds"] = 1.0
        with contextlib.suppress(RspoError):  # it is damaged
            page = write_report(copy)
            page.write_bytes(page.read_bytes().replace(home.encode(), b""))
        return dict(product.contents(copy))


def kill(
    base: Path, kills: int, seed: int, only: int | None = None, say: Callable[[str], None] = print
) -> Harness:
    """Kill runs this many times in all; raises at the first difference."""
    harness, number = Harness(base, seed), 0
    if only is not None:
        harness.one_run(only)
    while only is None and harness.ended.total() < kills:
        harness.one_run(number)
        number += 1
        say(
            f"{harness.ended.total()} times ended, {number} runs the same: "
            f"{json.dumps(dict(harness.ended))}"
        )
    return harness


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        harness = kill(Path(base), options.kills, options.seed, options.only)
    print(
        f"{harness.ended.total()} times ended without a difference: "
        f"{json.dumps(dict(harness.ended))}"
    )


if __name__ == "__main__":
    main()
