"""When an iteration may end early: by hand, and as a property of the rows alone."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rspo
from product import same
from rspo.config import Config
from rspo.search.settled import EVERY, over, settled, stuck
from worlds import Bandit

RISEN = [0.0, 2.0, 5.0, 8.0, *[10.0] * 20]


def rows(returns, accepted=None):
    shares = [1.0] * len(returns) if accepted is None else accepted
    return [{"return": r, "accepted": a} for r, a in zip(returns, shares, strict=True)]


@pytest.mark.parametrize(
    ("returns", "accepted", "wanted"),
    [
        (RISEN, None, True),
        (RISEN[:19], None, False),  # fewer than two windows
        (RISEN[:20], None, False),  # of which the first has seen it rise
        ([0.0] * 20, None, False),  # nothing learned yet
        ([5.0, *np.random.default_rng(0).normal(5, 1, 39)], None, False),  # no more than chance
        (np.arange(40.0), None, False),  # still rising
        ([0.0, *[10.0] * 20, *[7.0] * 10], None, False),  # falling
        (RISEN, [1.0] * 14 + [0.9] * 10, False),  # something is rejected still
        (RISEN, [1.0] * 23 + [7 / 8], True),  # one episode among eighty
        (RISEN, [0.0] * 14 + [0.96] * 10, True),
        ([-400.0, *[-20.0] * 25], None, True),  # returns may be below 0
    ],
)
def test_by_hand(returns, accepted, wanted):
    assert settled(rows(list(returns), accepted), 10) == wanted


def test_methods_without_a_filter_have_nothing_to_reject():
    assert settled([{"return": r} for r in RISEN], 10)


CLIMBED = [20.0, *np.linspace(20, 500, 19), *[500.0] * 60]  # level from the 20th update on


def noisy(mean, size, seed=0, episodes=16):
    """Acceptance as batches of this many episodes have it."""
    return np.random.default_rng(seed).binomial(episodes, mean, size) / episodes


@pytest.mark.parametrize(
    ("returns", "accepted", "wanted"),
    [
        (CLIMBED, [0.5] * 80, True),
        (CLIMBED[:75], [0.5] * 75, False),  # the longer window before it has still seen it rise
        (CLIMBED, np.linspace(1.0, 0.1, 80), True),  # being rejected pays more: it drifts back
        (CLIMBED, np.linspace(0.0, 0.5, 80), False),  # it gets more accepted still
        (CLIMBED, [0.0] * 60 + [0.2] * 20, False),  # it has just begun to
        # after a dip, so that the mean over a longer window is what it was
        (CLIMBED, [0.8] * 40 + [0.6] * 20 + [0.75] * 10 + [0.85] * 10, False),
        (CLIMBED, noisy(np.linspace(0.2, 0.8, 80), 80), False),
        ([20.0] * 80, [0.0] * 80, False),  # nothing learned yet
        (np.linspace(0.0, 500.0, 80), [0.5] * 80, False),  # the return rises still
    ],
)
def test_one_that_is_stuck(returns, accepted, wanted):
    assert stuck(rows(list(returns), accepted), 10) == wanted
    assert over(config(200, 10), [rows(list(returns), accepted)[:80]]) == wanted


def test_noise_in_the_acceptance_only_delays_the_end():
    """By a few decisions, for most runs: a batch of 16 episodes says little."""
    level = [*CLIMBED, *[500.0] * 40]
    ended = 0
    for seed in range(20):
        noise = rows(level, noisy(0.5, len(level), seed))
        ended += any(stuck(noise[:n], 10) for n in range(80, len(level) + 1, EVERY))
    assert ended >= 15


@given(start=st.floats(0.0, 0.6), gain=st.floats(0.0, 0.4), seed=st.integers(0, 2**32 - 1))
def test_one_that_gets_more_accepted_goes_on(start, gain, seed):
    shares = noisy(np.linspace(start, start + gain, 80), 80, seed)
    rise = shares[50:].mean() - shares[20:50].mean()
    assert not (rise > 0.05 and stuck(rows(CLIMBED, shares), 10))


@given(
    returns=st.lists(st.floats(-100, 100), min_size=20, max_size=40),
    scale=st.floats(0.1, 100),
    shift=st.floats(-100, 100),
)
def test_units_of_reward_do_not_matter(returns, scale, shift):
    """Except for rounding, where a comparison is nearly a tie."""
    first, other = (settled(rows(list(r)), 10) for r in (returns, np.array(returns) * 4.0))
    assert first == other
    values = np.array(returns) * scale + shift
    near = settled(rows([0.0, *[1.0] * 30]), 10), settled(rows([shift, *[shift + scale] * 30]), 10)
    assert near == (True, True)
    assert settled(rows(list(values)), 10) in (True, False)


def config(updates, window):
    base = Config("probe")
    return dataclasses.replace(
        base, ppo=dataclasses.replace(base.ppo, updates=updates, settled=window)
    )


def test_it_is_decided_after_every_tenth_update_of_all_members():
    good, bad = rows([0.0, *[1.0] * 39]), rows([0.0] * 40)
    assert not over(config(100, 10), [good[:20]])  # of which the first is still below
    assert over(config(100, 10), [good[:30]])
    assert not over(config(100, 10), [good[:25]])
    assert over(config(100, 10), [good[:30], good[:30]])
    assert not over(config(100, 10), [good, bad])
    assert not over(config(100, 0), [good])
    assert over(config(40, 0), [bad])
    assert EVERY == 10


@pytest.mark.slow
def test_a_run_ends_early_and_goes_on_to_the_same_result(tmp_path):
    """Killed in the middle, or extended: as if nothing had happened."""
    learner = {"updates": 200, "settled": 10, "batch": 64, "hidden": 8, "learning_rate": 3e-2}
    settings = {"ppo": learner, "judge": {"episodes": 32}, "method": "pg", "quiet": True}
    env = Bandit((0.0, 1.0, 0.2))
    straight = rspo.discover(env, iterations=2, out=tmp_path / "a", **settings)
    lengths = [
        len((tmp_path / "a/strategies" / f"{i:03d}" / "metrics.jsonl").read_text().splitlines())
        for i in range(2)
    ]
    assert all(length < 200 and length % EVERY == 0 for length in lengths), lengths
    rspo.discover(env, iterations=1, out=tmp_path / "b", **settings)
    extended = rspo.resume(tmp_path / "b", env=env, iterations=2, quiet=True)
    stopped = rspo.discover(
        env,
        iterations=2,
        out=tmp_path / "c",
        on_update=lambda update: update.update >= 15,
        **settings,
    )
    assert stopped.interrupted
    resumed = rspo.resume(tmp_path / "c", env=env, quiet=True)
    for other in (extended, resumed):
        assert [s.evaluation for s in other] == [s.evaluation for s in straight]
        assert all(same(a.policy, b.policy) for a, b in zip(straight, other, strict=True))


@pytest.mark.slow
def test_a_small_environment_of_gymnasiums_is_learned_and_left(tmp_path):
    """CartPole's best return is 500, and there is no more to learn once it is reached."""
    archive = rspo.discover("gym:CartPole-v1", iterations=1, out=tmp_path / "run", quiet=True)
    rows = (tmp_path / "run/strategies/000/metrics.jsonl").read_text().splitlines()
    assert archive[0].status == "novel"
    assert archive[0].evaluation.greedy_return_mean > 450
    assert len(rows) <= 100 < archive.config.ppo.updates
