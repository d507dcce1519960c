"""MuJoCo's robots: Population Diversity, returns and gaits of five policies; and what alpha and
lambda do to the first two of them."""

from collections.abc import Sequence
from functools import partial
from statistics import mean

from rspo.bench import figures
from rspo.bench.markdown import every_name, seeds_of, table
from rspo.bench.naming import that_count
from rspo.bench.record import Record
from rspo.bench.tables import Bench, Column, PaperNumber, Quick, Row

ROBOTS = ("half-cheetah", "hopper", "walker2d", "humanoid")
ROWS = (
    Row("rspo", "RSPO"),
    Row("pg", "PG"),
    Row("dipg", "DIPG"),
    Row("pbt-ce", "PBT-CE"),
    Row("dvd", "DvD"),
    Row("smerl", "SMERL"),
)
# Mean and standard deviation over three seeds, in the order of ROBOTS; the paper has no result of
# SMERL on Humanoid.
PAPER_DIVERSITY: dict[str, tuple[PaperNumber, ...]] = {
    "rspo": ((0.359, 0.058), (0.989, 0.009), (0.955, 0.039), (0.999, 0.0)),
    "pg": ((0.033, 0.013), (0.418, 0.125), (0.188, 0.079), (0.965, 0.006)),
    "dipg": ((0.051, 0.009), (0.468, 0.054), (0.179, 0.056), (0.996, 0.0)),
    "pbt-ce": ((0.160, 0.078), (0.620, 0.294), (0.512, 0.032), (0.999, 0.0)),
    "dvd": ((0.275, 0.164), (0.656, 0.523), (0.542, 0.103), (1.0, 0.0)),
    "smerl": ((0.003, 0.002), (0.674, 0.389), (0.669, 0.152)),
}
PAPER_RETURNS: dict[str, tuple[PaperNumber, ...]] = {
    "half-cheetah": ((2343, 882), (1790, 950), (1710, 1394), (859, 498), (1194, 640)),
    "hopper": ((1741, 56), (1690, 29), (1428, 322), (1349, 275), (841, 296)),
    "walker2d": ((1668, 284), (1627, 228), (1258, 538), (1275, 342), (1040, 318)),
    "humanoid": ((3146, 26), (3148, 140), (3118, 84), (3072, 76), (2707, 860)),
}
KERNELS = {
    "authors": "the authors', l = 30",
    "p1": "the paper's on states, p = 1",
    "wider": "the paper's on states, p = √10",
    "dvd": "DvD's, l = 1",
}
SEEDS = (100, 101, 102)
STEPS = 4_096_000  # of the authors' configuration files; the paper gives none
QUICK = Quick(iterations=2, steps=16_384)


def diversity(record: Record, kernel: str = "authors") -> float | None:
    """Population Diversity of all policies of a run."""
    score = record.get("diversity", {}).get(kernel)
    return None if score is None else float(score["value"])


def return_of(record: Record, iteration: int) -> float | None:
    """The mean sampled return of one policy, from 1."""
    policies = record["strategies"]
    return policies[iteration - 1]["return_mean"] if iteration <= len(policies) else None


def mean_return(record: Record) -> float:
    return mean(policy["return_mean"] for policy in record["strategies"])


def gaits(record: Record) -> float:
    """How many gaits that greedy and sampled episodes agree on, of policies that have not
    failed."""
    return float(len({policy["descriptor"] for _, policy in that_count(record)} - {"falling"}))


def _kernels(bench: Bench, records: Sequence[Record]) -> str:
    rows = []
    for env, row, runs in seeds_of(bench, records):
        for kernel, name in KERNELS.items():
            values = [value for run in runs if (value := diversity(run, kernel)) is not None]
            if values:
                each = " ".join(f"{value:.3f}" for value in values)
                rows.append([env, row.name, name, f"{mean(values):.3f}", each])
    head = ["robot", "method", "kernel", "mean", "each seed"]
    note = (
        "On states: 64 from sampled episodes of each policy (docs/diversity.md). The scale decides "
        "the score, so only those of one kernel compare."
    )
    return f"## By every kernel\n\n{note}\n\n{table(head, rows)}"


def _greedy(bench: Bench, records: Sequence[Record]) -> str:
    rows = [
        [
            env,
            row.name,
            str(run["seed"]),
            f"{run['steps'] / 1e6:.2f}",
            " ".join(f"{policy['greedy_return_mean']:.0f}" for policy in run["strategies"]),
        ]
        for env, row, runs in seeds_of(bench, records)
        for run in runs
    ]
    head = ["robot", "method", "seed", "million steps of each policy", "greedy returns"]
    return f"## Greedy returns of every policy\n\n{table(head, rows)}"


def _return_columns(robot: str) -> list[Column]:
    theirs = PAPER_RETURNS[robot]
    each = [
        Column(
            f"iteration {i}",
            robot,
            partial(return_of, iteration=i),
            {"rspo": number},
            digits=0,
            group=robot,
        )
        for i, number in enumerate(theirs, 1)
    ]
    paper = {"rspo": mean(number[0] for number in theirs if isinstance(number, tuple))}
    return [*each, Column("all five", robot, mean_return, paper, digits=0, group=robot)]


ROBOT_BENCHES = (
    Bench(
        name="mujoco-diversity",
        title="Population Diversity of MuJoCo's robots",
        shows="how different five policies of each method are, as one number per robot",
        rows=ROWS,
        columns=tuple(
            Column(
                robot,
                robot,
                diversity,
                {m: numbers[i] for m, numbers in PAPER_DIVERSITY.items() if i < len(numbers)},
                digits=3,
            )
            for i, robot in enumerate(ROBOTS)
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "By the recipe of the authors' code, so that it compares with the paper's table number "
            "by number: the summed negative log-likelihood of each policy's whole episodes under "
            "every other one, |a - mu|² / 2 for a step, l = 30 (docs/diversity.md)."
        ),
        details=_kernels,
        ceiling=1.0,
        steps=STEPS,
        quick=QUICK,
    ),
    Bench(
        name="mujoco-returns",
        title="Returns of MuJoCo's robots, iteration by iteration",
        shows="what each of five policies earns, and what diversity costs",
        rows=ROWS,
        columns=tuple(column for robot in ROBOTS for column in _return_columns(robot)),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "Mean returns of 32 sampled episodes of up to 512 steps; the paper has RSPO's alone. "
            'For methods that train all policies at once "iteration" is the place of a member.'
        ),
        details=_greedy,
        steps=STEPS,
        quick=QUICK,
    ),
    Bench(
        name="mujoco-gaits",
        title="Gaits of MuJoCo's robots",
        shows="how many ways of moving can be told apart, and their names",
        rows=ROWS,
        columns=tuple(Column(robot, robot, gaits, digits=1) for robot in ROBOTS),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "Gaits that greedy and sampled episodes both show, without failed policies "
            "(docs/gaits.md). The paper shows pictures and no counts."
        ),
        details=every_name("robot", "gaits"),
        drawn="gait",
        steps=STEPS,
        quick=QUICK,
    ),
)

PAIR = {"iterations": 2}
SHORT = 983_040
PAIRS = (
    f"Two policies of one seed, with {SHORT / 1e6:.2f} million steps each, on Humanoid a quarter "
    "of the authors'; the paper does not say how many seeds it has."
)
ALPHAS = {0.5: 0.604, 1.0: 0.676, 1.5: 0.687, 2.0: 0.748}
LAMBDAS = {0.5: 0.640, 1.0: 0.621, 5.0: 0.697, 10.0: 0.697}
LAMBDA_R = (0.0, 0.05, 0.2)
MARINES = "2m_vs_1z"
SCALED = (
    "The paper scales the denominator of its kernel by 10 here: that is the authors' kernel with l "
    "= 30 √10, computed from the kernel of the two policies."
)


def wider(record: Record) -> float | None:
    """The authors' score of two policies with ten times the denominator: det is 1 - k², and the
    kernel k becomes its tenth root."""
    value = diversity(record)
    if value is None or len(record["strategies"]) != 2:
        return None
    return float(1 - max(1 - value, 0.0) ** 0.1)


def second_accepted(record: Record) -> float | None:
    """The mean acceptance while the second policy was trained."""
    curve = record.get("second") or {}
    return mean(curve["accepted"]) if "accepted" in curve else None


def second_return(record: Record) -> float | None:
    return return_of(record, 2)


SENSITIVITY_BENCHES = (
    Bench(
        name="sensitivity-alpha",
        title="What alpha does",
        shows="the threshold's coefficient alpha: acceptance, and diversity of the first two",
        rows=tuple(
            Row("rspo", "RSPO", f"alpha {alpha}", PAIR | {"measure": {"alpha": alpha}})
            for alpha in ALPHAS
        ),
        columns=(
            Column(
                "Population Diversity",
                "humanoid",
                wider,
                {f"rspo, alpha {alpha}": number for alpha, number in ALPHAS.items()},
                digits=3,
            ),
            Column("accepted", "humanoid", second_accepted, digits=3),
            Column("second return", "humanoid", second_return, digits=0),
        ),
        seeds=(100,),
        figure=figures.curves(lambda record: record.get("second"), "accepted"),
        note=f"{PAIRS} {SCALED} The figure shows acceptance while the second policy is trained.",
        details=_kernels,
        steps=SHORT,
        quick=QUICK,
    ),
    Bench(
        name="sensitivity-lambda",
        title="What the weights of the intrinsic rewards do",
        shows="lambda_B on Humanoid, diversity of the first two; lambda_R on 2m_vs_1z, learning",
        rows=(
            *(
                Row(
                    "rspo",
                    "RSPO",
                    f"lambda_B {weight}",
                    PAIR | {"method": {"lambda_b": weight}},
                    envs=("humanoid",),
                )
                for weight in LAMBDAS
            ),
            *(
                Row(
                    "rspo",
                    "RSPO",
                    f"lambda_R {weight}",
                    PAIR | {"method": {"lambda_r": weight}},
                    envs=(MARINES,),
                )
                for weight in LAMBDA_R
            ),
        ),
        columns=(
            Column(
                "Population Diversity",
                "humanoid",
                wider,
                {f"rspo, lambda_B {weight}": number for weight, number in LAMBDAS.items()},
                digits=3,
                group="humanoid",
            ),
            Column("second return", "humanoid", second_return, digits=0, group="humanoid"),
            Column("second return", MARINES, second_return, digits=2, group=MARINES),
        ),
        seeds=(100,),
        figure=figures.curves(
            lambda record: record.get("second") if record["env"] == MARINES else None, "return"
        ),
        note=(
            f"{PAIRS} {SCALED} The figure shows the return on {MARINES} while the second one is "
            "trained; the paper has no numbers of it."
        ),
        steps=SHORT,
        quick=QUICK,
    ),
)
