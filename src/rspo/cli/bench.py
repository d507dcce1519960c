"""`rspo bench`: reproduce a table or figure of the paper."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rspo.cli.arguments import parse
from rspo.errors import InputError
from rspo.text import LONGEST, printable

if TYPE_CHECKING:
    from rspo.bench.executors import Executor
    from rspo.cli.jobs import JobsDisplay
    from rspo.config import Config


@dataclass
class BenchCommand:
    """Reproduce a table or figure of the paper: run what is not done yet, one job per core, then
    write it. Restarted, it continues where it was."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[NAME]")] = ""
    """The bench (`rspo bench --list`)."""
    list: bool = False
    """Say what each bench shows and costs on this machine."""
    quick: bool = False
    """A reduced version that ends in minutes; its numbers mean nothing."""
    methods: tuple[str, ...] = ()
    """Only these methods."""
    envs: tuple[str, ...] = ()
    """Only these environments."""
    seeds: tuple[int, ...] = ()
    """These seeds instead of the bench's own."""
    steps: int | None = None
    """Environment steps of each policy instead of the preset's."""
    paper: bool = False
    """The paper's settings instead of the tuned ones, in a separate column."""
    tables: bool = False
    """Write the tables of what is done, and run nothing."""
    out: Path = Path("results")
    """Where the tables go."""
    runs: Path = Path("runs/bench")
    """Where the run folders go."""
    executor: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster."""
    address: str | None = None
    """The Ray cluster's address; by default that of RAY_ADDRESS or of this machine."""
    gather: Literal["shared", "store"] = "shared"
    """Where Ray's nodes put the run folders: on a shared file system, or sent through Ray's object
    store to this machine."""
    jobs: int | None = None
    """Number of parallel jobs on this machine; by default one per core."""


def bench(arguments: list[str]) -> int:
    """Reproduce a table or figure of the paper."""
    lists = ("--methods", "--envs", "--seeds")
    options = parse(BenchCommand, arguments, "rspo bench", lists=lists)
    from rspo.bench import command

    if not options.name and not options.list:
        raise InputError(
            "rspo bench needs a name, such as `rspo bench four-goals-modes --quick`; `rspo bench "
            "--list` shows them all."
        )
    _check(options)
    _check_use(options)
    if options.name:
        command.check_names(command.bench_named(options.name), options.methods, options.envs)
    chosen = command.Options(
        options.methods,
        options.envs,
        options.seeds,
        options.steps,
        options.paper,
        options.quick,
        options.tables,
        options.out,
        options.runs,
    )
    if options.list:
        for name, shows, cost in command.listing(options.name, chosen, workers(options.jobs)):
            print(f"{name:26} {shows} ({cost})")
        return 0
    chosen_executor = executor(options.executor, options.jobs, options.address, options.gather)
    _check_folder(options.out, "--out")
    if not options.tables:
        _check_folder(options.runs, "--runs")
    with _stopped() as display:
        failed = command.run_bench(options.name, chosen, chosen_executor, display.say, display.show)
    display.tables(command.numbers(options.name, chosen, display.width))
    if options.quick:
        display.say("A quick version: a few steps of training only. Its numbers mean nothing.")
    return _failures(failed)


def several_seeds(config: "Config", options: Any) -> int:
    """`rspo discover ENV --seeds ...`."""
    _check(options)
    if options.log is not None:
        raise InputError("--log is for a run of one seed: leave it out, or give --seed.")
    from rspo.bench.seeds import discover_seeds

    chosen = executor(options.executor, options.jobs, options.address, options.gather)
    home = options.out or Path("runs")
    _check_folder(home, "--out")
    with _stopped() as display:
        page, failed = discover_seeds(
            config, options.seeds, home, chosen, display.say, display.show
        )
    if page is not None:
        print(f"Compared in {page}: open it in a browser")
    return _failures(failed)


@contextlib.contextmanager
def _stopped() -> Iterator["JobsDisplay"]:
    """The jobs' screen; after Ctrl-C let them save their runs, and say what is left behind."""
    from rspo.cli.jobs import JobsDisplay
    from rspo.core import interrupt

    display = JobsDisplay()
    try:
        with display, interrupt.deferred(display.say):
            yield display
    except KeyboardInterrupt:
        display.say("Stopped: finished runs and checkpoints are kept, the same command continues.")
        raise


def _failures(sentences: Sequence[str]) -> int:
    """Print them; returns the exit code."""
    for sentence in sentences:
        print(f"rspo: {printable(sentence, LONGEST)}", file=sys.stderr)
    return 1 if sentences else 0


def check_one_seed(options: Any) -> None:
    """Refuse flags of `rspo discover` that only several seeds have a use for."""
    given = {
        "--executor": options.executor != "local",
        "--address": options.address is not None,
        "--gather": options.gather != "shared",
        "--jobs": options.jobs is not None,
    }
    flag = next((flag for flag, there in given.items() if there), None)
    if flag is not None:
        raise InputError(f"{flag} is for several seeds: add them with --seeds, or leave it out.")


def _check(options: Any) -> None:
    seeds = options.seeds
    for seed in seeds:
        if not 0 <= seed < 2**32:
            raise InputError(f"--seeds has {seed}, but a seed is from 0 to {2**32 - 1}.")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds has a seed twice: {' '.join(map(str, seeds))}.")
    if options.executor == "ray":
        if options.jobs is not None:
            raise InputError(
                "--jobs is for processes on this machine: leave it out, `--executor ray` runs one "
                "job on each CPU of the cluster."
            )
        return
    if options.address is not None:
        raise InputError("--address is for `--executor ray`: add that, or leave the address out.")
    if options.gather != "shared":
        raise InputError("--gather is for `--executor ray`: add that, or leave it out.")


def _check_use(options: BenchCommand) -> None:
    """Refuse flags that would change nothing."""
    if options.steps is not None and not 1 <= options.steps <= 10**12:
        raise InputError(f"--steps is {options.steps}, but it must be from 1 to {10**12}.")
    if options.quick and options.steps is not None:
        raise InputError("--quick has steps of its own: leave --steps or --quick out.")
    chosen = {
        "--methods": options.methods,
        "--envs": options.envs,
        "--seeds": options.seeds,
        "--paper": options.paper,
        "--jobs": options.jobs is not None,
        "--executor": options.executor != "local",
    }
    flag = next((flag for flag, given in chosen.items() if given), None)
    if options.tables and flag is not None:
        raise InputError(
            f"{flag} is for what is run, but --tables runs nothing and writes all that is done: "
            "leave one of them out."
        )


def _check_folder(folder: Path, flag: str) -> None:
    """Refuse a folder that cannot be written before hours are spent on what goes into it."""
    from rspo.runs import store

    with contextlib.suppress(store.StoreError):
        store.make_folder(folder)
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise InputError(
            f"{flag} is {folder}, but nothing can be written there: choose another folder."
        )


def workers(jobs: int | None) -> int:
    from rspo.core.devices import cores

    if jobs is not None and not 1 <= jobs <= 10**4:
        raise InputError(f"--jobs is {jobs}, but it must be from 1 to 10000.")
    return jobs or cores()


def executor(kind: str, jobs: int | None, address: str | None, gather: str) -> "Executor":
    """Where the jobs run."""
    if kind == "ray":
        from rspo.bench.ray_executor import Ray

        return Ray(address, gather)
    from rspo.bench.executors import Processes

    return Processes(workers(jobs))
