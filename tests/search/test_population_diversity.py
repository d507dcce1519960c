"""One number for a whole run: the paper's score of its distinct strategies, on states they came
to."""

import json
from pathlib import Path

import numpy as np
import pytest

import rspo
from rspo.runs.store import read_arrays
from rspo.search.diversity import Categoricals, population_diversity
from rspo.search.population import diversity_of
from rspo.search.recording import STATES
from worlds import Slope


def states(run: Path, index: int) -> np.ndarray:
    return read_arrays(run / f"strategies/{index:03d}/episodes.safetensors")[0]["states"]


def test_the_score_is_that_of_the_policies_on_all_states(finished: Path) -> None:
    archive = rspo.load(finished)
    seen = [states(finished, index) for index in (0, 2)]
    assert all(part.shape == (STATES, 10) for part in seen)
    score = diversity_of([archive[0], archive[2]], seen)
    logits = np.stack([np.asarray(archive[i].policy(np.concatenate(seen)).logits) for i in (0, 2)])
    assert score.value == population_diversity(Categoricals(logits), p=1.0, source="test").value
    assert (score.policies, score.states, score.scale) == (2, 2 * STATES, 1.0)
    assert 0 < score.value < 1


def test_a_policy_twice_has_no_diversity(finished: Path) -> None:
    strategy = rspo.load(finished)[0]
    assert diversity_of([strategy, strategy], [states(finished, 0)] * 2).value == pytest.approx(
        0.0, abs=1e-12
    )


def test_a_finished_run_keeps_that_of_its_distinct_strategies(tmp_path: Path) -> None:
    """Of Gaussians, here; without names and at this level of acceptance everything is distinct."""
    out = tmp_path / "run"
    learner = {"updates": 30, "batch": 256, "learning_rate": 0.01}
    judge = {"episodes": 64, "quality": -1e9, "accept": 0.0}
    archive = rspo.discover(Slope(), iterations=2, out=out, quiet=True, ppo=learner, judge=judge)
    assert [strategy.status for strategy in archive] == ["novel", "novel"]
    record = json.loads((out / "diversity.json").read_text())
    assert record["value"] == diversity_of(list(archive), [states(out, 0), states(out, 1)]).value
    assert 0 <= record["value"] <= 1
    assert "Population diversity" in (out / "report.html").read_text()


def test_policies_with_memory_have_no_such_score_and_their_run_ends_well(tmp_path: Path) -> None:
    """What they do depends on more than one state."""
    out = tmp_path / "run"
    learner = {"updates": 30, "batch": 256, "learning_rate": 0.01, "memory": "gru"}
    judge = {"episodes": 64, "quality": -1e9, "accept": 0.0}
    archive = rspo.discover(Slope(), iterations=2, out=out, quiet=True, ppo=learner, judge=judge)
    assert [strategy.status for strategy in archive] == ["novel", "novel"]
    assert not (out / "diversity.json").exists()
    assert (out / "report.html").exists()
