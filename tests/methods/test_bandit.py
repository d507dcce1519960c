"""Bandits: what they remember, and how they choose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rspo.methods.bandit import Window, boltzmann, init_window, thompson

recorded = jax.jit(Window.record)
PULLS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0])), max_size=12)


@given(pulls=PULLS, size=st.sampled_from([1, 4, 8]))
def test_a_window_counts_the_last_pulls_alone(pulls, size):
    window = init_window(size)
    for arm, payoff in pulls:
        window = recorded(window, jnp.asarray([arm]), jnp.asarray([payoff]))
    counts, totals = window.totals(3)
    last = pulls[-size:]
    np.testing.assert_array_equal(counts, [sum(a == arm for a, _ in last) for arm in range(3)])
    np.testing.assert_allclose(
        totals, [sum(p for a, p in last if a == arm) for arm in range(3)], atol=1e-6
    )


def test_many_pulls_at_once_are_as_many_after_each_other():
    arms, payoffs = jnp.asarray([0, 2, 1, 2]), jnp.asarray([0.1, 0.2, 0.3, 0.4])
    at_once, one_by_one = init_window(3).record(arms, payoffs), init_window(3)
    for i in range(4):
        one_by_one = one_by_one.record(arms[i : i + 1], payoffs[i : i + 1])
    np.testing.assert_array_equal(at_once.arm, one_by_one.arm)
    np.testing.assert_array_equal(at_once.payoff, one_by_one.payoff)
    np.testing.assert_array_equal(at_once.arm, [2, 1, 2])


def drawn(window, first, arms=2, count=4000):
    keys = jax.random.split(jax.random.key(0), count)
    return np.asarray(jax.vmap(lambda key: thompson(window, arms, first, key))(keys))


@pytest.mark.slow
def test_thompson_draws_from_the_beta_distributions():
    """Arm 0: 8 successes of 10; arm 1: 2.5 of 5. The probability that a draw of the one is greater
    is computed by NumPy's own sampler; the bound is five deviations."""
    arm = jnp.asarray([-1] * 5 + [0] * 10 + [1] * 5)
    payoff = jnp.asarray([0.0] * 5 + [1.0] * 8 + [0.0] * 2 + [1.0, 1.0, 0.5, 0.0, 0.0])
    rng = np.random.default_rng(0)
    wanted = (rng.beta(9, 3, 10**6) > rng.beta(3.5, 3.5, 10**6)).mean()
    found = (drawn(Window(arm, payoff), first=0) == 0).mean()
    np.testing.assert_allclose(found, wanted, atol=5 * np.sqrt(0.25 / 4000))


def test_thompson_draws_any_arm_before_enough_pulls_are_known():
    arm = jnp.asarray([-1] * 5 + [0] * 15)
    window = Window(arm, jnp.ones(20))
    share = (drawn(window, first=16) == 0).mean()
    np.testing.assert_allclose(share, 0.5, atol=5 * np.sqrt(0.25 / 4000))
    assert (drawn(window, first=15) == 0).mean() > 0.8


def test_boltzmann_prefers_what_pays():
    arm = jnp.asarray([-1, 0, 0, 1, 2, 2])
    payoff = jnp.asarray([99.0, 1.0, 3.0, 4.0, -1.0, 1.0])  # what is not used is not seen
    window = Window(arm, payoff.at[0].set(0.0))
    known = np.array([1.0, 3.0, 4.0, -1.0, 1.0])
    better = (np.array([2.0, 4.0, 0.0]) - known.mean()) / known.std()
    softmax = np.exp(2 * better) / np.exp(2 * better).sum()
    found = boltzmann(window, 3, greed=2.0, explore=0.1)
    np.testing.assert_allclose(found, 0.9 * softmax + 0.1 / 3, rtol=1e-5)
    np.testing.assert_allclose(boltzmann(window, 3, greed=0.0, explore=0.1), 1 / 3, rtol=1e-5)


def test_boltzmann_knows_nothing_at_first_nor_where_all_pay_the_same():
    np.testing.assert_allclose(boltzmann(init_window(4), 3, 1.0, 0.1), 1 / 3, rtol=1e-6)
    same = init_window(2).record(jnp.asarray([0, 1]), jnp.asarray([5.0, 5.0]))
    np.testing.assert_allclose(boltzmann(same, 3, 1.0, 0.1), 1 / 3, rtol=1e-6)
