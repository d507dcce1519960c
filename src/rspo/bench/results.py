"""The numbers of a bench, one per run and column, and their aggregates."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from rspo.bench import statistics
from rspo.bench.record import Record
from rspo.bench.tables import Bench, Claim, Column, Order, PaperNumber, Row
from rspo.text import counted

TUNED, PAPER = "tuned", "paper"


@dataclass(frozen=True)
class Cell:
    """One number of every seed of a row."""

    row: Row
    column: Column
    settings: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]

    def of(self, seeds: Collection[int]) -> "Cell":
        """The same of these seeds alone."""
        pairs = zip(self.seeds, self.values, strict=True)
        kept = [(seed, value) for seed, value in pairs if seed in seeds]
        return replace(self, seeds=tuple(s for s, _ in kept), values=tuple(v for _, v in kept))

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % bootstrap interval of the mean; None for a single seed."""
        return statistics.mean_interval(self.values) if len(self.values) > 1 else None


def settings_of(record: Record) -> str:
    return PAPER if record["paper"] else TUNED


def cell(records: Sequence[Record], row: Row, column: Column, of: str) -> Cell | None:
    """The values of all seeds of a row in a column, with the settings `of` the paper or tuned."""
    runs = [
        record
        for record in records
        if row.made(record) and record["env"] == column.env and settings_of(record) == of
    ]
    pairs = [(run["seed"], column.value(run)) for run in sorted(runs, key=lambda r: r["seed"])]
    known = [(seed, float(value)) for seed, value in pairs if value is not None]
    if not known:
        return None
    seeds, values = zip(*known, strict=True)
    return Cell(row, column, of, seeds, values)


def cells(bench: Bench, records: Sequence[Record]) -> list[Cell]:
    """All that there are."""
    found = [
        cell(records, row, column, of)
        for column in bench.columns
        for row in bench.rows
        for of in (TUNED, PAPER)
    ]
    return [one for one in found if one is not None]


def scores(bench: Bench, records: Sequence[Record]) -> list[tuple[Row, str, list[np.ndarray]]]:
    """For each row that has all columns, where these are the same quantity: every run's score,
    column by column, as shares of the ceiling."""
    if bench.ceiling is None:
        return []
    made, found = cells(bench, records), []
    for row in bench.rows:
        for of in (TUNED, PAPER):
            own = [c for c in made if c.row is row and c.settings == of]
            if len(own) == len(bench.columns):
                found.append((row, of, [np.array(c.values) / bench.ceiling for c in own]))
    return found


@dataclass(frozen=True)
class Summary:
    """All columns of a row together."""

    row: Row
    settings: str
    seeds: tuple[int, ...]
    """How many each column has."""
    mean: float
    """The interquartile mean over all runs; columns have equal weight."""
    interval: tuple[float, float] | None
    """None if a column has a single seed, of which nobody knows how much it varies."""


def summed_up(bench: Bench, records: Sequence[Record]) -> list[Summary]:
    """A summary of each of these rows."""
    lines = []
    for row, of, own in scores(bench, records):
        counts = tuple(map(len, own))
        interval = None
        if min(counts) > 1:
            low, high = statistics.bootstrap(own)
            interval = float(low), float(high)
        lines.append(Summary(row, of, counts, statistics.aggregate(own), interval))
    return lines


def paper_mean(number: PaperNumber) -> float:
    return number[0] if isinstance(number, tuple) else number


def agreement(bench: Bench, records: Sequence[Record], of: str = TUNED) -> list[str]:
    """In plain words, column by column: are the methods in the paper's order?"""
    made = [c for c in cells(bench, records) if c.settings == of]
    return [
        sentence
        for column in bench.columns
        if column.ranked and (sentence := _ordered(column, [c for c in made if c.column is column]))
    ]


def stated(column: Column) -> list[Order]:
    """What the paper's numbers and words say of the order of two methods."""
    found: list[Order] = []
    for (one, first), (two, second) in combinations(column.paper.items(), 2):
        ours, theirs = paper_mean(first), paper_mean(second)
        above: Order = (one, ">", two) if ours > theirs else (two, ">", one)
        found.append((one, "=", two) if ours == theirs else above)
    return [*found, *column.words]


def _ordered(column: Column, made: Sequence[Cell]) -> str | None:
    if column.kind == "found":
        printed = [c for c in made if c.row.key in column.paper]
        return _ticked(column, [(c, paper_mean(column.paper[c.row.key])) for c in printed])
    own = {c.row.key: c for c in made}
    both = [(a, b, sign) for a, sign, b in stated(column) if {a, b} <= own.keys()]
    pairs = [(*_of_common_seeds(own[a], own[b]), sign) for a, b, sign in both]
    title = " ".join(filter(None, (column.group, column.title)))
    ranked = [pair for pair in pairs if pair[2] != "="]
    if ranked:
        return f"{title}: {_compared(ranked)}."
    even = [f"{a.row.name} and {b.row.name} are equal there{_apart(a, b)}" for a, b, _ in pairs]
    return f"{title}: {', '.join(even)}." if even else None


def _of_common_seeds(one: Cell, two: Cell) -> tuple[Cell, Cell]:
    """The two, each of the seeds that both have, if there are any: others were often added to one
    method alone, and with fewer policies."""
    common = set(one.seeds) & set(two.seeds)
    return (one.of(common), two.of(common)) if common else (one, two)


def _compared(pairs: Sequence[tuple[Cell, Cell, str]]) -> str:
    """How many pairs are in the paper's order, and which are not."""
    same, tied, other, chance = 0, 0, [], 0
    for one, two, sign in pairs:
        higher, equal = one.mean > two.mean, one.mean == two.mean
        chance += may_be_chance(one, two)
        if higher == (sign == ">"):
            same += 1
        elif equal:
            tied += 1
        elif sign == ">":
            other.append(f"{one.row.name} is above {two.row.name} there and below it here")
        else:
            other.append(f"{one.row.name} is not above {two.row.name} there and is here")
    doubt = f"{chance} may be chance"
    if same == len(pairs):
        count = counted(same, "pair") + f"; {doubt}" * bool(chance)
        return f"the order of methods is the paper's ({count})"
    if len(pairs) == 1:
        parts = [f"the one pair of methods is {'equal' if tied else 'in the other order'} here"]
    else:
        parts = [f"{same} of {len(pairs)} pairs of methods {_are(same)} in the paper's order"]
        parts += [f"{tied} {_are(tied)} equal here"] * bool(tied)
    return ", ".join([*parts, *other]) + f"; {doubt}" * bool(chance)


def may_be_chance(one: Cell, two: Cell) -> bool:
    """Whether nobody can tell which is above the other: one has a single seed, or their intervals
    overlap. Equal on every one of several seeds is no chance."""
    if one.interval is None or two.interval is None:
        return True
    if one.values == two.values:
        return False
    return one.interval[0] <= two.interval[1] and two.interval[0] <= one.interval[1]


def _apart(one: Cell, two: Cell) -> str:
    if one.mean == two.mean:
        return " and here"
    first, second = (one, two) if one.mean > two.mean else (two, one)
    doubt = " (it may be chance)" * may_be_chance(one, two)
    return f", and {first.row.name} is above {second.row.name} here{doubt}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _ticked(column: Column, known: Sequence[tuple[Cell, float]]) -> str | None:
    """Where most seeds here disagree with the paper's tick, or missing tick."""
    if not known:
        return None
    tell = lambda c: f"{c.row.name} ({_seeds(sum(map(int, c.values)), len(c.values))})"
    more = [tell(c) for c, tick in known if not tick and c.mean > 0.5]
    less = [tell(c) for c, tick in known if tick and c.mean < 0.5]
    if not more and not less:
        return f"{column.title}: as in the paper ({counted(len(known), 'method')})."
    parts = [f"found here without a tick in the paper by {', '.join(more)}"] * bool(more)
    parts += [f"ticked in the paper and not found on most seeds here by {', '.join(less)}"] * bool(
        less
    )
    return f"{column.title}: {'; '.join(parts)}."


def _seeds(some: int, every: int) -> str:
    return f"{some} of {counted(every, 'seed')}"


def answers(bench: Bench, records: Sequence[Record], of: str = TUNED) -> list[str]:
    """On how many seeds what the paper says in words is so; only where there are runs."""
    own = [record for record in records if settings_of(record) == of]
    return [sentence for claim in bench.claims if (sentence := _answer(claim, own))]


def _answer(claim: Claim, records: Sequence[Record]) -> str | None:
    told = [claim.holds(record) for record in records if claim.row.made(record)]
    known = [bool(holds) for holds in told if holds is not None]
    return f"{claim.text}: so on {_seeds(sum(known), len(known))}" if known else None
