"""The page that people open first, made from run folders alone. Nothing here imports JAX, plays or
computes anew."""

from collections.abc import Sequence
from pathlib import Path

from rspo.report.comparison import compare_page
from rspo.report.page import run_page
from rspo.report.reading import read_run
from rspo.runs import store


def write_report(folder: Path, path: Path | None = None) -> Path:
    """`report.html` in a run folder, from what else is in it; or the same elsewhere."""
    path = path or folder / "report.html"
    store.write(path, run_page(read_run(folder)).encode())
    return path


def write_comparison(folders: Sequence[Path], path: Path) -> Path:
    """One page on several runs, at `path`."""
    store.write(path, compare_page([read_run(folder) for folder in folders]).encode())
    return path
