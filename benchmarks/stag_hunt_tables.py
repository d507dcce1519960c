"""The stag-hunt games beside the paper's numbers: strategies of Monster-Hunt, equilibria of Escalation. All seeds."""

from collections import defaultdict
from collections.abc import Callable
from statistics import mean
from typing import Any

from naming import Summary, counted, first_iterations, shown_names

from rspo.core.types import Descriptor
from rspo.envs.escalation import ALWAYS, Escalation, count_equilibria, lengths_in

HORIZON = Escalation().spec.horizon
STRATEGIES = ("Apple", "Corner", "Edge", "Chase")
# The paper's table of strategies found over 20 iterations.
PAPER_TICKS = {
    "rspo": STRATEGIES,
    "no-switch": ("Apple", "Corner"),
    "no-intrinsic": ("Apple",),
    "behaviour-only": ("Apple", "Corner", "Edge"),
    "pg": ("Apple",),
}
PAPER_OTHERS = {"RPG": ("Apple", "Corner", "Chase"), "MAVEN": ("Apple", "Corner"), "DIPG, RND": ("Apple",)}
# The paper's mean over 3 seeds after 10 iterations. Of the others its figure shows bars without numbers.
PAPER_EQUILIBRIA = {"rspo": "7.7"}
COUNTS = (
    "A policy counts for a strategy if its greedy and its sampled episodes both have that name and its return is not "
    "judged a failure."
)
LEGEND = "The name that greedy episodes show, / the sampled ones if they differ; * novel, - failed."


def monster_hunt(summaries: list[Summary]) -> str:
    groups = _groups(summaries)
    lines = [
        *_head("Monster-Hunt", "monster-hunt"),
        "## Strategies found",
        "",
        f"The iteration that first found each, seed by seed, beside the paper's ticks. {COUNTS} Returns are the "
        "highest mean of a run's policies, greedy (sampled), averaged over agents.",
        "",
        f"| method | seed | {' | '.join(STRATEGIES)} | best return |",
        f"|---|---|{'---|' * len(STRATEGIES)}---|",
    ]
    for method in [*PAPER_TICKS, *sorted(groups.keys() - PAPER_TICKS.keys())]:
        runs = groups.get(method, [])
        lines.append(_ticks(method, PAPER_TICKS.get(method)))
        lines += [_found(run) for run in runs]
        lines += _all_four(runs)
    lines += [_ticks(method, ticks) for method, ticks in PAPER_OTHERS.items()]
    return "\n".join([*lines, *_every_policy(groups)]) + "\n"


def _ticks(method: str, ticks: tuple[str, ...] | None) -> str:
    whose = "paper" if ticks else "not in the paper"
    return f"| {method} | {whose} | {' | '.join('✓' if name in (ticks or ()) else '' for name in STRATEGIES)} | |"


def _found(run: Summary) -> str:
    first = first_iterations(run)
    cells = " | ".join(f"✓ {first[name]}" if name in first else "-" for name in STRATEGIES)
    greedy, sampled = (max(s[f"{kind}return_mean"] for s in run["strategies"]) for kind in ("greedy_", ""))
    return f"| | {run['seed']} | {cells} | {greedy:.1f} ({sampled:.1f}) |"


def _all_four(runs: list[Summary]) -> list[str]:
    if not runs:
        return []
    shares = " | ".join(f"{sum(name in first_iterations(run) for run in runs)} of {len(runs)}" for name in STRATEGIES)
    return [f"| | seeds with | {shares} | |"]


def escalation(summaries: list[Summary]) -> str:
    groups = _groups(summaries)
    lines = [
        *_head("Escalation", "escalation"),
        "## Distinct equilibria",
        "",
        f"{COUNTS} Equilibria are distinct if their lengths L* differ by 2 or more; always cooperating is one more. "
        "Full cooperation is `L=always`: 80 % of the episodes cooperate to the end. The paper has 7.7 for RSPO with "
        "smoothed switching and 10 for a method that is given the length as its descriptor (PGA-MAP-Elites), counted "
        "otherwise: its authors' code takes the largest length that more than three of four games reach as a policy's. "
        "*Lengths reached* does so, with greedy episodes, leaving out 0, failed policies and lengths less than 2 "
        "apart, and counting full cooperation once.",
        "",
        "| method | seeds | distinct: mean | each seed | by greedy name alone | lengths reached: mean | each seed | "
        "full cooperation: iteration | paper |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for method, runs in groups.items():
        counts, greedy = [equilibria(run) for run in runs], [equilibria(run, agreed=False) for run in runs]
        first = [str(first_iterations(run).get(ALWAYS, "-")) for run in runs]
        reached = [lengths_reached(run) for run in runs]
        cells = [_each(counts), _each(greedy), f"{mean(reached):.1f}", _each(reached)]
        cells += [" ".join(first), PAPER_EQUILIBRIA.get(method, "")]
        lines.append(f"| {method} | {len(runs)} | {mean(counts):.1f} | {' | '.join(cells)} |")
    return "\n".join([*lines, *_every_policy(groups), *_lengths(groups)]) + "\n"


def _lengths(groups: dict[str, list[Summary]]) -> list[str]:
    """How long each policy cooperates, be it sharp enough to count or not."""
    note = (
        "The most frequent final length L* of the greedy episodes that meet, and the share of all of them that agrees: "
        "in which nobody pays and L is one of three adjacent lengths, L* among them. A name takes 80 %."
    )
    each = lambda run: ", ".join(map(_length, run["strategies"]))  # noqa: E731
    return _run_by_run("The cooperation length of every policy", note, groups, each)


def _length(strategy: dict[str, Any]) -> str:
    stats = strategy["stats"]
    if strategy["descriptor"] == ALWAYS:
        return "always"
    return "never" if stats.get("P(L=0)") == 1 else f"{stats['L*']:.0f} ({stats['agreeing']:.0%})"


def equilibria(run: Summary, agreed: bool = True) -> int:
    """How many distinct ones the policies show that count, or all of those with a greedy name."""
    policies = [s for _, s in counted(run)] if agreed else [s for s in run["strategies"] if s["descriptor"] != "mixed"]
    return count_equilibria(Descriptor(s["descriptor"], s["stats"]) for s in policies)


def lengths_reached(run: Summary) -> int:
    """How many lengths, two or more apart, are the largest that more than three of four games of a policy reach."""
    found = [
        Descriptor(ALWAYS if s["descriptor"] == ALWAYS else "", {"L*": float(_reached(s["stats"]))})
        for s in run["strategies"]
        if s["status"] != "failed"
    ]
    return count_equilibria(policy for policy in found if policy.stats["L*"] > 0)


def _reached(stats: dict[str, float]) -> int:
    share = lengths_in(stats, HORIZON)
    at_least = share[::-1].cumsum()[::-1]  # of the episodes, by L
    return int((at_least > 0.75).nonzero()[0].max(initial=0))


def _groups(summaries: list[Summary]) -> dict[str, list[Summary]]:
    groups: dict[str, list[Summary]] = defaultdict(list)
    for run in sorted(summaries, key=lambda run: (run["objective"], run["variant"], run["seed"])):
        groups[", ".join(filter(None, (run["objective"], run["variant"])))].append(run)
    return groups


def _head(title: str, experiment: str) -> list[str]:
    return [
        f"# {title}",
        "",
        f"Made by `python benchmarks/reproduce.py {experiment} --jobs 2` with the preset, except for what a method's "
        f"name says; every policy of every run is in `{experiment}.json`.",
        "",
    ]


def _every_policy(groups: dict[str, list[Summary]]) -> list[str]:
    each = lambda run: " ".join(map(shown_names, run["strategies"]))  # noqa: E731
    return _run_by_run("Every policy, in the order of the iterations", LEGEND, groups, each)


def _run_by_run(title: str, note: str, groups: dict[str, list[Summary]], each: Callable[[Summary], str]) -> list[str]:
    rows = [f"| {method} | {run['seed']} | {each(run)} |" for method, runs in groups.items() for run in runs]
    return ["", f"## {title}", "", note, "", "| method | seed | |", "|---|---|---|", *rows]


def _each(values: list[int]) -> str:
    return " ".join(map(str, values))
