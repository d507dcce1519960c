"""Run the experiments behind results/, several at a time, and gather what they found.

    python benchmarks/reproduce.py four-goals --jobs 2

Every job is an ordinary `rspo discover` on one core, in its own run folder below --runs; started
again, this script resumes what is unfinished and skips what is done, be it in --runs or already in
results/. The tables there are rewritten whenever a job ends; delete them to begin anew.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import four_goals_tables
import robot_tables
import stag_hunt_tables


@dataclass(frozen=True)
class Job:
    """One run of the command line."""

    env: str
    method: str
    seed: int
    variant: str = ""
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "-".join(
            filter(
                None, (self.env, self.method, self.variant.replace(" ", "-"), f"seed{self.seed}")
            )
        )

    @property
    def command(self) -> list[str]:
        return [
            "discover",
            self.env,
            "--method",
            self.method,
            "--seed",
            str(self.seed),
            *self.flags,
        ]


# Presets are made on seeds below 100 and published on others. Like the paper's figure: five seeds
# of seven iterations. More seeds have four, which tell how often RSPO finds the four goals in as
# many.
FOUR = ("--iterations", "4")
FOUR_GOALS = [
    Job(f"four-goals-{mode}", method, seed, flags=() if seed < 105 else FOUR)
    for methods, seeds in ((("rspo",), range(100, 120)), (("pg", "no-switch"), range(100, 110)))
    for mode in ("easy", "medium", "hard")
    for method in methods
    for seed in seeds
]
# One departure from the preset of the hard mode at a time.
VARIANTS = {
    "preset": (),
    "horizon-cut": ("--ppo.horizon", "cut"),
    "release-0": ("--method.release", "0"),
    "alpha-0.5": ("--measure.alpha", "0.5"),
    "momentum-0.98": ("--ppo.momentum", "0.98"),
    "entropy-0.1": ("--ppo.entropy-coefficient", "0.1"),
    "rejected-mask": ("--method.rejected", "mask"),
}
FOUR_GOALS_CHOICES = [
    Job("four-goals-hard", "rspo", seed, variant, (*FOUR, *flags))
    for seed in range(2)
    for variant, flags in VARIANTS.items()
]
# Presets of the games were chosen on seeds 0 to 4; these are others.
HELD_OUT = range(100, 105)
TEN = ("--iterations", "10")  # half of the preset's: time
UNGATED = ("--method.ungated", "0.4", "--method.ungated-every", "2")
MONSTER_HUNT_ROWS = [
    ("rspo", "", ()),
    ("no-switch", "", TEN),
    ("rspo", "ungated start", (*TEN, *UNGATED, "--measure.alpha", "0.6")),
    ("rspo", "ungated start and filter off", (*TEN, *UNGATED, "--measure.alpha", "1e-6")),
    ("rspo", "alpha 0.6", (*TEN, "--measure.alpha", "0.6")),
    ("no-switch", "r_B alone", (*TEN, "--method.lambda-r", "0")),
    ("behaviour-only", "", TEN),
    ("no-intrinsic", "", TEN),
    ("pg", "", TEN),
    ("no-switch", "no release", (*TEN, "--method.release", "0")),
    (
        "no-switch",
        "r_B alone and no release",
        (*TEN, "--method.lambda-r", "0", "--method.release", "0"),
    ),
]
# One seed after the other, so that what is done is comparable; the preset has all of them.
MONSTER_HUNT = [
    Job("monster-hunt", method, seed, variant, flags)
    for seed in HELD_OUT
    for method, variant, flags in (MONSTER_HUNT_ROWS if seed < 103 else MONSTER_HUNT_ROWS[:1])
]
# A return unlike any kept policy's, paid for at the end, instead of unusual actions
# (docs/experiments.md). The discount of 0.98 and the falling rates make policies meet at once and
# stop sharply.
RETURN_MEASURE = (
    "--measure.of return --measure.alpha 0.14 --measure.least 2 --method.paid end "
    "--method.rejected zero "
    "--method.switch hard --method.lambda-b 0 --method.ungated 0.25 --method.ungated-every 10 "
    "--ppo.entropy-coefficient 0.02 --ppo.gamma 0.98 --ppo.updates 400 --ppo.decay 0.4 1.0 "
    "--ppo.entropy-decay 0.4 1.0"
)
ESCALATION = [
    Job("escalation", "rspo", seed, variant, flags)
    for seed in HELD_OUT
    for variant, flags in (
        ("", ()),
        ("return measure", tuple(RETURN_MEASURE.split())),
        ("hard switching", ("--method.switch", "hard")),
    )
]
# One seed of every robot, then two more of two of them.
ROBOTS = [
    Job(robot, method, seed)
    for seed, robots in (
        (0, robot_tables.ROBOTS),
        (1, ("half-cheetah", "hopper")),
        (2, ("half-cheetah", "hopper")),
    )
    for robot in robots
    for method in ("rspo", "pg")
]
# Half the updates of the preset: with all of them two policies are as diverse as can be, whatever
# alpha is.
SHORT = ("--iterations", "2", "--ppo.updates", "240")
ROBOT_ALPHA = [
    Job("half-cheetah", "rspo", 0, f"alpha-{alpha}", (*SHORT, "--measure.alpha", alpha))
    for alpha in robot_tables.PAPER_ALPHA
]


@dataclass(frozen=True)
class Experiment:
    """Jobs, the table of their results, and what to measure of a finished run beyond its
    summary."""

    jobs: list[Job]
    tabulate: Callable[[list[dict]], str]
    measure: Callable[[Path], dict] = lambda _: {}


EXPERIMENTS = {
    "four-goals": Experiment(
        FOUR_GOALS, four_goals_tables.counts_and_returns, four_goals_tables.measure
    ),
    "four-goals-choices": Experiment(FOUR_GOALS_CHOICES, four_goals_tables.choices),
    "monster-hunt": Experiment(MONSTER_HUNT, stag_hunt_tables.monster_hunt),
    "escalation": Experiment(
        ESCALATION, stag_hunt_tables.escalation, stag_hunt_tables.measure_equilibria
    ),
    "robots": Experiment(ROBOTS, robot_tables.robots, robot_tables.measure),
    "robot-alpha": Experiment(ROBOT_ALPHA, robot_tables.alpha, robot_tables.measure),
}


def run(job: Job, folder: Path, core: int) -> None:
    """Start or resume the job's run on one core, its output in a log beside the folder."""
    started = (folder / "run.json").is_file()
    command = ["resume", str(folder)] if started else [*job.command, "--out", str(folder)]
    cores = sorted(os.sched_getaffinity(0))
    with open(folder.with_suffix(".log"), "a") as log:
        subprocess.run(
            [sys.executable, "-m", "rspo", *command],
            stdout=log,
            stderr=log,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cores[core % len(cores)]}),
        )


class Results:
    """What is known so far, in results/NAME.json and, as tables, in results/NAME.md."""

    def __init__(self, folder: Path, name: str) -> None:
        self.json, self.table, self.experiment = (
            folder / f"{name}.json",
            folder / f"{name}.md",
            EXPERIMENTS[name],
        )
        rows = json.loads(self.json.read_text()) if self.json.exists() else []
        self.rows = {row["job"]: row for row in rows}
        self.lock = threading.Lock()

    def add(self, job: Job, folder: Path) -> None:
        summary = json.loads((folder / "summary.json").read_text()) | self.experiment.measure(
            folder
        )
        with self.lock:
            self.rows[job.name] = {"job": job.name, "variant": job.variant, **summary}
            rows = sorted(self.rows.values(), key=lambda row: row["job"])
            self.json.parent.mkdir(exist_ok=True)
            self.json.write_text(json.dumps(rows, indent=1) + "\n")
            self.table.write_text(self.experiment.tabulate(rows))
            print(f"{len(rows)} done; {job.name}: {summary['distinct']} distinct", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument(
        "--jobs", type=int, default=2, help="how many at a time, each on its own core"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the run folders go")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where the tables go")
    options = parser.parse_args()
    results = Results(options.results, options.experiment)
    home = options.runs / options.experiment
    home.mkdir(parents=True, exist_ok=True)
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in results.experiment.jobs:
        if job.name not in results.rows:
            waiting.put(job)

    def work(core: int) -> None:
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            run(job, home / job.name, core)  # a finished run is resumed to its end at once
            results.add(job, home / job.name)

    workers = [threading.Thread(target=work, args=(core,)) for core in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
