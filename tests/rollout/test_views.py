"""Masks, a critic's global state, agents that die, features of the reward, latents and memory: in
both collectors."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rspo
from herd import AGENTS, CHOICES, EPISODES, KEY, WEIGHTS, Herd, HostHerd
from host_worlds import share_noise
from product import same
from rspo.core.distributions import Categorical
from rspo.core.policies import Memoryless, init_policy, uniform_policy
from rspo.registry import ENVIRONMENTS
from rspo.rollout.collector import collector
from worlds import collect

LATENT = np.eye(2, dtype=np.float32)[np.arange(EPISODES) % 2]
KINDS = pytest.mark.parametrize("kind", ["jax", "host"])


@functools.cache
def host_herd():
    """One for all tests: its programs are compiled once."""
    env = HostHerd()
    env.name = None
    return env


def played(kind, policy, padding="count", **settings):
    """NumPy's arrays, of either collector."""
    if kind == "host":
        return collect(host_herd(), policy, EPISODES, KEY, padding=padding, **settings)
    return jax.device_get(_played(policy, KEY, padding, **settings))


@functools.partial(jax.jit, static_argnames=("padding", "greedy"))
def _played(policy, key, padding, greedy=False, latent=None):
    return collect(Herd(), policy, EPISODES, key, padding=padding, greedy=greedy, latent=latent)


def network(memory="none", latent=0, spec=None):
    """One with opinions: a fresh one is nearly uniform."""
    policy = init_policy(spec or Herd().spec, 2, 16, 2, True, jax.random.key(1), memory, latent)
    return eqx.tree_at(lambda p: p.actor, policy, jax.tree.map(lambda leaf: 3 * leaf, policy.actor))


def opinionated(memory, latent=0, spec=None):
    policy = network(memory, latent, spec)
    last = lambda p: (p.actor.net.head if memory == "gru" else p.actor.net).weights[-1]
    return eqx.tree_at(last, policy, 100 * last(policy))


class Likes(Memoryless):
    """Wants one choice and no other, where it may have it."""

    choice: jax.Array

    def act(self, view):
        xp = view.obs.__array_namespace__()
        wanted = xp.arange(CHOICES) == self.choice
        logits = xp.broadcast_to(xp.where(wanted, 50.0, 0.0), (*view.obs.shape[:-1], CHOICES))
        return Categorical(xp.astype(logits, xp.float32)).allowing(view.mask)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("padding", "greedy", "memory"),
    [  # every pair of two
        ("count", True, "none"),
        ("count", False, "gru"),
        ("drop", True, "gru"),
        ("drop", False, "none"),
        ("restart", True, "none"),
        ("restart", False, "gru"),
    ],
)
def test_both_collectors_give_the_same_trajectory(padding, greedy, memory, monkeypatch):
    share_noise(monkeypatch, EPISODES, KEY)
    policy = opinionated(memory, latent=2)
    ours, theirs = (
        played(kind, policy, padding, greedy=greedy, latent=LATENT) for kind in ("jax", "host")
    )
    assert theirs.log_prob is None
    assert not theirs.truncated.any()
    ours = eqx.tree_at(lambda t: t.log_prob, ours, None)
    theirs = eqx.tree_at(lambda t: t.truncated, theirs, None)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    assert len(jax.tree.leaves(ours)) == 2 * 4 + 6  # a view has four parts
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-6)
    assert len(np.unique(ours.action)) == CHOICES
    assert ours.terminated.any()
    assert not ours.counted.all()


# ---- masks


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize(
    ("player", "greedy"),
    [
        (network, False),
        (lambda: network("gru"), True),
        (lambda: uniform_policy(CHOICES), False),
        (lambda: Likes(jnp.asarray(2)), True),
        (lambda: Likes(jnp.asarray(2)), False),
    ],
    ids=["network", "memory", "uniform", "likes, greedily", "likes"],
)
def test_no_forbidden_action_is_ever_taken(kind, greedy, player):
    player = player()
    found = played(kind, player, "restart", greedy=greedy)
    assert not found.view.mask.all(-1).any()
    allowed = np.take_along_axis(found.view.mask, found.action[..., None], -1)
    assert allowed.all()
    if isinstance(player, Likes):  # it takes what it likes wherever it can
        np.testing.assert_array_equal(found.action == 2, found.view.mask[..., 2])


@KINDS
def test_random_play_takes_all_that_is_allowed_alike(kind):
    found = played(kind, uniform_policy(CHOICES), "restart")
    for choice in range(CHOICES):
        could = found.view.mask[..., choice]
        odds = 1 / found.view.mask.sum(-1)[could]
        taken = (found.action[could] == choice).sum()
        assert abs(taken - odds.sum()) < 4 * np.sqrt((odds * (1 - odds)).sum())


# ---- agents that die, features, global states


@KINDS
@pytest.mark.parametrize("padding", ["count", "drop", "restart"])
def test_dead_agents_do_not_count(kind, padding):
    """The global state shows who is alive."""
    found = played(kind, network(), padding)
    alive = found.view.state[:, :, 0, 2:].astype(bool)
    assert found.counted.shape == found.reward.shape == (*found.live.shape, AGENTS)
    expected = alive if padding == "count" else alive & found.live[..., None]
    np.testing.assert_array_equal(found.counted, expected)
    assert not expected.all()
    assert (found.view.state[0, :, :, 2:] == 1).all()
    if padding == "restart":  # all are alive again in the next episode
        assert alive[1:][found.terminated[:-1]].all()
        assert not alive[:-1][found.terminated[:-1]].all()


@KINDS
def test_features_and_states_are_recorded(kind):
    found = played(kind, network())
    assert found.features.shape == (*found.live.shape, AGENTS, 2)
    np.testing.assert_allclose(found.reward, found.features @ np.array(WEIGHTS))
    assert not found.features[~found.live].any()
    alive = found.view.state[..., 0, 2:].astype(bool)
    wanted = np.stack([(found.action * alive).sum(-1), alive.sum(-1)], -1)
    for agent in range(AGENTS):
        np.testing.assert_array_equal(found.features[found.live, agent], wanted[found.live])
    time = np.minimum(np.arange(8)[:, None], found.view.state[..., 0, 1])
    np.testing.assert_array_equal(found.view.state[..., 0], np.repeat(time[..., None], AGENTS, -1))
    np.testing.assert_array_equal(
        found.last.state[:, 0, 0], np.minimum(8, found.last.state[:, 0, 1])
    )


# ---- latents


class Obeys(Memoryless):
    """Takes the choice that the latent names, whatever it may do."""

    def act(self, view):
        return Categorical(50 * view.latent)


@KINDS
@pytest.mark.parametrize("padding", ["count", "restart"])
def test_a_latent_is_seen_in_every_step_of_its_episode(kind, padding):
    wanted = np.arange(EPISODES) % CHOICES
    latent = np.eye(CHOICES, dtype=np.float32)[wanted]
    found = played(kind, Obeys(), padding, latent=latent)
    every = np.broadcast_to(latent[:, None], (EPISODES, AGENTS, CHOICES))
    np.testing.assert_array_equal(found.last.latent, every)
    np.testing.assert_array_equal(found.view.latent, np.broadcast_to(every, (8, *every.shape)))
    np.testing.assert_array_equal(
        found.action, np.broadcast_to(wanted[:, None], (8, EPISODES, AGENTS))
    )


@pytest.mark.slow
@KINDS
def test_a_network_sees_its_latent(kind):
    """Otherwise all would be the same: starts, noise and network are."""
    policy = opinionated("none", latent=2)
    one, other = (
        played(kind, policy, greedy=True, latent=np.broadcast_to(row, (EPISODES, 2)))
        for row in np.eye(2, dtype="f4")
    )
    assert (one.action != other.action).any()
    mixed = played(kind, policy, greedy=True, latent=LATENT)
    np.testing.assert_array_equal(mixed.action[:, ::2], one.action[:, ::2])
    np.testing.assert_array_equal(mixed.action[:, 1::2], other.action[:, 1::2])


# ---- memory


def alone(policy, found, column, first, end, carry=None):
    """The distributions of the steps `first` to `end` of a column, by a policy that has seen
    nothing before."""
    carry, seen = policy.initial(AGENTS) if carry is None else carry, []
    for t in range(first, end):
        view = jax.tree.map(lambda leaf, t=t: jnp.asarray(leaf[t, column]), found.view)
        carry, distribution = policy.step(carry, view)
        seen.append(distribution)
    return carry, jax.tree.map(lambda *leaves: np.stack(leaves), *seen)


@pytest.mark.slow
@KINDS
def test_a_memory_begins_anew_with_the_next_episode(kind):
    """As if that one were played alone; had it gone on, actions would be others."""
    policy = opinionated("gru")
    found = played(kind, policy, "restart", greedy=True)
    differ = False
    for column in np.flatnonzero(found.terminated[:-1].any(0)):
        first = int(found.terminated[:, column].argmax()) + 1
        before, opening = alone(policy, found, column, 0, first)
        np.testing.assert_array_equal(opening.mode(), found.action[:first, column])
        end = next((t + 1 for t in range(first, 8) if found.terminated[t, column]), 8)
        _, second = alone(policy, found, column, first, end)
        np.testing.assert_array_equal(second.mode(), found.action[first:end, column])
        if kind == "jax":
            expected = second.log_prob(found.action[first:end, column])
            np.testing.assert_allclose(
                found.log_prob[first:end, column], expected, rtol=1e-4, atol=1e-5
            )
        _, gone_on = alone(policy, found, column, first, end, before)
        differ |= bool((gone_on.mode() != second.mode()).any())
    assert differ


@pytest.mark.slow
def test_and_lasts_through_its_episode():
    """What was seen before matters: with a memory of nothing actions would be others."""
    policy = opinionated("gru")
    found = played("jax", policy, greedy=True)
    _, fresh = policy.step(
        policy.initial(8, EPISODES, AGENTS), jax.tree.map(jnp.asarray, found.view)
    )
    assert (fresh.mode()[0] == found.action[0]).all()
    assert (fresh.mode() != found.action).any()


# ---- processes


@pytest.fixture
def plugged_in(tmp_path, monkeypatch):
    """Worker processes know `HostHerd` by its name, as one of an installed package."""
    about = tmp_path / "herd-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: herd\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[rspo.environments]\nherd = herd:HostHerd\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ENVIRONMENTS, "_plugins", None)


@pytest.mark.slow
@pytest.mark.skipif(jax.device_count() == 1, reason="one core plays by itself")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("herd", {"padding": "restart"}),
        ("gym:CartPole-v1", {"greedy": True}),
        ("pettingzoo:mpe2.simple_spread_v3", {"padding": "restart"}),
    ],
)
@pytest.mark.usefixtures("plugged_in")
def test_processes_play_with_a_memory_as_threads_do(name, settings):
    env, here = rspo.make(name), rspo.make(name)
    here.name = None
    policy = opinionated("gru", 2, env.spec)
    with collector(env) as there, collector(here) as threads:
        theirs, ours = (
            one(policy, EPISODES, KEY, latent=LATENT, **settings) for one in (there, threads)
        )
        assert len(there._players) == jax.device_count()
        assert not threads._players
    assert jax.tree.structure(theirs) == jax.tree.structure(ours)
    assert same(theirs, ours)
