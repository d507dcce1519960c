"""The tables of 4-Goals: distinct goals after each iteration, and the best return in the hard mode. All seeds."""

from collections import defaultdict
from statistics import mean
from typing import Any

COMMAND = "python benchmarks/reproduce.py four-goals --jobs 2"
Summary = dict[str, Any]


def distinct_after(summary: Summary) -> list[int]:
    """How many goals have a good, distant policy of their own after 1, 2, ... iterations."""
    novel = [strategy["status"] == "novel" for strategy in summary["strategies"]]
    return [sum(novel[: k + 1]) for k in range(len(novel))]


def best_return(summary: Summary) -> tuple[float, float]:
    """The highest mean return over a run's policies: greedy, sampled."""
    strategies = summary["strategies"]
    return max(s["greedy_return_mean"] for s in strategies), max(s["return_mean"] for s in strategies)


def counts_and_returns(summaries: list[Summary]) -> str:
    groups: dict[tuple[str, str], list[Summary]] = defaultdict(list)
    for summary in sorted(summaries, key=lambda s: s["seed"]):
        groups[summary["env"], summary["objective"]].append(summary)
    return "\n".join([*_head(), *_counts(groups), *_hard(groups)]) + "\n"


def _head() -> list[str]:
    return [
        "# 4-Goals",
        "",
        f"Made by `{COMMAND}` with the presets of each environment; every policy of every run is in `four-goals.json`.",
        "",
    ]


def _counts(groups: dict[tuple[str, str], list[Summary]]) -> list[str]:
    lines = [
        "## Distinct goals after each iteration",
        "",
        "Mean over seeds; the last columns have each seed's count after four iterations and after the last. A goal "
        "counts when a policy that is good and keeps its distance reaches it in 80 % of greedy episodes or more.",
        "",
        "| environment | objective | seeds | 1 | 2 | 3 | 4 | 5 | 6 | 7 | each after 4 | each after 7 |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (env, objective), runs in sorted(groups.items()):
        counts = [distinct_after(run) for run in runs]
        means = " | ".join(f"{mean(column):.1f}" for column in zip(*counts, strict=True))
        each = " | ".join(" ".join(str(count[k]) for count in counts) for k in (3, -1))
        lines.append(f"| {env} | {objective} | {len(runs)} | {means} | {each} |")
    return lines


def _hard(groups: dict[tuple[str, str], list[Summary]]) -> list[str]:
    lines = [
        "",
        "## Best return in the hard mode",
        "",
        "The highest mean return over a run's seven policies (512 episodes each), greedy and sampled.",
        "",
        "| objective | greedy: mean | each seed | sampled: mean | each seed |",
        "|---|---|---|---|---|",
    ]
    for (env, objective), runs in sorted(groups.items()):
        if env == "four-goals-hard":
            greedy, sampled = zip(*(best_return(run) for run in runs), strict=True)
            each = [" ".join(f"{value:.3f}" for value in values) for values in (greedy, sampled)]
            lines.append(f"| {objective} | {mean(greedy):.3f} | {each[0]} | {mean(sampled):.3f} | {each[1]} |")
    return lines


def choices(summaries: list[Summary]) -> str:
    """One row a variant and seed: what each of four iterations found."""
    lines = [
        "# 4-Goals, hard mode: one departure from the preset at a time",
        "",
        "Made by `python benchmarks/reproduce.py four-goals-choices --jobs 2`. Greedy return and name of each "
        "iteration's policy; * marks the novel ones.",
        "",
        "| variant | seed | distinct | 1 | 2 | 3 | 4 |",
        "|---|---|---|---|---|---|---|",
    ]
    for summary in sorted(summaries, key=lambda s: (s["variant"], s["seed"])):
        cells = [
            f"{s['greedy_return_mean']:.2f} {s['descriptor']}{'*' if s['status'] == 'novel' else ''}"
            for s in summary["strategies"]
        ]
        lines.append(f"| {summary['variant']} | {summary['seed']} | {summary['distinct']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
