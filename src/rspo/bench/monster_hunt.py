"""Monster-Hunt: which strategies each method finds, how soon trajectories are accepted, and where
the agents meet."""

from collections.abc import Sequence
from functools import partial
from statistics import mean

import numpy as np

from rspo.bench import figures
from rspo.bench.markdown import seeds_of, table
from rspo.bench.naming import LEGEND, Policy, best_return, first_iterations, shown_names, that_count
from rspo.bench.record import Record
from rspo.bench.results import PAPER, settings_of
from rspo.bench.tables import Bench, Claim, Column, Quick, Row
from rspo.config import Judge
from rspo.core import charts
from rspo.core.types import Descriptor
from rspo.envs.monster_hunt import count_places, heatmap_in

ENV = "monster-hunt"
STRATEGIES = ("Apple", "Corner", "Edge", "Chase")
# Strategies are looked for in the first ten policies of every method; RSPO goes on to twenty for
# the maps.
COMPARED = 10
TEN = {"iterations": COMPARED}
UNGATED = {"ungated": 0.4, "ungated_every": 2}
RSPO = Row("rspo", "RSPO")
NO_INTRINSIC = Row("no-intrinsic", "No intrinsic reward", settings=TEN)
ROWS = (
    RSPO,
    Row("no-switch", "No switch", settings=TEN),
    NO_INTRINSIC,
    Row("behaviour-only", "Behaviour-driven reward only", settings=TEN),
    Row("rpg", "RPG", settings=TEN),
    Row("maven", "MAVEN", settings=TEN),
    Row("pg", "PG", settings=TEN),
    Row("dipg", "DIPG", settings=TEN),
    Row("rnd", "RND", settings=TEN),
    Row("rspo", "RSPO", "alpha 0.6", TEN | {"measure": {"alpha": 0.6}}, extra=True),
    Row(
        "rspo",
        "RSPO",
        "ungated start",
        TEN | {"method": UNGATED, "measure": {"alpha": 0.6}},
        extra=True,
    ),
    Row(
        "rspo",
        "RSPO",
        "ungated start and filter off",
        TEN | {"method": UNGATED, "measure": {"alpha": 1e-6}},
        extra=True,
    ),
    Row("no-switch", "No switch", "no release", TEN | {"method": {"release": 0.0}}, extra=True),
    Row("no-switch", "No switch", "r_B alone", TEN | {"method": {"lambda_r": 0.0}}, extra=True),
    Row(
        "no-switch",
        "No switch",
        "r_B alone and no release",
        TEN | {"method": {"lambda_r": 0.0, "release": 0.0}},
        extra=True,
    ),
)
TICKS = {
    "rspo": STRATEGIES,
    "no-switch": ("Apple", "Corner"),
    "no-intrinsic": ("Apple",),
    "behaviour-only": ("Apple", "Corner", "Edge"),
    "rpg": ("Apple", "Corner", "Chase"),
    "maven": ("Apple", "Corner"),
    "pg": ("Apple",),
    "dipg": ("Apple",),
    "rnd": ("Apple",),
}
SEEDS = (100, 101, 102)
QUICK = Quick(iterations=3, steps=128_000)


def found(record: Record, name: str) -> float:
    return float(first_iterations(record, failed=True).get(name, COMPARED + 1) <= COMPARED)


def places(record: Record, near: bool = True, iterations: int | None = None) -> int:
    """How many of the policies that count differ in name or place; those too near an earlier one
    only if `near`."""
    policies = [
        policy
        for iteration, policy in that_count(record, failed=True)
        if (near or not too_near(policy)) and (iterations is None or iteration <= iterations)
    ]
    return count_places(Descriptor(one["descriptor"], one["stats"]) for one in policies)


def too_near(policy: Policy) -> bool:
    """Whether some earlier policy rejects most of its episodes: by the filter's measure it repeats
    that one."""
    return min(policy["accepted_by"], default=1.0) < Judge().accept


def shown(policy: Policy) -> str:
    return shown_names(policy) + "=" * (policy["status"] == "duplicate" and too_near(policy))


def every_policy(bench: Bench, records: Sequence[Record]) -> str:
    """Their names, in the order of the iterations."""
    rows = [
        [row.name, str(run["seed"]), " ".join(map(shown, run["strategies"]))]
        for _, row, runs in seeds_of(bench, records)
        for run in runs
    ]
    note = (
        f"{LEGEND} = is too near an earlier policy, which accepts less than half of its episodes: "
        "a repetition by the filter's measure."
    )
    head = ["method", "seed", "policies"]
    return f"## Every policy, in the order of the iterations\n\n{note}\n\n{table(head, rows)}"


def _strategies(bench: Bench, records: Sequence[Record]) -> str:
    """The iteration that first found each strategy, and how many places there are."""
    rows = []
    for _, row, runs in seeds_of(bench, records):
        rows += [[row.name, *_found(run)] for run in runs]
        ten, all_of = (mean(places(run, iterations=n) for run in runs) for n in (COMPARED, None))
        apart = mean(places(run, near=False) for run in runs)
        rows.append([row.name, "mean", *[""] * 5, f"{ten:.1f}", f"{all_of:.1f} ({apart:.1f})", ""])
    head = ["method", "seed", *STRATEGIES, "best return", "places in ten", "places", "iterations"]
    note = (
        "The iteration that first found each; beside Chase stands the sampled return of the first "
        "one. Returns are the highest mean of a run's policies, greedy (sampled), averaged over "
        "agents. *Places*: how many policies differ in name or, if they wait, in where, in the "
        "first ten iterations and in all; in brackets without those too near an earlier policy."
    )
    parts = [f"## Seed by seed\n\n{note}\n", table(head, rows), "", f"{WHY}\n"]
    return "\n".join([*parts, every_policy(bench, records)])


def _found(run: Record) -> list[str]:
    first = first_iterations(run, failed=True)
    cells = [str(first[name]) if name in first else "-" for name in STRATEGIES]
    if "Chase" in first:
        cells[-1] += f" ({run['strategies'][first['Chase'] - 1]['return_mean']:.0f})"
    best = f"{best_return(run):.1f} ({best_return(run, ''):.1f})"
    spread = f"{places(run)} ({places(run, near=False)})"
    ten = str(places(run, iterations=COMPARED))
    return [str(run["seed"]), *cells, best, ten, spread, str(len(run["strategies"]))]


WHY = (
    "Where more is found here than the paper ticks, these differences are the likely reasons, none "
    "of them tested: both agents share one policy, which then learns from twice the samples, and "
    "which cannot but treat both alike, as waiting together asks for (the authors' code has one "
    "policy per agent); rewards are normalised; and every run takes all its steps, 2.56 million an "
    "iteration, as the authors' configuration does, while the paper does not say what its ticks "
    "took."
)


def _accepted(record: Record, part: float = 1.0) -> float | None:
    """The mean acceptance in the last part of the iteration after Apple, by default in all of
    it."""
    curve = record.get("after_apple")
    if not curve or "accepted" not in curve:
        return None
    steps, accepted = np.array(curve["steps"]), np.array(curve["accepted"])
    return float(accepted[steps > (1 - part) * steps[-1]].mean())


LAST = 0.1


def _rises(record: Record) -> bool | None:
    accepted = _accepted(record, LAST)
    return None if accepted is None else accepted > 0.9


def _stays_low(record: Record) -> bool | None:
    accepted = _accepted(record, LAST)
    return None if accepted is None else accepted < 0.5


def _heatmaps(bench: Bench, records: Sequence[Record]) -> str:
    """Where the agents meet, of every policy of RSPO's first seed; a run with the tuned settings,
    if there is one, as in the tables below the figure."""
    runs = [one for one in records if RSPO.made(one)]
    title = figures.heading(bench, records)
    if not runs:
        return charts.page(title, 300, 20, "")
    first = min(runs, key=lambda one: (settings_of(one) == PAPER, one["seed"]))
    panels = {
        f"{i} {shown_names(policy)}": (
            heatmap_in(policy["stats"]),
            f"return {policy['greedy_return_mean']:.1f}",
        )
        for i, policy in enumerate(first["strategies"], 1)
    }
    seed = figures.title(f"seed {first['seed']}", settings_of(first))
    return charts.grids(f"{title}, {seed}", panels)


BENCHES = (
    Bench(
        name="monster-hunt-strategies",
        title="Monster-Hunt: strategies found",
        shows="which of four strategies, from picking apples to chasing the monster, are found",
        rows=ROWS,
        columns=tuple(
            Column(
                name,
                ENV,
                partial(found, name=name),
                {method: float(name in ticks) for method, ticks in TICKS.items()},
                kind="found",
            )
            for name in STRATEGIES
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "On how many seeds each was found in ten iterations, beside the paper's ticks, which "
            "are of twenty; RSPO alone goes on to twenty here (below, seed by seed). A policy "
            "counts for a strategy if its greedy and its sampled episodes both have that name, "
            "which asks for enough apples or catches. A Chase must earn more than waiting in the "
            "centre, 96."
        ),
        details=_strategies,
        quick=QUICK,
    ),
    Bench(
        name="monster-hunt-efficiency",
        title="Monster-Hunt: accepted trajectories in the iteration after Apple",
        shows="whether intrinsic rewards help a policy to get away from an earlier one",
        rows=(RSPO, NO_INTRINSIC),
        columns=(
            Column("whole iteration", ENV, _accepted, digits=3),
            Column("last tenth of it", ENV, partial(_accepted, part=LAST), digits=3),
        ),
        seeds=SEEDS,
        figure=figures.curves(lambda record: record.get("after_apple"), "accepted"),
        note=(
            "The share of trajectories that all earlier policies accept, in the iteration after "
            "the first Apple policy. The paper has a figure without numbers: with intrinsic "
            "rewards acceptance rises to one, without them it stays low."
        ),
        claims=(
            Claim(
                "With intrinsic rewards acceptance rises to one (above 0.9 in the last tenth)",
                RSPO,
                _rises,
            ),
            Claim(
                "Without intrinsic rewards it stays low (below 0.5 in the last tenth)",
                NO_INTRINSIC,
                _stays_low,
            ),
        ),
        quick=QUICK,
    ),
    Bench(
        name="monster-hunt-heatmaps",
        title="Monster-Hunt: where the agents meet",
        shows="the strategies of one run of RSPO, each as a map of where the two agents meet",
        rows=(RSPO,),
        columns=(
            Column("places in ten iterations", ENV, lambda r: places(r, iterations=10), digits=1),
            Column("places", ENV, lambda r: places(r), digits=1),
            Column("iterations", ENV, lambda r: len(r["strategies"]), digits=0),
        ),
        seeds=SEEDS,
        figure=_heatmaps,
        note=(
            "Policies that differ in name or, if they wait, in where they do. Each square of the "
            "figure is the board, each number how much of their time together the agents spend on "
            "that cell, in per cent. The paper shows twenty such maps of one run."
        ),
        details=every_policy,
        quick=QUICK,
    ),
)
