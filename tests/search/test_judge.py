"""The verdict table: failed, duplicate or novel."""

import pytest

from plain import evaluation
from rspo.config import Config, Judge
from rspo.search.archive import Archive, Strategy
from rspo.search.judge import judge

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
