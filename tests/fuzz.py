"""Run folders, flags and configuration files that somebody has damaged, forged or mistyped: the
answer is a result, or one sentence.

    python tests/fuzz.py --mutations 2000

Each case is one command in this process. Correct is: exit code 0, or one sentence and exit code 1
or 2 (130 for a run, which is interrupted before it trains); no traceback, no hang, no terminal
control characters in the output, and nothing changed outside the folder that the command may
write. A case is repeated by its number: `--seed 0 --only 17`.
"""

import argparse
import collections
import contextlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import safetensors
import safetensors.numpy

if __name__ == "__main__":
    import conftest  # noqa: F401  (compiled programs are shared with the tests)

import product
import rspo
from rspo.cli import main as cli
from rspo.runs import manifest, store

SECONDS = 120  # for one case, on however slow a machine
NASTY = (
    "\x1b[2J\x1b[31m",
    "\x00",
    "\u202egnp.exe",
    "\x9b31m",
    "\r\n",
    "a" * 100_000,
    "",
    "../../beside/file",
    "/dev/zero",
    "[bold]x[/]",
    "{{ 7 * 7 }}",
    "<script>alert(1)</script>",
    "\ud800",
    "%s%n",
    "🦆",
    "__class__",
)
NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    10**400,
    -(10**400),
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    0.5,
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": {"b": 1}}, [1, "a", None])


def deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# ---- run folders


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def damage_bytes(draw: random.Random, folder: Path, outside: Path) -> str:
    path = draw.choice(files_of(folder))
    data = bytearray(path.read_bytes())
    how = draw.choice(["flip", "cut", "add", "empty", "noise", "zeros", "twice"])
    if how == "flip" and data:
        for _ in range(draw.choice([1, 1, 8, 64])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del data[draw.randint(0, len(data)) :]
    elif how == "add":
        data += draw.randbytes(draw.randint(1, 100))
    elif how == "twice":
        data *= 2
    else:
        size = len(data)
        data = (
            bytearray()
            if how == "empty"
            else draw.randbytes(size)
            if how == "noise"
            else bytearray(size)
        )
    path.write_bytes(data)
    return f"{how} {path.relative_to(folder)}"


def forge_json(draw: random.Random, folder: Path, outside: Path) -> str:
    """Change a value of a record; most of the time with valid checksums."""
    path = draw.choice([path for path in files_of(folder) if path.suffix in (".json", ".jsonl")])
    try:
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        at = draw.randrange(len(lines))
        record = json.loads(lines[at])
    except (ValueError, RecursionError):
        return damage_bytes(draw, folder, outside)
    places = list(places_in(record))
    where = draw.choice(places) if places else ()
    changed, what = change(draw, record, where)
    with contextlib.suppress(RecursionError, ValueError):
        lines[at] = json.dumps(changed, indent=None if path.suffix == ".jsonl" else 1)
        path.write_bytes("\n".join(lines).encode(errors="surrogatepass") + b"\n")
    signed = draw.random() < 0.8
    if signed:
        sign(folder)
    return f"{path.relative_to(folder)}: {where} {what}{' signed' if signed else ''}"


def places_in(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if where:
        yield where
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in pairs:
            yield from places_in(part, (*where, name))


def change(draw: random.Random, record: Any, where: tuple[Any, ...]) -> tuple[Any, str]:
    value = draw.choice(
        [
            lambda: draw.choice(NUMBERS),
            lambda: draw.choice(NASTY),
            lambda: draw.choice(OTHERS),
            lambda: deep(draw.choice([5, 50, 900])),
        ]
    )()
    if not where:
        return value, "is all else"
    *path, last = where
    home = record
    for name in path:
        home = home[name]
    how = draw.choice(["delete", "replace", "replace", "replace", "add", "rename"])
    if how == "delete":
        del home[last]
    elif how == "replace" or isinstance(home, list):
        home[last] = value
    elif how == "add":
        home[draw.choice(NASTY)] = value
    else:
        home[str(last) + draw.choice(NASTY)[:200]] = home.pop(last)
    return record, f"{how} {str(value)[:40]!r}"


def sign(folder: Path) -> None:
    """Recompute the checksums, as a forger would; unreadable files are left as they are."""
    own = None
    with contextlib.suppress(Exception):
        own = manifest.identity(json.loads((folder / "run.json").read_bytes()))
    for path in files_of(folder):
        if path.suffix != ".json" or path.name == "summary.json":
            continue
        with contextlib.suppress(Exception):
            record = json.loads(path.read_bytes())
            record.pop("sha256", None)
            if own is not None and "run" in record:
                record["run"] = own
            if path.name == "strategy.json":
                for name in {one.name for one in files_of(path.parent)} & record["files"].keys():
                    record["files"][name] = store.sha256((path.parent / name).read_bytes())
            path.write_bytes(store.pack_json(record))
    with contextlib.suppress(Exception):
        path = folder / "checkpoint.safetensors"
        arrays, words = read_arrays(path)
        record = json.loads(words["rspo"])
        record.pop("sha256", None)
        record |= {"run": own, "arrays": store.arrays_digest(arrays)}
        path.write_bytes(store.pack_arrays(arrays, {"rspo": store.pack_json(record).decode()}))


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    with safetensors.safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def forge_arrays(draw: random.Random, folder: Path, outside: Path) -> str:
    """Other arrays, with checksums that fit."""
    path = draw.choice([path for path in files_of(folder) if path.suffix == ".safetensors"])
    try:
        arrays, words = read_arrays(path)
    except Exception:
        return damage_bytes(draw, folder, outside)
    name = draw.choice(sorted(arrays))
    array, how = (
        arrays[name],
        draw.choice(["drop", "nan", "shape", "type", "empty", "large", "name", "words"]),
    )
    if how == "drop":
        del arrays[name]
    elif how == "nan":
        arrays[name] = np.full_like(
            array, np.nan if array.dtype.kind == "f" else array.dtype.type(-1 % 127)
        )
    elif how == "shape":
        arrays[name] = array[None]
    elif how == "type":
        arrays[name] = array.astype(draw.choice([np.float64, np.int8, np.uint8, np.int64, bool]))
    elif how == "empty":
        arrays[name] = array.reshape(-1)[:0]
    elif how == "large":
        arrays[name] = np.full_like(array, 3e38 if array.dtype.kind == "f" else 100)
    elif how == "name":
        arrays[draw.choice(NASTY[:4])] = arrays.pop(name)
    else:
        try:
            record = json.loads(words["rspo"])
        except (KeyError, ValueError):
            return damage_bytes(draw, folder, outside)
        words["rspo"] = json.dumps(change(draw, record, draw.choice([(), *places_in(record)]))[0])
    with contextlib.suppress(Exception):  # some names cannot be written
        path.write_bytes(
            safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in arrays.items()}, words)
        )
    sign(folder)
    return f"{path.relative_to(folder)}: {how} {name!r} signed"


def misplace(draw: random.Random, folder: Path, outside: Path) -> str:
    """Something else stands where a file or a folder is wanted: a link, a pipe, a socket,
    nothing."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*"))]
    names += [
        Path(name)
        for name in (
            ".report.html.tmp",
            ".summary.json.tmp",
            "lock",
            "strategies/.001.tmp",
            "report.html",
        )
    ]
    name = draw.choice([Path("."), *names]) if draw.random() < 0.05 else draw.choice(names)
    path = folder / name
    how = draw.choice(
        [
            "link",
            "link",
            "folder link",
            "loop",
            "nowhere",
            "pipe",
            "socket",
            "folder",
            "file",
            "nothing",
            "name",
        ]
    )
    if how == "name":
        target = (
            folder
            / draw.choice(["strategies", "."])
            / draw.choice(["\x1b[31m", "999", "0x1", "..x", "\u202e", "a" * 200])
        )
        target.mkdir(exist_ok=True) if draw.random() < 0.5 else target.touch()
        return f"also {target.name!r}"
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], Any]] = {
        "link": lambda: path.symlink_to(outside / "file"),
        "folder link": lambda: path.symlink_to(outside),
        "loop": lambda: path.symlink_to(path),
        "nowhere": lambda: path.symlink_to(outside / "absent"),
        "pipe": lambda: os.mkfifo(path),
        "socket": lambda: bind(path),
        "folder": path.mkdir,
        "file": lambda: path.write_text("x"),
        "nothing": lambda: None,
    }
    makers[how]()
    return f"{how} at {name}"


def bind(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(before)


DAMAGES = (damage_bytes, forge_json, forge_json, forge_json, forge_arrays, misplace)


def folder_case(draw: random.Random, corpus: list[Path], home: Path) -> tuple[list[str], str]:
    source = draw.choice(corpus)
    run = home / "run"
    shutil.copytree(source, run)
    done = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        if run.is_dir() and not run.is_symlink() and files_of(run):
            with contextlib.suppress(IndexError):  # nothing of that kind is left
                done.append(draw.choice(DAMAGES)(draw, run, home / "beside"))
    at = str(run)
    arguments = draw.choice(
        [
            ["report", at],
            ["report", at],
            ["report", at, str(source), "--out", str(home / "out" / "page.html")],
            ["evaluate", at, "--json"],
            ["evaluate", at],
            ["play", at],
            ["play", at, "0", "--svg", str(home / "out" / "a.svg")],
            ["play", at, "0", "--gif", str(home / "out" / "a.gif")],
            ["resume", at],
            ["resume", at],
            ["discover", "four-goals-easy", "--out", at],
        ]
    )
    return arguments, f"{source.name}: {'; '.join(done)}"


# ---- flags and configuration files

# `watch` is not among them: it serves until it is stopped.
FLAGS = {
    "discover": """--iterations --seed --method --out --config --log --ppo.batch --ppo.updates --ppo.epochs
        --ppo.minibatches --ppo.learning-rate --ppo.decay --ppo.hidden --ppo.layers --ppo.padding --ppo.normalize-obs
        --ppo.no-normalize-obs --ppo.init --ppo.gamma --measure.alpha --measure.delta --measure.of --measure.cap
        --judge.episodes --judge.attempts --judge.references --method.lambda-b --method.lambda-r --method.streams
        --method.switch --method.paid""".split(),  # noqa: SIM905
    "bench": [
        "--list",
        "--methods",
        "--envs",
        "--seeds",
        "--steps",
        "--jobs",
        "--executor",
        "--out",
    ],
    "completion": [],
    "evaluate": ["--json", "--episodes", "--seed"],
    "list": ["--all"],
    "play": ["--episodes", "--seed", "--sampled", "--speed", "--svg", "--gif"],
    "report": ["--out"],
    "resume": ["--log"],
}
STRANGE = ["--nonsense", "-x", "--", "--ppo", "--ppo.", "--=", "--help", "-h"]
WORDS = """
    list discover resume evaluate play report help four-goals-easy monster-hunt gym:CartPole-v1 gym: gym:x:y
    pettingzoo: count drop restart all novel hard smooth off single grouped per-reference step end rspo
    tensorboard uniform 0 1 2 16 -1 1024 1600 0.5 1e-3 1e400 nan inf -inf 1_000 0x10 \u0661 None True
    run settings.toml absent . .. /dev/null
""".split()  # noqa: SIM905


def flag_case(draw: random.Random, corpus: list[Path], home: Path) -> tuple[list[str], str]:
    shutil.copytree(draw.choice(corpus), home / "run")
    (home / "settings.toml").write_text("iterations = 1\n")
    verb = draw.choice([*sorted(FLAGS), "discover", "discover", "play"])
    words = [verb, *{"discover": ["four-goals-easy"], "list": []}.get(verb, ["run"])]
    for _ in range(draw.randint(0, 3)):
        strange = draw.random() < 0.3 or not FLAGS[verb]
        flag = draw.choice(FLAGS[verb] * 3 + STRANGE if strange else FLAGS[verb])
        value = draw.choice([*WORDS, *NASTY, *map(str, NUMBERS)])
        words += draw.choice([[flag, value], [flag, value], [f"{flag}={value}"], [flag], [value]])
    if draw.random() < 0.1:
        draw.shuffle(words)
    return words, "flags"


TOML = """
env = "four-goals-easy"
iterations = 3
seed = 1
method = "rspo"
[ppo]
batch = 1024
decay = [0.0, 1.0]
padding = "count"
normalize_obs = false
[method]
lambda_b = 1.0
streams = "single"
[measure]
alpha = 0.5
[judge]
episodes = 32
"""


def config_case(draw: random.Random, corpus: list[Path], home: Path) -> tuple[list[str], str]:
    lines = TOML.strip().splitlines()
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(lines))
        value = draw.choice(
            [
                *map(str, NUMBERS),
                *map(json.dumps, NASTY),
                "[" * 5000,
                "{a={a=1}}",
                "'",
                "1979-05-27",
                "[]",
            ]
        )
        name = lines[at].split("=")[0].strip("[] ") or "x"
        lines[at] = draw.choice(
            [
                f"{name} = {value}",
                value,
                f"[{name}.{value}]",
                f"[[{name}]]",
                lines[at][:-1],
                lines[at] * 2,
                f"{name} = ",
            ]
        )
    data = bytearray("\n".join(lines).encode(errors="surrogatepass"))
    if draw.random() < 0.3:
        for _ in range(draw.choice([1, 5])):
            data[draw.randrange(len(data))] = draw.randrange(256)
    path = home / "settings.toml"
    path.write_bytes(data)
    return [
        "discover",
        "--config",
        str(path),
        "--out",
        str(home / "run"),
    ], f"TOML {bytes(data[:60])!r}"


CASES = (folder_case,) * 6 + (flag_case,) * 2 + (config_case,) * 2


# ---- what is right


class WrongError(Exception):
    """A command did what it must not."""


def obeyed(text: str) -> list[str]:
    """The control characters in a text."""
    hidden = {
        c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    return sorted(hidden - {"\N{ZERO WIDTH JOINER}"})


def run_here(arguments: list[str]) -> product.Outcome:
    """The command; a run is interrupted before it trains."""

    def too_long(*_: object) -> None:
        raise WrongError(f"it takes longer than {SECONDS} seconds")

    def interrupted(*_: object) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        with (
            mock.patch.object(sys, "argv", ["rspo", *arguments]),
            mock.patch("rspo.api.search", interrupted),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            cli.main()
    except SystemExit as end:
        return product.Outcome(int(end.code or 0), out.getvalue(), err.getvalue())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(arguments: list[str], outcome: product.Outcome) -> None:
    code, out, err = outcome
    allowed = {0, 1, 2} | ({130} if {"discover", "resume"} & set(arguments) else set())
    if code not in allowed:
        raise WrongError(f"exit code {code}")
    if "Traceback" in out + err:
        raise WrongError("a traceback")
    if found := obeyed(out + err):
        raise WrongError(f"the output has {found}")
    lines = err.splitlines()
    if code in (1, 2):
        if out or not lines or not lines[-1].startswith("rspo: "):
            raise WrongError("no sentence")
        if sum(line.startswith("rspo: ") for line in lines) > 2:
            raise WrongError("several sentences")
    if (longest := max(map(len, lines), default=0)) > 1000:
        raise WrongError(f"a line of {longest} characters")


class Harness:
    """Cases of one seed, each in a folder of its own."""

    def __init__(self, base: Path, seed: int) -> None:
        self.base, self.seed = base, seed
        self.corpus = [self._made("four", "four-goals-easy"), self._made("two", "monster-hunt")]
        self.corpus.append(self._stopped("stopped"))
        self.codes: collections.Counter[int] = collections.Counter()
        self.failures: list[str] = []

    def _made(self, name: str, env: str) -> Path:
        ppo = {"updates": 10, "batch": {"four-goals-easy": 256, "monster-hunt": 400}[env]}
        rspo.discover(
            env, out=self.base / name, quiet=True, iterations=2, ppo=ppo, judge={"episodes": 8}
        )
        return self.base / name

    def _stopped(self, name: str) -> Path:
        """One with a checkpoint in its second iteration."""
        from rspo import api
        from rspo.search import loop as search

        def stopped(*arguments: Any) -> Iterator[Any]:
            for count, event in enumerate(search.search(*arguments)):
                yield event
                if count == 2:
                    raise KeyboardInterrupt

        with mock.patch.object(api, "search", stopped):
            self._made(name, "four-goals-easy")
        assert (self.base / name / "checkpoint.safetensors").exists()
        return self.base / name

    def case(self, number: int) -> None:
        draw, home = random.Random(f"{self.seed} {number}"), self.base / f"case-{number}"
        for name in ("beside", "cwd", "out"):
            (home / name).mkdir(parents=True)
        (home / "beside" / "file").write_text("untouched")
        before_corpus = (
            [product.contents(one) for one in self.corpus] if number % 100 == 0 else None
        )
        arguments, words = draw.choice(CASES)(draw, self.corpus, home)
        kept = product.contents(home / "beside")
        at = os.getcwd()
        os.chdir(home if words == "flags" else home / "cwd")
        try:
            outcome = run_here(arguments)
            judge(arguments, outcome)
            if product.contents(home / "beside") != kept:
                raise WrongError("something outside the folder has changed")
            if before_corpus and [product.contents(one) for one in self.corpus] != before_corpus:
                raise WrongError("another run has changed")
            self.codes[outcome.code] += 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            last = "".join(traceback.format_exception(error)[-3:])[-1500:]
            self.failures.append(
                f"--seed {self.seed} --only {number}: {[a[:80] for a in arguments]} "
                f"{words[:300]}\n{last}"
            )
        finally:
            os.chdir(at)
            shutil.rmtree(home, ignore_errors=True)


def fuzz(
    base: Path, numbers: Iterable[int], seed: int, say: Callable[[str], None] = print
) -> Harness:
    harness = Harness(base, seed)
    for number in numbers:
        failed = len(harness.failures)
        harness.case(number)
        for failure in itertools.islice(harness.failures, failed, None):
            say(failure)
        if (number + 1) % 100 == 0:
            say(
                f"{number + 1} cases, {len(harness.failures)} failed; exit codes "
                f"{dict(harness.codes)}"
            )
    return harness


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number to go on from")
    parser.add_argument("--only", type=int, help="the number of one case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        numbers = (
            range(options.first, options.mutations) if options.only is None else [options.only]
        )
        harness = fuzz(Path(base), numbers, options.seed)
    print(f"{harness.codes.total()} cases as they should be, exit codes {dict(harness.codes)}")
    sys.exit(bool(harness.failures))


if __name__ == "__main__":
    main()
