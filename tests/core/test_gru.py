"""The recurrent network against one in plain NumPy, step by step and unrolled; and policies as
named arrays."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from rspo.core.policies import init_policy
from rspo.core.policies.gru import init_gru
from rspo.core.policies.packing import from_arrays, to_arrays
from rspo.core.spaces import Box, Discrete
from rspo.core.types import Spec, View

SEEDS = st.integers(0, 2**32 - 1)
SIZES = (3, 6, 5, 4)  # two layers before the memory, so that widths differ
BATCH = (2, 3)


def in_jax(tree):
    return jax.tree.map(jnp.asarray, tree)


@eqx.filter_jit
def stepped(gru, carry, x):
    return gru.step(carry, x)


@eqx.filter_jit
def unrolled(gru, carry, x, starts):
    return gru.unroll(carry, x, starts)


@given(seed=SEEDS)
def test_a_step_is_the_gated_recurrent_unit_by_hand_in_numpy_and_jax(seed):
    rng = np.random.default_rng(seed)
    gru = plain.random_gru(rng, SIZES)
    h, x = (
        rng.standard_normal((*BATCH, 5)).astype(np.float32),
        rng.standard_normal((*BATCH, 3)).astype(np.float32),
    )
    ours, out = gru.step(h, x)
    theirs, their_out = stepped(in_jax(gru), jnp.asarray(h), jnp.asarray(x))
    assert isinstance(out, np.ndarray)
    assert ours.dtype == out.dtype == np.float32
    for index in np.ndindex(*BATCH):
        memory, output = plain.gru_step(gru, h[index].astype(np.float64), x[index])
        np.testing.assert_allclose(ours[index], memory, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(out[index], output, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out, their_out, rtol=1e-4, atol=1e-4)


@given(seed=SEEDS, share=st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=20)
def test_unrolling_is_stepping_and_forgets_where_an_episode_starts(seed, share):
    rng = np.random.default_rng(seed)
    gru, steps = plain.random_gru(rng, SIZES), 6
    x = rng.standard_normal((steps, *BATCH, 3)).astype(np.float32)
    starts = rng.random((steps, *BATCH)) < share
    h = rng.standard_normal((*BATCH, 5)).astype(np.float32)
    found, before = unrolled(in_jax(gru), *in_jax((h, x, starts)))
    for t in range(steps):
        h = np.where(starts[t][..., None], gru.initial(*BATCH), h)
        np.testing.assert_allclose(before[t], h, rtol=1e-3, atol=1e-4)
        h, out = gru.step(h, x[t])
        np.testing.assert_allclose(found[t], out, rtol=1e-3, atol=1e-3)


def test_what_it_remembers_changes_what_it_does():
    gru = plain.random_gru(np.random.default_rng(0), SIZES)
    x = np.ones((1, 3), np.float32)
    h, first = gru.step(gru.initial(1), x)
    _, second = gru.step(h, x)
    assert abs(first - second).max() > 0.01
    assert not gru.initial(2, 3).any()
    assert gru.initial(2, 3).shape == (2, 3, 5)


def test_extreme_inputs_stay_finite():
    gru = plain.random_gru(np.random.default_rng(0), SIZES, scale=1e3)
    with np.errstate(all="raise", under="ignore"):
        h, out = gru.step(gru.initial(1), np.full((1, 3), 1e6, np.float32))
    assert np.isfinite(h).all()
    assert np.isfinite(out).all()


def test_weights_start_orthogonal_gate_by_gate_and_biases_zero():
    gru = init_gru((6, 8, 8, 5), 0.01, jax.random.key(0))
    gates = [
        block
        for weight in (gru.inputs, gru.memory)
        for block in np.split(np.asarray(weight), 3, axis=1)
    ]
    for block in gates:
        np.testing.assert_allclose(block @ block.T, np.eye(8), atol=1e-5)
    assert all(not np.allclose(one, other) for i, one in enumerate(gates) for other in gates[:i])
    assert not gru.bias.any()
    assert abs(np.asarray(gru.head.weights[0])).max() < 0.02
    assert [weight.shape for weight in gru.body.weights] == [(6, 8), (8, 8)]


# --- policies as named arrays ---

SPACES = {"discrete": Discrete(4), "continuous": Box((-1.0, 0.0), (1.0, 3.0))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "space", "normalize", "latent"),
    [  # every pair of two
        ("none", "discrete", False, 0),
        ("none", "continuous", True, 2),
        ("gru", "discrete", True, 2),
        ("gru", "continuous", True, 0),
        ("gru", "continuous", False, 2),
    ],
)
def test_a_policy_survives_packing_and_acts_the_same(memory, space, normalize, latent):
    space = SPACES[space]
    spec, rng = Spec(3, space, horizon=5, state_size=7), np.random.default_rng(0)
    policy = init_policy(spec, 2, 6, 2, normalize, jax.random.key(0), memory, latent)
    context = jnp.arange(1.0, 1.0 + latent) if latent else None
    # Other numbers in every leaf, so that none can be mistaken for another or for a fresh one.
    policy = jax.tree.map(
        lambda leaf: leaf + rng.uniform(0.1, 1.0, leaf.shape).astype(np.float32), policy
    )
    policy = dataclasses.replace(policy, context=context)
    arrays = to_arrays(policy)
    assert all(type(leaf) is np.ndarray for leaf in arrays.values())
    back = from_arrays(arrays, space)
    kept = dataclasses.replace(policy, critic=None, state_normalizer=None)
    assert jax.tree.structure(back) == jax.tree.structure(kept)
    jax.tree.map(np.testing.assert_array_equal, back, jax.device_get(kept))
    obs = rng.standard_normal((4, 2, 3)).astype(np.float32)
    ours, theirs = back.initial(4, 2), policy.initial(4, 2)
    for seen in obs, 2 * obs:
        ours, acted = back.step(ours, View(seen))
        theirs, wanted = policy.step(theirs, View(jnp.asarray(seen)))
        np.testing.assert_allclose(acted.mode(), wanted.mode(), rtol=1e-4, atol=1e-4)
        action = np.asarray(wanted.mode())
        np.testing.assert_allclose(
            acted.log_prob(action), wanted.log_prob(action), rtol=1e-4, atol=1e-4
        )
