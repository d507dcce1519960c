"""`rspo bench`: a table or figure of the paper by one command."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rspo.cli.arguments import parse
from rspo.errors import InputError
from rspo.text import LONGEST, printable

if TYPE_CHECKING:
    from rspo.bench.executors import Executor


@dataclass
class BenchCommand:
    """Make a table or figure of the paper: run what is not done yet, one job per core, then write
    it. Started again, it goes on where it was."""

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
    """The paper's settings instead of the tuned ones; a column of their own."""
    tables: bool = False
    """Write the tables of what is done, and run nothing."""
    out: Path = Path("results")
    """Where the tables go."""
    runs: Path = Path("runs/bench")
    """Where the run folders go."""
    executor: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster."""
    address: str | None = None
    """The Ray cluster's address; by default the one that RAY_ADDRESS or this machine has."""
    jobs: int | None = None
    """How many at a time; by default one per core."""


def bench(arguments: list[str]) -> int:
    """Make a table or figure of the paper."""
    options = parse(BenchCommand, arguments, "rspo bench")
    from rspo.bench import command

    if options.list:
        for name, shows, cost in command.listing(workers(options.jobs)):
            print(f"{name:26} {shows} ({cost})")
        return 0
    if not options.name:
        raise InputError(
            "rspo bench needs a name, such as `rspo bench four-goals-modes --quick`; `rspo bench "
            "--list` shows them all."
        )
    _check(options)
    command.bench_named(options.name)
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
    failed = command.run_bench(options.name, chosen, executor(options), _say)
    for sentence in failed:
        print(f"rspo: {printable(sentence, LONGEST)}", file=sys.stderr)
    return 1 if failed else 0


def _check(options: BenchCommand) -> None:
    if options.steps is not None and not 1 <= options.steps <= 10**12:
        raise InputError(f"--steps is {options.steps}, but it must be from 1 to {10**12}.")
    for seed in options.seeds:
        if not 0 <= seed < 2**32:
            raise InputError(f"--seeds has {seed}, but a seed is from 0 to {2**32 - 1}.")
    if options.address is not None and options.executor != "ray":
        raise InputError("--address is for `--executor ray`: add that, or leave the address out.")


def workers(jobs: int | None) -> int:
    from rspo.core.devices import cores

    if jobs is not None and not 1 <= jobs <= 10**4:
        raise InputError(f"--jobs is {jobs}, but it must be from 1 to 10000.")
    return jobs or cores()


def executor(options: BenchCommand) -> "Executor":
    from rspo.bench.executors import Processes

    return Processes(workers(options.jobs))


def _say(text: str) -> None:
    print(printable(text, LONGEST), file=sys.stderr, flush=True)
