"""Which runs a table has and lacks, in words: seeds that settings were chosen on, seeds that the
bench would not run by itself, and what is not run yet."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from rspo.bench.record import Record
from rspo.bench.results import TUNED, settings_of
from rspo.bench.tables import Bench, Row

HELD_OUT = 100  # settings were chosen on seeds below it, and benches run others


def remarks(bench: Bench, records: Sequence[Record]) -> list[str]:
    """On the seeds that there are."""
    low = lambda row, done: [seed for seed in done if seed < HELD_OUT]
    more = lambda row, done: [
        seed for seed in done if seed >= HELD_OUT and seed not in own_seeds(bench, row)
    ]
    return [
        *_sentence(
            f"Of seeds below {HELD_OUT}, on which settings were chosen", bench, records, low
        ),
        *_sentence("Of seeds that are run only if asked for", bench, records, more),
    ]


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
    rest = lambda row, done: [
        seed for seed in own_seeds(bench, row) if not row.extra and seed not in done
    ]
    return [
        *[f"Not run yet: {'; '.join(lacking)}."] * bool(lacking),
        *_sentence("Of these more seeds are not run yet", bench, whole, rest),
    ]


def own_seeds(bench: Bench, row: Row) -> tuple[int, ...]:
    return row.seeds or bench.seeds


def spans(seeds: Iterable[int]) -> str:
    """Such as "100, 105 to 114"."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts)


def _sentence(
    start: str,
    bench: Bench,
    records: Sequence[Record],
    choose: Callable[[Row, list[int]], list[int]],
) -> Iterator[str]:
    """The rows that have runs and for which some seeds are chosen, those of the same seeds
    together."""
    found: dict[tuple[str, str], list[str]] = {}
    for env in bench.envs:
        for row in bench.rows:
            done = _done(row, env, records)
            if done and (seeds := choose(row, done)):
                found.setdefault((env, spans(seeds)), []).append(row.name)
    told = [f"{', '.join(names)} in {env} ({seeds})" for (env, seeds), names in found.items()]
    if told:
        yield f"{start}: {'; '.join(told)}."


def _done(row: Row, env: str, records: Sequence[Record]) -> list[int]:
    return [r["seed"] for r in records if row.made(r) and r["env"] == env]
