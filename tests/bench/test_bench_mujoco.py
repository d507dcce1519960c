"""The tables of the robots, from hand-made records and a short run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rspo
from handmade import cells, policy, record
from rspo.bench import markdown, mujoco
from rspo.bench.catalogue import BENCHES
from rspo.bench.measures import measured
from rspo.bench.statistics import interquartile_mean


def walk(robot: str, method: str, seed: int, score: float, *policies: dict[str, Any]) -> Any:
    scores = {kernel: {"value": score} for kernel in mujoco.KERNELS}
    return record(robot, method, seed, *policies, diversity=scores)


RUNS = [
    walk("hopper", "rspo", 0, 0.5, policy("hopping"), policy("kneeling", "mixed")),
    walk("hopper", "rspo", 1, 0.7, policy("hopping"), policy("jumping", return_mean=3.0)),
    walk("hopper", "pg", 0, 0.9, policy("hopping"), policy("falling")),
]


def test_diversity_stands_beside_the_paper_by_every_kernel() -> None:
    page = markdown.page(BENCHES["mujoco-diversity"], RUNS, "rspo bench", quick=False)
    assert cells(page, "RSPO")[0][3:5] == ["0.989 (0.009)", "0.600 [0.500, 0.700]: 0.500 0.700"]
    assert cells(page, "hopper", "RSPO", "DvD's, l = 1")[0][3:] == ["0.600", "0.500 0.700"]
    assert "RSPO is above PG there and below it here" in page


def test_returns_have_a_table_per_robot() -> None:
    page = markdown.page(BENCHES["mujoco-returns"], RUNS, "rspo bench", quick=False)
    hopper = page[page.index("## hopper") : page.index("## walker2d")]
    theirs, ours = cells(hopper, "RSPO")
    assert theirs[1:] == (
        ["the paper", "1741 (56)", "1690 (29)", "1428 (322)", "1349 (275)", "841 (296)", "1410"]
    )
    assert ours[1:] == ["tuned settings", "1: 1 1", "2: 1 3", "-", "-", "-", "2: 1 2"]
    (pg,) = cells(hopper, "PG")
    assert pg[1:3] == ["tuned settings", "1"]
    assert cells(hopper, "DIPG") == []  # not run, and not printed by the paper


def test_gaits_are_those_that_greedy_and_sampled_episodes_show() -> None:
    assert [mujoco.gaits(run) for run in RUNS] == [1.0, 2.0, 1.0]


def test_ten_times_the_denominator_is_the_tenth_root_of_the_kernel() -> None:
    kernel = np.exp(-2.3 / 30**2 * 400)
    pair = walk("humanoid", "rspo", 0, 1 - kernel**2, policy("a"), policy("b"))
    wider = np.exp(-2.3 / (10 * 30**2) * 400)
    assert mujoco.wider(pair) == pytest.approx(1 - wider**2)


@pytest.mark.slow
def test_the_diversity_of_a_run_is_that_of_all_its_policies(tmp_path: Path) -> None:
    small = {"updates": 1, "batch": 400, "minibatches": 1}
    archive = rspo.discover(
        "gym:Pendulum-v1",
        iterations=2,
        out=tmp_path / "run",
        quiet=True,
        ppo=small,
        judge={"episodes": 2},
    )
    found = measured(tmp_path / "run", archive, "mujoco")
    assert found["steps"] == 400
    assert set(found["diversity"]) == {"authors", "p1", "wider", "dvd"}
    for name, score in found["diversity"].items():
        assert (score["policies"], score["states"]) == (2, 400 if name == "authors" else 128)
        assert 0 <= score["value"] <= 1
    assert found["second"]["iteration"] == 2


def test_all_columns_together_are_the_interquartile_mean_of_all_runs() -> None:
    runs = [walk(robot, "rspo", 0, 0.1 * i, policy("x")) for i, robot in enumerate(mujoco.ROBOTS)]
    page = markdown.page(BENCHES["mujoco-diversity"], runs, "rspo bench", quick=False)
    middle = interquartile_mean(np.array([0.0, 0.1, 0.2, 0.3]))
    assert cells(page, "RSPO", "tuned settings")[0][3] == f"{middle:.3f}"
