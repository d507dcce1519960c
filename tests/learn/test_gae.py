"""GAE against its definition, a double loop."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import plain
from rspo.learn.gae import gae

SHARE = st.floats(0, 1)
gae = jax.jit(gae)  # compiled once for all the examples


@given(seed=st.integers(0, 2**32 - 1), gamma=SHARE, lam=SHARE)
def test_gae_is_the_sum_of_discounted_deltas(seed, gamma, lam):
    rng = np.random.default_rng(seed)
    reward, value = rng.standard_normal((2, 6, 4)).astype(np.float32)
    last_value = rng.standard_normal(4).astype(np.float32)
    terminated = (rng.random((6, 4)) < 0.3).astype(np.float32)
    found = gae(reward, value, last_value, terminated, gamma, lam)
    for n in range(4):
        wanted = plain.gae(reward[:, n], value[:, n], last_value[n], terminated[:, n], gamma, lam)
        np.testing.assert_allclose(found[:, n], wanted, rtol=1e-4, atol=1e-4)


def one(reward, value, last_value, terminated, gamma=0.5, lam=1.0):
    column = lambda x: np.asarray(x, np.float32)[:, None]
    found = gae(
        column(reward),
        column(value),
        np.array([last_value], np.float32),
        column(terminated),
        gamma,
        lam,
    )
    return np.asarray(found)[:, 0]


def test_truncation_bootstraps_and_termination_does_not():
    assert one([1, 1], [0, 0], 8.0, [0, 0]).tolist() == [1 + 0.5 + 0.25 * 8, 1 + 0.5 * 8]
    assert one([1, 1], [0, 0], 8.0, [0, 1]).tolist() == [1.5, 1.0]


def test_nothing_leaks_back_over_a_termination():
    """On the frozen steps after the end every row is terminated; their rewards and values stay
    theirs."""
    assert one([1, 7, 7], [0, 3, 5], 9.0, [1, 1, 1]).tolist() == [1.0, 4.0, 2.0]


def test_lambda_zero_is_the_temporal_difference():
    assert one([1, 2], [3, 4], 5.0, [0, 0], lam=0.0).tolist() == [1 + 0.5 * 4 - 3, 2 + 0.5 * 5 - 4]


def test_an_episode_cut_short_bootstraps_from_its_end_and_nothing_leaks_back_over_it():
    column = lambda *x: np.asarray(x, np.float32)[:, None]
    reward, value, last, ends = (
        column(1, 1, 7),
        column(0, 2, 6),
        np.zeros(1, np.float32),
        column(0, 0, 1),
    )
    found = gae(reward, value, last, ends, 0.5, 1.0, column(0, 1, 0))
    second = 1 + 0.5 * 6 - 2
    np.testing.assert_allclose(found[:, 0], [1 + 0.5 * 2 + 0.5 * second, second, 7 - 6])
