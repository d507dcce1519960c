"""MAVEN: its reward against plain NumPy, its bandit, and the doors of `Rooms`."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from doors import LEARNER, opened
from latents import LATENTS, pieces, restarting, with_latents
from rspo.core.members import alone
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.methods.base import Plan, Setup
from rspo.methods.discriminator import from_episodes
from rspo.methods.maven import MAVEN

SETUP = Setup(Spec(3, Discrete(4), horizon=6, agents=2), Plan(latents=LATENTS), 1, updates=12)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_every_step_is_paid_for_what_it_tells_of_its_latent(seed):
    rng = np.random.default_rng(seed)
    data, which = with_latents(rng, restarting(rng))
    method = MAVEN(beta=0.7)
    state = method.init(SETUP, jax.random.key(0))
    # Sure of itself, so that there is something to tell.
    state = dataclasses.replace(
        state,
        guessing=jax.tree.map(
            lambda leaf: leaf * 5 if leaf.dtype == jnp.float32 else leaf, state.guessing
        ),
    )
    score = method.score(state, data, None, 0.0)
    log_q = np.asarray(from_episodes(state.guessing.model, data))
    bonus = np.asarray(score.reward[..., 0]) - data.reward
    told = []
    for n, a, b in pieces(data):
        for agent in range(2):
            known = -np.log(LATENTS)  # before the first step
            for t in range(a, b):
                now = log_q[t, n, agent, which[n]]
                wanted = 0.7 * (now - known)
                np.testing.assert_allclose(bonus[t, n, agent], wanted, rtol=1e-3, atol=1e-4)
                known = now
            told.append(known)
    assert np.std(told) > 1e-3


@pytest.mark.slow
def test_the_bandit_prefers_latents_with_high_returns():
    method = MAVEN(window=64, explore=0.2, greed=2.0)
    rng = np.random.default_rng(0)
    data, which = with_latents(rng, plain.random_trajectory(rng, episodes=32))
    paid = np.zeros_like(data.reward)
    paid[0] = (which == 1)[:, None] * 10.0
    data = dataclasses.replace(data, reward=paid)
    state = alone(method.init(SETUP, jax.random.key(0)))
    uniform = method.context(jax.tree.map(lambda x: x[0], state), jax.random.key(0), 3000)
    np.testing.assert_allclose(uniform.mean(0), 1 / 3, atol=0.05)
    after = method.update(state, alone(jax.tree.map(jnp.asarray, data)), None, None)
    after = jax.tree.map(lambda x: x[0], after)
    np.testing.assert_array_equal(after.window.arm[-32:], which)
    np.testing.assert_allclose(after.window.payoff[-32:], data.returns.mean(1))
    drawn = np.asarray(method.context(after, jax.random.key(0), 3000))
    assert drawn.shape == (3000, LATENTS)
    assert drawn.mean(0)[1] > 0.8
    np.testing.assert_allclose(drawn.mean(0)[[0, 2]], 0.2 / 3, atol=0.05)


@pytest.mark.slow
def test_latents_open_different_doors():
    learner = dataclasses.replace(LEARNER, entropy_coefficient=0.1)
    found = opened(MAVEN(), range(4), learner=learner)
    assert max(len(set(doors)) for doors, _, _ in found) == 2
    for doors, _, table in found:
        assert table["return"][-1].min() > 1.8
        if len(set(doors)) == 2:
            np.testing.assert_allclose(table["information"][-1], np.log(2), atol=0.05)
