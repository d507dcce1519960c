"""The networks, the normaliser, and that a policy computes the same in NumPy as in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plain
from rspo.core.policies import Normalizer, init_mlp, init_normalizer, init_policy, uniform_policy
from rspo.core.spaces import Discrete
from rspo.core.types import Spec

SPEC = Spec(obs_size=6, action_space=Discrete(5), horizon=3)


@given(seed=st.integers(0, 2**32 - 1), normalizer=st.booleans())
def test_policy_and_values_are_the_networks_of_the_normalised_observation(seed, normalizer):
    rng = np.random.default_rng(seed)
    policy = plain.random_policy(rng, channels=3, normalizer=normalizer)
    obs = (10 * rng.standard_normal((2, 4, 3))).astype(np.float32)
    probs, value = policy(jnp.asarray(obs)).log_probs, policy.values(jnp.asarray(obs))
    for index in np.ndindex(2, 4):
        np.testing.assert_allclose(
            probs[index], plain.log_probs(policy, obs[index]), rtol=1e-4, atol=1e-4
        )
        np.testing.assert_allclose(
            value[index], plain.values(policy, obs[index]), rtol=1e-4, atol=1e-4
        )
    own = jax.device_get(policy)
    np.testing.assert_allclose(own(obs).log_probs, probs, rtol=1e-4, atol=1e-4)
    assert isinstance(own(obs).logits, np.ndarray)


@pytest.mark.parametrize("sizes", [(6, 64, 64, 5), (64, 8, 3)])
def test_weights_start_orthogonal_with_their_gain(sizes):
    mlp = init_mlp(sizes, 0.01, jax.random.key(0))
    gains = [2**0.5] * (len(sizes) - 2) + [0.01]
    for weight, bias, gain in zip(mlp.weights, mlp.biases, gains, strict=True):
        short = weight if weight.shape[0] < weight.shape[1] else weight.T
        np.testing.assert_allclose(short @ short.T, gain**2 * np.eye(len(short)), atol=1e-5)
        assert not bias.any()


def test_layers_of_one_policy_are_drawn_apart():
    mlp = init_mlp((8, 8, 8, 8), 2**0.5, jax.random.key(0))
    assert not np.allclose(mlp.weights[0], mlp.weights[1])
    policy = init_policy(SPEC, 1, 8, 2, False, jax.random.key(0))
    assert not np.allclose(policy.actor.net.weights[0], policy.critic.weights[0])


@pytest.mark.parametrize("layers", [1, 3])
def test_a_fresh_policy_has_the_asked_shape_and_is_nearly_uniform(layers):
    policy = init_policy(
        SPEC, channels=4, hidden=16, layers=layers, normalize=True, key=jax.random.key(1)
    )
    obs = jax.random.normal(jax.random.key(2), (7, 6))
    assert [w.shape for w in policy.actor.net.weights] == [
        (6, 16),
        *[(16, 16)] * (layers - 1),
        (16, 5),
    ]
    assert policy.values(obs).shape == (7, 4)
    assert np.abs(np.exp(policy(obs).log_probs) - 0.2).max() < 0.02
    assert init_policy(SPEC, 4, 16, layers, False, jax.random.key(1)).normalizer is None


def test_the_uniform_policy_is_uniform():
    found = uniform_policy(5)(jnp.zeros((2, 3, 6)))
    assert found.logits.shape == (2, 3, 5)
    np.testing.assert_allclose(found.log_probs, np.log(0.2), rtol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), shift=st.floats(-3, 3), batches=st.integers(1, 4))
def test_normalizer_gathers_mean_and_variance_over_batches(seed, shift, batches):
    rng = np.random.default_rng(seed)
    normalizer, seen = init_normalizer(2), []
    for _ in range(batches):
        x = (shift + rng.standard_normal((5, 3, 2))).astype(np.float32)
        weight = rng.random((5, 3)) < 0.7
        normalizer = normalizer.update(jnp.asarray(x), jnp.asarray(weight))
        seen.append(x[weight])
    data = np.concatenate(seen).astype(np.float64)
    # The start, mean 0 and variance 1, weighs as much as 1e-4 observations.
    total = len(data) + 1e-4
    mean = data.sum(0) / total
    variance = ((data**2).sum(0) + 1e-4) / total - mean**2
    np.testing.assert_allclose(normalizer.count, total, rtol=1e-6)
    np.testing.assert_allclose(normalizer.mean, mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(normalizer.variance, variance, rtol=1e-3, atol=1e-4)


def test_after_a_real_batch_the_start_of_the_normalizer_is_forgotten():
    x = np.random.default_rng(0).normal(5.0, 2.0, (1000, 3)).astype(np.float32)
    normalizer = init_normalizer(3).update(jnp.asarray(x), jnp.ones(1000))
    np.testing.assert_allclose(normalizer.mean, x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.variance, x.var(0), rtol=1e-4)
    z = np.asarray(normalizer(jnp.asarray(x)))
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(z.std(0), 1, atol=1e-3)


def test_an_empty_batch_changes_nothing():
    before = init_normalizer(2).update(jnp.asarray([[1.0, 2.0], [3.0, 5.0]]), jnp.ones(2))
    after = before.update(jnp.full((4, 2), 99.0), jnp.zeros(4))
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_normalised_observations_are_clipped_at_ten():
    normalizer = Normalizer(jnp.zeros(2), jnp.ones(2), jnp.asarray(1.0))
    np.testing.assert_allclose(normalizer(jnp.asarray([1e6, -1e6])), [10, -10])
