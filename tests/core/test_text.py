"""Whatever text comes in, what goes to the terminal is short and plain: nothing in it moves a
cursor, changes a colour, turns the reading direction or begins a line that looks like ours."""

import io
import json
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import product
import rspo
from product import Outcome, assert_refused, here, rewritten
from rspo.errors import InputError, RspoError
from rspo.runs.run import summary
from rspo.screen.view import strategy_table
from rspo.text import LONGEST, printable

# Colours, a bell, the same in one byte, both kinds of direction marks, a newline, a carriage
# return, markup.
EVIL = "\x1b[31m\x07\x9b1m\x7f\u202e\u2066\u200f\n\rrspo: all is well.\u2028[red]x[/]:smile:"
WORSE = EVIL + "\0\ud800"  # no name of a file


def assert_plain(text: str) -> None:
    for line in text.split("\n"):
        assert len(line) <= LONGEST + len("rspo: "), line
        for character in line:
            assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), repr(
                character
            )


def assert_said_plainly(outcome: Outcome) -> None:
    assert_plain(outcome.out + outcome.err)
    assert outcome.code == 2, outcome
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("rspo: ")


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_one_plain_line(text: str) -> None:
    assert_plain(printable(text, LONGEST))
    assert "\n" not in printable(text)
    assert printable(printable(text, 50), 50) == printable(text, 50)
    assert len(printable(text, 50)) <= 50


def test_what_is_harmless_stays_and_what_is_not_is_spelled_out() -> None:
    assert printable("naïve 日本語 \N{NO-BREAK SPACE}\N{PILE OF POO} [red] \\x1b") == (
        "naïve 日本語 \N{NO-BREAK SPACE}\N{PILE OF POO} [red] \\x1b"
    )
    assert (
        printable("\x1b[0m\0\u202e\ud800\n\x9b\U000e0001")
        == r"\x1b[0m\x00\u202e\ud800\n\x9b\U000e0001"
    )
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"
    assert printable("head" + "x" * 100 + "tail", 20) == "headxxxx ... xxxtail"


def test_errors_are_plain_whoever_shows_them() -> None:
    assert str(RspoError(f"It is {WORSE}.")) == f"It is {printable(WORSE)}."
    long = str(InputError(f"It is {'x' * 10**6}, but it must be short."))
    assert len(long) == LONGEST
    assert long.startswith("It is xxx")
    assert long.endswith("xxx, but it must be short.")


@pytest.mark.parametrize("value", [WORSE, "x" * 10**5], ids=["evil", "long"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("{}",),
        ("list", "{}"),
        ("discover", "{}"),
        ("discover", "gym:{}"),
        ("discover", "pettingzoo:{}"),
        ("discover", "four-goals-easy", "--{}"),
        ("discover", "four-goals-easy", "--seed", "{}"),
        ("discover", "four-goals-easy", "--ppo.padding", "{}"),
        ("discover", "four-goals-easy", "--ppo.decay", "0", "{}"),
        ("discover", "four-goals-easy", "--method", "{}"),
        ("discover", "four-goals-easy", "--config", "{}"),
        ("discover", "four-goals-easy", "--log", "{}"),
        ("discover", "four-goals-easy", "--out", "{}"),
        ("resume", "{}"),
        ("evaluate", "{}"),
        ("evaluate", "run", "--episodes", "{}"),
        ("play", "{}"),
        ("play", "run", "{}"),
        ("play", "run", "--gif", "{}"),
        ("play", "run", "--svg", "{}.svg"),
        ("report", "{}"),
        ("report", "run", "--out", "{}"),
        ("report", "{}", "{}"),
    ],
    ids=" ".join,
)
def test_a_flag_is_quoted_plainly(
    arguments: tuple[str, ...], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = here(*(argument.replace("{}", value) for argument in arguments))
    # Only the operating system knows that a file name is too long, or that a disk is full.
    assert outcome.code in ((1, 2) if "--out" in arguments else (2,)), outcome
    assert_said_plainly(outcome._replace(code=2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "{} = 3",
        "[ppo]\n{} = 3",
        "method = {}",
        "env = {}",
        "iterations = {}",
        "ppo = {}",
        "[ppo]\npadding = {}",
        "[ppo]\ndecay = [{}, {}]",
        "x = {}{}",
        "seed = [[{}]]",
    ],
)
@pytest.mark.parametrize("value", [EVIL, "x" * 10**5], ids=["evil", "long"])
def test_a_configuration_file_is_quoted_plainly(text: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text.replace("{}", json.dumps(value).replace("\x7f", "\\u007f")))
    env = () if "env" in text else ("four-goals-easy",)
    assert_said_plainly(here("discover", *env, "--config", path))
    path.write_text(f"x = {value}")  # as it is: no TOML
    assert_said_plainly(here("discover", "four-goals-easy", "--config", path))


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """In a folder whose name contains terminal control characters."""
    return shutil.copytree(finished, tmp_path / EVIL.replace("/", ""))


@pytest.mark.slow
def test_the_name_of_a_folder_is_said_plainly(run: Path) -> None:
    for arguments in (("report", run), ("evaluate", run), ("play", run, "0"), ("resume", run)):
        outcome = here(*arguments)
        assert outcome.code == 0, outcome
        assert_plain(outcome.out + outcome.err)
    outcome = here("play", run, "0", "--svg", run / "picture.svg")
    assert_plain(outcome.out)
    (run / "run.json").write_bytes(b"")
    assert_said_plainly(here("resume", run))


@pytest.mark.parametrize(
    "place", ["schema", "config.env", "config.method.name", "devices", "spec", "config.ppo.padding"]
)
def test_a_record_is_quoted_plainly(run: Path, place: str) -> None:
    with rewritten(run / "run.json") as record:
        *groups, name = place.split(".")
        for group in groups:
            record = record[group]
        record[name] = WORSE
    for verb in ("evaluate", "resume", "play"):
        assert_said_plainly(here(verb, run))


@pytest.mark.parametrize("name", [WORSE, "x" * 10**5], ids=["evil", "long"])
def test_the_names_of_strategies_are_shown_plainly(run: Path, name: str) -> None:
    with rewritten(run / "strategies" / "000" / "strategy.json") as record:
        record["evaluation"]["descriptor"] = record["evaluation"]["sampled_descriptor"] = name
    for arguments in (("play", run, "0"), ("resume", run)):
        outcome = here(*arguments)
        assert outcome.code == 0, outcome
        assert_plain(outcome.out + outcome.err)
    for file in ("picture.svg", "film.gif"):
        outcome = here("play", run, "0", f"--{file[-3:]}", run / file)
        assert outcome.code == 0, outcome
    for file in ("picture.svg", "report.html"):
        text = (run / file).read_text().replace("\n", "")
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)
    archive = rspo.load(run)
    assert archive[0].descriptor == name
    assert json.dumps(summary(archive)).isascii()  # what `evaluate --json` prints
    screen = io.StringIO()
    Console(file=screen, width=200).print(strategy_table(archive))
    assert_plain(screen.getvalue())


def test_a_warning_is_one_plain_line() -> None:
    code = (
        "import json, warnings; from rspo.cli import main as cli; "
        "cli.VERBS['list'] = lambda _: warnings.warn(json.loads(input())); cli.main()"
    )
    command = [sys.executable, "-c", code, "list"]
    text = json.dumps(WORSE + "x" * 10**4)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=product.environment()
    )
    assert done.stderr.startswith("rspo: \\x1b[31m")
    assert done.stderr.count("\n") == 1
    assert_plain(done.stderr)


def test_a_name_that_no_file_can_have() -> None:
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(InputError, match="no file can have this name"):
            rspo.load(name)
        with pytest.raises(InputError, match="no file can have this name"):
            rspo.discover("four-goals-easy", out=name, quiet=True, **product.SETTINGS)


def test_a_very_long_mistake_is_answered_at_once() -> None:
    assert_refused(here("x" * 10**6), "Unknown command 'xxx", "Allowed: bench, ")
