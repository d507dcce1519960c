"""DGPO: its reward and its switches against plain NumPy, and the doors of `Rooms`."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from doors import LEARNER, opened
from latents import LATENTS, with_latents
from rspo.core.members import alone
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.methods.base import Plan, Setup
from rspo.methods.dgpo import DGPO, margin
from rspo.methods.discriminator import from_states

SETUP = Setup(Spec(3, Discrete(4), horizon=5, agents=2), Plan(latents=LATENTS), 1, updates=12)


def case(method, returns, seed=0):
    """A discriminator that is sure of itself, and latents with these mean returns."""
    rng = np.random.default_rng(seed)
    data, which = with_latents(rng, plain.random_trajectory(rng))
    state = method.init(SETUP, jax.random.key(0))
    net = jax.tree.map(jnp.asarray, plain.random_mlp(rng, (3, 64, 64, LATENTS), 0.4))
    model = dataclasses.replace(state.guessing.model, net=net)
    return (
        data,
        which,
        dataclasses.replace(
            state,
            guessing=dataclasses.replace(state.guessing, model=model),
            returns=jnp.asarray(returns),
            seen=jnp.ones(LATENTS),
        ),
    )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_the_reward_is_the_margin_to_the_most_similar_latent(seed):
    data, which, state = case(DGPO(), [0.0, 0.0, 0.0], seed)
    log_q = np.asarray(from_states(state.guessing.model, data))
    found = margin(log_q, data)
    for t, n, a in np.ndindex(data.reward.shape):
        q, z = np.exp(log_q[t, n, a].astype(np.float64)), which[n]
        wanted = min(np.log(q[z] / (q[z] + q[o])) for o in range(LATENTS) if o != z)
        np.testing.assert_allclose(found[t, n, a], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("target", "returns", "enough"),
    [
        (None, [1.0, 0.95, 0.5], [True, True, False]),
        (None, [-1.0, -1.05, -1.5], [True, True, False]),  # right of negative returns too
        (2.0, [1.9, 1.7, 3.0], [True, False, True]),
    ],
)
def test_states_are_for_diversity_or_for_the_task(target, returns, enough):
    method = DGPO(target=target, a=0.5, b=0.2, distinct=0.6)
    data, which, state = case(method, returns)
    score = method.score(state, data, None, 0.0)
    q = np.exp(from_states(state.guessing.model, data))
    tasks = 0
    for t, n, a in np.ndindex(data.reward.shape):
        z = which[n]
        distinct = q[t, n, a, z] > 0.6
        wanted = [float(distinct), 0.5 * (not distinct) + 0.2 * enough[z]]
        np.testing.assert_allclose(score.weight[t, n, a], wanted, atol=1e-5)
        tasks += distinct
    assert 0 < tasks < data.reward.size
    assert (score.weight > 0).all()  # value heads learn everywhere
    np.testing.assert_array_equal(score.reward[..., 0], data.reward)
    np.testing.assert_allclose(score.metrics["distinct"], tasks / data.reward.size, rtol=1e-5)


@pytest.mark.slow
def test_mean_returns_are_kept_of_every_latent_that_was_played():
    method = DGPO()
    data, which, state = case(method, [0.0, 0.0, 0.0])
    state = alone(dataclasses.replace(state, seen=jnp.zeros(LATENTS)))
    after = method.update(state, alone(jax.tree.map(jnp.asarray, data)), None, None)
    for z in range(LATENTS):
        played = which == z
        wanted = data.returns[played].mean() if played.any() else 0.0
        np.testing.assert_allclose(after.returns[0, z], wanted, rtol=1e-4, atol=1e-6)
        assert after.seen[0, z] == played.any()


@pytest.mark.slow
def test_latents_open_both_doors():
    learner = dataclasses.replace(LEARNER, entropy_coefficient=0.1)
    found = opened(DGPO(), range(4), learner=learner)
    assert sum(len(set(doors)) for doors, _, _ in found) >= 7
    for doors, _, table in found:
        if len(set(doors)) == 2:
            assert table["return"][-1].min() > 1.8
