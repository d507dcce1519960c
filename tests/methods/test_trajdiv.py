"""TrajDiv: its divergence against plain NumPy and against exact enumeration, its gradient against
finite differences, and the doors of `Rooms`."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from doors import opened
from rspo.core.types import Samples, View
from rspo.methods.trajdiv import TrajDiv, divergence

SEEDS = st.integers(0, 2**32 - 1)
found_divergence = jax.jit(divergence, static_argnames="gamma")


def plain_divergence(log_probs, own, counted, starts, gamma):
    """By the definition, products and all: [E, T]."""
    members, episodes, steps = log_probs.shape
    table, which = np.zeros((episodes, steps)), np.cumsum(starts, axis=1)
    for e, t in np.ndindex(episodes, steps):
        products = [
            np.prod(
                [
                    np.exp(log_probs[i, e, u]) ** (gamma ** abs(t - u))
                    for u in range(steps)
                    if counted[e, u] and which[e, u] == which[e, t]
                ]
            )
            for i in range(members)
        ]
        if counted[e, t]:
            table[e, t] = np.log(products[own] / np.mean(products))
    return table


def samples_of(counted, starts, action=None, obs=None):
    zeros = jnp.zeros(counted.shape)
    action = zeros.astype(jnp.int32) if action is None else action
    view = View(zeros[..., None] if obs is None else obs)
    return Samples(view, action, zeros, jnp.asarray(counted), jnp.asarray(starts))


@given(seed=SEEDS, gamma=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
@settings(max_examples=20)
def test_the_kernel_is_the_one_of_the_formula(seed, gamma):
    rng = np.random.default_rng(seed)
    shape = (3, 6)
    log_probs = -rng.exponential(size=(4, *shape)).astype(np.float32)
    counted, starts = rng.random(shape) < 0.8, rng.random(shape) < 0.3
    starts[:, 0] = True
    wanted = plain_divergence(log_probs, 2, counted, starts, gamma)
    found = found_divergence(log_probs, 2, samples_of(counted, starts), gamma=gamma)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_it_stays_finite_where_products_would_not():
    log_probs = jnp.asarray([[[-500.0] * 64], [[-2000.0] * 64]])
    ones = np.ones((1, 64), bool)
    starts = np.eye(1, 64, dtype=bool)
    for own, wanted in ((0, np.log(2)), (1, -1500 * 64 + np.log(2))):
        found = found_divergence(log_probs, own, samples_of(ones, starts), gamma=1.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_of_whole_trajectories_it_is_the_jensen_shannon_divergence():
    """Two members, three actions a step regardless of states: all nine trajectories of two steps
    are enumerated."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(3), (2, 2))  # [members, steps, actions]
    paths = list(itertools.product(range(3), repeat=2))
    p = np.array([[chances[i, 0, a] * chances[i, 1, b] for a, b in paths] for i in range(2)])
    middle = p.mean(0)
    exact = np.mean([(p[i] * np.log(p[i] / middle)).sum() for i in range(2)])
    log_probs = np.log(
        [[[chances[i, 0, a], chances[i, 1, b]] for a, b in paths] for i in range(2)]
    ).astype(np.float32)
    ones, starts = np.ones((9, 2), bool), np.array([[True, False]] * 9)
    each = [
        found_divergence(log_probs, i, samples_of(ones, starts), gamma=1.0).mean(-1)
        for i in range(2)
    ]
    found = np.mean([(p[i] * each[i]).sum() for i in range(2)])
    np.testing.assert_allclose(found, exact, rtol=1e-4)
    assert 0 < found < np.log(2)


@partial(jax.jit, static_argnums=0)
def slope(method, policies, samples, key):
    loss = lambda policies: method.loss((), policies, samples, None, key)
    return jax.grad(loss)(policies)


def members(seed, memory=False):
    rng = np.random.default_rng(seed)
    policies = [plain.random_policy(rng, obs=1, actions=3, memory=memory) for _ in range(2)]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)) / 2, *policies)


def chances_of(policies):
    """In the one state that there is: [members, actions]."""
    given = jax.device_get(policies)
    pick = lambda i: jax.tree.map(lambda leaf: leaf[i], given)
    return np.array([np.exp(plain.log_probs(pick(i), np.ones(1))) for i in range(2)])


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_the_expected_gradient_is_that_of_the_divergence(gamma):
    """Exactly: all trajectories of two steps in one state, as often as members play them, and
    finite differences of the sum over them; over the two steps, as PPO's own gradient is."""
    policies, paths = members(1), np.array(list(itertools.product(range(3), repeat=2)))

    def exact(policies):
        chances, total = chances_of(policies), 0.0
        log_probs = np.log(chances)[:, paths]  # [members, 9, 2]
        ones, starts = np.ones((9, 2), bool), np.array([[True, False]] * 9)
        for i in range(2):
            each = plain_divergence(log_probs, i, ones, starts, gamma).mean(-1)
            total += (np.exp(log_probs[i].sum(-1)) * each).sum() / 2
        return total / 2  # steps

    draws, rng = 40_000, np.random.default_rng(0)
    p = chances_of(policies)
    action = np.stack([rng.choice(3, (draws, 2), p=p[i] / p[i].sum()) for i in range(2)])
    shape = action.shape
    samples = Samples(
        View(jnp.ones((*shape, 1))),
        jnp.asarray(action, jnp.int32),
        jnp.zeros(shape),
        jnp.ones(shape, bool),
        jnp.asarray(np.broadcast_to([True, False], shape)),
    )
    method = TrajDiv(beta=1.0, gamma=gamma, samples=2 * draws)
    found = slope(method, policies, samples, jax.random.key(0)).actor.net.biases[-1]
    for i, action in itertools.product(range(2), range(3)):
        moved = []
        for step in (1e-2, -1e-2):
            biases = policies.actor.net.biases
            shifted = biases[-1].at[i, action].add(step)
            moved.append(exact(_with_last_bias(policies, shifted)))
        wanted = (moved[0] - moved[1]) / 2e-2
        np.testing.assert_allclose(-found[i, action], wanted, atol=4e-3)


def _with_last_bias(policies, bias):
    return eqx.tree_at(lambda policy: policy.actor.net.biases[-1], policies, bias)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [False, True])
def test_a_large_batch_is_looked_at_in_part_by_the_key(memory):
    rng = np.random.default_rng(0)
    shape = (2, 12, 8)
    samples = Samples(
        View(jnp.asarray(rng.standard_normal((*shape, 1)), jnp.float32)),
        jnp.asarray(rng.integers(0, 3, shape), jnp.int32),
        jnp.zeros(shape),
        jnp.ones(shape, bool),
        jnp.asarray(np.broadcast_to(np.arange(8) == 0, shape)),
    )
    policies = members(0, memory)
    for count in (16, 5):  # two episodes, or less than one
        method = TrajDiv(samples=count)
        found = [
            jax.tree.leaves(slope(method, policies, samples, jax.random.key(i)).actor)[0]
            for i in (0, 0, 1)
        ]
        assert np.isfinite(found[0]).all()
        np.testing.assert_array_equal(found[0], found[1])
        assert (found[0] != found[2]).any()


@pytest.mark.slow
def test_two_members_open_both_doors():
    found = opened(TrajDiv(beta=1.0), range(4))
    assert sum(len(set(doors)) for doors, _, _ in found) >= 7
    for _, _, table in found:
        assert table["return"][-1].min() > 1.8
