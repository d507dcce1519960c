"""4-Goals: how many of the four landmarks have a policy of their own, and the best return in the
hard mode."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from rspo.bench import figures
from rspo.bench.markdown import seeds_of, table
from rspo.bench.naming import NAMELESS, best_return
from rspo.bench.record import Record
from rspo.bench.tables import Bench, Claim, Column, Order, Quick, Row

GOALS, ITERATIONS = 4, 7
MODES = ("easy", "medium", "hard")
# One departure from the preset of the hard mode at a time, for four iterations.
DEPARTURES: dict[str, dict[str, Any]] = {
    "horizon-cut": {"ppo": {"horizon": "cut"}},
    "release-0": {"method": {"release": 0.0}},
    "alpha-0.5": {"measure": {"alpha": 0.5}},
    "momentum-0.98": {"ppo": {"momentum": 0.98}},
    "entropy-0.1": {"ppo": {"entropy_coefficient": 0.1}},
    "rejected-mask": {"method": {"rejected": "mask"}},
}
CHOICES = tuple(
    Row(
        "rspo",
        "RSPO",
        name,
        {"iterations": 4, **settings},
        seeds=(0, 1),
        envs=("four-goals-hard",),
        extra=True,
    )
    for name, settings in DEPARTURES.items()
)
ROWS = (
    Row("rspo", "RSPO"),
    Row("no-switch", "No switch"),
    Row("pg", "PG"),
    Row("dipg", "DIPG"),
    Row("pbt-ce", "PBT-CE"),
    Row("dvd", "DvD"),
    Row("smerl", "SMERL"),
    Row("pga-map-elites", "PGA-MAP-Elites"),
)
# RND runs only in the hard mode: it looks for the highest reward, not for many strategies.
HARD_ROWS = (*ROWS[:-1], Row("rnd", "RND"), ROWS[-1])
# Methods that the paper does not run on this game.
OTHERS = tuple(
    Row(method, title, extra=True)
    for method, title in (
        ("trajdiv", "TrajDiv"),
        ("maven", "MAVEN"),
        ("rnd", "RND"),
        ("rpg", "RPG"),
        ("sipo-rbf", "SIPO-RBF"),
        ("sipo-wd", "SIPO-WD"),
        ("domino", "DOMiNO"),
        ("dgpo", "DGPO"),
    )
)
SEEDS = tuple(range(100, 105))
# Earlier presets of these modes had been seen on 100 to 104; medium keeps one of those.
OWN_SEEDS = {
    "four-goals-medium": (100, *range(105, 109)),
    "four-goals-hard": tuple(range(105, 110)),
}
PGA = {
    "four-goals-easy": 4.0,
    "four-goals-medium": 1.6,
    "four-goals-hard": 1.2,
}
# What the paper's text says of Fig. 3a, whose bars have no numbers. In the easy mode DIPG has four
# in 4 of 5 runs, so less than RSPO on average.
WORDS: dict[str, tuple[Order, ...]] = {
    "easy": (("rspo", ">", "dipg"),),
    "medium": (("dipg", "<=", "pg"),),
    "hard": (("dipg", "<=", "pg"), ("rspo", ">", "no-switch")),
}
# RSPO "is the only algorithm that successfully learns the optimal policy towards the smallest
# ball".
ALONE: tuple[Order, ...] = tuple(
    ("rspo", ">", row.key) for row in HARD_ROWS[1:] if row.method != "pga-map-elites"
)
QUICK = Quick(seeds=2, iterations=4, steps=204_800)


def distinct_after(record: Record) -> list[int]:
    """How many goals have a good policy of their own after 1, 2, ... iterations. A policy without a
    single goal does not count. It need not be far from earlier ones in RSPO's measure, which other
    methods do not use."""
    found: set[str] = set()
    counts = []
    for policy in record["strategies"]:
        if policy["status"] in ("novel", "duplicate") and policy["descriptor"] != NAMELESS:
            found.add(policy["descriptor"])
        counts.append(len(found))
    return counts


def distinct(record: Record) -> float:
    return float(distinct_after(record)[-1])


def _all_in_four(record: Record, mode: str) -> bool | None:
    """Whether four iterations found all four goals; None in another mode."""
    if record["env"] != f"four-goals-{mode}":
        return None
    return distinct_after(record)[:GOALS][-1] == GOALS


def _smallest(record: Record) -> bool:
    """Whether a policy goes to the smallest landmark: no other one pays more than 1.2."""
    return best_return(record) > 1.2


PAYS = " (a greedy return above 1.2)"


def _modes(bench: Bench, records: Sequence[Record]) -> str:
    """After four iterations, in which the paper's RSPO finds them all, and after each of seven."""
    parts = ["## After four iterations\n"]
    rows = []
    for env, row, runs in seeds_of(bench, records):
        counts = [distinct_after(run)[:GOALS][-1] for run in runs]
        all_found = f"{sum(count == GOALS for count in counts)} of {len(runs)}"
        steps = runs[0]["steps"] / 1e6
        rows.append([env, row.name, f"{steps:.2f}", all_found, " ".join(map(str, counts))])
    head = ["mode", "method", "million steps of each policy", "all four goals", "each seed"]
    parts += [table(head, rows), "", "## After each iteration\n"]
    parts += ["Mean over the seeds that ran seven.\n"]
    rows = []
    for env, row, runs in seeds_of(bench, records):
        whole = [distinct_after(run) for run in runs if len(run["strategies"]) >= ITERATIONS]
        if whole:
            means = [sum(column) / len(whole) for column in zip(*whole, strict=True)]
            rows.append([env, row.name, str(len(whole)), *(f"{m:.1f}" for m in means[:ITERATIONS])])
    head = ["mode", "method", "seeds", *map(str, range(1, ITERATIONS + 1))]
    return "\n".join([*parts, table(head, rows)])


BENCHES = (
    Bench(
        name="four-goals-modes",
        title="4-Goals: distinct strategies found",
        shows="how many of four landmarks each method finds a policy for, easy, medium and hard",
        rows=(*ROWS, *OTHERS, *CHOICES),
        columns=tuple(
            Column(
                mode,
                f"four-goals-{mode}",
                distinct,
                {"rspo": 4.0, "pga-map-elites": PGA[f"four-goals-{mode}"]},
                digits=1,
                words=WORDS[mode],
            )
            for mode in MODES
        ),
        seeds=SEEDS,
        env_seeds=OWN_SEEDS,
        figure=figures.bars,
        note=(
            "Distinct landmarks after a run's last iteration, the mean over seeds and then each "
            "seed. A goal counts when a good policy reaches it in 80 % of greedy episodes or more, "
            "far from others by RSPO's measure or not. The paper's figure has no numbers; its "
            "text gives RSPO's, and says that DIPG found four in 4 of 5 runs of the easy mode and "
            "is no better than PG in the others. Some seeds ran four iterations, not seven."
        ),
        details=_modes,
        claims=tuple(
            Claim(
                f"{mode}: RSPO finds all four goals in four iterations",
                ROWS[0],
                partial(_all_in_four, mode=mode),
            )
            for mode in MODES
        ),
        ceiling=float(GOALS),
        quick=QUICK,
    ),
    Bench(
        name="four-goals-hard-reward",
        title="4-Goals, hard mode: the best return",
        shows="whether a policy to the smallest landmark, which pays 1.3, is among those found",
        rows=HARD_ROWS,
        columns=(
            Column(
                "greedy episodes",
                "four-goals-hard",
                best_return,
                {"rspo": 1.30, "pga-map-elites": 0.98},
                digits=3,
                words=ALONE,
            ),
            Column("sampled episodes", "four-goals-hard", lambda r: best_return(r, ""), digits=3),
        ),
        seeds=SEEDS,
        env_seeds=OWN_SEEDS,
        figure=figures.bars,
        note=(
            "The highest mean return over a run's policies (512 episodes each), which an agent "
            "that heads for the smallest landmark and always reaches it would have at 1.3. The "
            "paper prints RSPO's and PGA-MAP-Elites'; of the others it says that no-switch reaches "
            "the second largest landmark, and that none but RSPO learns to go to the smallest."
        ),
        claims=(
            Claim("RSPO learns to go to the smallest landmark" + PAYS, ROWS[0], _smallest),
            *(
                Claim(
                    f"{row.title} does not learn to go to the smallest landmark" + PAYS,
                    row,
                    lambda record: not _smallest(record),
                )
                for row in HARD_ROWS[1:]
            ),
        ),
        quick=QUICK,
    ),
)
