"""The tables of Monster-Hunt and Escalation, from hand-made records and a short run."""

import json
from pathlib import Path
from typing import Any

import pytest

import product
import rspo
from handmade import cells, policy, record
from product import rewritten
from rspo.bench import escalation, markdown, monster_hunt, naming
from rspo.bench.catalogue import BENCHES
from rspo.bench.measures import measured
from rspo.bench.other import ways_to_win
from rspo.envs.escalation_equilibria import Pair

hunt = lambda method, seed, *policies, **more: record(
    "monster-hunt", method, seed, *policies, **more
)


@pytest.mark.parametrize(
    ("greedy", "sampled", "name"),
    [
        ("Edge", "Edge", "Edge"),
        ("Edge", "mixed", None),
        ("Edge", "Corner", None),
        ("mixed", "mixed", None),
    ],
)
def test_a_name_counts_if_greedy_and_sampled_play_agree(
    greedy: str, sampled: str, name: str | None
) -> None:
    assert naming.agreed_name(policy(greedy, sampled)) == name


def test_a_strategy_is_found_where_it_first_counts() -> None:
    run = hunt(
        "rspo",
        0,
        policy("Apple", "mixed"),
        policy("Apple"),
        policy("Edge", status="failed"),
        policy("Apple", status="duplicate"),
        policy("Edge", status="duplicate"),
    )
    assert naming.first_iterations(run) == {"Apple": 2, "Edge": 5}
    assert naming.first_iterations(run, failed=True) == {"Apple": 2, "Edge": 3}


def test_defeats_and_other_ways_to_win_are_no_strategy_of_the_papers() -> None:
    names = ["cliff sniping", "other", "defeat", "corner", "corner"]
    run = record("2c_vs_64zg", "rspo", 0, *map(policy, names), policy("cliff walk", "other"))
    assert ways_to_win(run) == 2


def test_shown_names() -> None:
    shown = [policy("Edge"), policy("Edge", "mixed", "duplicate"), policy("mixed", status="failed")]
    assert [naming.shown_names(s) for s in shown] == ["Edge*", "Edge/mixed", "mixed-"]


# ---- Monster-Hunt


def test_what_an_earlier_policy_rejects_is_shown_to_repeat_it() -> None:
    shares = {"Chase=": [1.0, 0.49], "Chase": [1.0, 0.5], "Chase*": [0.9, 0.9]}
    for shown, accepted_by in shares.items():
        status = "novel" if shown.endswith("*") else "duplicate"
        assert monster_hunt.shown(policy("Chase", status=status, accepted_by=accepted_by)) == shown


def test_places_are_told_apart() -> None:
    at = lambda name, cell, status="novel": policy(
        name, status=status, stats={f"meet({cell})": 1.0}
    )
    run = hunt(
        "rspo",
        0,
        at("Corner", "0,0"),
        at("Corner", "4,0"),
        at("Corner", "0,0"),
        at("Edge", "2,0", "failed"),  # by the return of the first good policy
    )
    assert monster_hunt.places(run) == 3
    assert monster_hunt.places(run, iterations=1) == 1
    run["strategies"][1] |= {"status": "duplicate", "accepted_by": [0.1]}
    assert (monster_hunt.places(run), monster_hunt.places(run, near=False)) == (3, 2)


def test_seeds_with_a_strategy_stand_beside_the_ticks_of_the_paper() -> None:
    runs = [
        hunt("rspo", 0, policy("Apple"), policy("Corner", "mixed"), policy("Corner")),
        hunt("rspo", 1, policy("Apple"), policy("Chase", greedy_return_mean=120.4, return_mean=99)),
        hunt("pg", 0, policy("Apple"), policy("Corner")),
    ]
    page = markdown.page(BENCHES["monster-hunt-strategies"], runs, "rspo bench", quick=False)
    shares, *seeds = cells(page, "RSPO")
    assert shares[1:] == ["✓", "2 of 2", "✓", "1 of 2", "✓", "0 of 2", "✓", "1 of 2"]
    assert cells(page, "PG")[0][1:5] == ["✓", "1 of 1", "✗", "1 of 1"]
    assert seeds[0][1:] == ["0", "1", "3", "-", "-", "2.0 (1.0)", "2", "2 (2)", "3"]
    assert seeds[1][5:7] == ["2 (99)", "120.4 (99.0)"]
    assert "Corner: found here without a tick in the paper by PG (1 of 1 seed)." in page
    assert "Edge: ticked in the paper and not found on most seeds here by RSPO (0 of 2" in page


def test_the_maps_are_of_the_tuned_run_that_the_tables_are_of() -> None:
    bench = BENCHES["monster-hunt-heatmaps"]
    theirs = hunt("rspo", 100, policy("Apple"), paper=True)
    ours = [hunt("rspo", seed, policy("Chase")) for seed in (102, 101)]
    drawn = bench.figure(bench, [theirs, *ours])
    assert "where the agents meet, seed 101<" in drawn
    assert "1 Chase*" in drawn
    assert "1 Apple*" not in drawn
    assert "seed 100, paper's settings<" in bench.figure(bench, [theirs])


# ---- Escalation


def equilibrium(
    length: int, label: str | None = None, gain: float = 0.0, **more: Any
) -> dict[str, Any]:
    """A policy, and the numbers of its best response."""
    odd = (length - 1) // 2 * 2 + 1
    stats = {"L*": float(length), "agreeing": 0.9, f"P(L={length})": 1.0}
    pair = Pair(float(length), length + gain, length, unbroken=float(label == "L=always"))
    return policy(label or f"L={odd}-{odd + 1}", stats=stats, **more) | {"pair": pair._asdict()}


def escalated(seed: int, *policies: dict[str, Any], variant: str = "") -> dict[str, Any]:
    run = record("escalation", "rspo", seed, *policies, variant=variant)
    return run | {"pairs": [each["pair"] for each in policies]}


def test_what_the_paper_says_of_the_games_in_words_is_answered() -> None:
    first, once = policy("L=1-2"), {"P(L=1)": 1.0}
    escalated = [
        record("escalation", "rspo", 0, first, policy("L=always", stats={"P(L=50)": 1.0})),
        record("escalation", "rspo", 1, first, policy("L=19-20", stats={"P(L=19)": 1.0})),
        record("escalation", "rspo", 2, first),  # has no second policy yet
        record("escalation", "pg", 0, first, policy("L=1-2", stats=once)),
        record("escalation", "rpg", 0, first, policy("L=1-2", stats=once)),
    ]
    page = markdown.page(BENCHES["escalation-reward"], escalated, "rspo bench", quick=False)
    assert "RSPO's second policy cooperates to the end: so on 1 of 2 seeds" in page
    assert "PG's second policy cooperates for no more than a step: so on 1 of 1 seed" in page
    assert "A policy of RPG's cooperates for more than a step: so on 0 of 1 seed" in page
    curve = lambda last: {"after_apple": {"steps": [1, 2], "accepted": [last, last]}}
    hunted = [
        hunt("rspo", 0, policy("Apple"), **curve(1.0)),
        hunt("rspo", 1, policy("Apple")),  # found no Apple before its last iteration
        hunt("no-intrinsic", 0, policy("Apple"), **curve(0.7)),
    ]
    page = markdown.page(BENCHES["monster-hunt-efficiency"], hunted, "rspo bench", quick=False)
    assert "rises to one (above 0.9 in the last tenth): so on 1 of 1 seed" in page
    assert "it stays low (below 0.5 in the last tenth): so on 0 of 1 seed" in page
    walls = [record("point", "pg", 0, policy("caught"), policy("below"))]
    walls.append(record("point", "pg", 1, policy("above", status="failed")))
    page = markdown.page(BENCHES["point"], walls, "rspo bench", quick=False)
    assert "Plain PPO gets around the wall: so on 1 of 2 seeds with the tuned settings." in page


def test_equilibria_are_counted_by_four_rules() -> None:
    run = escalated(
        0,
        equilibrium(1),
        equilibrium(46, "L=always"),
        equilibrium(44, "L=always"),
        equilibrium(2),  # not distinct from 1
        equilibrium(7, sampled="mixed"),
        equilibrium(9, status="failed"),
        equilibrium(12, gain=0.7),  # the best response leaves
        equilibrium(30, "mixed", gain=1.4),  # sloppy, but a deviation gains less than a twentieth
    )
    # Whether a policy fails by what the first good one earns or not.
    assert escalation.exact_equilibria(run) == 5  # 1 or 2, always, 7, 9 and 30
    assert escalation.exact_equilibria(run, tolerance=2) == 6
    assert escalation.named_equilibria(run) == 4  # 1 or 2, always, 9, 12
    assert escalation.lengths_reached(run) == 8
    assert escalation.lengths_apart(run) == 6  # 1 or 2, always, 7, 9, 12, 30


def test_the_length_that_three_of_four_games_reach() -> None:
    shares = (
        {14: 0.5, 15: 0.3, 16: 0.2},
        {0: 0.25, 20: 0.75},
        {0: 0.24, 20: 0.26, 30: 0.5},
        {15: 1.0},
        {5: 1.0},
    )
    policies = [
        policy("mixed", stats={f"P(L={k})": share for k, share in each.items()}) for each in shares
    ]
    policies[-1]["status"] = "failed"
    assert [escalation.reached(p["stats"]) for p in policies] == [14, 0, 20, 15, 5]
    policies += [equilibrium(46, "L=always"), equilibrium(42, "L=always")]
    run = record("escalation", "rspo", 0, *policies)
    assert escalation.lengths_apart(run) == 4  # 5, 14 or 15, 20, and always
    assert escalation.lengths_reached(run) == 6  # as the authors count: 5, 14, 15, 20, 42 and 46


def test_counts_stand_beside_the_paper_and_full_cooperation_has_its_iteration() -> None:
    always = equilibrium(46, "L=always", gain=0.3)
    runs = [
        escalated(1, equilibrium(1), equilibrium(5), always),
        escalated(0, equilibrium(1), always),
        escalated(0, equilibrium(1, gain=2.0), variant="hard switching"),
    ]
    page = markdown.page(BENCHES["escalation-count"], runs, "rspo bench", quick=False)
    counts, cooperation, *_ = cells(page, "RSPO")
    assert counts[1:] == ["7.7", *["2.5 [2.0, 3.0]: 2 3"] * 4]
    assert cooperation[1:] == ["2 3", "2.5", "2.5"]
    assert cells(page, "RSPO (hard switching)")[0][1:] == ["", "1.0", "1.0", "0.0", "1.0"]
    lengths = cells(page, "RSPO", "1")
    assert lengths[0][2] == "1= (0.0/1.0), 5= (0.0/5.0), always= (0.3/46.0)"


# ---- what is measured of a run


@pytest.mark.slow
def test_the_best_response_to_every_policy_of_a_run_is_measured(tmp_path: Path) -> None:
    archive = rspo.discover("escalation", out=tmp_path / "run", quiet=True, **product.ESCALATION)
    found = measured(tmp_path / "run", archive, "escalation")
    pairs = [Pair(**pair) for pair in found["pairs"]]
    assert len(pairs) == 2
    assert all(pair.best > pair.value > 0 for pair in pairs)  # hardly trained: random play
    assert found["second"]["steps"] == [400, 800, 1200, 1600]
    assert len(found["second"]["return"]) == len(found["second"]["accepted"]) == 4
    assert json.loads(json.dumps(found))["pairs"] == found["pairs"]


def test_acceptance_is_kept_of_the_iteration_after_apple(hunt: Path, tmp_path: Path) -> None:
    import shutil

    folder = shutil.copytree(hunt, tmp_path / "apple")
    with rewritten(folder / "strategies" / "000" / "strategy.json") as changed:
        changed["evaluation"] |= {"descriptor": "Apple", "sampled_descriptor": "Apple"}
    curve = measured(folder, rspo.load(folder), "monster-hunt")["after_apple"]
    lines = (folder / "strategies" / "001" / "metrics.jsonl").read_text().splitlines()
    assert curve["iteration"] == 2
    assert curve["steps"] == [1600 * update for update in range(1, 16)]
    assert curve["accepted"] == pytest.approx(
        [json.loads(line)["accepted"] for line in lines], abs=1e-6
    )
    with rewritten(folder / "strategies" / "000" / "strategy.json") as changed:
        changed["evaluation"] |= {"sampled_descriptor": "mixed"}
    assert measured(folder, rspo.load(folder), "monster-hunt")["after_apple"] is None
