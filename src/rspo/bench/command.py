"""`rspo bench`: run what is not done yet, keep a record of each run, and write the tables."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rspo.bench import markdown, output, pixels
from rspo.bench.catalogue import BENCHES
from rspo.bench.executors import Ended, Executor
from rspo.bench.jobs import Job, finished, found, task
from rspo.bench.progress import Pace, Progress, Work, clock
from rspo.bench.record import Record
from rspo.bench.records import Records, otherwise, why_not
from rspo.bench.tables import Bench, domain_of
from rspo.errors import InputError, RspoError, suggestion
from rspo.presets import TASKS
from rspo.registry import METHODS
from rspo.text import counted

Say = Callable[[str], None]
Show = Callable[[Progress], None]
# Approximate training steps per second on one core, for `--list` and the first estimate of the
# time left; by environment where those of a domain differ.
SPEED = {"four-goals": 120e3, "monster-hunt": 90e3, "escalation": 100e3, "point": 60e3}
ROBOTS = {"half-cheetah": 18e3, "hopper": 13e3, "walker2d": 12e3, "humanoid": 4.4e3}
MAPS = {"2m_vs_1z": 12e3, "2c_vs_64zg": 6.7e3}
START = 30.0  # seconds of a job before and after training: loading, compiling, judging, drawing


@dataclass(frozen=True)
class Options:
    """Which part of a bench to run, and where to put the results."""

    methods: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    steps: int | None = None
    paper: bool = False
    quick: bool = False
    tables: bool = False
    out: Path = Path("results")
    runs: Path = Path("runs/bench")


def bench_named(name: str) -> Bench:
    if name not in BENCHES:
        raise InputError(
            f"Unknown bench '{name}'. {suggestion(name, BENCHES)} `rspo bench --list` shows them "
            "all."
        )
    return BENCHES[name]


def check_names(bench: Bench, methods: Sequence[str], envs: Sequence[str]) -> None:
    """Refuse methods and environments that a bench does not have."""
    known = {name for row in bench.rows for name in (row.method, row.key)}
    for kind, asked, allowed in (
        ("method", methods, known),
        ("environment", envs, set(bench.envs)),
    ):
        for name in asked:
            if name not in allowed:
                raise InputError(
                    f"{bench.name} has no {kind} '{name}'. {suggestion(name, allowed)}"
                )


def run_bench(
    name: str, options: Options, executor: Executor, say: Say, show: Show = lambda progress: None
) -> list[str]:
    """Run a bench; returns a sentence for each job that failed."""
    bench = bench_named(name)
    failed = [] if options.tables else _run_missing(bench, options, executor, say, show)
    for path in publish(bench, options, say):
        say(f"Wrote {path}")
    if (lacking := pixels.why_not()) is not None:
        say(lacking)
    return failed


def _run_missing(
    bench: Bench, options: Options, executor: Executor, say: Say, show: Show
) -> list[str]:
    jobs = chosen_jobs(bench, options, say)
    waiting = [job for job in jobs if not _done(job, options, say)]
    done = len(jobs) - len(waiting)
    say(f"{bench.name}: {counted(len(jobs), 'run')}, {done} of them done already")
    return _run(bench, waiting, options, executor, say, show) if waiting else []


def chosen_jobs(bench: Bench, options: Options, say: Say) -> list[Job]:
    """The jobs of a bench selected by the options, without those that this version of rspo
    lacks."""
    jobs = _asked(bench, options)
    lacking = dict.fromkeys(
        name
        for job in jobs
        for name, known in ((job.env, TASKS), (job.method, METHODS.summaries()))
        if name not in known
    )
    if lacking:
        say(f"Left out, because this version of rspo does not have them: {', '.join(lacking)}")
    jobs = [job for job in jobs if available(job.env, job.method)]
    if not jobs:
        raise InputError(f"{bench.name}: nothing is left to run of what was asked for.")
    return jobs


def _asked(bench: Bench, options: Options) -> list[Job]:
    return bench.jobs(
        methods=options.methods,
        envs=options.envs,
        seeds=options.seeds,
        steps=options.steps,
        paper=options.paper,
        quick=options.quick,
    )


def _done(job: Job, options: Options, say: Say) -> bool:
    """Whether a record, or a finished folder, holds its result."""
    records = _records(job.domain, options)
    record = records.read().get(job.name)
    if record is None and (record := finished(options.runs / job.domain / job.name)) is not None:
        records.add([record])
    if record is None:
        return False
    if (lacking := why_not(record, job)) is not None:
        say(f"{job.name} is run again: {lacking}")
    return lacking is None


def _run(
    bench: Bench, jobs: Sequence[Job], options: Options, executor: Executor, say: Say, show: Show
) -> list[str]:
    tasks = [task(job, options.runs / job.domain) for job in jobs]
    by_name, failed = {job.name: job for job in jobs}, list[str]()
    pace = Pace([_work(job, options) for job in jobs], executor.workers)
    show(pace.progress())
    for event in executor.run(tasks):
        if isinstance(event, Ended):
            name = event.task["name"]
            _keep(event, by_name[name], options, failed, say)
            pace.ended(name, failed=event.error is not None)
            with contextlib.suppress(RspoError):  # said at the end, and stops none of the runs
                publish(bench, options, lambda _: None)
        if isinstance(event, Ended) or pace.due():
            show(pace.progress())
    return failed


def _work(job: Job, options: Options) -> Work:
    folder = options.runs / job.domain / job.name
    return Work(job.name, folder, job.configuration, expected_seconds(job))


def _keep(event: Ended, job: Job, options: Options, failed: list[str], say: Say) -> None:
    if event.error is not None:
        failed.append(f"{job.name}: {event.error}")
        say(failed[-1])
    elif (record := finished(Path(event.task["folder"]))) is not None:
        _records(job.domain, options).add([record])
        say(f"{job.name}: {found(record)}")


def expected_seconds(job: Job) -> float:
    """The approximate time of a job on one core."""
    speeds = SPEED | ROBOTS | MAPS
    own = job.env if job.env in speeds else job.domain
    return START + job.configuration.steps / speeds[own]


def publish(bench: Bench, options: Options, say: Say) -> list[Path]:
    """The files of a bench from all records that belong to it; says which are not used because
    their runs had other settings."""
    records = recorded(bench, options, say)
    words = ["rspo", "bench", bench.name, *(["--quick"] if options.quick else [])]
    words += ["--steps", str(options.steps)] if options.steps else []
    stem = options.out / (bench.name + _suffix(options))
    return output.write(bench, records, stem, options.runs, " ".join(words), options.quick)


def numbers(name: str, options: Options, widest: int) -> list[markdown.Numbers]:
    """Its tables, for a screen of this width."""
    bench = bench_named(name)
    return markdown.numbers(bench, recorded(bench, options, lambda _: None), widest)


def recorded(bench: Bench, options: Options, say: Say) -> list[Record]:
    """All that belongs to it; says which are not used."""
    return [
        record
        for domain in dict.fromkeys(domain_of(env) for env in bench.envs)
        for record in _records(domain, options).read().values()
        if _wanted(bench, record, options, say)
    ]


def _wanted(bench: Bench, record: Record, options: Options, say: Say) -> bool:
    """Whether a record belongs in the tables: of this bench, and trained with its current
    settings. Seeds and methods are not filtered: everything that is done is shown."""
    if (record["quick"], record["asked_steps"]) != (options.quick, options.steps):
        return False
    job = bench.job_of(record)
    if job is None or not available(job.env, job.method):
        return False
    if (other := otherwise(record, job)) is not None:
        say(f"{record['job']} is not in the tables: {other}")
    return other is None


def available(env: str, method: str) -> bool:
    """Whether this version of rspo has the method, and settings for the environment."""
    return env in TASKS and method in METHODS.summaries()


def _suffix(options: Options) -> str:
    return "-quick" * options.quick + (f"-steps{options.steps}" if options.steps else "")


def _records(domain: str, options: Options) -> Records:
    return Records(options.out / f"{domain}{'-quick' * options.quick}.jsonl")


def listing(name: str, options: Options, workers: int) -> list[tuple[str, str, str]]:
    """Name, what it shows, and the cost of what is asked for on this many cores, of one bench or
    by default of all."""
    rows = []
    for bench in [bench_named(name)] if name else BENCHES.values():
        jobs = [job for job in _asked(bench, options) if available(job.env, job.method)]
        try:
            cost = _cost([expected_seconds(job) for job in jobs], workers)
        except InputError as error:  # such as --paper, where the paper has no settings
            cost = str(error)
        rows.append((bench.name, bench.shows, cost))
    return rows


def _cost(each: Sequence[float], workers: int) -> str:
    if not each:
        return "nothing of what is asked for"
    seconds = max(sum(each) / workers, *each)
    return f"about {clock(seconds)}, {counted(len(each), 'run')}"
