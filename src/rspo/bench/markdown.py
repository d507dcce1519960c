"""A bench as Markdown: the numbers beside the paper's, whether the ranking agrees, every run."""

import shlex
from collections.abc import Callable, Iterator, Sequence

from rspo.bench import coverage
from rspo.bench.naming import LEGEND, shown_names
from rspo.bench.record import Record
from rspo.bench.results import (
    PAPER,
    TUNED,
    Cell,
    agreement,
    answers,
    cells,
    settings_of,
    stated,
    summed_up,
)
from rspo.bench.tables import Bench, Column, PaperNumber, Row

QUICK = "**Quick version: a few steps of training only. Its numbers mean nothing.**"
TOO_FEW = "Too few of the methods that the paper has numbers for are done to tell."
NO_ORDER = "The paper prints no numbers of two methods here that could be ranked."
COMMON = "Two methods are compared on the seeds that both have, or on all if they share none."
CHANCE = "What may be chance: that is a single seed, or the 95 % intervals of the two overlap."
NOTHING = "Nothing is done yet."
WIDEST = 150  # characters of a table that fit side by side on a page
SETTINGS = {TUNED: "tuned settings", PAPER: "paper's settings"}
Numbers = tuple[str, list[str], list[list[str]]]  # a table: its name, head and lines


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(bench: Bench, records: Sequence[Record], command: str, *, quick: bool) -> str:
    """The whole file."""
    parts = [f"# {bench.title}{' (quick version)' * quick}", ""]
    parts += [QUICK, ""] * quick
    parts += [f"Made by {_commands(bench, records, command)}: {bench.shows}.", ""]
    parts += [bench.note, ""] * bool(bench.note)
    for told in (coverage.remarks, coverage.lengths, coverage.old, coverage.unknown):
        parts += [line for remark in told(bench, records) for line in (remark, "")]
    parts += _tables(bench, records)
    parts += _summary(bench, records)
    parts += ["## Does the ranking agree with the paper?", "", *verdict(bench, records), ""]
    if bench.details is not None and records:
        parts += [bench.details(bench, records), ""]
    parts += [line for remark in coverage.missing(bench, records) for line in (remark, "")]
    return "\n".join(parts).rstrip() + "\n"


def _commands(bench: Bench, records: Sequence[Record], command: str) -> str:
    """Those that run everything that the tables have, but for seeds."""
    theirs = [record for record in records if settings_of(record) == PAPER]
    ours = [record for record in records if settings_of(record) == TUNED]
    rows = {
        "--methods": [row for row in bench.rows if row.extra and any(map(row.made, ours))],
        "--paper --methods": [row for row in bench.rows if any(map(row.made, theirs))],
    }
    said = [
        " ".join([command, flags, *(shlex.quote(row.key) for row in chosen)])
        for flags, chosen in rows.items()
        if chosen
    ]
    return " and ".join(f"`{one}`" for one in [command, *said])


def _tables(bench: Bench, records: Sequence[Record]) -> Iterator[str]:
    for name, head, lines in numbers(bench, records, WIDEST):
        yield from [f"## {name}", ""] * bool(name)
        yield from [table(head, lines) if lines else NOTHING, ""]


def numbers(bench: Bench, records: Sequence[Record], widest: int) -> list[Numbers]:
    """One table per group of columns: for every column the paper's numbers and ours, side by side
    or, where a page is too narrow for one of the tables, below each other."""
    made, groups = cells(bench, records), dict[str, list[Column]]()
    for column in bench.columns:
        groups.setdefault(column.group, []).append(column)
    own = {name: _Numbers(bench.rows, columns, made) for name, columns in groups.items()}
    narrow = any(_width(*one.beside()) > widest for one in own.values())
    return [
        (name, *(one.beside() if not narrow else one.parts() if name else one.below()))
        for name, one in own.items()
    ]


class _Numbers:
    """The numbers of some columns, the paper's and ours, as text."""

    def __init__(
        self, rows: Sequence[Row], columns: Sequence[Column], made: Sequence[Cell]
    ) -> None:
        own = [c for c in made if c.column in columns]
        self.columns = columns
        self.made = {(c.row.key, columns.index(c.column), c.settings): c for c in own}
        self.shown = [of for of in (TUNED, PAPER) if any(c.settings == of for c in own)] or [TUNED]
        self.rows = [row for row in rows if any(self.known(row, column) for column in columns)]

    def ours(self, row: Row, column: Column) -> list[Cell | None]:
        place = self.columns.index(column)
        return [self.made.get((row.key, place, of)) for of in self.shown]

    def known(self, row: Row, column: Column) -> bool:
        return row.key in column.paper or any(self.ours(row, column))

    def text(self, row: Row, column: Column, paper: bool) -> list[str]:
        theirs = [_printed(column.paper.get(row.key), column)] * paper
        return theirs + [shown_cell(made) for made in self.ours(row, column)]

    def head(self, paper: bool) -> list[str]:
        return ["paper"] * paper + [SETTINGS[of] for of in self.shown]

    def beside(self) -> tuple[list[str], list[list[str]]]:
        """Head and lines of a table with a line per method."""
        head = ["method"]
        for column in self.columns:
            head += [f"{column.title}: {name}" for name in self.head(bool(column.paper))]
        texts = lambda row: [t for c in self.columns for t in self.text(row, c, bool(c.paper))]
        return head, [[row.name, *texts(row)] for row in self.rows]

    def below(self) -> tuple[list[str], list[list[str]]]:
        """The same with a line per method and column."""
        paper = any(column.paper for column in self.columns)
        pairs = [(r, c) for c in self.columns for r in self.rows if self.known(r, c)]
        lines = [[c.title, r.name, *self.text(r, c, paper)] for r, c in pairs]
        return ["column", "method", *self.head(paper)], lines

    def parts(self) -> tuple[list[str], list[list[str]]]:
        """With a line for the paper's numbers of a method and one for each of ours, where columns
        are parts of one run. There is room for each seed, but not for an interval."""
        lines = []
        for row in self.rows:
            printed = [_printed(column.paper.get(row.key), column) for column in self.columns]
            lines += [[row.name, "the paper", *printed]] * any(printed)
            ours = zip(*(self.ours(row, column) for column in self.columns), strict=True)
            for of, made in zip(self.shown, ours, strict=True):
                shown = [shown_cell(cell, interval=False) for cell in made]
                lines += [[row.name, SETTINGS[of], *shown]] * any(made)
        return ["method", "numbers", *(column.title for column in self.columns)], lines


def _width(head: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    """How many characters wide a table is if only its head and its first column are wrapped."""
    word = lambda text: max(map(len, text.split()))
    return sum(
        3 + max([word(title), *(len(c) if i else word(c) for c in column)])
        for i, (title, *column) in enumerate(zip(head, *lines, strict=True))
    )


def _printed(number: PaperNumber | None, column: Column) -> str:
    if number is None:
        return ""
    if column.kind == "found":
        return "✓" if number else "✗"
    if isinstance(number, tuple):
        return f"{number[0]:.{column.digits}f} ({number[1]:.{column.digits}f})"
    return f"{number:.{column.digits}f}"


def shown_cell(made: Cell | None, *, interval: bool = True) -> str:
    """The mean, its interval, and each seed."""
    if made is None:
        return "-"
    if made.column.kind == "found":
        return f"{sum(map(int, made.values))} of {len(made.values)}"
    digits = made.column.digits
    text = f"{made.mean:.{digits}f}"
    if made.interval is not None:
        text += f" [{made.interval[0]:.{digits}f}, {made.interval[1]:.{digits}f}]" * interval
        whole = all(value == round(value) for value in made.values)
        text += ": " + " ".join(f"{value:.{0 if whole else digits}f}" for value in made.values)
    return text


def _summary(bench: Bench, records: Sequence[Record]) -> list[str]:
    lines = summed_up(bench, records)
    if not lines:
        return []
    rows = [
        [
            line.row.name,
            SETTINGS[line.settings],
            " ".join(map(str, line.seeds)),
            f"{line.mean:.3f}",
            "-" if line.interval is None else "{:.3f} to {:.3f}".format(*line.interval),
        ]
        for line in lines
    ]
    return [
        "## All columns together",
        "",
        f"The interquartile mean over all runs, as a share of {bench.ceiling:g}, and its 95 % "
        "interval by the stratified bootstrap (rliable's definitions); methods with every column. "
        "Columns have equal weight, whatever their number of seeds; there is no interval if one of "
        "them has a single seed.",
        "",
        table(
            ["method", "settings", "seeds of each column", "interquartile mean", "95 % interval"],
            rows,
        ),
        "",
    ]


def verdict(bench: Bench, records: Sequence[Record]) -> list[str]:
    """Whether the ranking agrees with the paper's, and what the paper says in words with the
    records, in plain sentences."""
    ranked = [
        f"- With the {SETTINGS[of]}, {line}"
        for of in (TUNED, PAPER)
        for line in agreement(bench, records, of)
    ]
    if not ranked:
        ranked = [TOO_FEW if any(c.ranked and stated(c) for c in bench.columns) else NO_ORDER]
    elif any(c.ranked and c.kind != "found" for c in bench.columns):
        said = [COMMON, CHANCE] if any("may be chance" in line for line in ranked) else [COMMON]
        ranked += ["", " ".join(said)]
    answered = [
        f"- {line} with the {SETTINGS[of]}."
        for of in (TUNED, PAPER)
        for line in answers(bench, records, of)
    ]
    return [*ranked, "", "What the paper says in words:", "", *answered] if answered else ranked


def seeds_of(bench: Bench, records: Sequence[Record]) -> Iterator[tuple[str, Row, list[Record]]]:
    """The runs of each environment and row with tuned settings, in the order of their seeds."""
    for env in bench.envs:
        for row, of, runs in coverage.kinds(bench, records, env):
            if of == TUNED:
                yield env, row, sorted(runs, key=lambda record: record["seed"])


def every_name(where: str, what: str) -> Callable[[Bench, Sequence[Record]], str]:
    """Details of a bench: the names of all policies, where `where` is the kind of environment."""

    def details(bench: Bench, records: Sequence[Record]) -> str:
        rows = [
            [env, row.name, str(run["seed"]), "; ".join(map(shown_names, run["strategies"]))]
            for env, row, runs in seeds_of(bench, records)
            for run in runs
        ]
        head = [where, "method", "seed", f"{what} in the order of the iterations"]
        return f"## Every policy\n\n{LEGEND}\n\n{table(head, rows)}"

    return details
