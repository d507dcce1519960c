"""Chunks of sequences and back, and that replaying episodes is stepping through each of them
alone."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from rspo.core.sequences import chunked, joined, replayed, time_first
from rspo.core.spaces import Box
from rspo.core.types import Samples, View

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@given(steps=st.integers(1, 9), length=st.integers(1, 11), rest=st.sampled_from([(), (2,)]))
@settings(max_examples=30)
def test_chunks_hold_consecutive_steps_and_joining_undoes_them(steps, length, rest):
    leaf = 1 + np.arange(steps * 6 * (2 if rest else 1), dtype=np.float32).reshape(
        steps, 3, 2, *rest
    )
    found = np.asarray(chunked({"leaf": leaf}, length)["leaf"])
    chunks = -(-steps // length)
    assert found.shape == (chunks, 3, 2, length, *rest)
    for chunk, place in np.ndindex(chunks, length):
        t = chunk * length + place
        wanted = leaf[t] if t < steps else np.zeros_like(leaf[0])
        np.testing.assert_array_equal(found[:, :, :, place][chunk], wanted)
    np.testing.assert_array_equal(joined(jnp.asarray(found), steps), leaf)


def test_time_comes_first():
    tree = time_first((np.zeros((4, 7)), np.zeros((4, 7, 3))))
    assert [leaf.shape for leaf in tree] == [(7, 4), (7, 4, 3)]


def random_samples(rng, sequences, steps):
    starts = rng.random((sequences, steps)) < 0.3
    starts[:, 0] = True
    return Samples(
        View(rng.standard_normal((sequences, steps, 3)).astype(np.float32)),
        rng.integers(0, 4, (sequences, steps)).astype(np.int32),
        np.zeros((sequences, steps), np.float32),
        np.ones((sequences, steps), bool),
        starts,
    )


@eqx.filter_jit
def replay(policy, samples):
    return replayed(policy, samples)


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@given(seed=SEEDS)
@settings(max_examples=10)
def test_replaying_is_stepping_through_each_episode_alone_with_a_memory_of_its_own(
    continuous, seed
):
    rng = np.random.default_rng(seed)
    policy, samples = (
        plain.random_policy(rng, memory=True),
        random_samples(rng, sequences=3, steps=6),
    )
    if continuous:
        actor = dataclasses.replace(
            policy.actor, log_std=np.zeros(4, np.float32), space=Box((-1.0,) * 4, (1.0,) * 4)
        )
        policy = dataclasses.replace(policy, actor=actor)
    played = replay(*jax.tree.map(jnp.asarray, (policy, samples)))
    found = played.mean if continuous else played.log_probs
    assert found.shape == (3, 6, 4)
    seen = 0
    for b, row in enumerate(samples.starts):
        bounds = [*np.flatnonzero(row), len(row)]
        for begin, end in itertools.pairwise(bounds):
            memory = np.zeros(5)
            for t in range(begin, end):
                obs = plain.normalized(policy, samples.view.obs[b, t])
                memory, numbers = plain.gru_step(policy.actor.net, memory, obs)
                wanted = numbers if continuous else plain.log_softmax(numbers)
                np.testing.assert_allclose(found[b, t], wanted, rtol=1e-3, atol=1e-3)
                seen += 1
    assert seen == samples.starts.size


def test_without_memory_every_step_stands_alone():
    rng = np.random.default_rng(0)
    policy, samples = plain.random_policy(rng), random_samples(rng, 3, 6)
    found = replay(*jax.tree.map(jnp.asarray, (policy, samples))).log_probs
    for index in np.ndindex(3, 6):
        np.testing.assert_allclose(
            found[index], plain.log_probs(policy, samples.view.obs[index]), rtol=1e-4, atol=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_learning_from_chunks_with_the_memory_before_each_is_learning_from_whole_episodes(share):
    """Actor and critic in chunks of 4 of 6 steps, starting from the memories that `look_back`
    returns."""
    rng = np.random.default_rng(1)
    policy = jax.tree.map(jnp.asarray, plain.random_policy(rng, channels=2, memory=True))
    shape, length = (6, 3, 2), 4
    view, last = (
        View(rng.standard_normal((*shape, 3)).astype(np.float32)),
        View(np.ones((3, 2, 3), np.float32)),
    )
    starts = rng.random(shape) < share
    starts[0] = True
    view, last, starts = jax.tree.map(jnp.asarray, (view, last, starts))
    values, _, carry = policy.look_back(view, starts, last)
    whole = policy.replay(view, starts).log_probs
    cut_view, cut_starts = chunked((view, starts), length)
    flat = lambda leaf: leaf.reshape(-1, *leaf.shape[3:])
    before = jax.tree.map(lambda leaf: flat(leaf[::length]), carry)
    played, value = policy.learn(before, *time_first(jax.tree.map(flat, (cut_view, cut_starts))))
    back = lambda leaf: joined(jnp.moveaxis(leaf, 0, 1).reshape(2, 3, 2, length, -1), 6)
    np.testing.assert_allclose(back(played.log_probs), whole, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(back(value), values, rtol=1e-3, atol=1e-4)


def test_the_value_of_what_came_last_remembers_the_episode():
    rng = np.random.default_rng(2)
    policy = plain.random_policy(rng, channels=2, memory=True)
    obs = rng.standard_normal((5, 1, 1, 3)).astype(np.float32)
    starts = np.zeros((5, 1, 1), bool)
    starts[[0, 2]] = True  # the last episode began at step 2
    view, last = View(obs[:4]), View(obs[4])
    in_jax = jax.tree.map(jnp.asarray, (policy, view, starts[:4], last))
    _, found, _ = in_jax[0].look_back(*in_jax[1:])
    memory = np.zeros(5)
    for t in (2, 3, 4):
        memory, value = plain.gru_step(
            policy.critic, memory, plain.normalized(policy, obs[t, 0, 0])
        )
    np.testing.assert_allclose(found[0, 0], value, rtol=1e-3, atol=1e-3)
