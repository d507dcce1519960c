"""The definition of a bench: runs to make, numbers to take from each, and the paper's numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rspo.bench.jobs import Job
from rspo.bench.record import Record

PaperNumber = float | tuple[float, float]
"""A mean, or a mean and its deviation over seeds."""
Order = tuple[str, Literal[">", "<=", "="], str]
"""Two rows by their keys, such as ("rspo", ">", "pg")."""


@dataclass(frozen=True)
class Row:
    """A method, or one of its variants."""

    method: str
    title: str
    """As the paper calls it."""
    variant: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] | None = None
    """Seeds to run, if different from the bench's."""
    envs: tuple[str, ...] = ()
    """Where it applies, if not in all environments of the bench."""
    extra: bool = False
    """Not in the paper: shown if it was run, and run only if requested by its key."""

    @property
    def key(self) -> str:
        return ", ".join(filter(None, (self.method, self.variant)))

    @property
    def name(self) -> str:
        """The title, with the variant."""
        return f"{self.title} ({self.variant})" if self.variant else self.title

    def made(self, record: Record) -> bool:
        """Whether a record belongs to this row."""
        return (record["method"], record["variant"]) == (self.method, self.variant)


@dataclass(frozen=True)
class Column:
    """One number of a run in one environment."""

    title: str
    env: str
    value: Callable[[Record], float | None]
    """None where the run has no such number."""
    paper: Mapping[str, PaperNumber] = field(default_factory=dict)
    """By the key of a row; only what the paper prints, never what its figures seem to show."""
    digits: int = 2
    kind: Literal["number", "found"] = "number"
    """For "found" it is 1 if a run found it, else 0."""
    group: str = ""
    """Columns of one group make a separate table."""
    words: tuple[Order, ...] = ()
    """What the paper's text says of two methods whose numbers it does not print."""
    ranked: bool = True
    """Whether the order of methods compares: not if the paper's numbers are of another measure."""


@dataclass(frozen=True)
class Claim:
    """What the paper says of a method in words, where it prints no numbers."""

    text: str
    """A sentence without its full stop, with the measure that decides it here."""
    row: Row
    holds: Callable[[Record], bool | None]
    """Whether it is so in a run; None if the run cannot tell."""


@dataclass(frozen=True)
class Quick:
    """The reduced version of a bench, whose numbers do not matter."""

    seeds: int = 1
    iterations: int = 2
    steps: int = 32768


@dataclass(frozen=True)
class Bench:
    """One table or figure of the paper."""

    name: str
    title: str
    shows: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    seeds: tuple[int, ...]
    figure: Callable[["Bench", Sequence[Record]], str]
    """The picture as SVG text, from the records of the bench."""
    note: str = ""
    """What a reader of the table must know."""
    details: Callable[["Bench", Sequence[Record]], str] | None = None
    """More Markdown below the table."""
    drawn: str = ""
    """What a run folder calls the pictures of its strategies, such as "gait" of `000-gait.svg`, if
    the paper shows them."""
    claims: tuple[Claim, ...] = ()
    """Answered beside the ranking."""
    ceiling: float | None = None
    """The best possible value of a column, if all columns are the same quantity; they are then
    aggregated as shares of it."""
    steps: int | None = None
    """Environment steps of each policy, where not the preset's."""
    env_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Environments with seeds of their own."""
    quick: Quick = Quick()

    @property
    def envs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column.env for column in self.columns))

    def requested(self, methods: Sequence[str]) -> list[Row]:
        """The rows to run if these methods are requested, by default all that the paper has. A
        method's name stands for its plain row, or for all its variants if there is none."""
        if not methods:
            return [row for row in self.rows if not row.extra]
        keys = {row.key for row in self.rows}
        nameless = {method for method in methods if method not in keys}
        return [
            row
            for row in self.rows
            if row.key in methods or (row.method in nameless and not row.extra)
        ]

    def jobs(
        self,
        *,
        methods: Sequence[str] = (),
        envs: Sequence[str] = (),
        seeds: Sequence[int] = (),
        steps: int | None = None,
        paper: bool = False,
        quick: bool = False,
    ) -> list[Job]:
        """Those to run; one seed after the other, so that what is done so far can be compared."""
        few = self.quick.seeds if quick else None
        chosen = [
            (row, env, tuple(seeds) or self.own_seeds(row, env)[:few])
            for env in dict.fromkeys(envs or self.envs)
            for row in self.requested(methods)
            if env in (row.envs or self.envs)
        ]
        return [
            self._job(row, env, own[place], steps, paper, quick)
            for place in range(max((len(own) for _, _, own in chosen), default=0))
            for row, env, own in chosen
            if place < len(own)
        ]

    def own_seeds(self, row: Row, env: str) -> tuple[int, ...]:
        """Those that are run if no others are asked for."""
        return row.seeds or self.env_seeds.get(env, self.seeds)

    def job_of(self, record: Record) -> Job | None:
        """The current job that a record would be the result of; None if it is not of this
        bench."""
        row = next((row for row in self.rows if row.made(record)), None)
        if row is None or record["env"] not in (row.envs or self.envs):
            return None
        asked = (record["asked_steps"], record["paper"], record["quick"])
        return self._job(row, record["env"], record["seed"], *asked)

    def _job(
        self, row: Row, env: str, seed: int, steps: int | None, paper: bool, quick: bool
    ) -> Job:
        settings = dict(row.settings)
        if quick:
            settings["iterations"] = self.quick.iterations
            settings["judge"] = {"episodes": 32}
        return Job(
            env,
            row.method,
            seed,
            row.variant,
            settings,
            paper,
            steps,
            self.quick.steps if quick else self.steps,
            quick,
            domain_of(env),
        )


DOMAINS = {
    "four-goals": ("four-goals-easy", "four-goals-medium", "four-goals-hard"),
    "monster-hunt": ("monster-hunt",),
    "escalation": ("escalation",),
    "mujoco": ("half-cheetah", "hopper", "walker2d", "humanoid"),
    "point": ("point",),
    "smac": ("2m_vs_1z", "2c_vs_64zg"),
}


def domain_of(env: str) -> str:
    """The file of records that runs in this environment go to."""
    return next(domain for domain, envs in DOMAINS.items() if env in envs)
