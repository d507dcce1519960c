"""One number for a whole run: the paper's score of its distinct strategies, on states they came
to."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import rspo
from rspo.registry import make
from rspo.rollout.collector import collector
from rspo.runs.store import read_arrays
from rspo.search.diversity import Categoricals, population_diversity
from rspo.search.population import STREAM, authors_diversity_of, diversity_of
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


@pytest.mark.slow
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
    authors = record["authors"]
    assert authors["source"] == "32 greedy episodes of each of the distinct strategies"
    assert (authors["kernel"], authors["scale"], authors["policies"]) == ("episode-nll", 30.0, 2)
    assert "Population diversity" in (out / "report.html").read_text()


@pytest.mark.slow
def test_policies_with_memory_are_compared_by_whole_episodes(tmp_path: Path) -> None:
    """What they do depends on more than one state, so that the scores on single states are none."""
    out = tmp_path / "run"
    learner = {"updates": 30, "batch": 256, "learning_rate": 0.01, "memory": "gru"}
    judge = {"episodes": 64, "quality": -1e9, "accept": 0.0}
    archive = rspo.discover(Slope(), iterations=2, out=out, quiet=True, ppo=learner, judge=judge)
    assert [strategy.status for strategy in archive] == ["novel", "novel"]
    record = json.loads((out / "diversity.json").read_text())
    assert record["kernel"] == "episode-nll"
    assert 0 <= record["value"] <= 1
    assert (out / "report.html").exists()


def test_the_authors_score_is_that_of_whole_episodes(finished: Path) -> None:
    """Categorical policies, played anew: every step's NLL under both, in plain NumPy."""
    archive = rspo.load(finished)
    pair = [archive[0], archive[2]]
    world = make(archive.config.env)
    with collector(world) as collect:
        score = authors_diversity_of(collect, pair, archive.config)
        key = jax.random.fold_in(jax.random.key(archive.config.seed), STREAM)
        entropy = np.zeros((2, 2))
        for i, strategy in enumerate(pair):
            played = jax.device_get(collect(strategy.policy, 32, jax.random.fold_in(key, i)))
            for j, other in enumerate(pair):
                logits = np.asarray(other.policy(played.obs).logits, np.float64)
                log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
                chosen = np.take_along_axis(log_probs, played.action[..., None], -1)[..., 0]
                entropy[i, j] = -chosen.sum((0, 2)).mean()
    similarity = (entropy[0, 1] + entropy[1, 0] - entropy[0, 0] - entropy[1, 1]) / 2
    kernel = np.exp(-similarity / 30**2)
    assert score.value == pytest.approx(1 - kernel**2, rel=1e-4)
    assert score.source == "32 sampled episodes of each of the distinct strategies"
