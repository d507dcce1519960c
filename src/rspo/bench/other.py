"""Point, StarCraft's two maps, and the comparison with an evolutionary method."""

from functools import partial

from rspo.bench import escalation, figures, four_goals
from rspo.bench.markdown import every_name
from rspo.bench.mujoco import diversity
from rspo.bench.naming import best_return, that_count
from rspo.bench.record import Record
from rspo.bench.tables import Bench, Claim, Column, Quick, Row
from rspo.envs.skirmish.descriptors import DEFEAT, OTHER

SEEDS = (100, 101, 102)

# ---- Point

PLAIN = Row("pg", "PG")


def _around(record: Record) -> bool:
    """Whether a policy ends up beyond the wall, by its name."""
    return any(policy["descriptor"] in ("above", "below") for _, policy in that_count(record))


POINT_BENCHES = (
    Bench(
        name="point",
        title="Point: around the wall",
        shows="whether a method gets out of the local optimum in front of a wall",
        rows=(PLAIN, Row("rspo", "RSPO"), Row("dvd", "DvD")),
        columns=(
            Column("best greedy return", "point", best_return, digits=0),
            Column("best sampled return", "point", lambda r: best_return(r, ""), digits=0),
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "Straight ahead and caught by the wall earns -773, a scripted detour around it -524. "
            "The paper has no numbers: plain PPO learns to get around the wall. DvD's own paper "
            "has -657 on average and -607 at best."
        ),
        claims=(Claim("Plain PPO gets around the wall", PLAIN, _around),),
        quick=Quick(iterations=2, steps=51_200),
    ),
)

# ---- StarCraft

MAPS = ("2c_vs_64zg", "2m_vs_1z")
WINS = {
    "2c_vs_64zg": (100.0, 84.4, 96.9, 100.0, 87.5, 100.0),
    "2m_vs_1z": (100.0, 100.0, 100.0, 100.0),
}
COMPARED = 4  # policies of each method in the paper's table; more are trained on 2c_vs_64zg
STRATEGIES = {  # SMERL's are of the text
    "rspo": (4.0, 4.0),
    "pg": (2.0, 2.0),
    "dipg": (2.0, 2.0),
    "pbt-ce": (2.0, 3.0),
    "trajdiv": (3.0, 1.0),
    "smerl": (1.0, 1.0),
}
SMAC_ROWS = (
    Row("rspo", "RSPO"),
    Row("pg", "PG"),
    Row("dipg", "DIPG"),
    Row("pbt-ce", "PBT-CE"),
    Row("trajdiv", "TrajDiv"),
    Row("smerl", "SMERL"),
    Row("dvd", "DvD"),
    Row("sipo-rbf", "SIPO-RBF", extra=True),
    Row("sipo-wd", "SIPO-WD", extra=True),
)
SMAC_QUICK = Quick(iterations=2, steps=16_384)
WON = "won"  # statistic of a descriptor: the share of episodes that were won


def ways_to_win(record: Record) -> float:
    """How many strategies with a name of their own the first four policies have."""
    counted = [policy for iteration, policy in that_count(record) if iteration <= COMPARED]
    names = {policy["descriptor"] for policy in counted}
    return float(len(names - {DEFEAT, OTHER}))


def _won(record: Record, iteration: int) -> float | None:
    """The share of greedy episodes that one policy (counted from 1) wins, in per cent."""
    if iteration > len(record["strategies"]):
        return None
    share = record["strategies"][iteration - 1]["stats"].get(WON)
    return None if share is None else 100.0 * share


SMAC_BENCHES = (
    Bench(
        name="smac-strategies",
        title="StarCraft: strategies found",
        shows="how many of the paper's ways to win are found on each of two maps",
        rows=SMAC_ROWS,
        columns=tuple(
            Column(name, name, ways_to_win, {m: counts[i] for m, counts in STRATEGIES.items()}, 1)
            for i, name in enumerate(MAPS)
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "In a simulation of the two maps, not in StarCraft II: names are given by rules, where "
            "the paper's authors looked at replays. A policy counts if greedy and sampled episodes "
            "have one name, which defeats and other ways to win do not, and it is not judged a "
            "failure. As in the paper the first four policies count; it finds six on 2c_vs_64zg in "
            "six."
        ),
        details=every_name("map", "strategies"),
        drawn="tracks",
        quick=SMAC_QUICK,
    ),
    Bench(
        name="smac-wins",
        title="StarCraft: how often each policy wins",
        shows="whether the later, different policies still win",
        rows=SMAC_ROWS,
        columns=tuple(
            Column(
                f"iteration {i}",
                name,
                partial(_won, iteration=i),
                {"rspo": number},
                digits=1,
                group=name,
            )
            for name in MAPS
            for i, number in enumerate(WINS[name], 1)
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note="Greedy episodes that are won, in per cent. The paper prints RSPO's alone.",
        quick=SMAC_QUICK,
    ),
    Bench(
        name="smac-diversity",
        title="StarCraft: Population Diversity",
        shows="Population Diversity beside the number of strategies",
        rows=SMAC_ROWS,
        columns=(
            Column(
                "Population Diversity",
                "2c_vs_64zg",
                diversity,
                {"rspo": 1.0, "pg": 0.981, "pbt-ce": 1.0, "dvd": 1.0},
                digits=4,
                group="2c_vs_64zg",
                ranked=False,
            ),
            Column(
                "count",
                "2c_vs_64zg",
                ways_to_win,
                {"rspo": 4.0, "pg": 1.0, "pbt-ce": 2.0, "dvd": 3.0},
                digits=1,
                group="2c_vs_64zg, strategies",
            ),
            Column("Population Diversity", "2m_vs_1z", diversity, digits=4, group="2m_vs_1z"),
        ),
        seeds=SEEDS,
        figure=figures.bars,
        note=(
            "By the authors' recipe for robots, on whole episodes (docs/diversity.md). The paper's "
            "numbers, of 2c_vs_64zg alone, are of another kernel, DvD's on log-probabilities, on "
            "states that it does not give, so the two scores do not compare. Its other table has "
            "2 strategies of PG on that map."
        ),
        quick=SMAC_QUICK,
    ),
)

# ---- an evolutionary method

EVOLUTIONARY_BENCHES = (
    Bench(
        name="evolutionary",
        title="PGA-MAP-Elites and RSPO",
        shows="an evolutionary method that is told what to look for beside RSPO, which is not",
        rows=(
            Row("pga-map-elites", "PGA-MAP-Elites"),
            Row("rspo", "RSPO"),
        ),
        columns=(
            *four_goals.BENCHES[0].columns,
            Column(
                "Escalation",
                "escalation",
                escalation.lengths_reached,
                {"rspo": 7.7, "pga-map-elites": 10.0},
                digits=1,
            ),
            Column(
                "best return, hard",
                "four-goals-hard",
                best_return,
                {"rspo": 1.30, "pga-map-elites": 0.98},
                digits=3,
            ),
        ),
        seeds=SEEDS,
        env_seeds={env: own[: len(SEEDS)] for env, own in four_goals.OWN_SEEDS.items()},
        figure=figures.bars,
        note=(
            "Distinct strategies, and the best greedy return in the hard mode. PGA-MAP-Elites is "
            "given a descriptor: the nearest landmark, or the cooperation's length. Escalation "
            "is counted by the authors' rule (`rspo bench escalation-count`)."
        ),
        quick=four_goals.QUICK,
    ),
)
