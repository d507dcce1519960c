"""`rspo discover --help` fits on a screen and says what a run would start from."""

import pytest

from product import here
from rspo.cli.help import GROUPS, default_of
from rspo.presets import preset


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_settings_that_matter_fit_on_a_screen(flag: str) -> None:
    outcome = here("discover", flag)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert len(lines) <= 35
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("  --") for line in lines) <= 18
    assert lines[0] == "usage: rspo discover ENV [OPTIONS]"
    assert lines[-1] == "Every setting: rspo discover ENV --help-all"


def test_defaults_are_those_of_the_environment_and_the_method() -> None:
    config = preset("half-cheetah", "pg")
    text = here("discover", "half-cheetah", "--method", "pg", "--help").out
    for flag, value, words in (line for group in GROUPS.values() for line in group):
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {flag} ")]
        assert f"{flag} {value}".rstrip() in line
        assert words in line
        if "[" in line:
            assert line.endswith(f"[{default_of(flag, config)}]")
    assert text.count("[") == 1 + 12  # in the usage, and one for each setting


def test_every_flag_in_it_is_one() -> None:
    text = here("discover", "--help-all").out
    for flag, _, _ in (line for group in GROUPS.values() for line in group):
        assert f"\n  {flag}" in text


def test_a_setting_without_a_value_can_be_given_as_none() -> None:
    from rspo.cli.discover import read_discover

    words = ["monster-hunt", "--measure.cap", "none"]
    assert preset("monster-hunt").measure.cap is not None
    assert read_discover(words)[0].measure.cap is None
