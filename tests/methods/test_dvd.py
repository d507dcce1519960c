"""DvD: its determinant against plain NumPy, its bandit by hand, and that a population spreads over
the doors of `Rooms`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from doors import opened
from rspo.core.members import member
from rspo.core.policies import Actor, Policy
from rspo.core.spaces import Box, Discrete, MultiDiscrete
from rspo.core.types import Samples, Spec, View
from rspo.methods.base import Plan, Setup
from rspo.methods.dvd import DvD, embedding, log_volume, standardized

SEEDS = st.integers(0, 2**32 - 1)


def plain_log_volume(embeddings):
    """The formula, by the definition of the determinant's logarithm."""
    flat = np.reshape(np.asarray(embeddings, np.float64), (len(embeddings), -1))
    kernel = np.array([[np.exp(-np.mean((a - b) ** 2)) for b in flat] for a in flat])
    return np.log(np.linalg.det(0.99 * kernel + 0.01 * np.eye(len(flat))))


volume = jax.jit(log_volume)
slope_alone = jax.jit(jax.grad(log_volume))
slope_of_volume = jax.jit(jax.grad(lambda phi: log_volume(standardized(phi))))


@given(seed=SEEDS, members=st.sampled_from([1, 2, 5]))
@settings(max_examples=20)
def test_the_volume_is_the_kernels_determinant(seed, members):
    phi = np.random.default_rng(seed).standard_normal((members, 4, 3)).astype(np.float32)
    np.testing.assert_allclose(volume(phi), plain_log_volume(phi), rtol=1e-3, atol=1e-4)


@given(seed=SEEDS)
@settings(max_examples=20)
def test_a_step_along_the_gradient_makes_the_volume_larger(seed):
    phi = np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32)
    slope = np.asarray(slope_alone(phi))
    assert plain_log_volume(phi + 1e-2 * slope) > plain_log_volume(phi)


def test_members_that_are_all_the_same_have_a_bounded_volume_and_no_slope():
    same = jnp.ones((7, 20, 4))
    value, slope = volume(standardized(same)), slope_of_volume(same)
    assert -6 * np.log(100) - 1 < value < -5 * np.log(100)
    assert not slope.any()
    nearly = same + 1e-4 * jax.random.normal(jax.random.key(0), same.shape)
    assert np.isfinite(slope_of_volume(nearly)).all()


def test_two_members_are_pushed_apart():
    """If mean and deviation were differentiated, both would always be one deviation from the
    mean."""
    phi = jnp.asarray([[0.3, -0.2], [0.5, 0.4]])
    slope = slope_of_volume(phi)
    assert ((phi[1] - phi[0]) * (slope[1] - slope[0]) > 0).all()


def test_embeddings_are_standardised_over_the_population_and_clipped():
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((9, 5, 2))
    phi[0, 0, 0] = 50.0
    wanted = (phi - phi.mean(0)) / np.sqrt(phi.var(0) + 0.01)
    found = standardized(jnp.asarray(phi, jnp.float32))
    np.testing.assert_allclose(found, np.clip(wanted, -2, 2), rtol=1e-3, atol=1e-4)
    assert found[0, 0, 0] == 2


def acting(space, seed=0):
    rng = np.random.default_rng(seed)
    net = plain.random_mlp(rng, (3, 5, space.n))
    log_std = np.zeros(space.n, np.float32) if isinstance(space, Box) else None
    return Policy(Actor(net, log_std, space), None, None)


def samples_of(obs, space, mask=None):
    ones = jnp.ones(obs.shape[:-1])
    action = jnp.zeros((*obs.shape[:-1], *space.shape))
    return Samples(View(jnp.asarray(obs), mask), action, ones, ones > 0, ones > 0)


def test_what_stands_for_a_policy_in_a_state():
    obs = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    choice = acting(Discrete(4))
    found = embedding(choice, samples_of(obs, Discrete(4)))
    np.testing.assert_allclose(found, [plain.log_probs(choice, o) for o in obs], rtol=1e-4)
    box = Box((-1.0, -1.0), (1.0, 1.0))
    numbers = acting(box)
    found = embedding(numbers, samples_of(obs, box))
    wanted = [plain.forward(numbers.actor.net, o) for o in obs]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    mask = jnp.asarray([[True, True, False, True]] * 4)
    found = embedding(choice, samples_of(obs, Discrete(4), mask))
    assert not found[:, 2].any()
    np.testing.assert_allclose(np.exp(found[:, [0, 1, 3]]).sum(-1), 1, rtol=1e-5)
    several = MultiDiscrete((2, 3))
    assert embedding(acting(several), samples_of(obs, several)).shape == (4, 6)


@partial(jax.jit, static_argnums=0)
def loss(method, states, policies, samples, key):
    return method.loss(states, policies, samples, None, key)


def population(memory=False):
    rng = np.random.default_rng(0)
    policies = [plain.random_policy(rng, normalizer=False, memory=memory) for _ in range(3)]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *policies)


def chosen(arm, members=3):
    state = DvD().init(Setup(Spec(3, Discrete(4), 5), Plan(members=members), members), None)
    return jax.tree.map(
        lambda leaf: jnp.stack([leaf] * members),
        type(state)(state.window, jnp.asarray(arm), state.before, state.returns),
    )


@pytest.mark.parametrize("memory", [False, True])
def test_the_loss_compares_members_in_the_same_states_that_count(memory):
    """All states that count look the same, so that whichever are drawn the loss is known."""
    policies = population(memory)
    obs = np.ones(3, np.float32)
    shape = (3, 6, 4) if memory else (3, 24)
    counted = np.zeros(shape, bool)
    counted[:, ::2] = True
    noise = np.random.default_rng(1).standard_normal((*shape, 3)).astype(np.float32)
    seen = np.where(counted[..., None], obs, 9 * noise)
    samples = Samples(
        View(jnp.asarray(seen)),
        jnp.zeros(shape, jnp.int32),
        jnp.zeros(shape),
        jnp.asarray(counted),
        jnp.ones(shape, bool),  # of sequences: each step an episode of its own, without a past
    )
    given = [member(jax.device_get(policies), i) for i in range(3)]
    if memory:
        step = lambda policy: plain.gru_step(policy.actor.net, np.zeros(5), obs)[1]
        phi = np.array([plain.log_softmax(step(policy)) for policy in given])
    else:
        phi = np.array([plain.log_probs(policy, obs) for policy in given])
    phi = np.clip((phi - phi.mean(0)) / np.sqrt(phi.var(0) + 0.01), -2, 2)
    found = loss(DvD(), chosen(1), policies, samples, jax.random.key(2))
    np.testing.assert_allclose(found, -0.5 * plain_log_volume(phi), rtol=1e-3)
    assert loss(DvD(), chosen(0), policies, samples, jax.random.key(2)) == 0


def test_states_are_drawn_anew_by_the_key():
    shape = (3, 64)
    obs = jax.random.normal(jax.random.key(0), (*shape, 3))
    ones = jnp.ones(shape)
    samples = Samples(View(obs), ones.astype(jnp.int32), ones, ones > 0, ones > 0)
    values = [loss(DvD(), chosen(1), population(), samples, jax.random.key(i)) for i in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


def test_the_tasks_weight_is_what_diversity_leaves():
    data = plain.random_trajectory(np.random.default_rng(0))
    for arm, left in ((0, 1.0), (1, 0.7)):
        method = DvD(weight=0.3)
        score = method.score(member(chosen(arm), 0), data, None, 0.0)
        np.testing.assert_allclose(score.weight, left, rtol=1e-6)
        np.testing.assert_allclose(score.metrics["diversity_weight"], 1 - left, rtol=1e-6)


def test_a_weight_is_judged_by_the_next_mean_return():
    """By hand: an arm succeeds if what is played after its update beats the best of the five
    before."""
    method = DvD(random=10**6)
    state, returns = member(chosen(1, members=1), 0), [1.0, 2.0, 2.0, 1.5, 0.0, 0.0, 0.0, 1.9]
    arms = []
    for i, earned in enumerate(returns):
        arms.append(int(state.arm))
        state = method._judged(state, jnp.asarray(earned), jax.random.key(i))
    # When 1.9 comes, 2.0 is among the five before it for the last time.
    successes = [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_array_equal(state.window.payoff[-7:], successes)
    np.testing.assert_array_equal(state.window.arm[-7:], arms[:-1])
    assert (state.window.arm[:-7] == -1).all()
    state = method._judged(state, jnp.asarray(1.8), jax.random.key(9))
    assert state.window.payoff[-1] == 0  # 1.9 is the best of the last five
    np.testing.assert_allclose(state.returns, [0.0, 0.0, 0.0, 1.9, 1.8])


def test_all_members_share_the_bandit():
    data = plain.random_trajectory(np.random.default_rng(0))
    both = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), jax.tree.map(jnp.asarray, data))
    after = DvD().update(chosen(1, members=2), both, None, jax.random.key(0))
    for leaf in jax.tree.leaves(after):
        np.testing.assert_array_equal(leaf[0], leaf[1])
    np.testing.assert_allclose(after.returns[0, -1], data.returns.mean(), rtol=1e-5)


@pytest.mark.slow
def test_two_members_open_both_doors():
    """Random play prefers door 0, and members that learn alone mostly go there."""
    seeds = range(4)
    both = [len(set(doors)) for doors, _, _ in opened(DvD(), seeds)]
    alone = [len(set(doors)) for doors, _, _ in opened(DvD(weight=0.0), seeds)]
    assert sum(both) > sum(alone)
    assert both == [2] * 4
