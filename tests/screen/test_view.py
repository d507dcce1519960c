"""What a person sees: a live line on a terminal, plain lines in a pipe, a table at the end, names
as they are."""

import dataclasses
import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import product
import rspo
from rspo.screen import view
from rspo.screen.view import Display, strategy_table
from rspo.search.archive import Archive
from rspo.search.loop import Found, Position
from rspo.text import counted


@pytest.fixture(scope="module")
def archive(finished: Path) -> Archive:
    return rspo.load(finished)


def on_a_terminal(*arguments: str | Path) -> product.Outcome:
    """The command with a terminal for all it reads and writes; `out` is all that the terminal
    got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    command = [sys.executable, "-m", "rspo", *map(str, arguments)]
    environment = product.environment(TERM="xterm-256color")
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = b"".join(_chunks(ours))
    os.close(ours)
    return product.Outcome(process.wait(100), text.decode(), "")


def _chunks(handle: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(handle, 65536)
        except OSError:  # the other side is closed
            return
        if not chunk:
            return
        yield chunk


def without_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.slow
def test_a_run_on_a_terminal_has_a_live_line(stopped: Path, finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stopped, tmp_path / "run")
    outcome = on_a_terminal("resume", folder)
    assert outcome.code == 0, outcome.out
    assert "\x1b[2K" in outcome.out  # a line that is drawn over
    text = without_escapes(outcome.out)
    assert "continuing after 2 of 3 iterations, 50 updates" in text
    assert "iteration 3/3" in text
    assert "compiling ..." in text
    assert "left" in text  # the time
    table = outcome.out[outcome.out.index(" distinct strateg") :]
    assert "\x1b[3" in table  # colours
    assert f"rspo play {folder} 0" in text
    assert product.results(folder) == product.results(finished)


@pytest.mark.slow
def test_play_on_a_terminal_is_an_animation(finished: Path) -> None:
    outcome = on_a_terminal("play", finished, "0", "--speed", "1000")
    assert outcome.code == 0, outcome.out
    frames = outcome.out.split(f"\x1b[{27 + 1}A")  # up over a frame and its title
    assert len(frames) > 2
    assert [int(re.findall(r"step (\d+)", frame)[0]) for frame in frames] == list(
        range(len(frames))
    )
    assert "return" in frames[-1]
    assert "return" not in frames[0]


def renamed(archive: Archive, *names: str) -> Archive:
    strategies = [
        dataclasses.replace(
            strategy, evaluation=dataclasses.replace(strategy.evaluation, descriptor=name)
        )
        for strategy, name in zip(archive, names, strict=False)
    ]
    return Archive(archive.config, strategies)


def shown(archive: Archive, terminal: bool = False) -> str:
    file = io.StringIO()
    colours = "truecolor" if terminal else None
    Console(file=file, width=120, force_terminal=terminal, color_system=colours).print(
        strategy_table(archive)
    )
    return file.getvalue()


def test_the_table_says_what_was_found(archive: Archive) -> None:
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in shown(archive).splitlines()
        if "│" in line
    ]
    for strategy, row in zip(archive, rows, strict=True):
        found = strategy.evaluation
        numbers = [
            f"{found.return_mean:.3f}",
            f"{found.return_std:.3f}",
            f"{found.greedy_return_mean:.3f}",
        ]
        assert row == [
            str(strategy.index),
            strategy.status,
            found.descriptor,
            *numbers,
            f"{found.accepted:.0%}",
        ]
    found = counted(archive.distinct, "distinct strategy", "distinct strategies")
    assert f"{found} for four-goals-easy (rspo, seed 0)" in shown(archive)
    assert "\x1b" not in shown(archive)
    assert "\x1b" in shown(archive, terminal=True)


def test_an_empty_table(archive: Archive) -> None:
    assert "0 distinct strategies" in shown(Archive(archive.config))


NAMES = ["[red]name", "[/]", "[bold]a[/bold] b"]


def test_names_are_shown_as_they_are(archive: Archive) -> None:
    """Not as instructions to the library that draws the table."""
    text = shown(renamed(archive, *NAMES))
    for name in NAMES:
        assert name in text


@pytest.mark.parametrize("name", NAMES)
def test_names_are_said_as_they_are(
    archive: Archive, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    strategy = renamed(archive, name)[0]
    Display(archive.config).show(Found(strategy, ()))
    assert f"'{name}'" in capsys.readouterr().err


def position(archive: Archive, updates: int) -> Position:
    rows = tuple({"update": i + 1, "return": 0.25, "accepted": 0.5} for i in range(updates))
    return Position(round=1, attempt=1, state=None, rows=(rows,))  # type: ignore[arg-type]


def test_a_pipe_gets_a_sign_of_life_now_and_then(
    archive: Archive, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Display(archive.config)
    with screen.showing(archive[:1], None):
        screen.show(position(archive, 10))
        assert "update 10/20" not in capsys.readouterr().err
        monkeypatch.setattr(view, "PLAIN_SECONDS", -1.0)
        screen.show(position(archive, 20))
    line = capsys.readouterr().err
    assert line.startswith("iteration 2/3  update 20/20  return 0.250  accepted  50%  ")
    assert line.endswith(" left\n")


def test_quiet_is_quiet(
    archive: Archive, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "PLAIN_SECONDS", -1.0)
    screen = Display(archive.config, quiet=True)
    with screen.showing(archive, None):
        screen.show(position(archive, 10))
        screen.show(Found(archive[0], ()))
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_terminal_that_knows_ascii_only_gets_a_table(finished: Path) -> None:
    outcome = product.rspo("evaluate", finished, PYTHONIOENCODING="ascii")
    assert outcome.code == 0, outcome.err
    assert " distinct strateg" in outcome.out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00")],
)
def test_clock(seconds: float, text: str) -> None:
    assert view._clock(seconds) == text
