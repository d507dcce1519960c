"""The verdict table: failed, duplicate or novel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain import evaluation
from rspo.config import Config, Judge
from rspo.search.archive import Archive, Strategy
from rspo.search.judge import apart, judge

RANDOM = 1.0


def archive(*kept, **settings):
    strategies = [
        Strategy(
            i, status, evaluation(value, name), policy=None, threshold=0.0, memory=(), attempt=1
        )
        for i, (status, value, name) in enumerate(kept)
    ]
    return Archive(Config("probe", judge=Judge(quality=0.5, accept=0.5, **settings)), strategies)


FIRST = ("novel", 5.0, "up")  # half of the way from random play, 1, to this one is 3


@pytest.mark.parametrize(
    ("kept", "found", "status"),
    [
        # The first policy must beat random play, no more.
        ([], evaluation(1.01, "up"), "novel"),
        ([], evaluation(1.01), "novel"),
        ([], evaluation(1.0, "up"), "failed"),
        ([], evaluation(0.9, "up"), "failed"),
        # A later one must go half of the way to the first good one ...
        ([FIRST], evaluation(3.01, "down", accepted_by=(1.0,)), "novel"),
        ([FIRST], evaluation(2.99, "down", accepted_by=(1.0,)), "failed"),
        # ... which is the first that did not fail, best or not.
        (
            [("failed", 9.0, "left"), FIRST],
            evaluation(3.01, "down", accepted_by=(1.0, 1.0)),
            "novel",
        ),
        (
            [FIRST, ("novel", 20.0, "left")],
            evaluation(3.01, "down", accepted_by=(1.0, 1.0)),
            "novel",
        ),
        # It must keep its distance from each kept policy.
        ([FIRST], evaluation(5.0, "down", accepted_by=(0.5,)), "novel"),
        ([FIRST], evaluation(5.0, "down", accepted_by=(0.49,)), "duplicate"),
        ([FIRST, FIRST], evaluation(5.0, "down", accepted_by=(1.0, 0.1)), "duplicate"),
        # It must have a new name, where there are names; a failed policy takes none.
        ([FIRST], evaluation(5.0, "up", accepted_by=(1.0,)), "duplicate"),
        (
            [FIRST, ("duplicate", 5.0, "left")],
            evaluation(5.0, "left", accepted_by=(1.0, 1.0)),
            "duplicate",
        ),
        (
            [FIRST, ("failed", 1.0, "left")],
            evaluation(5.0, "left", accepted_by=(1.0, 1.0)),
            "novel",
        ),
        ([("novel", 5.0, None)], evaluation(5.0, None, accepted_by=(1.0,)), "novel"),
        ([("novel", 5.0, None)], evaluation(5.0, None, accepted_by=(0.2,)), "duplicate"),
        # Bad is worse than near.
        ([FIRST], evaluation(2.0, "up", accepted_by=(0.0,)), "failed"),
    ],
)
def test_verdict(kept, found, status):
    assert judge(found, archive(*kept), RANDOM).status == status


def test_a_policy_that_goes_exactly_the_asked_share_of_the_way_is_good():
    """Where returns are exact, as good as the first one must be good enough for quality 1."""
    kept = archive(FIRST)
    kept.config = Config("probe", judge=Judge(quality=1.0))
    assert judge(evaluation(5.0, "down", accepted_by=(1.0,)), kept, RANDOM).status == "novel"


def test_episodes_that_show_no_one_strategy_are_novel_only_at_first():
    mixed = evaluation(5.0, "mixed", clear=False, accepted_by=(1.0,))
    assert judge(mixed, archive(FIRST), RANDOM).status == "duplicate"
    assert judge(evaluation(5.0, "mixed", clear=False), archive(), RANDOM).status == "novel"


@pytest.mark.parametrize(
    ("kept", "found", "reason"),
    [
        ([], evaluation(0.5), "earns 0.5, no more than random play (1)"),
        ([FIRST], evaluation(2.0, accepted_by=(1.0,)), "earns 2 where 3 is needed"),
        ([FIRST], evaluation(2.9999, accepted_by=(1.0,)), "earns 2.9999 where 3 is needed"),
        ([FIRST], evaluation(5.0, "up", accepted_by=(0.97,)), "does the same as strategy 0"),
        (
            [FIRST, FIRST],
            evaluation(5.0, "down", accepted_by=(1.0, 0.31)),
            "strategy 1 accepts only 31% of its episodes, and 50% are needed",
        ),
        (
            [FIRST],
            evaluation(5.0, "down", accepted_by=(0.0,)),
            "strategy 0 accepts none of its episodes, and 50% are needed",
        ),
        (
            [FIRST],
            evaluation(5.0, "up", accepted_by=(0.499,)),
            "does the same as strategy 0; strategy 0 accepts only 49.9% of its episodes, and 50.0%"
            " are needed",
        ),
        (
            [FIRST],
            evaluation(5.0, "mixed", clear=False, accepted_by=(1.0,)),
            "its episodes do not all show the same strategy",
        ),
        ([], evaluation(5.0, "up"), "the first one to earn more than random play (5 against 1)"),
        (
            [FIRST, FIRST],
            evaluation(5.0, "down", accepted_by=(1.0, 0.9)),
            "no earlier one does this; strategy 1, the nearest one, accepts 90% of its episodes",
        ),
        (
            [FIRST, FIRST],
            evaluation(5.0, "down", accepted_by=(1.0, 1.0)),
            "no earlier one does this; every earlier one accepts all of its episodes",
        ),
        (
            [("novel", 5.0, None)],
            evaluation(5.0, None, accepted_by=(0.9,)),
            "strategy 0, the nearest one, accepts 90% of its episodes",
        ),
    ],
)
def test_the_reason_names_what_decided(kept, found, reason):
    assert judge(found, archive(*kept), RANDOM).reason == reason


def test_the_nearest_is_called_by_its_own_number_where_only_novel_ones_are_kept():
    kept = archive(FIRST, ("failed", 1.0, "left"), ("novel", 5.0, "left"), references="novel")
    found = evaluation(5.0, "down", accepted_by=(1.0, 0.2))
    assert judge(found, kept, RANDOM).reason.startswith("strategy 2 accepts only 20%")


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from("g%"))
def test_what_differs_is_never_written_alike(one, other, kind):
    scale = 1e-7 if kind == "%" else 1.0
    first, second = apart(scale * one, scale * other, kind)
    if abs(one - other) > 1e-9 * max(abs(one), abs(other), 1.0):
        assert first != second
    assert float(first.rstrip("%")) == pytest.approx(
        one * scale * (100 if kind == "%" else 1), rel=6e-3, abs=0.51
    )


@pytest.mark.parametrize(
    ("earned", "spread", "status"),
    [
        (1.1, 0.0, "novel"),
        (1.1, 1.0, "weak"),
        (1.24, 1.0, "weak"),
        (1.25, 1.0, "novel"),
        (1.0, 9.0, "failed"),
        (0.5, 9.0, "failed"),
    ],
)
def test_a_first_policy_that_is_hardly_better_than_random_play_is_weak(earned, spread, status):
    verdict = judge(evaluation(earned, "up"), archive(), RANDOM, spread)
    assert verdict.status == status
    assert verdict.good == (status == "novel")
    if status == "weak":
        assert verdict.reason.startswith(f"hardly better than random play: earns {earned:.3g}")


def test_a_weak_policy_sets_no_bar_and_takes_no_name():
    """The next one is judged as if it were the first."""
    kept = archive(("weak", 1.1, "up"))
    found = evaluation(5.0, "up", accepted_by=(1.0,))
    assert judge(found, kept, RANDOM, 1.0).status == "novel"
    assert judge(evaluation(1.1, "up", accepted_by=(1.0,)), kept, RANDOM, 1.0).status == "weak"
    assert (
        judge(evaluation(1.1, "up", accepted_by=(1.0,)), archive(FIRST), RANDOM, 9.0).status
        == "failed"
    )
    assert kept.distinct == 0
