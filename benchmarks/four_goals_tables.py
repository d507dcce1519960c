"""The tables of 4-Goals: distinct goals after each iteration, and the best return in the hard mode.
All seeds."""

from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from rspo.runs.run import Run

COMMAND = "python benchmarks/reproduce.py four-goals --jobs 2"
GOALS = 4
ITERATIONS = 7  # the paper's
Summary = dict[str, Any]


def measure(folder: Path) -> dict[str, Any]:
    """The environment steps of each iteration of a run; those of every attempt count."""
    run = Run.open(folder)
    steps = run.config.ppo.updates * run.config.ppo.batch
    return {"steps": [steps * strategy.attempt for strategy in run.load()]}


def distinct_after(summary: Summary) -> list[int]:
    """How many goals have a good, distant policy of their own after 1, 2, ... iterations. The first
    good policy of a run is novel whatever it shows; what goes to no one goal is no goal found."""
    found: set[str] = set()
    counts = []
    for strategy in summary["strategies"]:
        if strategy["status"] == "novel" and strategy["descriptor"] != "mixed":
            found.add(strategy["descriptor"])
        counts.append(len(found))
    return counts


def best_return(summary: Summary) -> tuple[float, float]:
    """The highest mean return over a run's policies: greedy, sampled."""
    strategies = summary["strategies"]
    return max(s["greedy_return_mean"] for s in strategies), max(
        s["return_mean"] for s in strategies
    )


def counts_and_returns(summaries: list[Summary]) -> str:
    groups: dict[tuple[str, str], list[Summary]] = defaultdict(list)
    for summary in sorted(summaries, key=lambda s: s["seed"]):
        groups[summary["env"], summary["method"]].append(summary)
    return "\n".join([*_head(), *_rates(groups), *_counts(groups), *_hard(groups)]) + "\n"


def _head() -> list[str]:
    return [
        "# 4-Goals",
        "",
        f"Made by `{COMMAND}` with the presets of each environment; every policy of every run is "
        "in `four-goals.json`. "
        "The presets were made on seeds below 100; all seeds here are 100 and above. A goal counts "
        "when a policy that "
        "is good and keeps its distance reaches it in 80 % of greedy episodes or more.",
        "",
    ]


def _rates(groups: dict[tuple[str, str], list[Summary]]) -> list[str]:
    lines = [
        "## Distinct goals after four iterations",
        "",
        "| environment | method | million steps an iteration | seeds | all four goals | each "
        "seed |",
        "|---|---|---|---|---|---|",
    ]
    for (env, method), runs in sorted(groups.items()):
        counts = [distinct_after(run)[GOALS - 1] for run in runs]
        steps = mean(steps for run in runs for steps in run["steps"]) / 1e6
        rate = f"{sum(count == GOALS for count in counts)} of {len(runs)}"
        each = " ".join(map(str, counts))
        lines.append(f"| {env} | {method} | {steps:.2f} | {_span(runs)} | {rate} | {each} |")
    return lines


def _span(runs: list[Summary]) -> str:
    """The seeds of runs in order of theirs: `100 to 109`, or one by one where some are missing."""
    seeds = [run["seed"] for run in runs]
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return " ".join(map(str, seeds))


def _counts(groups: dict[tuple[str, str], list[Summary]]) -> list[str]:
    lines = [
        "",
        "## Distinct goals after each of seven iterations",
        "",
        "Mean over the seeds that ran seven; the last column has each seed's count after the "
        "seventh.",
        "",
        "| environment | method | seeds | 1 | 2 | 3 | 4 | 5 | 6 | 7 | each after 7 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (env, method), all_runs in sorted(groups.items()):
        runs = [run for run in all_runs if len(run["strategies"]) == ITERATIONS]
        if runs:
            counts = [distinct_after(run) for run in runs]
            means = " | ".join(f"{mean(column):.1f}" for column in zip(*counts, strict=True))
            each = " ".join(str(count[-1]) for count in counts)
            lines.append(f"| {env} | {method} | {_span(runs)} | {means} | {each} |")
    return lines


def _hard(groups: dict[tuple[str, str], list[Summary]]) -> list[str]:
    lines = [
        "",
        "## Best return in the hard mode",
        "",
        "The highest mean return over a run's policies (512 episodes each), greedy and sampled.",
        "",
        "| method | greedy: mean | each seed | sampled: mean | each seed |",
        "|---|---|---|---|---|",
    ]
    for (env, method), runs in sorted(groups.items()):
        if env == "four-goals-hard":
            greedy, sampled = zip(*(best_return(run) for run in runs), strict=True)
            each = [" ".join(f"{value:.3f}" for value in values) for values in (greedy, sampled)]
            lines.append(
                f"| {method} | {mean(greedy):.3f} | {each[0]} | {mean(sampled):.3f} | {each[1]} |"
            )
    return lines


def choices(summaries: list[Summary]) -> str:
    """One row a variant and seed: what each of four iterations found."""
    lines = [
        "# 4-Goals, hard mode: one departure from the preset at a time",
        "",
        "Made by `python benchmarks/reproduce.py four-goals-choices --jobs 2`. Greedy return and "
        "name of each "
        "iteration's policy; * marks the novel ones.",
        "",
        "| variant | seed | distinct | 1 | 2 | 3 | 4 |",
        "|---|---|---|---|---|---|---|",
    ]
    for summary in sorted(summaries, key=lambda s: (s["variant"], s["seed"])):
        cells = [
            f"{s['greedy_return_mean']:.2f} "
            f"{s['descriptor']}{'*' if s['status'] == 'novel' else ''}"
            for s in summary["strategies"]
        ]
        lines.append(
            f"| {summary['variant']} | {summary['seed']} | {summary['distinct']} | "
            f"{' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"
