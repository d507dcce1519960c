"""The stag-hunt games beside the paper's numbers: strategies of Monster-Hunt, equilibria of
Escalation. All seeds."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from naming import Summary, counted, first_iterations, shown_names

from rspo.config import Judge
from rspo.core.policies import Policy
from rspo.core.types import Descriptor
from rspo.envs.escalation import ALWAYS, Escalation, count_equilibria, lengths_in
from rspo.envs.escalation_equilibria import GAIN, SHARE, Pair, examine
from rspo.envs.monster_hunt import count_places
from rspo.runs.run import Run

HORIZON = Escalation().spec.horizon
STRATEGIES = ("Apple", "Corner", "Edge", "Chase")
# The paper's table of strategies found over 20 iterations, beside the rows here that have most in
# common with its own.
PAPER_TICKS = {
    "rspo": STRATEGIES,
    "no-switch, r_B alone and no release": ("Apple", "Corner"),
    "no-intrinsic": ("Apple",),
    "behaviour-only": ("Apple", "Corner", "Edge"),
    "pg": ("Apple",),
}
PAPER_OTHERS = {
    "RPG": ("Apple", "Corner", "Chase"),
    "MAVEN": ("Apple", "Corner"),
    "DIPG, RND": ("Apple",),
}
# The paper's mean over 3 seeds after 10 iterations. Of the others its figure shows bars without
# numbers.
PAPER_EQUILIBRIA = {"rspo": "7.7"}
COUNTS = (
    "A policy counts for a strategy if its greedy and its sampled episodes both have that name and "
    "its return is not "
    "judged a failure."
)
LEGEND = (
    "The name that greedy episodes show, / the sampled ones if they differ; * novel, - failed, = "
    "too near an earlier "
    "policy, which accepts less than half of its episodes: a repetition by the filter's measure."
)


def monster_hunt(summaries: list[Summary]) -> str:
    groups = _groups(summaries)
    lines = [*_head("Monster-Hunt", "monster-hunt"), "## Strategies found", "", *TICKS, ""]
    lines += [
        f"| method | seed | {' | '.join(STRATEGIES)} | best return | places in ten | places | "
        "iterations |"
    ]
    lines += [f"|---|---|{'---|' * len(STRATEGIES)}---|---|---|---|"]
    order = [
        *(method for method in METHODS if method in groups),
        *sorted(groups.keys() - set(METHODS)),
    ]
    for method in order:
        lines.append(_ticks(method, PAPER_TICKS.get(method)))
        lines += [_found(run) for run in groups[method]]
        lines.append(_seeds_with(groups[method]))
    lines += [_ticks(method, ticks) for method, ticks in PAPER_OTHERS.items()]
    return "\n".join([*lines, *_contradictions(groups), *_every_policy(groups)]) + "\n"


METHODS = (
    "rspo",
    "rspo, alpha 0.6",
    "rspo, ungated start",
    "rspo, ungated start and filter off",
    "no-switch",
    "no-switch, no release",
    "no-switch, r_B alone",
    "no-switch, r_B alone and no release",
    "no-intrinsic",
    "behaviour-only",
    "pg",
)
TICKS = (
    f"The iteration that first found each, seed by seed, beside the paper's ticks. {COUNTS} A "
    "Chase must earn more "
    "than waiting in the centre, 96. Returns are the highest mean of a run's policies, greedy "
    "(sampled), averaged over "
    "agents; beside Chase stands the sampled return of the first one. *Places*: how many policies "
    "differ in name or, "
    "if they wait, in where, in the first ten iterations and in all; in brackets without those too "
    "near an earlier "
    "policy (= below). *Iterations*: how many policies were trained, so rows with fewer had fewer "
    "chances.",
    "",
    "- `rspo` has the paper's gate, alpha 0.8 as in its authors' configuration, and `release`; "
    "`alpha 0.6` is the "
    "paper's alpha.",
    "- `ungated start`: the reward-driven reward counts whatever is accepted, in the first 40 % of "
    "every second "
    "iteration, with alpha 0.6; `filter off` is the same with an alpha of 0.000001, so that "
    "everything is accepted.",
    "- `no-switch` has everything of `rspo` but the switch: both intrinsic rewards at all times "
    "until `release`. `r_B "
    "alone` is without the reward-driven one, as the paper's soft method.",
)


def _ticks(method: str, ticks: tuple[str, ...] | None) -> str:
    whose = "paper" if ticks else "not in the paper"
    return f"| {method} | {whose} | {' | '.join('✓' if name in (ticks or ()) else '' for name in STRATEGIES)} | | | | |"


def _found(run: Summary) -> str:
    first = first_iterations(run)
    cells = " | ".join(f"✓ {first[name]}" if name in first else "-" for name in STRATEGIES)
    if "Chase" in first:
        cells += f" ({run['strategies'][first['Chase'] - 1]['return_mean']:.0f})"
    greedy, sampled = (
        max(s[f"{kind}return_mean"] for s in run["strategies"]) for kind in ("greedy_", "")
    )
    more = f"{places(_ten(run))} | {places(run)} ({places(run, near=False)}) | {len(run['strategies'])}"
    return f"| | {run['seed']} | {cells} | {greedy:.1f} ({sampled:.1f}) | {more} |"


def _ten(run: Summary) -> Summary:
    """The first ten iterations, which all rows have."""
    return run | {"strategies": run["strategies"][:10]}


def places(run: Summary, near: bool = True) -> int:
    """How many of the policies that count differ in name or place; those too near an earlier one
    only if `near`."""
    policies = [s for _, s in counted(run) if near or not _too_near(s)]
    return count_places(Descriptor(s["descriptor"], s["stats"]) for s in policies)


def _seeds_with(runs: list[Summary]) -> str:
    found = [first_iterations(run) for run in runs]
    shares = " | ".join(
        f"{sum(name in first for first in found)} of {len(runs)}" for name in STRATEGIES
    )
    spread = f"{mean(map(places, runs)):.1f} ({mean(places(run, near=False) for run in runs):.1f})"
    return f"| | seeds with | {shares} | | {mean(places(_ten(run)) for run in runs):.1f} | {spread} | |"


def _contradictions(groups: dict[str, list[Summary]]) -> list[str]:
    """Where most seeds here say otherwise than the paper's ticks."""
    more, less = [], []
    for method, ticks in PAPER_TICKS.items():
        runs = groups.get(method, [])
        for name in STRATEGIES if runs else ():
            seeds = sum(name in first_iterations(run) for run in runs)
            told = f"{method}: {name} ({seeds} of {len(runs)} seeds)"
            if name not in ticks and 2 * seeds > len(runs):
                more.append(told)
            elif name in ticks and 2 * seeds < len(runs):
                less.append(told)
    lines = ["", "## Where the paper's table says otherwise", ""]
    lines += [
        f"Found here on most seeds, without a tick in the paper: {'; '.join(more) or 'none'}.",
        "",
    ]
    lines += [
        f"Ticked in the paper, not found here on most seeds: {'; '.join(less) or 'none'}.",
        "",
    ]
    return [*lines, WHY]


WHY = (
    "Likely why more is found here, none of it tested: both agents share one policy, which then "
    "learns from twice the "
    "samples, and which cannot but treat both alike, as waiting together asks for (the authors' "
    "code has one policy an "
    "agent); rewards are normalised; the learning rate is twice the paper's; and every run takes "
    "all its steps, 2.56 "
    "million an iteration, as the authors' configuration does, while the paper does not say what "
    "its ticks took."
)


def measure_equilibria(folder: Path) -> dict[str, Any]:
    """What each policy of a run of Escalation earns with itself, and at most against itself."""
    return {"pairs": [_pair(strategy.policy)._asdict() for strategy in Run.open(folder).load()]}


def _pair(policy: Policy) -> Pair:
    return examine(lambda obs: np.exp(np.asarray(policy(obs).log_probs, np.float64)))


def escalation(summaries: list[Summary]) -> str:
    groups = _groups(summaries)
    lines = [*_head("Escalation", "escalation"), "## Distinct equilibria", "", *RULES, ""]
    lines += [
        f"| method | seeds | {' | '.join(COUNTED_BY)} | full cooperation: iteration | paper |"
    ]
    lines += [f"|---|---|{'---|' * len(COUNTED_BY)}---|---|"]
    for method, runs in groups.items():
        cells = [_mean_and_each([rule(run) for run in runs]) for rule in COUNTED_BY.values()]
        cells += [" ".join(str(first_iterations(run).get(ALWAYS, "-")) for run in runs)]
        lines.append(
            f"| {method} | {len(runs)} | {' | '.join(cells)} | {PAPER_EQUILIBRIA.get(method, '')} |"
        )
    lines += ["", *_sensitivity(groups)]
    return "\n".join([*lines, *_every_policy(groups), *_lengths(groups)]) + "\n"


def _mean_and_each(counts: list[int]) -> str:
    return f"{mean(counts):.1f}: {' '.join(map(str, counts))}"


def _sensitivity(groups: dict[str, list[Summary]]) -> list[str]:
    """The count by best response if a deviation might gain half as much, or twice as much."""
    told = [
        f"{method} {mean(exact_equilibria(run, 0.5) for run in runs):.1f} and "
        f"{mean(exact_equilibria(run, 2.0) for run in runs):.1f}"
        for method, runs in groups.items()
    ]
    return (
        [f"With half and twice the tolerance, the mean by best response: {'; '.join(told)}."]
        if told
        else []
    )


def exact_equilibria(run: Summary, tolerance: float = 1.0) -> int:
    """How many distinct ones nobody gains by leaving; failed policies do not count."""
    both = zip(run["strategies"], run["pairs"], strict=True)
    return count_equilibria(
        Pair(**pair).describe(tolerance) for s, pair in both if s["status"] != "failed"
    )


def named_equilibria(run: Summary) -> int:
    """How many distinct ones by the names that greedy and sampled episodes agree on."""
    return count_equilibria(Descriptor(s["descriptor"], s["stats"]) for _, s in counted(run))


def lengths_reached(run: Summary) -> int:
    """How many lengths are the largest that more than three of four greedy games of a policy
    reach."""
    return len({_reached(s["stats"]) for s in run["strategies"]} - {0})


def lengths_apart(run: Summary) -> int:
    """The same, but two or more apart, and full cooperation once; failed policies do not count."""
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


COUNTED_BY = {
    "by best response": exact_equilibria,
    "by name": named_equilibria,
    "authors' rule": lengths_reached,
    "authors' rule, two apart": lengths_apart,
}
RULES = (
    "Each count: its mean, then each seed. Equilibria are distinct if their lengths L* differ by 2 "
    "or more; always "
    "cooperating is one more.",
    "",
    "- *By best response*: no agent gains by deviating from the policy as it is sampled, if the "
    "other one keeps to it. "
    "The best response is computed exactly, and may know the time. A gain of "
    f"{GAIN:g} is tolerated, or of {SHARE:.0%} of what the policy earns if that is more; this was "
    "settled before any "
    "learned policy was examined (`rspo/envs/escalation_equilibria.py`).",
    "- *By name*: in at least 80 % of the episodes nobody pays and L is within 1 of L*, or 80 % "
    "cooperate to the end; "
    "greedy and sampled episodes have the same name.",
    "- *Authors' rule*: as the paper's authors' code counts, a policy's length is the largest that "
    "more than three of "
    "four games reach. Every length but 0 counts, so that three policies that cooperate to the end "
    "after detours, 42, "
    "43 and 44 steps long, are three. This, with the paper's measure (`rspo`), is what compares "
    "with the paper's 7.7.",
    "- *Two apart*: the same rule, but lengths must be two or more apart, and full cooperation "
    "counts once.",
    "",
    "`return measure` sets trajectories apart by what they earn. In this game that is nearly the "
    "length of the "
    "cooperation, which the paper gives to PGA-MAP-Elites as its descriptor; with it that method "
    "has 10 of 10.",
)


def _lengths(groups: dict[str, list[Summary]]) -> list[str]:
    """What each policy is as an equilibrium."""
    note = (
        "The likeliest final length L* of sampled episodes, and in brackets what the best response "
        "would gain beside "
        "what the policy earns; = where that is within the tolerance."
    )
    each = lambda run: ", ".join(_length(Pair(**pair)) for pair in run["pairs"])
    return _run_by_run("The cooperation length of every policy", note, groups, each)


def _length(pair: Pair) -> str:
    found = pair.describe()
    name = "never" if pair.length == 0 else found.label.removeprefix("L=")
    return f"{name}{'=' if found.clear else ''} ({pair.gain:.1f}/{pair.value:.1f})"


def _groups(summaries: list[Summary]) -> dict[str, list[Summary]]:
    groups: dict[str, list[Summary]] = defaultdict(list)
    for run in sorted(summaries, key=lambda run: (run["method"], run["variant"], run["seed"])):
        groups[", ".join(filter(None, (run["method"], run["variant"])))].append(run)
    return groups


def _head(title: str, experiment: str) -> list[str]:
    return [
        f"# {title}",
        "",
        f"Made by `python benchmarks/reproduce.py {experiment} --jobs 2` with the preset, except "
        "for what a method's "
        f"name says; every policy of every run is in `{experiment}.json`. Settings were chosen on "
        "seeds 0 to 4; the "
        "seeds shown are others.",
        "",
    ]


def _every_policy(groups: dict[str, list[Summary]]) -> list[str]:
    each = lambda run: " ".join(map(_shown, run["strategies"]))
    return _run_by_run("Every policy, in the order of the iterations", LEGEND, groups, each)


def _shown(strategy: dict[str, Any]) -> str:
    return shown_names(strategy) + "=" * (strategy["status"] == "duplicate" and _too_near(strategy))


def _too_near(strategy: dict[str, Any]) -> bool:
    """Whether some earlier policy rejects most of its episodes: it repeats that one by the filter's
    measure."""
    return min(strategy["accepted_by"], default=1.0) < Judge().accept


def _run_by_run(
    title: str, note: str, groups: dict[str, list[Summary]], each: Callable[[Summary], str]
) -> list[str]:
    rows = [
        f"| {method} | {run['seed']} | {each(run)} |"
        for method, runs in groups.items()
        for run in runs
    ]
    return ["", f"## {title}", "", note, "", "| method | seed | |", "|---|---|---|", *rows]
