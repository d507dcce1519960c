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
    assert "- hard: RSPO finds all four goals in four iterations: so on 1 of 3 seeds" in page
    assert "easy: RSPO finds" not in page  # nothing ran there


def test_dipg_above_pg_is_said_to_differ_from_the_papers_words() -> None:
    found = lambda method, *names: record("four-goals-medium", method, 100, *map(policy, names))
    page = lambda *runs: markdown.page(BENCH, runs, "rspo bench", quick=False)
    better = page(found("dipg", "up", "left"), found("pg", "up", "up"))
    assert "medium: the one pair of methods is in the other order here, DIPG is not above" in better
    worse = page(found("dipg", "up", "up"), found("pg", "up", "down"))
    assert "medium: the order of methods is the paper's (1 pair; 1 may be chance)." in worse


def test_only_the_smallest_landmark_pays_more_than_the_second_smallest() -> None:
    earns = lambda method, value: record(
        "four-goals-hard", method, 100, policy("up", greedy_return_mean=value)
    )
    runs = [earns("rspo", 1.27), earns("pg", 1.2), earns("no-switch", 1.25)]
    page = markdown.page(BENCHES["four-goals-hard-reward"], runs, "rspo bench", quick=False)
    told = lambda who: f"{who} to go to the smallest landmark (a greedy return above 1.2): so on"
    assert f"{told('RSPO learns')} 1 of 1 seed" in page
    assert f"{told('- PG does not learn')} 1 of 1 seed" in page
    assert f"{told('No switch does not learn')} 0 of 1 seed" in page
    assert "greedy episodes: the order of methods is the paper's (2 pairs; 2 may be chance)" in page
