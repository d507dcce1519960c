"""4-Goals: what counts as a goal found."""

from handmade import cells, policy, record
from rspo.bench import markdown
from rspo.bench.catalogue import BENCHES
from rspo.bench.four_goals import distinct_after

BENCH = BENCHES["four-goals-modes"]
hard = lambda seed, *policies: record("four-goals-hard", "rspo", seed, *policies)


def test_a_goal_is_found_once_by_a_policy_that_goes_there_and_to_no_other() -> None:
    """Whether it is far from the others by RSPO's measure or not, but not if it fails."""
    policies = [policy(name) for name in ("mixed", "up", "up")] + [
        policy("left", status="failed"),
        policy("down", status="duplicate"),
    ]
    assert distinct_after(hard(0, *policies)) == [0, 1, 1, 1, 2]


def test_the_page_shows_the_rate_and_every_seed() -> None:
    four = [policy(name) for name in ("up", "left", "down", "right")]
    seven = [*four, *(policy("up", status="failed") for _ in range(3))]
    late = [policy("mixed"), *four, *(policy("up", status="duplicate") for _ in range(2))]
    short = hard(102, *four[:3], policy("mixed", status="failed"))
    page = markdown.page(
        BENCH, [hard(101, *late), short, hard(100, *seven)], "rspo bench", quick=False
    )
    rates, means = cells(page, "four-goals-hard", "RSPO")
    assert rates[2:] == ["0.50", "1 of 3", "4 3 3"]
    assert means[2:] == ["2", "0.5", "1.5", "2.5", "3.5", "4.0", "4.0", "4.0"]
