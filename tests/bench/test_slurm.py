"""The recipe of docs/clusters.md for Slurm, carried out on this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import product

PAGE = Path(__file__).parent.parent.parent / "docs" / "clusters.md"


@pytest.mark.slow
def test_the_recipe_runs_every_seed_and_writes_the_tables(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    (recipe,) = re.findall(r"```py\n(import submitit\n.*?)```", PAGE.read_text(), re.S)
    for there, here in {
        'executor = submitit.AutoExecutor(folder="slurm")': (
            'executor = submitit.AutoExecutor("slurm", cluster="local")'  # as the page says
        ),
        'range(100, 103), "monster-hunt-strategies"': 'range(100, 102), "point"',
        '"bench", NAME': '"bench", NAME, "--quick", "--methods", "pg"',
    }.items():
        assert there in recipe
        recipe = recipe.replace(there, here)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", recipe],
        cwd=tmp_path,
        env=product.environment(PATH=programs),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "point: 2 runs, 2 of them done already" in done.stdout + done.stderr
    assert (tmp_path / "results" / "point-quick.md").exists()
    assert sorted(path.name for path in (tmp_path / "runs" / "bench" / "point").glob("*/")) == [
        "point-pg-quick-seed100",
        "point-pg-quick-seed101",
    ]
