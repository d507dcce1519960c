"""A finished run that goes on to more iterations."""

from pathlib import Path

import pytest

import rspo
from product import ESCALATION, assert_refused, here

SMALL = {"ppo": {"updates": 4, "batch": 320}, "judge": {"episodes": 16}, "quiet": True, "seed": 3}


def strategies(run: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("strategies/*/*"))
    }


@pytest.mark.slow
def test_it_gives_what_it_would_have_given_from_the_start(tmp_path: Path) -> None:
    """Also where there are more kept policies than places for them at first, and a value head for
    each."""
    settings = {
        "method": {
            "streams": "per-reference",
            "lambda_b": 0.1,
            "lambda_r": 0.1,
            "predictor_steps": 2,
        }
    }
    whole, grown = tmp_path / "whole", tmp_path / "grown"
    rspo.discover("four-goals-easy", iterations=9, out=whole, **SMALL, **settings)
    rspo.discover("four-goals-easy", iterations=3, out=grown, **SMALL, **settings)
    assert here("resume", grown, "--iterations", "5").code == 0
    archive = rspo.resume(grown, iterations=9, quiet=True)
    assert len(archive) == archive.config.iterations == 9
    assert strategies(grown) == strategies(whole)
    assert (grown / "summary.json").read_bytes() == (whole / "summary.json").read_bytes()


@pytest.mark.slow
def test_cross_play_is_of_all_strategies(tmp_path: Path) -> None:
    settings = ESCALATION | {"iterations": 1}
    rspo.discover("escalation", out=tmp_path / "run", quiet=True, **settings)
    rspo.resume(tmp_path / "run", iterations=2, quiet=True)
    assert rspo.crossplay(tmp_path / "run").payoff.shape == (2, 2)


@pytest.mark.slow
def test_what_cannot_be_is_refused(finished: Path) -> None:
    assert_refused(here("resume", finished, "--iterations", "1"), "iterations is 1", "must be more")
    assert_refused(here("resume", finished, "--iterations", "0"), "iterations is 0")
