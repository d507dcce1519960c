"""The example of a plug-in, installed as a user would."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "docs" / "examples" / "plugin"
CHECK = """
import json, rspo
spec, method = rspo.check_env("crossroads"), rspo.check_method("surprise")
print(json.dumps([spec.obs_size, method.name, method.weight]))
"""


def run(*command: object, where: Path) -> str:
    outcome = subprocess.run(
        [sys.executable, *map(str, command)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(where), *sys.path])},
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is, and nothing else."""
    home = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, home / "source")  # building leaves files behind
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    run("-m", "pip", "install", *quiet, "--target", home / "site", home / "source", where=home)
    return home / "site"


@pytest.mark.slow
def test_its_names_are_listed_with_the_package_that_they_come_from(installed: Path) -> None:
    lines = run("-m", "rspo", "list", where=installed).splitlines()
    for name in ("crossroads", "surprise"):
        (line,) = (line for line in lines if line.split()[:1] == [name])
        assert "from the package crossroads" in line


@pytest.mark.slow
def test_its_environment_and_its_method_are_checked_by_name(installed: Path) -> None:
    assert json.loads(run("-c", CHECK, where=installed)) == [2, "surprise", 0.5]


@pytest.mark.slow
def test_its_method_finds_another_town_in_its_world(installed: Path, tmp_path: Path) -> None:
    flags = ("--method", "surprise", "--method.weight", "1", "--iterations", "2")
    folder = tmp_path / "run"
    run("-m", "rspo", "discover", "crossroads", *flags, "--out", folder, where=installed)
    summary = json.loads((folder / "summary.json").read_text())
    towns = [strategy["descriptor"] for strategy in summary["strategies"]]
    assert len(set(towns)) == 2, towns
    assert json.loads((folder / "run.json").read_text())["config"]["method"]["weight"] == 1
