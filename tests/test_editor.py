"""What an editor and a type checker see of the library."""

import ast
import dataclasses
import importlib.metadata
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import product
import rspo
from rspo import keywords
from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.methods.references import Measure

SAMPLES = Path(__file__).parent / "editor"
GROUPS = {
    PPO: keywords.PPOKeywords,
    Measure: keywords.MeasureKeywords,
    Judge: keywords.JudgeKeywords,
}


# ---- names


def test_every_public_name_completes() -> None:
    assert {*rspo.__all__, "__version__"} == set(dir(rspo))
    for name in rspo.__all__:
        assert getattr(rspo, name).__doc__


def test_type_checkers_are_told_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(rspo.__file__).read_text())
    told = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert told == rspo._HOMES
    assert set(told) == set(rspo.__all__)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert rspo.__version__ == importlib.metadata.version("rspo")


# ---- keywords of discover: written by hand, for no type checker reads a table made at run time


def hints(of: type) -> dict[str, object]:
    return typing.get_type_hints(of)


@pytest.mark.parametrize("group", GROUPS)
def test_keywords_of_a_group_are_its_settings(group: type) -> None:
    settings = {field.name: hints(group)[field.name] for field in dataclasses.fields(group)}
    assert hints(GROUPS[group]) == settings, f"write them into rspo.keywords.{GROUPS[group]}"


def test_keywords_of_discover_are_the_settings_of_a_run() -> None:
    settings = {
        field.name: GROUPS.get(hints(Config)[field.name], hints(Config)[field.name])
        for field in dataclasses.fields(Config)
        if field.name not in ("env", "method")  # parameters of their own
    }
    assert hints(keywords.Keywords) == settings, "write them into rspo.keywords.Keywords"


# ---- type checkers


def mistakes() -> list[int]:
    lines = (SAMPLES / "bad.py").read_text().splitlines()
    return [n for n, line in enumerate(lines, start=1) if line.startswith("rspo.")]


def checked(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, "good.py", "bad.py"],
        cwd=SAMPLES,
        env=product.environment(MYPYPATH="", PYRIGHT_PYTHON_IGNORE_WARNINGS="1"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


def assert_found_all(said: str, error: str) -> None:
    assert not re.search(rf"good\.py:\d+.*{error}", said), said
    found = {int(n) for n in re.findall(rf"bad\.py:(\d+)(?::\d+)? ?[:-] {error}", said)}
    assert found == set(mistakes()), said
    revealed = next(line for line in said.splitlines() if "bad.py:5" in line)
    for word in ("on_strategy", "Keywords", "Archive"):
        assert word in revealed, revealed


@pytest.mark.slow
def test_mypy_catches_every_mistake(tmp_path: Path) -> None:
    said = checked("mypy", "--cache-dir", str(tmp_path), "--follow-imports", "silent")
    assert_found_all(said, "error")


@pytest.mark.slow
def test_pyright_catches_every_mistake() -> None:
    said = checked("pyright", "--pythonpath", sys.executable)
    if "good.py" not in said and "bad.py" not in said:
        pytest.skip(f"pyright cannot run here, it needs Node and its npm package: {said[-200:]}")
    assert_found_all(said, "error")
