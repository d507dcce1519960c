"""How far several jobs are, and the time left."""

import dataclasses
from pathlib import Path

import pytest

from rspo import presets
from rspo.bench import progress
from rspo.bench.progress import Pace, Work, time_left
from rspo.config import Config, merge


@dataclasses.dataclass(frozen=True)
class Made(Work):
    """A job whose finished share the test says."""

    shares: dict[str, float] = dataclasses.field(default_factory=dict)

    def share(self) -> float:
        return self.shares[self.name]


def config(method: str = "pg") -> Config:
    settings = {"iterations": 6, "ppo": {"updates": 100}}
    return merge(presets.preset("four-goals-easy", method), settings, "test")


def made(seconds: float | None, workers: int = 1, **shares: float) -> tuple[Pace, dict[str, float]]:
    works = [Made(name, Path(name), config(), seconds, shares) for name in shares]
    return Pace(works, workers), shares


def after(pace: Pace, seconds: float) -> progress.Progress:
    """As if the command had begun so many seconds ago."""
    pace.began = progress.time.monotonic() - seconds
    return pace.progress()


def test_the_time_left_is_that_of_the_pace_so_far() -> None:
    assert time_left(total=100.0, done=50.0, passed=600.0, workers=2) == "about 10 min left"
    assert time_left(total=7200.0, done=0.0, passed=0.0, workers=2) == "about 1 h 0 min left"
    assert progress.clock(7190.0) == "2 h 0 min"
    assert time_left(100.0, 0.0, 600.0, 2) == "the time left is not known yet"
    assert time_left(100.0, 0.0, 0.0, None) == "the time left is not known yet"


def test_it_does_not_count_what_was_done_before() -> None:
    pace, shares = made(1000.0, half=0.5, other=0.0)
    pace.ended("other", failed=False)
    shares |= {"half": 0.75}
    now = after(pace, 49.0)  # five quarters of a job took 49 s, one quarter is left
    assert now.left == "about 1 min left"
    assert now.share == pytest.approx(1.25 / 1.5)


@pytest.mark.parametrize(("share", "passed"), [(0.0, 1490.0), (0.5, 4490.0)])
def test_of_what_failed_it_counts_what_that_took(share: float, passed: float) -> None:
    """At 6000 s for each job."""
    pace, shares = made(100.0, good=0.0, bad=0.0)
    shares |= {"good": 0.25, "bad": share}
    pace.ended("bad", failed=True)
    now = after(pace, passed)
    assert now.left == "about 1 h 15 min left"
    assert (now.done, now.failed, now.total) == (0, 1, 2)
    assert str(now) == "0 of 2 done, 1 failed, about 1 h 15 min left; good 25%"


def test_at_the_end_there_is_nothing_left() -> None:
    pace, _ = made(None, one=0.0, two=0.0)
    assert str(pace.progress()) == "0 of 2 done, the time left is not known yet"
    pace.ended("one", failed=False)
    pace.ended("two", failed=True)
    now = pace.progress()
    assert (str(now), now.share) == ("1 of 2 done, 1 failed", 1.0)


@pytest.mark.parametrize(
    ("method", "finished", "updates", "share"),
    [
        ("pg", 3, 50, 3.5 / 6),  # one policy after the other
        ("pbt-ce", 0, 50, 0.5),  # all six side by side
        ("smerl", 0, 300, 0.5),  # one policy with six latents, each with its updates
        ("pg", 6, 50, 1.0),  # the checkpoint of a finished iteration that is not removed yet
    ],
)
def test_the_share_of_a_job_counts_the_updates_of_its_round(
    method: str, finished: int, updates: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.manifest, "finished", lambda _: ["000"] * finished)
    monkeypatch.setattr(progress.manifest, "updates", lambda _: updates)
    assert Work("job", Path("job"), config(method)).share() == pytest.approx(share)
