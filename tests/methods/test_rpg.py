"""RPG: its streams against plain NumPy, the weights of each round, and a treasure behind a toll."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
import rspo
from rspo.config import Config, Judge, from_dict, to_dict
from rspo.core.learning import PPO
from rspo.core.settings import check_settings
from rspo.core.types import Trajectory
from rspo.errors import InputError
from rspo.methods.base import Method, Plan, Setup
from rspo.methods.rpg import RPG
from rspo.presets import preset
from worlds import Rooms, Toll

SEEDS = st.integers(0, 2**32 - 1)
METHOD = RPG(name="rpg", candidates=(1.0, 2.0, -3.0, 0.5, 0.0, 4.0), finetune=0.25)
SETUP = Setup(Toll().spec, Plan(rounds=4), 3)
score = jax.jit(METHOD.score)


def kept(count: int):
    policy = plain.random_policy(np.random.default_rng(0), 3, 4)
    return plain.references([policy] * 3, [0.0] * 3, 3, kept=count)


def random_trajectory(seed: int) -> Trajectory:
    rng = np.random.default_rng(seed)
    played = plain.random_trajectory(rng)
    features = rng.standard_normal((*played.reward.shape, 3)).astype(np.float32)
    features *= played.live[..., None, None]
    return dataclasses.replace(played, features=features)


@given(seed=SEEDS, rounds=st.integers(0, 3), progress=st.floats(0, 0.99))
@settings(max_examples=20)
def test_a_round_learns_its_own_weights_and_the_true_reward_at_its_end(seed, rounds, progress):
    data, table = random_trajectory(seed), METHOD.init(SETUP, jax.random.key(seed))
    found = score(table, data, kept(rounds), progress)
    weights = np.asarray(table)[rounds]
    if rounds < 2:
        np.testing.assert_array_equal(weights, METHOD.candidates[3 * rounds : 3 * rounds + 3])
    wanted, total = np.zeros(data.reward.shape), np.zeros(data.returns.shape)
    for t, n, a in np.ndindex(data.reward.shape):
        wanted[t, n, a] = sum(w * f for w, f in zip(weights, data.features[t, n, a], strict=True))
        total[n, a] += wanted[t, n, a] if data.first[t, n] else 0
    np.testing.assert_allclose(found.reward[..., 0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found.reward[..., 1], data.reward)
    late = np.float32(progress) >= 0.75
    assert (np.asarray(found.weight) == ([0, 1] if late else [1, 0])).all()
    np.testing.assert_allclose(found.metrics["random_return"], total.mean(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose([found.metrics[f"weight_{i}"] for i in range(3)], weights)


def test_after_the_candidates_weights_are_drawn():
    tables = [np.asarray(METHOD.init(SETUP, jax.random.key(seed))) for seed in range(200)]
    drawn = np.stack(tables)[:, 2:]
    assert (np.abs(drawn) <= 5).all()
    assert len(np.unique(drawn)) == drawn.size
    np.testing.assert_allclose(drawn.mean(), 0, atol=0.2)
    np.testing.assert_allclose(drawn.std(), 10 / np.sqrt(12), rtol=0.05)


def test_the_published_candidates_are_those_of_the_games():
    hunt, light = (preset(name, "rpg").method for name in ("monster-hunt", "escalation"))
    table = np.reshape(hunt.candidates, (-1, 3))
    assert table[:, 0].tolist() == [5, 4, 0, 5, 5, -5, -5, 5]  # cooperation
    assert table[:, 1].tolist() == [1, 2, 5, 0, 0, 5, 0, -5]  # penalty
    assert table[:, 2].tolist() == [-5, -2, 0, 5, 0, -5, 5, 5]  # apple
    table = np.reshape(light.candidates, (-1, 2))
    assert table[:, 0].tolist() == [1, 1, 0, 1, 1, 1]
    assert table[:, 1].tolist() == [0, -2, 1, -0.5, 1, 5]
    assert preset("four-goals-easy", "rpg").method.candidates == ()


def test_what_makes_no_sense_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="rpg cannot be used in Rooms: its reward is not"):
        rspo.discover(Rooms(depth=1), method="rpg", quiet=True)
    odd = dataclasses.replace(METHOD, candidates=(1.0, 2.0))
    with pytest.raises(InputError, match=r"has 2 numbers, but .* features, which is 3"):
        rspo.discover(Toll(), method=odd, ppo={"batch": 384}, quiet=True)
    with pytest.raises(InputError, match=r"method.candidates is nan, but it must be a finite"):
        check_settings(dataclasses.replace(METHOD, candidates=(np.nan,)), "method.")


def test_candidates_come_back_from_a_file():
    config = Config("toll", method=METHOD)
    assert from_dict(to_dict(config), "a file") == config
    listed = to_dict(config) | {"method": {"name": "rpg", "candidates": [1, 2, -3, 0.5, 0, 4]}}
    assert from_dict(listed, "a file") == config


LEARNER = PPO(
    batch=384, updates=40, learning_rate=1e-2, hidden=16, layers=1, entropy_coefficient=0.01
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "names", "returns"),
    [
        (RPG("rpg", (4.0, 0.0, 0.0, 0.0, -1.0, 1.0)), ["treasure", "hare"], [2.0, 1.0]),
        (Method(), ["hare", "hare"], [1.0, 1.0]),
    ],
    ids=["rpg", "pg"],
)
def test_other_weights_lead_to_a_strategy_that_the_true_ones_hide(method, names, returns):
    """And fine-tuning keeps it, for it is an optimum of the true reward."""
    config = Config("toll", 2, method=method, ppo=LEARNER, judge=Judge(episodes=64))
    archive = rspo.discover(Toll(), config=config, quiet=True)
    assert [strategy.descriptor for strategy in archive] == names
    found = [strategy.evaluation.greedy_return_mean for strategy in archive]
    np.testing.assert_allclose(found, returns, rtol=1e-5)


@pytest.mark.slow
def test_it_trains_where_all_agents_share_one_reward():
    """In a skirmish every ally gets the features of the whole team."""
    ppo = {"batch": 120, "updates": 1, "epochs": 1, "minibatches": 1, "hidden": 8, "memory": "none"}
    archive = rspo.discover(
        "3m", method="rpg", iterations=1, ppo=ppo, judge={"episodes": 2}, quiet=True
    )
    assert np.isfinite(archive[0].evaluation.greedy_return_mean)
