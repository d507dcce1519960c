"""The tables and figures of the games and the robots, from hand-made summaries."""

import dataclasses
import itertools
import json
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import rspo
from product import rewritten
from rspo.cli.main import parse_discover
from rspo.envs.escalation_equilibria import Pair
from rspo.presets import preset

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import acceptance
import four_goals_tables
import games_report
import naming
import reproduce
import robot_tables
import rspo_side
import stag_hunt_tables


def policy(
    name: str, sampled: str | None = None, status: str = "novel", **more: Any
) -> dict[str, Any]:
    returns = {"greedy_return_mean": 2.0, "return_mean": 1.0, "stats": {}, "accepted_by": []}
    return {
        "descriptor": name,
        "sampled_descriptor": sampled or name,
        "status": status,
        **returns,
        **more,
    }


def summary(method: str, seed: int, *policies: dict[str, Any], variant: str = "") -> dict[str, Any]:
    return {"method": method, "variant": variant, "seed": seed, "strategies": list(policies)}


def cells(table: str, *start: str) -> list[list[str]]:
    """The rows of a table whose first cells are these."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if tuple(row[: len(start)]) == start]


# ---- names


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
    run = summary(
        "rspo",
        0,
        policy("Apple", "mixed"),
        policy("Apple"),
        policy("Edge", status="failed"),
        policy("Apple", status="duplicate"),
        policy("Edge", status="duplicate"),
    )
    assert naming.first_iterations(run) == {"Apple": 2, "Edge": 5}


def test_shown_names() -> None:
    shown = [policy("Edge"), policy("Edge", "mixed", "duplicate"), policy("mixed", status="failed")]
    assert [naming.shown_names(s) for s in shown] == ["Edge*", "Edge/mixed", "mixed-"]


# ---- 4-Goals


def goals(seed: int, *policies: dict[str, Any], method: str = "rspo") -> dict[str, Any]:
    return summary(method, seed, *policies) | {
        "env": "four-goals-hard",
        "steps": [500_000] * len(policies),
    }


def test_a_goal_is_found_once_by_a_policy_that_goes_there_and_to_no_other() -> None:
    policies = [policy(name) for name in ("mixed", "up", "up", "left")] + [
        policy("down", status="duplicate")
    ]
    assert four_goals_tables.distinct_after(goals(0, *policies)) == [0, 1, 1, 2, 2]


def test_four_goals_shows_the_rate_and_every_seed() -> None:
    four = [policy(name) for name in ("up", "left", "down", "right")]
    seven = [
        *four,
        policy("up", status="duplicate"),
        policy("mixed", status="failed"),
        policy("up", status="failed"),
    ]
    late = [
        policy("mixed"),
        *four,
        policy("up", status="duplicate"),
        policy("up", status="duplicate"),
    ]
    more = goals(102, *four[:3], policy("mixed", status="failed", greedy_return_mean=2.5))
    more["steps"][3] = 1_000_000  # the last iteration took two attempts
    table = four_goals_tables.counts_and_returns([goals(101, *late), more, goals(100, *seven)])
    rates, counts = cells(table, "four-goals-hard", "rspo")
    assert rates[2:] == ["0.53", "100 to 102", "1 of 3", "4 3 3"]
    assert counts[2:] == ["100 to 101", "0.5", "1.5", "2.5", "3.5", "4.0", "4.0", "4.0", "4 4"]
    assert cells(table, "rspo") == [
        ["rspo", "2.167", "2.000 2.000 2.500", "1.000", "1.000 1.000 1.000"]
    ]


def test_four_goals_are_published_on_seeds_that_no_preset_was_made_on() -> None:
    jobs = reproduce.EXPERIMENTS["four-goals"].jobs
    assert len({job.name for job in jobs}) == len(jobs) == 3 * (20 + 10 + 10)
    for job in jobs:
        config, _, _ = parse_discover(job.command[1:])
        assert (config.env, config.method.name, config.seed) == (job.env, job.method, job.seed)
        assert config.seed >= 100
        assert config.iterations == (7 if config.seed < 105 else 4)
    assert four_goals_tables.counts_and_returns([]).startswith("# ")  # before the first job ends


# ---- Monster-Hunt


def test_what_an_earlier_policy_rejects_is_shown_to_repeat_it() -> None:
    shares = {"Chase=": [1.0, 0.49], "Chase": [1.0, 0.5], "Chase*": [0.9, 0.9]}
    for shown, accepted_by in shares.items():
        status = "novel" if shown.endswith("*") else "duplicate"
        assert (
            stag_hunt_tables._shown(policy("Chase", status=status, accepted_by=accepted_by))
            == shown
        )


def test_monster_hunt_shows_first_iterations_beside_the_paper() -> None:
    runs = [
        summary(
            "rspo", 1, policy("Apple"), policy("Chase", greedy_return_mean=120.4, return_mean=99.6)
        ),
        summary(
            "rspo",
            0,
            policy("Apple"),
            policy("Corner", "mixed"),
            policy("Corner", greedy_return_mean=58.0),
        ),
        summary("pg", 0, policy("Apple")),
        summary("no-switch", 0, policy("Apple"), variant="no release"),
    ]
    table = stag_hunt_tables.monster_hunt(runs)
    assert cells(table, "rspo", "paper") == [["rspo", "paper", "✓", "✓", "✓", "✓", "", "", "", ""]]
    assert cells(table, "pg", "paper") == [["pg", "paper", "✓", "", "", "", "", "", "", ""]]
    assert cells(table, "no-switch, no release", "not in the paper")
    assert cells(table, "", "0") == [
        ["", "0", "✓ 1", "✓ 3", "-", "-", "58.0 (1.0)", "2", "2 (2)", "3"],
        ["", "0", "✓ 1", "-", "-", "-", "2.0 (1.0)", "1", "1 (1)", "1"],
        ["", "0", "✓ 1", "-", "-", "-", "2.0 (1.0)", "1", "1 (1)", "1"],
    ]
    assert cells(table, "", "1") == [
        ["", "1", "✓ 1", "-", "-", "✓ 2 (100)", "120.4 (99.6)", "2", "2 (2)", "2"]
    ]
    together = [
        "",
        "seeds with",
        "2 of 2",
        "1 of 2",
        "0 of 2",
        "1 of 2",
        "",
        "2.0",
        "2.0 (2.0)",
        "",
    ]
    assert cells(table, "", "seeds with")[0] == together
    assert cells(table, "rspo", "0")[0][2] == "Apple* Corner/mixed* Corner*"
    assert (
        table.index("| rspo | paper")
        < table.index("| no-switch, no release |")
        < table.index("| pg | paper")
    )


def test_places_are_told_apart_in_the_table() -> None:
    at = lambda name, cell, status="novel": policy(
        name, status=status, stats={f"meet({cell})": 1.0}
    )
    run = summary(
        "rspo",
        0,
        at("Corner", "0,0"),
        at("Corner", "4,0"),
        at("Corner", "0,0"),
        at("Edge", "2,0", "failed"),
    )
    assert stag_hunt_tables.places(run) == 2
    run["strategies"][1] |= {"status": "duplicate", "accepted_by": [0.1]}
    assert (stag_hunt_tables.places(run), stag_hunt_tables.places(run, near=False)) == (2, 1)


def test_ticks_that_contradict_the_paper_are_listed() -> None:
    runs = [
        summary("pg", 0, policy("Apple"), policy("Corner")),
        summary("pg", 1, policy("Corner")),
        summary("pg", 2, policy("Apple"), policy("Edge")),
        summary("rspo", 0, policy("Apple"), policy("Corner"), policy("Edge")),
    ]
    table = stag_hunt_tables.monster_hunt(runs)
    assert "without a tick in the paper: pg: Corner (2 of 3 seeds)." in table
    assert "not found here on most seeds: rspo: Chase (0 of 1 seeds)." in table


# ---- Escalation


def equilibrium(
    length: int, label: str | None = None, gain: float = 0.0, **more: Any
) -> dict[str, Any]:
    """A policy, and beside it what its best response says."""
    odd = (length - 1) // 2 * 2 + 1
    stats = {"L*": float(length), "agreeing": 0.9, f"P(L={length})": 1.0}
    pair = Pair(float(length), length + gain, length, unbroken=float(label == "L=always"))
    return policy(label or f"L={odd}-{odd + 1}", stats=stats, **more) | {"pair": pair._asdict()}


def escalated(
    method: str, seed: int, *policies: dict[str, Any], variant: str = ""
) -> dict[str, Any]:
    run = summary(method, seed, *policies, variant=variant)
    return run | {"pairs": [each["pair"] for each in policies]}


def test_equilibria_are_counted_by_four_rules() -> None:
    run = escalated(
        "rspo",
        0,
        equilibrium(1),
        equilibrium(46, "L=always"),
        equilibrium(44, "L=always"),
        equilibrium(2),  # not distinct from 1
        equilibrium(7, sampled="mixed"),
        equilibrium(9, status="failed"),
        equilibrium(12, gain=0.7),  # the best response leaves
        equilibrium(30, "mixed", gain=1.4),  # sloppy, but nobody gains a twentieth
    )
    assert stag_hunt_tables.exact_equilibria(run) == 4  # 1 or 2, always, 7 and 30
    assert stag_hunt_tables.exact_equilibria(run, tolerance=2) == 5
    assert stag_hunt_tables.named_equilibria(run) == 3  # 1 or 2, always, 12
    assert stag_hunt_tables.lengths_reached(run) == 8
    assert stag_hunt_tables.lengths_apart(run) == 5  # 1 or 2, always, 7, 12, 30


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
    assert [stag_hunt_tables._reached(p["stats"]) for p in policies] == [14, 0, 20, 15, 5]
    policies += [equilibrium(46, "L=always"), equilibrium(42, "L=always")]
    run = summary("rspo", 0, *policies)
    assert stag_hunt_tables.lengths_apart(run) == 3  # 14 or 15, 20, and always
    assert (
        stag_hunt_tables.lengths_reached(run) == 6
    )  # as the authors count: 5, 14, 15, 20, 42 and 46


def test_escalation_shows_counts_and_the_iteration_of_full_cooperation() -> None:
    always = equilibrium(46, "L=always", gain=0.3)
    runs = [
        escalated("rspo", 1, equilibrium(1), equilibrium(5), always),
        escalated("rspo", 0, equilibrium(1), always),
        escalated("rspo", 0, equilibrium(1, gain=2.0), variant="hard switching"),
    ]
    table = stag_hunt_tables.escalation(runs)
    assert cells(table, "rspo", "2") == [["rspo", "2", *["2.5: 2 3"] * 4, "2 3", "7.7"]]
    hard = ["rspo, hard switching", "1", "0.0: 0", *["1.0: 1"] * 3, "-", ""]
    assert cells(table, "rspo, hard switching", "1") == [hard]
    names, lengths = cells(table, "rspo", "1")
    assert names[2] == "L=1-2* L=5-6* L=always*"
    assert lengths[2] == "1= (0.0/1.0), 5= (0.0/5.0), always= (0.3/46.0)"
    assert "rspo 2.5 and 2.5; rspo, hard switching 0.0 and 0.0." in table


def test_the_best_response_to_every_policy_of_a_run_is_measured(tmp_path: Path) -> None:
    config = preset("escalation")
    small = dataclasses.replace(config.ppo, batch=400, updates=1)
    config = dataclasses.replace(
        config, iterations=2, ppo=small, judge=dataclasses.replace(config.judge, episodes=8)
    )
    rspo.discover("escalation", config=config, out=tmp_path / "run", quiet=True)
    pairs = [
        Pair(**pair) for pair in stag_hunt_tables.measure_equilibria(tmp_path / "run")["pairs"]
    ]
    assert len(pairs) == 2
    assert all(pair.best > pair.value > 0 for pair in pairs)  # hardly trained: random play
    assert json.loads(json.dumps(pairs[0])) == list(pairs[0])


@pytest.mark.parametrize(("experiment", "seeds"), [("monster-hunt", 5), ("escalation", 5)])
def test_the_games_are_published_on_seeds_that_no_setting_was_chosen_on(
    experiment: str, seeds: int
) -> None:
    jobs, tabulate = (
        reproduce.EXPERIMENTS[experiment].jobs,
        reproduce.EXPERIMENTS[experiment].tabulate,
    )
    assert len({job.name for job in jobs}) == len(jobs)
    assert {job.seed for job in jobs} == set(range(100, 100 + seeds))
    assert all(" " not in job.name for job in jobs)
    assert tabulate([]).startswith("# ")  # before the first job ends


def test_the_guide_shows_the_command_of_the_published_equilibria() -> None:
    guide = (Path(__file__).parent.parent / "docs" / "games.md").read_text()
    (command,) = re.findall(r"```bash\nrspo discover (.*?)```", guide, re.DOTALL)
    shown, _, _ = parse_discover(command.replace("\\\n", " ").split())
    published, _, _ = parse_discover(["escalation", *reproduce.RETURN_MEASURE.split()])
    assert shown == published


def test_the_jobs_are_commands_that_rspo_takes() -> None:
    for experiment in ("monster-hunt", "escalation"):
        for job in reproduce.EXPERIMENTS[experiment].jobs:
            config, _, _ = parse_discover(job.command[1:])
            assert (config.env, config.method.name, config.seed) == (job.env, job.method, job.seed)
            if config.method.name == "rspo":
                by_turns = job.variant in ("hard switching", "return measure")
                assert config.method.switch == ("hard" if by_turns else "smooth")


def test_every_row_of_monster_hunt_has_three_seeds_and_a_place_in_the_table() -> None:
    seeds = defaultdict(list)
    for job in reproduce.EXPERIMENTS["monster-hunt"].jobs:
        seeds[", ".join(filter(None, (job.method, job.variant)))].append(job.seed)
    assert set(seeds) == set(stag_hunt_tables.METHODS)
    assert seeds.pop("rspo") == [100, 101, 102, 103, 104]
    assert all(each == [100, 101, 102] for each in seeds.values())


def test_an_ablation_of_monster_hunt_takes_away_one_thing() -> None:
    """Without switching there are still both intrinsic rewards, and they end when the filter would
    be lifted."""
    full, without = preset("monster-hunt").method, preset("monster-hunt", "no-switch").method
    assert without == dataclasses.replace(full, switch="off")


# ---- robots


def walk(
    robot: str, method: str, seed: int, score: float, *policies: dict[str, Any]
) -> dict[str, Any]:
    scores = {kernel: {"value": score} for kernel in robot_tables.KERNELS}
    return summary(method, seed, *policies) | {
        "env": robot,
        "steps": 10**6,
        "alpha": 1.0,
        "diversity": scores,
    }


def test_robots_show_every_seed_beside_the_paper() -> None:
    runs = [
        walk(
            "hopper",
            "rspo",
            0,
            0.5,
            policy("hopping"),
            policy("kneeling", "mixed"),
            policy("falling"),
        ),
        walk(
            "hopper",
            "rspo",
            1,
            0.7,
            policy("hopping"),
            policy("jumping"),
            policy("lying", status="failed"),
        ),
        walk("hopper", "pg", 0, 0.1, policy("hopping"), policy("hopping", status="duplicate")),
    ]
    table = robot_tables.robots(runs)
    assert [row[-1] for row in cells(table, "rspo", "0") + cells(table, "rspo", "1")] == ["1", "2"]
    assert cells(table, "pg", "0") == [["pg", "0", "1 (2)", "1 (2)", "1"]]
    assert cells(table, "rspo", "DvD's, l = 1") == [
        ["rspo", "DvD's, l = 1", "-", "0.600 (0.141): 0.500 0.700", "-", "-"]
    ]
    assert "- rspo, seed 0: hopping*; kneeling/mixed*; falling*" in table


def test_alpha_is_told_beside_what_it_did() -> None:
    first, second = policy("running"), policy("lying", status="failed", accepted=0.25)
    runs = [
        walk("half-cheetah", "rspo", 0, 0.5, first, second) | {"alpha": alpha}
        for alpha in (2.0, 0.5)
    ]
    rows = [cells(robot_tables.alpha(runs), alpha)[0] for alpha in ("0.5", "2.0")]
    assert rows[0] == [
        "0.5",
        "0.25",
        "failed",
        "1",
        "running; lying",
        "0.500",
        "0.500",
        "0.500",
        "0.604",
    ]
    assert rows[1][-1] == "0.748"


def test_the_diversity_of_a_run_is_that_of_all_its_policies(tmp_path: Path) -> None:
    small = {"updates": 1, "batch": 400, "minibatches": 1}
    rspo.discover(
        "gym:Pendulum-v1",
        iterations=2,
        out=tmp_path / "run",
        quiet=True,
        ppo=small,
        judge={"episodes": 2},
    )
    found = robot_tables.measure(tmp_path / "run")
    assert found["steps"] == 400
    for score in found["diversity"].values():
        assert (score["policies"], score["states"]) == (2, 128)
        matrix = np.array(score["matrix"])
        assert score["value"] == pytest.approx(1 - matrix[0, 1] ** 2)


# ---- the acceptance ratio


@pytest.fixture
def hunt(hunt: Path, tmp_path: Path) -> Path:
    """A run of Monster-Hunt whose first policy is called Apple."""
    folder = shutil.copytree(hunt, tmp_path / "apple")
    with rewritten(folder / "strategies" / "000" / "strategy.json") as record:
        record["evaluation"] |= {"descriptor": "Apple", "sampled_descriptor": "Apple"}
    return folder


def test_the_acceptance_ratio_is_that_of_the_iteration_after_apple(
    hunt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "new" / "acceptance.svg"
    monkeypatch.setattr(sys, "argv", ["acceptance.py", str(hunt), str(hunt), "--out", str(out)])
    acceptance.main()
    lines = (hunt / "strategies" / "001" / "metrics.jsonl").read_text().splitlines()
    for curve in json.loads(out.with_suffix(".json").read_text()):
        assert curve["iteration"] == 2
        assert curve["steps"] == [1600 * update for update in range(1, 16)]
        assert curve["accepted"] == [json.loads(line)["accepted"] for line in lines]
        assert curve["run"] == "apple"  # and no path of this machine
    root = ElementTree.fromstring(out.read_text())
    assert len(root.findall(".//{*}polyline")) == 2


def test_the_picture_puts_all_accepted_at_the_top() -> None:
    curve = {"steps": [500_000, 1_000_000], "accepted": [0.0, 1.0]}
    curves = [curve | {"method": method} for method in ("rspo", "no-intrinsic")]
    lines = ElementTree.fromstring(acceptance.picture(curves)).findall(".//{*}polyline")
    assert [line.get("points") for line in lines] == ["38,240 472,8"] * 2
    assert [line.get("class") for line in lines] == ["line c0", "line c1"]


def test_a_run_without_apple_is_refused(
    hunt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shutil.copytree(hunt, tmp_path / "other")
    with rewritten(other / "strategies" / "000" / "strategy.json") as record:
        record["evaluation"] |= {"sampled_descriptor": "mixed"}
    monkeypatch.setattr(
        sys, "argv", ["acceptance.py", str(hunt), str(other), "--out", str(tmp_path / "a.svg")]
    )
    with pytest.raises(SystemExit, match="no finished iteration after an Apple policy"):
        acceptance.main()


# ---- speed


def measured() -> dict[str, Any]:
    """Two repetitions of ten updates: 1 s each with no references, 2 s with 20 that reject, 1.5 if
    they accept."""
    rounds = []
    for game in games_report.GAMES:
        for repetition in (1, 2):
            rounds.append(
                {"name": f"rollout {game}", "repetition": repetition, "seconds": 5.0, "steps": 1000}
            )
            for kept, (kind, share) in itertools.product((0, 20), games_report.KINDS.items()):
                seconds = 10.0 + kept / 20 * (5 + 5 * share)
                name = f"train {game} {kept} {kind}"
                rounds.append(
                    {"name": name, "repetition": repetition, "seconds": seconds, "steps": 1000}
                )
    machine = {"cores": 2, "cpu": "chip", "load_before": 0.0, "versions": {"python": "3"}}
    settings = {"repetitions": 2, "updates": 10, "references": [0, 20]}
    seconds = dict.fromkeys(games_report.GAMES, 1.0)
    return {"machine": machine, "settings": settings, "compile_seconds": seconds, "rounds": rounds}


def test_the_speed_of_the_games() -> None:
    table = games_report.markdown(measured())
    assert cells(table, "monster-hunt", "rollout alone") == [
        ["monster-hunt", "rollout alone", "200 (200 to 200)"]
    ]
    ratios = (2.0, 1.75, 1.5)  # all, half and none of the references reject
    shown = [
        (f"{1e3 * r:.1f} ({1e3 * r:.1f} to {1e3 * r:.1f})", f"{r:.2f} ({r:.2f} to {r:.2f})")
        for r in ratios
    ]
    assert cells(table, "20")[0] == ["20", *itertools.chain(*shown)]
    config = preset("monster-hunt")
    for kind, most in (("all reject", 1.0), ("half reject", 0.75), ("all accept", 0.5)):
        expected = (
            sum(1 + most * k / 20 for k in range(config.iterations)) * config.ppo.updates / 60
        )
        assert games_report.whole_run_minutes(measured(), "monster-hunt", kind) == pytest.approx(
            expected
        )


def test_our_side_of_the_speed_benchmarks_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        jax.config, "update", lambda *_: None
    )  # the tests keep their compiled programs
    side = rspo_side.RspoSide()
    assert side.compile("four-goals-easy", room=2) > 0
    assert side.rollout("four-goals-easy", 1)["steps"] == preset("four-goals-easy").ppo.batch
    assert side.train("four-goals-easy", kept=1, updates=1)["live"] > 0
    assert side.programs("four-goals-easy") == 1
