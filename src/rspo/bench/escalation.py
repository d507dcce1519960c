"""Escalation: what the second policy earns, and how many equilibria are found, by four rules."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean

from rspo.bench import figures
from rspo.bench.markdown import seeds_of, table
from rspo.bench.monster_hunt import every_policy
from rspo.bench.naming import agreed_name, first_iterations, that_count
from rspo.bench.record import Record
from rspo.bench.tables import Bench, Claim, Column, Order, Quick, Row
from rspo.core.types import Descriptor
from rspo.envs.escalation import ALWAYS, Escalation, count_equilibria, lengths_in
from rspo.envs.escalation_equilibria import GAIN, SHARE, Pair

ENV = "escalation"
HORIZON = Escalation().spec.horizon
# Distance by return instead of actions, paid at the end (docs/games.md). The discount of 0.98 and
# the annealed rates make policies meet at once and stop sharply.
RETURN_MEASURE = {
    "measure": {"of": "return", "alpha": 0.14, "least": 2.0},
    "method": {
        "paid": "end",
        "streams": "grouped",
        "rejected": "zero",
        "switch": "hard",
        "lambda_b": 0.0,
        "ungated": 0.25,
        "ungated_every": 10,
    },
    "ppo": {
        "entropy_coefficient": 0.02,
        "gamma": 0.98,
        "updates": 400,
        "decay": (0.4, 1.0),
        "entropy_decay": (0.4, 1.0),
    },
}
RSPO = Row("rspo", "RSPO")
HARD = Row("rspo", "RSPO", "hard switching", {"method": {"switch": "hard"}})
BASELINES = (Row("pg", "PG"), Row("dipg", "DIPG"), Row("rnd", "RND"), Row("rpg", "RPG"))
PGA = Row("pga-map-elites", "PGA-MAP-Elites")
# "Except for RPG, none of the baseline methods discover any cooperative NEs", and "the performance
# of RPG is further surpassed by" RSPO.
WORDS: tuple[Order, ...] = (
    ("rspo", ">", "rpg"),
    *((one, ">", row.key) for one in ("rspo", "rpg") for row in BASELINES[:-1]),
)
SEEDS = (100, 101, 102)
QUICK = Quick(iterations=3, steps=64_000)


def exact_equilibria(record: Record, tolerance: float = 1.0) -> int:
    """How many distinct ones that no agent gains by leaving."""
    return count_equilibria(Pair(**pair).describe(tolerance) for pair in record["pairs"])


def named_equilibria(record: Record) -> int:
    """How many distinct ones by the names that greedy and sampled episodes agree on."""
    return count_equilibria(
        Descriptor(one["descriptor"], one["stats"]) for _, one in that_count(record, failed=True)
    )


def lengths_reached(record: Record) -> int:
    """How many distinct lengths: of each policy the largest that more than three in four of its
    greedy games reach."""
    return len({reached(policy["stats"]) for policy in record["strategies"]} - {0})


def lengths_apart(record: Record) -> int:
    """The same, but two or more apart, and full cooperation once."""
    found = [
        Descriptor(
            ALWAYS if one["descriptor"] == ALWAYS else "", {"L*": float(reached(one["stats"]))}
        )
        for one in record["strategies"]
    ]
    return count_equilibria(policy for policy in found if policy.stats["L*"] > 0)


def reached(stats: dict[str, float]) -> int:
    share = lengths_in(stats, HORIZON)
    at_least = share[::-1].cumsum()[::-1]  # of the episodes, by L
    return int((at_least > 0.75).nonzero()[0].max(initial=0))


RULES = f"""\
Equilibria are distinct if their lengths L* differ by 2 or more; always cooperating is one more.

- *By best response*: no agent gains by deviating from the policy as it is sampled, if the other \
one keeps to it. The best response is computed exactly, and may know the time. A gain of \
{GAIN:g} is tolerated, or of {SHARE:.0%} of what the policy earns if that is more; this was \
settled before any learned policy was examined (`rspo/envs/escalation_equilibria.py`).
- *By name*: in at least 80 % of the episodes nobody pays and L is within 1 of L*, or 80 % \
cooperate to the end; greedy and sampled episodes have the same name.
- *Authors' rule*: as the paper's authors' code counts, a policy's length is the largest that \
more than three of four games reach. Every length but 0 counts, so that three policies that \
cooperate to the end after detours, 42, 43 and 44 steps long, are three. This, with the paper's \
measure (`rspo`), is what compares with the paper's 7.7.
- *Two apart*: the same rule, but lengths must be two or more apart, and full cooperation counts \
once.

`return measure` sets trajectories apart by what they earn. In this game that is nearly the length \
of the cooperation, which the paper gives to PGA-MAP-Elites as its descriptor; with it that method \
has 10 of 10."""


def _equilibria(bench: Bench, records: Sequence[Record]) -> str:
    rows, lengths = [], []
    for _, row, runs in seeds_of(bench, records):
        first = [str(first_iterations(run, failed=True).get(ALWAYS, "-")) for run in runs]
        half, twice = (mean(exact_equilibria(run, t) for run in runs) for t in (0.5, 2.0))
        rows.append([row.name, " ".join(first), f"{half:.1f}", f"{twice:.1f}"])
        for run in runs:
            told = ", ".join(_length(Pair(**pair)) for pair in run["pairs"])
            lengths.append([row.name, str(run["seed"]), told])
    head = ["method", "full cooperation: iteration on each seed", "half the tolerance", "twice it"]
    note = (
        "The likeliest final length L* of sampled episodes, and in brackets what the best response "
        "would gain beside what the policy earns; = where that is within the tolerance."
    )
    parts = ["## Full cooperation, and what the tolerance of the best response does\n"]
    parts += [table(head, rows), "", "## The cooperation length of every policy\n", f"{note}\n"]
    parts += [table(["method", "seed", "lengths"], lengths), "", every_policy(bench, records)]
    return "\n".join(parts)


def _length(pair: Pair) -> str:
    found = pair.describe()
    name = "never" if pair.length == 0 else found.label.removeprefix("L=")
    return f"{name}{'=' if found.clear else ''} ({pair.gain:.1f}/{pair.value:.1f})"


COUNTED_BY: dict[str, Callable[[Record], int]] = {
    "authors' rule": lengths_reached,
    "authors' rule, two apart": lengths_apart,
    "by best response": exact_equilibria,
    "by name": named_equilibria,
}


def _second(record: Record, kind: str) -> float | None:
    policies = record["strategies"]
    return policies[1][f"{kind}return_mean"] if len(policies) > 1 else None


def _always(record: Record) -> bool | None:
    """Whether the second policy cooperates to the end."""
    policies = record["strategies"]
    return agreed_name(policies[1]) == ALWAYS if len(policies) > 1 else None


def _cooperates(record: Record) -> bool | None:
    """Whether the second policy goes on after the first meeting."""
    policies = record["strategies"]
    return reached(policies[1]["stats"]) > 1 if len(policies) > 1 else None


def _one_does(record: Record) -> bool:
    return any(reached(policy["stats"]) > 1 for policy in record["strategies"])


def _does_not(record: Record) -> bool | None:
    cooperates = _cooperates(record)
    return None if cooperates is None else not cooperates


BENCHES = (
    Bench(
        name="escalation-reward",
        title="Escalation: the return in the second iteration",
        shows="whether the second policy already cooperates to the end",
        rows=(RSPO, *BASELINES),
        columns=(
            Column("sampled episodes", ENV, partial(_second, kind="")),
            Column("greedy episodes", ENV, partial(_second, kind="greedy_")),
        ),
        seeds=SEEDS,
        figure=figures.curves(lambda record: record.get("second"), "return"),
        note=(
            "The mean return of the second policy; the figure has it over training. The paper has "
            "a figure without numbers: RSPO learns to cooperate always in its second iteration, "
            "and of the others only RPG cooperates at all."
        ),
        claims=(
            Claim("RSPO's second policy cooperates to the end", RSPO, _always),
            Claim("A policy of RPG's cooperates for more than a step", BASELINES[-1], _one_does),
            *(
                Claim(
                    f"{row.title}'s second policy cooperates for no more than a step",
                    row,
                    _does_not,
                )
                for row in BASELINES[:-1]
            ),
        ),
        quick=QUICK,
    ),
    Bench(
        name="escalation-count",
        title="Escalation: distinct equilibria in ten iterations",
        shows='how many equilibria "cooperate for L steps, then stop together" are found',
        rows=(
            RSPO,
            HARD,
            Row("rspo", "RSPO", "return measure", RETURN_MEASURE),
            *BASELINES,
            PGA,
        ),
        columns=tuple(
            Column(
                title,
                ENV,
                rule,
                {"rspo": 7.7, "pga-map-elites": 10.0} if rule is lengths_reached else {},
                digits=1,
                words=WORDS if rule is lengths_reached else (),
            )
            for title, rule in COUNTED_BY.items()
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note=RULES,
        details=_equilibria,
        quick=QUICK,
    ),
)
