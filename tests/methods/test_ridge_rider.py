"""Ridge Rider: eigenvectors and returns against NumPy, all optima of the tree from exact returns, and
fewer from sampled ones."""

import dataclasses
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rspo
from rspo.config import Config, validate
from rspo.core.learning import PPO
from rspo.core.members import member
from rspo.core.types import View
from rspo.envs.tree import Tree
from rspo.errors import InputError
from rspo.methods.base import Plan, Setup
from rspo.methods.lanczos import lanczos
from rspo.methods.ridge_rider import RidgeRider, exact_return, sampled_return
from rspo.presets import preset
from rspo.registry import METHODS
from rspo.rollout.collector import collector
from worlds import collect

UPDATES, MEMBERS = 120, 4
SEEDS = st.integers(0, 2**32 - 1)
OPTIMA = {"LL LL", "LL RR", "RR LL", "RR RR"}


class Sampled(Tree):
    """The same game, whose returns are known from episodes alone."""

    def tables(self):
        return None


# --- the tree ---


def test_the_tables_are_those_of_the_game():
    env, tables = Tree(), Tree().tables()
    step = jax.jit(env.step)
    np.testing.assert_allclose(tables.transition.sum(-1), 1)
    for path in itertools.product((0, 1), repeat=4):
        state, obs = env.reset(jnp.zeros(0))
        where, earned = tables.start, 0.0
        for choice in path:
            np.testing.assert_array_equal(where @ tables.obs, obs[0])
            earned += where @ tables.reward[:, choice]
            where = where @ tables.transition[:, choice]
            state, given_back = step(state, jnp.asarray([choice]), jnp.zeros(0))
            obs = given_back.obs
        assert given_back.terminated
        assert where[int(state)] == 1
        wanted = (path[0] == path[1]) + 0.5 * (path[2] == path[3])
        assert earned == float(given_back.reward[0]) == wanted


# --- eigenvectors and returns ---


@given(seed=SEEDS)
@settings(max_examples=10)
def test_lanczos_finds_the_eigenvectors(seed):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    values = np.array([5.0, 3.0, 1.0, -0.5, -2.0, -4.0])
    matrix = jnp.asarray(basis @ np.diag(values) @ basis.T, jnp.float32)
    start = jnp.asarray(basis.sum(1) + 0.1 * rng.normal(size=6), jnp.float32)
    found = _spectrum(matrix, start)
    np.testing.assert_allclose(found.values, values, atol=1e-3)
    np.testing.assert_allclose(np.abs(np.asarray(found.vectors) @ basis), np.eye(6), atol=1e-2)
    np.testing.assert_allclose(
        found.overlap, found.vectors @ start / np.linalg.norm(start), atol=1e-4
    )


_spectrum = jax.jit(lambda matrix, start: lanczos(lambda v: matrix @ v, start, 6))


def test_lanczos_ends_where_the_start_reaches_nothing_more():
    found = _spectrum(jnp.diag(jnp.arange(6.0)), jnp.eye(6)[4])
    np.testing.assert_allclose(found.values[0], 4.0)
    np.testing.assert_allclose(np.abs(found.vectors[0]), np.eye(6)[4], atol=1e-6)
    np.testing.assert_allclose(found.values[1:], 0.0, atol=1e-6)


def policy_of(logits):
    """A table of the tree: logits [4, 2] by depth."""
    learner = RidgeRider().learner(Setup(Tree().spec, Plan(members=1), 1), PPO())
    blank = member(learner.init(jax.random.split(jax.random.key(0), 1)).policy, 0)
    net = dataclasses.replace(blank.actor.net, weights=(jnp.asarray(logits, jnp.float32),))
    return dataclasses.replace(blank, actor=dataclasses.replace(blank.actor, net=net))


def plain_return(logits):
    """By all sixteen paths."""
    odds = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return sum(
        np.prod([odds[t, choice] for t, choice in enumerate(path)])
        * ((path[0] == path[1]) + 0.5 * (path[2] == path[3]))
        for path in itertools.product((0, 1), repeat=4)
    )


exact = jax.jit(partial(exact_return, Tree().tables(), 4))


@given(seed=SEEDS)
@settings(max_examples=10)
def test_exact_returns_are_those_of_all_paths(seed):
    logits = np.random.default_rng(seed).normal(size=(4, 2))
    np.testing.assert_allclose(exact(policy_of(logits)), plain_return(logits), rtol=1e-4)


@pytest.mark.slow
def test_sampled_returns_have_the_gradient_and_the_hessian_of_exact_ones():
    """With each path as often as a policy takes it that goes left three times of four, the mean over
    episodes is the expectation."""
    policy = policy_of(np.log([[3.0, 1.0]] * 4))
    paths = [p for p in itertools.product((0, 1), repeat=4) for _ in range(3 ** (4 - sum(p)))]
    action = np.array(paths, np.int32).T[..., None]
    pays = (action[0] == action[1]) + 0.5 * (action[2] == action[3])
    reward = np.zeros(action.shape, np.float32)
    reward[-1] = pays
    played = collect(Tree(), policy, len(paths), jax.random.key(0))  # all see the same depths
    played = dataclasses.replace(played, action=jnp.asarray(action), reward=jnp.asarray(reward))

    def at(theta):
        net = dataclasses.replace(policy.actor.net, weights=(theta.reshape(4, 2),))
        return dataclasses.replace(policy, actor=dataclasses.replace(policy.actor, net=net))

    theta = policy.actor.net.weights[0].ravel()
    for derivative in (jax.grad, jax.hessian):
        estimate = jax.jit(derivative(lambda theta: sampled_return(played, at(theta))))(theta)
        truth = jax.jit(derivative(lambda theta: exact(at(theta))))(theta)
        np.testing.assert_allclose(estimate, truth, atol=1e-5)
        assert np.abs(truth).max() > 0.05


# --- riding ---


def ridden(env, batch, seed=0):
    """The names of the optima that the members reach, and the metrics of all updates."""
    method, learner_settings = RidgeRider("ridge-rider"), PPO(batch=batch)
    setup = Setup(env.spec, method.plan(MEMBERS), MEMBERS)
    learner, collect = method.learner(setup, learner_settings), collector(env)
    keys = jax.random.split(jax.random.key(seed), MEMBERS)

    @jax.jit
    def run(state):
        step = lambda state, _: learner.learn(state, None, learner.play(collect, state, keys), keys)
        return jax.lax.scan(step, state, None, UPDATES)

    state, rows = run(learner.init(keys))
    chosen = np.asarray([member(state.policy, i)(View(jnp.eye(4))).mode() for i in range(MEMBERS)])
    names = ["".join("LR"[choice] for choice in path) for path in chosen]
    return [f"{name[:2]} {name[2:]}" for name in names], jax.device_get(rows)


@pytest.mark.slow
def test_from_exact_returns_each_member_finds_another_optimum():
    names, rows = ridden(Tree(), batch=4)
    assert set(names) == OPTIMA
    assert rows["return"][-1].min() > 1.4
    np.testing.assert_allclose(rows["return"][0], 0.75, rtol=1e-5)
    np.testing.assert_allclose(rows["gradient"][0], 0, atol=1e-6)  # a saddle
    # x = tanh of the logits' difference: the Hessian of x1 x2 + 0.5 x3 x4, halved, by hand
    np.testing.assert_allclose(rows["curvature"][0], 0.25, rtol=1e-4)
    assert (rows["saddles"][-1] == 2).all()


@pytest.mark.slow
def test_from_sampled_returns_it_loses_its_way():
    """Noise hides where the second saddle is and which way a ridge goes: members that were to part
    go on together."""
    found = [len(set(ridden(Sampled(), batch=256, seed=seed)[0]) & OPTIMA) for seed in range(3)]
    assert sum(found) < 3 * len(OPTIMA)


@pytest.mark.slow
def test_a_run_loads_and_plays_like_any_other(tmp_path):
    config = preset("tree", "ridge-rider")
    config = dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, updates=UPDATES))
    archive = rspo.discover("tree", config=config, out=tmp_path / "run", quiet=True)
    assert {strategy.descriptor for strategy in archive} == OPTIMA
    again = rspo.load(tmp_path / "run")
    assert again[0].act(np.eye(4, dtype=np.float32), greedy=True).shape == (4,)
    assert [s.evaluation for s in again] == [s.evaluation for s in archive]


def test_steps_are_those_of_other_methods_and_memories_are_refused():
    own, other = (
        Config("x", 3, method=METHODS.make(name), ppo=PPO(batch=64))
        for name in ("ridge-rider", "pg")
    )
    assert own.steps == other.steps
    remembering = dataclasses.replace(own, ppo=PPO(batch=64, memory="gru"))
    with pytest.raises(InputError, match=r"ppo\.memory is 'gru'"):
        validate(remembering, Tree().spec)
