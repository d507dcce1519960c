"""Collecting from a host environment: the same record as from a JAX environment."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from host_worlds import Rows, Wrapped, share_noise
from rspo.core.distributions import Gaussian, Noise
from rspo.core.policies import init_policy, uniform_policy
from rspo.core.policies.packing import from_arrays, to_arrays
from rspo.core.spaces import Box, Discrete
from rspo.core.types import Spec, View
from rspo.errors import EnvironmentFailure, InputError
from rspo.registry import make
from rspo.rollout import host as rollout_host
from rspo.rollout.play import draw
from worlds import Clock, Tabular, collect

EPISODES, KEY = 11, jax.random.key(5)
POLICY = Tabular(jnp.asarray([[0.2, 0.1, -0.4], [0.3, -0.1, 0.0], [1.5, 0.0, 0.0]]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("padding", "greedy", "record"),
    [  # every pair of two
        ("count", True, True),
        ("count", False, False),
        ("drop", True, False),
        ("drop", False, True),
        ("restart", True, True),
        ("restart", False, False),
    ],
)
def test_both_collectors_give_the_same_trajectory(padding, greedy, record, monkeypatch):
    share_noise(monkeypatch, EPISODES, KEY)
    settings = {"padding": padding, "greedy": greedy, "record": record}
    jitted = jax.jit(partial(collect, Clock(), episodes=EPISODES, **settings))
    ours = jitted(POLICY, key=KEY)
    theirs = collect(Wrapped(Clock(), EPISODES, KEY), POLICY, EPISODES, KEY, **settings)
    assert not theirs.truncated.any()
    theirs = dataclasses.replace(theirs, truncated=None, seeds=None)
    assert theirs.log_prob is None
    ours = eqx.tree_at(lambda t: t.log_prob, ours, None)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    assert theirs.live.all() == (padding == "restart")
    assert theirs.terminated.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "padding"),
    [
        ("hopper", "restart"),
        ("gym:CartPole-v1", "count"),
        ("pettingzoo:mpe2.simple_spread_v3", "restart"),
    ],
)
def test_an_episode_is_the_same_whether_it_is_recorded_or_not(name, padding):
    """Five of them, so that one core has fewer than another; falls, choices, several agents."""
    env = make(name)
    policy = init_policy(env.spec, 1, 8, 2, True, jax.random.key(0))
    one, other = (
        collect(env, policy, 5, KEY, padding=padding, record=record) for record in (True, False)
    )
    one = dataclasses.replace(one, state=None, start=None, seeds=None)
    for mine, its in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(
    ("kind", "mean", "deviation"), [("normal", 0, 1), ("uniform", 0.5, 12**-0.5)]
)
def test_the_noise_of_an_episode_depends_on_its_seed_alone(kind, mean, deviation):
    """On none of those beside it, nor on what its environment draws; within five deviations."""
    noise, steps, seeds = Noise(kind, (2, 3)), 500, np.array([7, 8, 2**31 - 1])
    rows = draw(noise, steps, seeds, 4)
    assert (rows.shape, rows.dtype) == ((steps, 4, 2, 3), np.float32)
    assert not rows[:, 3].any()
    for lane in range(3):
        np.testing.assert_array_equal(draw(noise, steps, seeds[lane:], 3)[:, 0], rows[:, lane])
    assert abs(rows[:, :3].mean() - mean) < 5 * deviation / np.sqrt(9000)
    assert abs(rows[:, :3].std() - deviation) < 5 * deviation / np.sqrt(9000)
    resets = np.random.default_rng(7)
    own = (resets.standard_normal if kind == "normal" else resets.random)((steps, 2, 3), np.float32)
    unrelated = [rows[:, 0], rows[:, 1], rows[:, 2], own]
    correlation = np.corrcoef([numbers.ravel() for numbers in unrelated])
    assert (np.abs(correlation - np.eye(4)) < 5 / np.sqrt(3000)).all()


def far(obs):
    """A policy whose actions are mostly out of bounds."""
    return Gaussian(jnp.zeros((*obs.shape[:-1], 2)), jnp.log(jnp.asarray([5.0, 5.0])))


def test_an_episode_that_ends_stands_still():
    played = collect(Rows(), far, 5, KEY)
    np.testing.assert_array_equal(played.obs[:, 0, 0, 0], [0, 1, 2, 3, 3, 3, 3, 3])
    np.testing.assert_array_equal(played.reward[:, 0, 0], [1, 2, 3, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(played.terminated[:, 0], [0, 0, 1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(played.first, played.live)
    assert played.counted.all()


def test_or_the_next_one_begins_at_once():
    played = collect(Rows(), far, 5, KEY, padding="restart")
    np.testing.assert_array_equal(played.obs[:, 0, 0, 0], [0, 1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(played.reward[:, 0, 0], [1, 2, 3, 1, 2, 3, 1, 2])
    np.testing.assert_array_equal(played.terminated[:, 0], [0, 0, 1, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(played.first[:, 0], [1, 1, 1, 0, 0, 0, 0, 0])
    assert played.live.all()
    assert played.counted.all()
    seeds = played.obs[:, :, 0, 1]
    assert (seeds[0] != seeds[3]).all()  # another episode, not the same again
    np.testing.assert_array_equal(played.last.obs[:, 0, 0], 2)


@pytest.mark.parametrize("padding", ["restart", "count"])
def test_what_the_environment_cuts_short_is_not_terminated_there(padding):
    played = collect(Rows(cut=True), far, 5, KEY, padding=padding)
    np.testing.assert_array_equal(played.obs[:, 0, 0, 0], [0, 1, 2, 3, 3, 3, 3, 3])
    np.testing.assert_array_equal(played.truncated[:, 0], [0, 0, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(played.terminated[:, 0], [0, 0, 0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(played.first, played.live)
    assert played.counted.all() == (padding == "count")


def test_what_the_environment_gets_is_clipped_but_what_is_kept_is_not():
    played = collect(Rows(), far, 5, KEY)  # the environment checks its side
    assert np.abs(played.action[..., 0]).max() > 2


@pytest.mark.parametrize("lanes", [1, 2, 64])
def test_the_number_of_lanes_changes_nothing(lanes, monkeypatch):
    env = Rows()
    policy = init_policy(env.spec, 1, 8, 2, True, jax.random.key(0))
    whole = collect(env, policy, 7, KEY, padding="restart")
    monkeypatch.setattr(rollout_host, "LANES", lanes)
    again = collect(env, policy, 7, KEY, padding="restart")
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_same_key_gives_the_same_bits_and_another_key_another_batch():
    env = Rows()
    policy = init_policy(env.spec, 1, 8, 2, True, jax.random.key(0))
    one, same, other = (collect(env, policy, 7, key) for key in (KEY, KEY, jax.random.key(6)))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(same), strict=True):
        assert a.tobytes() == b.tobytes()
    assert (one.action != other.action).all()


@pytest.mark.parametrize("space", [Discrete(4), Box((-1.0,) * 3, (1.0,) * 3)])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_policy_in_plain_numpy_is_the_same_policy(space, normalize, memory):
    """Observations far out too, which are clipped."""
    policy = init_policy(Spec(5, space, 8), 2, 16, 2, normalize, jax.random.key(0), memory)
    policy = jax.tree.map(lambda leaf: leaf + 0.3, policy)
    obs = np.random.default_rng(0).normal(0, 20, (50, 2, 5)).astype(np.float32)
    arrays = from_arrays(to_arrays(policy), space)
    _, wanted = policy.step(policy.initial(50, 2), View(jnp.asarray(obs)))
    numbers = np.random.default_rng(1)
    noise = {"uniform": numbers.random, "normal": numbers.standard_normal}[wanted.noise.kind]
    noise = noise((3, *wanted.noise.shape), np.float32)
    _, plain = arrays.step(arrays.initial(50, 2), View(obs))
    assert plain.noise == wanted.noise
    for greedy in (True, False):
        ours, theirs = (one.mode() if greedy else one.sample(noise[1]) for one in (plain, wanted))
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_uniform_play_fills_the_box():
    played = collect(
        Rows(horizon=50, ends=99), uniform_policy(Box((-1.0,) * 2, (1.0,) * 2)), 40, KEY
    )
    assert np.abs(played.action).max() <= 1
    np.testing.assert_allclose(played.action.mean((0, 1)), 0, atol=0.06)
    np.testing.assert_allclose(played.action.std((0, 1)), 3**-0.5, atol=0.03)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    with pytest.raises(InputError, match="a reward that is not finite"):
        collect(Rows(bad=bad), far, 3, KEY)


class Broken(Rows):
    def batch(self, size):
        raise OSError("no such robot")


def test_an_environments_own_error_comes_through():
    with pytest.raises(
        EnvironmentFailure, match=r"^Broken cannot be played: .* failed \(OSError: no such robot\)"
    ):
        collect(Broken(), far, 3, KEY)
