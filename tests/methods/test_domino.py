"""DOMiNO: its reward, its running means and its multipliers against plain NumPy, and the doors of
`Rooms`."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from doors import opened
from rspo.core.members import member
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.methods.base import Plan, Setup
from rspo.methods.domino import DOMiNO

MEMBERS = 3
SETUP = Setup(Spec(3, Discrete(4), horizon=5, agents=2), Plan(members=MEMBERS), MEMBERS, updates=9)


def states_of(method):
    one = method.init(SETUP, jax.random.key(0))
    states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * MEMBERS), one)
    return dataclasses.replace(states, own=jnp.arange(MEMBERS))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_members_are_paid_for_moving_away_from_the_nearest_other(seed):
    rng = np.random.default_rng(seed)
    data, method = plain.random_trajectory(rng), DOMiNO()
    features = rng.standard_normal((MEMBERS, 3)).astype(np.float32)
    multiplier = rng.normal(0, 2, MEMBERS).astype(np.float32)
    states = dataclasses.replace(
        states_of(method),
        features=jnp.asarray([features] * MEMBERS),
        multiplier=jnp.asarray(multiplier),
    )
    for own in range(MEMBERS):
        others = [i for i in range(MEMBERS) if i != own]
        nearest = min(others, key=lambda i: np.linalg.norm(features[own] - features[i]))
        task = 1 / (1 + np.exp(-multiplier[own])) if own else 1.0  # the first is the task's alone
        score = method.score(member(states, own), data, None, 0.0)
        obs = np.clip(data.view.obs / np.sqrt(1 + 1e-8), -10, 10)
        wanted = obs @ (features[own] - features[nearest])
        np.testing.assert_allclose(score.reward[..., 1], wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(score.reward[..., 0], data.reward)
        np.testing.assert_allclose(score.weight[0, 0, 0], [task, 1 - task], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(
            score.metrics["nearest"], np.linalg.norm(features[own] - features[nearest]), rtol=1e-5
        )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_multipliers_ask_for_more_of_the_task_where_too_little_is_earned(sign):
    """Returns of 1, 0.95 and 0.5 times the first member's; the same margins below a negative
    one."""
    rng = np.random.default_rng(0)
    base = plain.random_trajectory(rng)
    earned = 10 * np.array([sign, sign - 0.05, sign - 0.5])
    reward = np.zeros((MEMBERS, *base.reward.shape), np.float32)
    reward[:, 0] = earned[:, None, None]
    data = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * MEMBERS), base)
    data = dataclasses.replace(data, reward=jnp.asarray(reward))
    method = DOMiNO(learning_rate=0.1)
    update = jax.jit(lambda states: method.update(states, data, None, jax.random.key(0)))
    states = update(states_of(method))
    np.testing.assert_allclose(states.values, [earned] * MEMBERS, rtol=1e-5)
    counted = base.counted[..., None]
    mean = (base.view.obs * counted).sum((0, 1, 2)) / counted.sum()
    deviation = np.sqrt((((base.view.obs - mean) ** 2) * counted).sum((0, 1, 2)) / counted.sum())
    np.testing.assert_allclose(states.normalizer.mean[0], mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(states.normalizer.deviation[0], deviation, rtol=1e-3)
    # Adam's first step is the learning rate, whatever the slope's size.
    np.testing.assert_allclose(states.multiplier, [-0.1, -0.1, 0.1], atol=1e-3)
    np.testing.assert_array_equal(states.own, range(MEMBERS))
    for _ in range(200):
        states = update(states)
    assert (jnp.abs(states.multiplier) <= 15).all()


def test_alone_it_learns_the_task():
    method, setup = DOMiNO(), SETUP._replace(plan=Plan(members=1), capacity=1)
    data = plain.random_trajectory(np.random.default_rng(0))
    score = method.score(method.init(setup, jax.random.key(0)), data, None, 0.0)
    np.testing.assert_array_equal(score.weight[..., 0], 1)
    np.testing.assert_array_equal(score.weight[..., 1], 0)
    assert np.isfinite(score.metrics["nearest"])


@pytest.mark.slow
def test_a_second_member_opens_the_other_door():
    """Not on every seed: a member that is pushed further along its own way stays at its door."""
    found = opened(DOMiNO(), range(4))
    assert max(len(set(doors)) for doors, _, _ in found) == 2
    for doors, _, table in found:
        assert table["return"][-1].min() > 1.8
        if len(set(doors)) == 2:
            assert table["nearest"][-1].min() > 1
