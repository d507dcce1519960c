"""The files of a bench: Markdown, CSV, the figure as SVG and PNG, and a page that links to every
run."""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rspo.bench import figures, markdown
from rspo.bench.pixels import png
from rspo.bench.record import Record
from rspo.bench.results import cells, paper_mean
from rspo.bench.strips import strips
from rspo.bench.tables import Bench, domain_of
from rspo.report.bench import bench_page
from rspo.runs import store


def write(
    bench: Bench, records: Sequence[Record], stem: Path, runs: Path, command: str, quick: bool
) -> list[Path]:
    """Write all files that begin with `stem`; returns those that were written."""
    store.make_folder(stem.parent)
    text = markdown.page(bench, records, command, quick=quick)
    pictures = {"": bench.figure(bench, records)}
    if (profiles := figures.profiles(bench, records)) is not None:
        pictures["-profiles"] = profiles
    pictures |= {f"-{env}": strip for env, strip in strips(bench, records, runs).items()}
    page = bench_page(
        bench.title + " (quick version)" * quick,
        text,
        list(pictures.values()),
        [(record["job"], _report(record, runs, stem.parent)) for record in records],
    )
    files = {
        ".md": text.encode(),
        ".csv": table(bench, records).encode(),
        ".html": page.encode(),
    }
    for name, picture in pictures.items():
        files[f"{name}.svg"] = picture.encode()
        if (pixels := png(picture)) is not None:
            files[f"{name}.png"] = pixels
    for suffix, data in files.items():
        store.write(_with(stem, suffix), data)
    return [_with(stem, suffix) for suffix in files]


def _with(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)


def table(bench: Bench, records: Sequence[Record]) -> str:
    """One line per number: its run, its column, and the paper's value."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    names = ("bench", "environment", "column", "method", "variant", "settings", "seed")
    out.writerow([*names, "value", "paper", "quick"])
    quick = any(record["quick"] for record in records)
    for made in cells(bench, records):
        theirs = made.column.paper.get(made.row.key)
        column = " ".join(filter(None, (made.column.group, made.column.title)))
        for seed, value in zip(made.seeds, made.values, strict=True):
            row = (made.row.method, made.row.variant, made.settings, seed, value)
            paper = "" if theirs is None else paper_mean(theirs)
            out.writerow([bench.name, made.column.env, column, *row, paper, int(quick)])
    return text.getvalue()


def _report(record: Record, runs: Path, beside: Path) -> str | None:
    """Where the report of a run is, as seen from the page; None if the run is elsewhere."""
    path = runs / domain_of(record["env"]) / record["job"] / "report.html"
    if not store.exists(path):
        return None
    return quote(os.fsencode(Path(os.path.relpath(path, beside)).as_posix()))
