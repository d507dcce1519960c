"""Which runs a table has and lacks, in words: seeds that settings were chosen on, seeds that the
bench would not run by itself, how long they trained where that differs, runs without a number or
without their settings, and what is not run yet."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from rspo.bench.record import Record
from rspo.bench.results import PAPER, TUNED, settings_of
from rspo.bench.tables import Bench, Row

HELD_OUT = 100  # settings were chosen on seeds below it, and benches run others


def remarks(bench: Bench, records: Sequence[Record]) -> list[str]:
    """On the seeds that there are."""
    low = lambda row, env, done: [seed for seed in done if seed < HELD_OUT]
    more = lambda row, env, done: [
        seed for seed in done if seed >= HELD_OUT and seed not in bench.own_seeds(row, env)
    ]
    return [
        *_sentence(
            f"Of seeds below {HELD_OUT}, on which settings were chosen", bench, records, low
        ),
        *_sentence("Of seeds that are run only if asked for", bench, records, more),
    ]


def lengths(bench: Bench, records: Sequence[Record]) -> list[str]:
    """How many steps each policy trained for, where that is not the same for all."""
    told = []
    for env in bench.envs:
        own = [record for record in records if record["env"] == env]
        usual = Counter(record["steps"] for record in own).most_common(1)
        others: dict[int, list[str]] = {}
        for record in own:
            if record["steps"] != usual[0][0]:
                others.setdefault(record["steps"], []).append(_title(bench, record))
        if others:
            each = [
                f"{steps:,} of {', '.join(dict.fromkeys(names))}"
                for steps, names in sorted(others.items())
            ]
            told.append(f"{usual[0][0]:,} in {env}, but {', '.join(each)}")
    return [f"Steps of each policy: {'; '.join(told)}."] if told else []


def _title(bench: Bench, record: Record) -> str:
    row = next(row for row in bench.rows if row.made(record))
    return row.name + " with the paper's settings" * (settings_of(record) == PAPER)


def old(bench: Bench, records: Sequence[Record]) -> list[str]:
    """Runs that nobody can compare with today's settings."""
    nameless = [record for record in records if "ppo" not in record.get("config", {})]
    every = lambda row, env, done: done
    start = "Run before settings were recorded, so that they may differ from today's"
    return list(_sentence(start, bench, nameless, every))


def unknown(bench: Bench, records: Sequence[Record]) -> list[str]:
    """The runs without one of the numbers: they are older than it, or had nothing to count."""
    found: dict[str, list[str]] = {}
    for env in bench.envs:
        columns = [column for column in bench.columns if column.env == env]
        for _, _, own in kinds(bench, records, env):
            lacking = {c.title: [r["seed"] for r in own if c.value(r) is None] for c in columns}
            for seeds in {spans(seeds): None for seeds in lacking.values() if seeds}:
                without = [column for column, those in lacking.items() if spans(those) == seeds]
                what = "a number" if len(without) == len(columns) else " and ".join(without)
                found.setdefault(what, []).append(f"{_title(bench, own[0])} in {env} ({seeds})")
    return [f"Run, but without {what}: {', '.join(runs)}." for what, runs in found.items()]


def missing(bench: Bench, records: Sequence[Record]) -> list[str]:
    """The jobs of the bench that have not been run yet."""
    tuned = [record for record in records if settings_of(record) == TUNED]
    lacking = []
    for row in [row for row in bench.rows if not row.extra]:
        all_envs = row.envs or bench.envs
        envs = [env for env in all_envs if not _done(row, env, tuned)]
        if envs:
            where = "" if len(envs) == len(all_envs) else f" in {', '.join(envs)}"
            lacking.append(row.name + where)
    whole = [record for record in tuned if not record["quick"]]  # a quick version has fewer seeds
    rest = lambda row, env, done: [
        seed for seed in bench.own_seeds(row, env) if not row.extra and seed not in done
    ]
    return [
        *[f"Not run yet: {'; '.join(lacking)}."] * bool(lacking),
        *_sentence("Of these more seeds are not run yet", bench, whole, rest),
    ]


def spans(seeds: Iterable[int]) -> str:
    """Such as "100, 105 to 114"."""
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts)


def _sentence(
    start: str,
    bench: Bench,
    records: Sequence[Record],
    choose: Callable[[Row, str, list[int]], list[int]],
) -> Iterator[str]:
    """The rows that have runs and for which some seeds are chosen, those of the same seeds
    together."""
    found: dict[tuple[str, str], list[str]] = {}
    for env in bench.envs:
        for row, _, runs in kinds(bench, records, env):
            if seeds := choose(row, env, [run["seed"] for run in runs]):
                found.setdefault((env, spans(seeds)), []).append(_title(bench, runs[0]))
    told = [f"{', '.join(names)} in {env} ({seeds})" for (env, seeds), names in found.items()]
    if told:
        yield f"{start}: {'; '.join(told)}."


def kinds(
    bench: Bench, records: Sequence[Record], env: str
) -> Iterator[tuple[Row, str, list[Record]]]:
    """The runs of each row that has some, and their settings: those with the paper's are apart."""
    for row in bench.rows:
        for of in (TUNED, PAPER):
            own = [r for r in records if row.made(r) and r["env"] == env and settings_of(r) == of]
            if own:
                yield row, of, own


def _done(row: Row, env: str, records: Sequence[Record]) -> list[int]:
    return [r["seed"] for r in records if row.made(r) and r["env"] == env]
