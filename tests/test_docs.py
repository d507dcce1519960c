"""What the documentation shows works as it stands there."""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import product
import rspo

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


def programs() -> list[Any]:
    shown = [page for page in PAGES if blocks(page)]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in shown]


def stag_hunts() -> None:
    """The finished runs that the page on the games looks at."""
    small = {"escalation": product.ESCALATION, "monster-hunt": product.HUNT | {"iterations": 2}}
    for name, settings in small.items():
        rspo.discover(name, out=f"runs/{name}-rspo-seed0", quiet=True, **settings)


BEFORE: dict[str, Callable[[], None]] = {"games.md": stag_hunts}


def check_environment(shown: dict[str, Any]) -> None:
    assert {strategy.descriptor for strategy in shown["archive"]} == {"left", "right"}


def check_tutorial(shown: dict[str, Any]) -> None:
    novel = [strategy.index for strategy in shown["archive"] if strategy.status == "novel"]
    assert {shown["roads"][index] for index in novel} == {"north", "east", "south", "west"}
    assert Path("runs/villages/report.html").exists()
    assert Path("villages.gif").exists()


AFTER: dict[str, Callable[[dict[str, Any]], None]] = {
    "environment.md": check_environment,
    "tutorial.md": check_tutorial,
}


@pytest.mark.slow
@pytest.mark.parametrize("page", programs())
def test_every_python_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks of a page, one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    BEFORE.get(page.name, lambda: None)()
    shown: dict[str, Any] = {"__name__": "docs"}
    for number, code in enumerate(blocks(page)):
        exec(compile(code, f"{page.name}, block {number}", "exec"), shown)
    AFTER.get(page.name, lambda shown: None)(shown)


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_command_is_one() -> None:
    """No page speaks of a verb that is not there."""
    from rspo.cli.main import VERBS

    for page in PAGES:
        for verb in re.findall(r"^(?:\S*/)?rspo ([a-z]+)", page.read_text(), re.MULTILINE):
            assert verb in VERBS, f"{page.name}: rspo {verb}"


# ---- the notebook


def cells() -> list[dict[str, Any]]:
    return json.loads((DOCS / "first-steps.ipynb").read_text())["cells"]


def test_the_notebook_is_stored_without_outputs() -> None:
    assert all(not cell["outputs"] for cell in cells() if cell["cell_type"] == "code")


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in product.environment().items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own
        import nbclient
        import nbformat

        notebook = nbformat.read(DOCS / "first-steps.ipynb", as_version=4)
        place = {"metadata": {"path": str(tmp_path)}}
        nbclient.NotebookClient(notebook, timeout=600, resources=place).execute()
    assert (tmp_path / "report.html").exists()
    said = json.dumps(notebook)
    for goal in ("left", "right", "up", "down"):
        assert f"'{goal}'" in said


# ---- the site


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Links and anchors included: `mkdocs build --strict` takes every warning for an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=product.environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "choosing-a-method" / "index.html").read_text()
    from rspo.registry import METHODS

    for name in METHODS.summaries():
        assert f"<code>{name}</code>" in page
    reference = (tmp_path / "api" / "index.html").read_text()
    for name in ("discover", "Archive", "lambda_b", "on_strategy", "InputError"):
        assert name in reference
