"""The screen of several jobs, on a terminal and without one."""

import io

import pytest
from rich.console import Console

from rspo.bench.progress import Progress
from rspo.cli import jobs
from rspo.cli.jobs import JobsDisplay

HALF = Progress(4, 1, 0, 0.5, "about 3 min left", (("hopper-rspo-seed100", 0.25),))


def test_without_a_terminal_it_is_a_line_when_a_job_ends_or_a_minute_has_passed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(jobs.time, "monotonic", lambda: now[0])
    with JobsDisplay() as display:
        display.show(HALF)
        display.show(HALF)
        now[0] += 61
        display.show(HALF)
        display.show(Progress(4, 2, 0, 0.6, "about 2 min left"))
        display.say("one \x1b[31mred\x1b[0m job")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:3] == [str(HALF)] * 2 + ["2 of 4 done, about 2 min left"]
    assert "\x1b" not in err


def test_on_a_terminal_it_is_a_bar_for_all_and_one_for_each_that_runs() -> None:
    display, screen = JobsDisplay(), io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    display.console = console
    display.live.live.console = console
    display.live.disable = False
    with display:
        display.show(HALF)
        display.live.refresh()
    shown = screen.getvalue()
    assert "1 of 4 done" in shown
    assert "50%  about 3 min left" in shown
    assert "  hopper-rspo-seed100" in shown
    assert " 25%" in shown


def test_tables_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    JobsDisplay().tables([("easy", ["method", "paper"], [["RSPO", "[bold]4"]])])
    out, err = capsys.readouterr()
    assert "easy" in out
    assert "[bold]4" in out
    assert err == ""
