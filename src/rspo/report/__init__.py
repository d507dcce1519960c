"""The report pages, made from run folders alone. Nothing here imports JAX or plays episodes."""

from collections.abc import Sequence
from pathlib import Path

from rspo.report.comparison import compare_page
from rspo.report.page import run_page
from rspo.report.reading import read_run
from rspo.runs import store


def write_report(folder: Path, path: Path | None = None) -> Path:
    """Write `report.html` into a run folder, from its other files; or to another path."""
    path = path or folder / "report.html"
    store.write(path, run_page(read_run(folder)).encode())
    return path


def write_comparison(folders: Sequence[Path], path: Path) -> Path:
    """One page on several runs, at `path`."""
    store.write(path, compare_page([read_run(folder) for folder in folders]).encode())
    return path
