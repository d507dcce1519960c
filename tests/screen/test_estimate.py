"""The time left, of runs that keep a steady pace."""

import pytest

from rspo.screen.estimate import TimeLeft

PACE, EVALUATION, COMPILING = 0.5, 3.0, 60.0


def signs(rounds: int, updates: int, every: int, compiling: float):
    """The moments at which a run shows where it stands: (round, updates done, seconds)."""
    now = 0.0
    for round in range(rounds):
        for done in range(every, updates + 1, every):
            now += every * PACE + (compiling if (round, done) == (0, every) else 0.0)
            yield round, done, now
        now += EVALUATION + (compiling if round == 0 else 0.0)


@pytest.mark.parametrize("compiling", [0.0, COMPILING])
def test_the_first_estimate_leaves_compilation_out(compiling):
    estimate = TimeLeft(rounds=4, updates=20)
    (first, second, *_) = [estimate.left(*sign) for sign in signs(4, 20, 5, compiling)]
    assert first is None
    assert second == pytest.approx((4 * 20 - 10) * PACE)


def test_evaluations_count_once_one_was_seen_that_compiled_nothing():
    estimate = TimeLeft(rounds=4, updates=20)
    shown = {sign[:2]: estimate.left(*sign) for sign in signs(4, 20, 5, COMPILING)}
    assert shown[1, 10] == pytest.approx((3 * 20 - 10) * PACE)
    assert shown[2, 10] == pytest.approx((2 * 20 - 10) * PACE + 2 * EVALUATION)
    assert shown[3, 20] == pytest.approx(EVALUATION)


def test_another_attempt_begins_anew():
    estimate = TimeLeft(rounds=1, updates=10)
    for sign in ((0, 5, 10.0), (0, 10, 15.0)):
        estimate.left(*sign)
    assert estimate.left(0, 5, 100.0) == pytest.approx(5.0)
    assert estimate.left(0, 10, 105.0) == pytest.approx(0.0)


def test_a_run_that_goes_on_has_no_pace_at_first():
    assert TimeLeft(rounds=9, updates=10).left(7, 4, 1000.0) is None
