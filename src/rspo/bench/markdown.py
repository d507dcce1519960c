"""A bench as Markdown: the numbers beside the paper's, whether the ranking agrees, every run."""

from collections.abc import Callable, Iterator, Sequence

from rspo.bench.naming import LEGEND, shown_names
from rspo.bench.record import Record
from rspo.bench.results import (
    PAPER,
    TUNED,
    Cell,
    agreement,
    answers,
    cell,
    settings_of,
    summed_up,
)
from rspo.bench.tables import Bench, Column, PaperNumber, Row

QUICK = "**Quick version: a few steps of training only. Its numbers mean nothing.**"
TOO_FEW = "Too few of the methods that the paper has numbers for are done to tell."
NO_NUMBERS = "The paper prints no numbers of two methods here that could be ranked."
SETTINGS = {TUNED: "tuned settings", PAPER: "paper's settings"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(bench: Bench, records: Sequence[Record], command: str, *, quick: bool) -> str:
    """The whole file."""
    parts = [f"# {bench.title}{' (quick version)' * quick}", ""]
    parts += [QUICK, ""] * quick
    parts += [f"Made by `{command}`: {bench.shows}.", ""]
    parts += [bench.note, ""] * bool(bench.note)
    parts += [line for group in _groups(bench) for line in _group(bench, records, *group)]
    parts += _summary(bench, records)
    parts += ["## Does the ranking agree with the paper?", "", *verdict(bench, records), ""]
    if bench.details is not None and records:
        parts += [bench.details(bench, records), ""]
    parts += _missing(bench, records)
    return "\n".join(parts).rstrip() + "\n"


def _groups(bench: Bench) -> list[tuple[str, list[Column]]]:
    names = dict.fromkeys(column.group for column in bench.columns)
    return [(name, [c for c in bench.columns if c.group == name]) for name in names]


def _group(
    bench: Bench, records: Sequence[Record], name: str, columns: Sequence[Column]
) -> list[str]:
    """One table: for every column the paper's numbers and ours."""
    shown = [of for of in (TUNED, PAPER) if any(settings_of(record) == of for record in records)]
    head = ["method"]
    for column in columns:
        head += [f"{column.title}: paper"] * bool(column.paper)
        head += [f"{column.title}: {SETTINGS[of]}" for of in shown or (TUNED,)]
    rows = []
    for row in shown_rows(bench, records):
        line = [row.name]
        for column in columns:
            if column.paper:
                line.append(_printed(column.paper.get(row.key), column))
            line += [shown_cell(cell(records, row, column, of)) for of in shown or (TUNED,)]
        rows.append(line)
    return [f"## {name}\n"] * bool(name) + [table(head, rows), ""]


def shown_rows(bench: Bench, records: Sequence[Record]) -> list[Row]:
    """The paper's rows, and the others that were run."""
    return [row for row in bench.rows if not row.extra or any(map(row.made, records))]


def _printed(number: PaperNumber | None, column: Column) -> str:
    if number is None:
        return ""
    if column.kind == "found":
        return "✓" if number else ""
    if isinstance(number, tuple):
        return f"{number[0]:.{column.digits}f} ({number[1]:.{column.digits}f})"
    return f"{number:.{column.digits}f}"


def shown_cell(made: Cell | None) -> str:
    """The mean, its interval, and each seed."""
    if made is None:
        return "-"
    if made.column.kind == "found":
        return f"{sum(map(int, made.values))} of {len(made.values)}"
    digits = made.column.digits
    text = f"{made.mean:.{digits}f}"
    if made.interval is not None:
        text += f" [{made.interval[0]:.{digits}f}, {made.interval[1]:.{digits}f}]"
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
        ranked = [TOO_FEW if any(len(column.paper) > 1 for column in bench.columns) else NO_NUMBERS]
    answered = [
        f"- {line} with the {SETTINGS[of]}."
        for of in (TUNED, PAPER)
        for line in answers(bench, records, of)
    ]
    return [*ranked, "", "What the paper says in words:", "", *answered] if answered else ranked


def seeds_of(bench: Bench, records: Sequence[Record]) -> Iterator[tuple[str, Row, list[Record]]]:
    """The runs of each environment and row with tuned settings, in the order of their seeds."""
    for env in bench.envs:
        for row in bench.rows:
            runs = [
                record
                for record in records
                if row.made(record) and record["env"] == env and settings_of(record) == TUNED
            ]
            if runs:
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


def _missing(bench: Bench, records: Sequence[Record]) -> list[str]:
    """The jobs of the bench that have not been run yet."""
    done = {(record["env"], record["method"], record["variant"]) for record in records}
    lacking = []
    for row in [row for row in bench.rows if not row.extra]:
        all_envs = row.envs or bench.envs
        envs = [env for env in all_envs if (env, row.method, row.variant) not in done]
        if envs:
            where = "" if len(envs) == len(all_envs) else f" in {', '.join(envs)}"
            lacking.append(row.name + where)
    return [f"Not run yet: {'; '.join(lacking)}.", ""] if lacking else []
