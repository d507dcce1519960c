"""The reward predictor: its error by hand, what it is fitted on, and that it learns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from rspo.core.members import alone, member
from rspo.core.policies import init_policy, uniform_policy
from rspo.core.spaces import Discrete
from rspo.methods.base import Plan, Setup
from rspo.methods.reward_model import Predictor, RewardModel, fit, init_predictor
from rspo.methods.rspo import RSPO
from worlds import Rooms, Tabular, collect

error = jax.jit(lambda model, trajectory: model.error(trajectory.samples))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), padding=st.booleans())
def test_error_is_the_squared_difference_on_the_steps_that_count(seed, padding):
    rng = np.random.default_rng(seed)
    trajectory = plain.random_trajectory(rng, padding=padding)
    model = RewardModel(plain.random_mlp(rng, (3 + 4, 5, 1)), Discrete(4))
    np.testing.assert_allclose(
        error(model, trajectory), plain.reward_error(model, trajectory), rtol=1e-3, atol=1e-4
    )


ENV = Rooms()
SETUP = Setup(ENV.spec, Plan(), capacity=8)
RATE = 1e-2
_fit = jax.jit(fit, static_argnums=(2, 3))


def fitted(model, episodes, steps):
    return _fit(Predictor(model, optax.adam(RATE).init(model)), episodes, steps, RATE).model


def play(policy, seed=0, padding="count"):
    return collect(ENV, policy, 64, jax.random.key(seed), padding=padding)


def fresh():
    return init_predictor(ENV.spec, 16, RATE, jax.random.key(0)).model


@pytest.mark.slow
def test_fitting_learns_the_reward_of_every_state_and_action():
    trajectory = play(uniform_policy(3))
    model = fitted(fresh(), [trajectory], 300)
    assert float(fresh().error(trajectory.samples).mean()) > 0.1
    assert float(model.error(trajectory.samples).mean()) < 1e-3
    assert float(model.error(play(uniform_policy(3), seed=1).samples).mean()) < 1e-2


@pytest.mark.slow
def test_a_predictor_fitted_on_one_door_is_wrong_behind_another():
    """That error is what drives the next policy elsewhere."""
    always = lambda door: Tabular(jnp.zeros((ENV.states, 3)).at[:, door].set(20.0))
    model = fitted(fresh(), [play(always(0))], 300)
    assert float(model.error(play(always(0)).samples).mean()) < 1e-3
    assert float(model.error(play(always(1)).samples).mean()) > 1e-2


def test_steps_that_do_not_count_are_not_learned():
    rng = np.random.default_rng(0)
    trajectory = plain.random_trajectory(rng, padding=False)
    elsewhere = np.where(trajectory.live[..., None], trajectory.reward, np.float32(1e3))
    tampered = dataclasses.replace(trajectory, reward=elsewhere)
    model = RewardModel(plain.random_mlp(rng, (3 + 4, 5, 1)), Discrete(4))
    one, other = (fitted(model, [played], 20) for played in (trajectory, tampered))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_every_batch_of_episodes_weighs_by_its_steps():
    rng = np.random.default_rng(1)
    whole = plain.random_trajectory(rng, episodes=6)
    halves = [
        jax.tree.map(lambda x, s=s: x[s] if x.ndim == 3 and x.shape[0] == 6 else x[:, s], whole)
        for s in HALVES
    ]
    model = RewardModel(plain.random_mlp(rng, (3 + 4, 5, 1)), Discrete(4))
    one, other = fitted(model, [whole], 20), fitted(model, halves, 20)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), one, other)


HALVES = (slice(0, 2), slice(2, 6))


def remembered(method):
    """Who was played for the predictor, and the predictor."""
    policy, players = init_policy(ENV.spec, 1, 8, 1, False, jax.random.key(0)), []

    def recording(player, key):
        players.append((player, key))
        return play(player)

    state = method.init(SETUP, jax.random.key(1))
    return policy, players, method.remember(state, policy, recording, jax.random.key(2))


@pytest.mark.slow
def test_the_predictor_is_fitted_on_its_own_policys_play_or_half_of_it_random():
    policy, players, model = remembered(RSPO(lambda_r=1.0, predictor_steps=2))
    assert [player for player, _ in players] == [policy]
    assert isinstance(model, RewardModel)
    policy, players, _ = remembered(RSPO(lambda_r=1.0, predictor_steps=2, predictor_data="mixed"))
    assert players[0][0] is policy
    np.testing.assert_allclose(
        players[1][0](jnp.zeros((1, ENV.states))).log_probs, -np.log(3), rtol=1e-6
    )
    assert players[0][1] != players[1][1]


def test_steps_of_fitting_add_up():
    """Its optimiser's state goes along: ten steps one by one are ten steps at once."""
    episodes = [play(uniform_policy(3))]
    start = init_predictor(ENV.spec, 16, RATE, jax.random.key(0))
    at_once, one_by_one = _fit(start, episodes, 10, RATE), start
    for _ in range(10):
        one_by_one = _fit(one_by_one, episodes, 1, RATE)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), at_once, one_by_one
    )


@pytest.mark.parametrize("training", ["after", "during"])
def test_the_predictor_learns_after_the_iteration_or_with_every_update(training):
    method = RSPO(lambda_r=1.0, predictor_hidden=8, predictor_steps=3, predictor_training=training)
    state, trajectory = method.init(SETUP, jax.random.key(1)), play(uniform_policy(3))
    updated = member(method.update(alone(state), alone(trajectory), None, jax.random.key(0)), 0)
    assert moved(updated, state) == (training == "during")
    model = method.remember(
        updated, uniform_policy(3), lambda policy, key: play(policy), jax.random.key(0)
    )
    assert moved(model, updated.model) == (training == "after")
    assert jax.tree.structure(model) == jax.tree.structure(
        method.memory(ENV.spec, jax.random.key(0))
    )


def moved(one, other):
    return any((a != b).any() for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True))


def test_without_the_reward_driven_term_nothing_is_remembered():
    _, players, model = remembered(RSPO(lambda_r=0.0))
    assert players == []
    assert model == ()
    method = RSPO(lambda_r=0.0)
    assert method.memory(ENV.spec, jax.random.key(0)) == method.init(SETUP, jax.random.key(0)) == ()
    assert method.update((), alone(play(uniform_policy(3))), None, jax.random.key(0)) == ()
