"""The robots beside the paper's numbers: returns of every iteration, Population Diversity, and what
alpha does."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from naming import Summary, counted, shown_names

from rspo.runs.run import Run
from rspo.search.diversity import dvd_diversity
from rspo.search.population import diversity_of

ROBOTS = ("half-cheetah", "hopper", "walker2d", "humanoid")
METHODS = ("rspo", "pg")
WIDER = math.sqrt(10)  # ten times the denominator, as in the paper's study of alpha
KERNELS = {"p1": "the paper's, p = 1", "wider": "the paper's, p = √10", "dvd": "DvD's, l = 1"}
# The paper's tables: mean (deviation) over three seeds.
PAPER_RETURNS = {
    "half-cheetah": ("2343 (882)", "1790 (950)", "1710 (1394)", "859 (498)", "1194 (640)"),
    "hopper": ("1741 (56)", "1690 (29)", "1428 (322)", "1349 (275)", "841 (296)"),
    "walker2d": ("1668 (284)", "1627 (228)", "1258 (538)", "1275 (342)", "1040 (318)"),
    "humanoid": ("3146 (26)", "3148 (140)", "3118 (84)", "3072 (76)", "2707 (860)"),
}
PAPER_DIVERSITY = {
    "rspo": ("0.359 (0.058)", "0.989 (0.009)", "0.955 (0.039)", "0.999 (0.000)"),
    "pg": ("0.033 (0.013)", "0.418 (0.125)", "0.188 (0.079)", "0.965 (0.006)"),
}
PAPER_ALPHA = {"0.5": "0.604", "1.0": "0.676", "1.5": "0.687", "2.0": "0.748"}  # Humanoid
COMMAND = (
    "Made by `python benchmarks/reproduce.py {0} --jobs 2` with the presets{1}; every policy of "
    "every run is in "
    "`{0}.json`."
)


def measure(folder: Path) -> dict[str, Any]:
    """Population Diversity of all policies of a run, whatever was judged of them, and how much they
    were trained."""
    run = Run.open(folder)
    strategies = list(run.load())
    states = run.visited(strategies)
    obs = np.concatenate(states).astype(np.float32)
    actions = np.stack(
        [np.clip(np.asarray(strategy.policy(obs).mode()), -1, 1) for strategy in strategies]
    )
    whose = "all policies"
    scores = {
        "p1": diversity_of(strategies, states, 1.0, whose),
        "wider": diversity_of(strategies, states, WIDER, whose),
        "dvd": dvd_diversity(
            actions, length=1.0, source=f"sampled episodes of {whose}, equally many from each"
        ),
    }
    training = {
        "steps": run.config.ppo.updates * run.config.ppo.batch,
        "alpha": run.config.measure.alpha,
    }
    return training | {
        "diversity": {name: dataclasses.asdict(score) for name, score in scores.items()}
    }


def robots(rows: list[Summary]) -> str:
    groups: dict[tuple[str, str], list[Summary]] = defaultdict(list)
    for row in rows:
        groups[row["env"], row["method"]].append(row)
    lines = ["# Robots", "", COMMAND.format("robots", ""), "", *_training(rows)]
    for robot in ROBOTS:
        lines += ["", f"## {robot}", "", *_returns(groups, robot), "", *_gaits(groups, robot)]
    return "\n".join([*lines, "", *_diversities(groups)]) + "\n"


def _training(rows: list[Summary]) -> list[str]:
    steps = defaultdict(set)
    for row in rows:
        steps[row["env"]].add(row["steps"])
    text = ", ".join(f"{robot} {max(steps[robot]) / 1e6:.2f}" for robot in ROBOTS if robot in steps)
    return [
        f"Million environment steps a policy, the same for both methods: {text}. The paper does "
        "not say its own. "
        "Returns are of 32 episodes of up to 512 steps, which end at a fall; actions sampled, "
        "greedy in brackets. "
        "Gaits: the name that greedy episodes show, / the sampled ones if they differ; * novel, - "
        "failed. Distinct "
        "ones are those that both show, without failed policies."
    ]


def _returns(groups: dict[tuple[str, str], list[Summary]], robot: str) -> list[str]:
    lines = [
        "| method | seed | 1 | 2 | 3 | 4 | 5 | distinct gaits |",
        "|---|---|---|---|---|---|---|---|",
        f"| RSPO | paper, 3 seeds | {' | '.join(PAPER_RETURNS[robot])} | |",
    ]
    for method in METHODS:
        for row in groups.get((robot, method), []):
            cells = [
                f"{s['return_mean']:.0f} ({s['greedy_return_mean']:.0f})" for s in row["strategies"]
            ]
            lines.append(f"| {method} | {row['seed']} | {' | '.join(cells)} | {_distinct(row)} |")
    return lines


def _distinct(row: Summary) -> int:
    """Gaits that greedy and sampled episodes both show, of policies that have not failed."""
    return len({strategy["descriptor"] for _, strategy in counted(row)} - {"falling"})


def _gaits(groups: dict[tuple[str, str], list[Summary]], robot: str) -> list[str]:
    return [
        f"- {method}, seed {row['seed']}: {'; '.join(map(shown_names, row['strategies']))}"
        for method in METHODS
        for row in groups.get((robot, method), [])
    ]


def _diversities(groups: dict[tuple[str, str], list[Summary]]) -> list[str]:
    lines = [
        "## Population Diversity",
        "",
        "Of a run's five policies, each seed. The paper does not give the scale p of its kernel, "
        "so compare methods, "
        "not its numbers with these. DvD's kernel is on greedy actions. States: 64 from sampled "
        "episodes of each "
        "policy (docs/diversity.md).",
        "",
        f"| | kernel | {' | '.join(ROBOTS)} |",
        f"|---|---|{'---|' * len(ROBOTS)}",
    ]
    for method in METHODS:
        lines.append(f"| {method} | the paper's numbers | {' | '.join(PAPER_DIVERSITY[method])} |")
        for kernel, name in KERNELS.items():
            cells = [_scores(groups.get((robot, method), []), kernel) for robot in ROBOTS]
            lines.append(f"| {method} | {name} | {' | '.join(cells)} |")
    return lines


def _scores(rows: Sequence[Summary], kernel: str) -> str:
    values = [row["diversity"][kernel]["value"] for row in rows]
    if len(values) < 2:
        return "".join(f"{value:.3f}" for value in values) or "-"
    return (
        f"{mean(values):.3f} ({stdev(values):.3f}): {' '.join(f'{value:.3f}' for value in values)}"
    )


def alpha(rows: list[Summary]) -> str:
    """The second iteration's acceptance, return and distance from the first, by alpha."""
    columns: list[tuple[str, Callable[[Summary], str]]] = [
        ("alpha", lambda row: f"{row['alpha']:.1f}"),
        ("accepted", lambda row: f"{row['strategies'][1]['accepted']:.2f}"),
        ("judged", lambda row: row["strategies"][1]["status"]),
        ("return", lambda row: f"{row['strategies'][1]['return_mean']:.0f}"),
        ("gaits", lambda row: "; ".join(s["descriptor"] for s in row["strategies"])),
        ("Population Diversity, p = 1", lambda row: f"{row['diversity']['p1']['value']:.3f}"),
        ("p = √10, as in the paper", lambda row: f"{row['diversity']['wider']['value']:.3f}"),
        ("DvD's, l = 1", lambda row: f"{row['diversity']['dvd']['value']:.3f}"),
        ("paper (Humanoid)", lambda row: PAPER_ALPHA[f"{row['alpha']:.1f}"]),
    ]
    lines = [
        "# What alpha does",
        "",
        COMMAND.format("robot-alpha", " but for alpha, two iterations and 240 updates"),
        "",
        f"Half-Cheetah, {rows[0]['steps'] / 1e6:.2f} million steps a policy, seed "
        f"{rows[0]['seed']}: the first policy "
        "is the same in all rows.",
        "",
        "| " + " | ".join(name for name, _ in columns) + " |",
        "|---" * len(columns) + "|",
    ]
    rows = sorted(rows, key=lambda row: row["alpha"])
    return (
        "\n".join(
            [*lines, *("| " + " | ".join(cell(row) for _, cell in columns) + " |" for row in rows)]
        )
        + "\n"
    )
