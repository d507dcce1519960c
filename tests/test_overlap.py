"""Playing a batch while the one before is learned from: whose play it is, and that nothing else depends on when."""

import json
import signal
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import product
import rspo
from product import results, rigged
from rspo import rollout_host, train
from rspo.archive import Archive
from rspo.config import Config
from rspo.objective import Objective
from rspo.policy import init_policy
from rspo.ppo import PPO
from rspo.rollout import collect, staged
from rspo.search import Tools
from test_continuous import SETTINGS, TwoPeaks

KEY = jax.random.key(5)
PLAYED_APART = pytest.param("gym:CartPole-v1", marks=pytest.mark.skipif(jax.device_count() == 1, reason="one core"))


def tools_for(env, **settings):
    ppo = PPO(batch=8 * env.spec.horizon, updates=6, epochs=2, hidden=8, normalize_obs=True, overlap=True, **settings)
    return Tools(env, Config("a test's", 1, objective="pg", method=Objective(), ppo=ppo))


def advanced(tools, *counts):
    """The states after as many updates each, each from the one before."""
    state, references = tools.trainer.init(KEY), tools.references(Archive(tools.config))
    for count in counts:
        state, metrics = tools.trainer.advance(state, references, KEY, count)
        yield state, metrics


def equal(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)


@pytest.fixture(params=["four-goals-easy", "peaks", PLAYED_APART])
def env(request):
    made = TwoPeaks() if request.param == "peaks" else rspo.make(request.param)
    with staged(made):
        yield made


def test_the_policy_that_plays_is_one_update_older(env):
    tools = tools_for(env)
    first = tools.trainer.init(KEY)
    assert equal(first.acting, first.policy)
    before = first.policy
    for state, _ in advanced(tools, 1, 1, 1):
        assert equal(state.acting, before)
        assert not equal(state.policy, before)
        before = state.policy


def test_and_its_are_the_episodes(monkeypatch):
    """The first two batches are the first policy's, the third is the second's, and so on."""
    env, played = TwoPeaks(), []
    begin = rollout_host.begin
    monkeypatch.setattr(
        train, "begin", lambda env, policy, *rest, **kw: played.append(policy) or begin(env, policy, *rest, **kw)
    )
    tools = tools_for(env, learning_rate=0.1, minibatches=1)
    states = [tools.trainer.init(KEY), *(state for state, _ in advanced(tools, 1, 1, 1))]
    assert len(played) == 4  # the last of which nobody has learned from yet
    for policy, whose in zip(played, (0, 0, 1, 2), strict=True):
        assert equal(policy, states[whose].policy)


def test_samples_weigh_as_they_are_likely_under_the_policy_that_learns():
    """What PPO keeps close to is that policy: with one epoch, no ratio has left 1 when the divergence is measured."""
    env = TwoPeaks()
    ppo = PPO(batch=96, updates=3, epochs=1, hidden=8, learning_rate=0.1, normalize_obs=True, overlap=True)
    tools = Tools(env, Config("peaks", 1, objective="pg", method=Objective(), ppo=ppo))
    (state, first), (_, second) = advanced(tools, 1, 1)
    np.testing.assert_allclose([first["approx_kl"], second["approx_kl"]], 0.0, atol=1e-6)
    played = collect(env, state.acting, 32, train._update_keys(KEY, 1)[0])
    advantage = np.random.default_rng(0).normal(size=played.reward.shape).astype(np.float32)
    batch = train._batch(state.policy, state.acting, played, advantage, advantage[..., None], np.ones(1))
    now, then = (np.asarray(policy(played.obs).log_prob(played.action)) for policy in (state.policy, state.acting))
    np.testing.assert_allclose(batch.log_prob, now, rtol=1e-5)
    np.testing.assert_allclose(batch.advantage, advantage * np.exp(now - then), rtol=1e-4)
    assert np.abs(now - then).max() > 0.01


def test_no_weight_is_beyond_all_numbers():
    """Where a step changed a policy beyond recognition; 0 times infinity would not even be 0 where nothing counts."""
    env = TwoPeaks()
    policy = init_policy(env.spec, 1, 8, 2, False, jax.random.key(0))
    sharp = eqx.tree_at(lambda p: p.actor.log_std, policy, policy.actor.log_std - 5)
    far = eqx.tree_at(lambda p: p.actor.biases[-1], sharp, policy.actor.biases[-1] + 50)
    played = collect(env, far, 32, KEY)
    batch = train._batch(far, sharp, played, played.reward, played.reward[..., None], np.ones(1))
    assert np.isfinite(batch.advantage).all()


def test_all_at_once_one_by_one_or_from_a_copy_is_the_same(env):
    """A copy is what a resumed run has: the batch that was being played is gone, and is played again."""
    tools = tools_for(env)
    whole = list(advanced(tools, 6))[-1][0]
    assert equal(whole, list(advanced(tools, 1, 2, 3))[-1][0])
    state, references = tools.trainer.init(KEY), tools.references(Archive(tools.config))
    for _ in range(6):
        copy = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf), leaf.sharding), state)
        state, _ = tools.trainer.advance(copy, references, KEY, 1)
    assert equal(whole, state)


@pytest.mark.parametrize("env", ["peaks", PLAYED_APART], indirect=True)
def test_nothing_is_played_ahead_of_the_last_update(env):
    tools = tools_for(env)
    for (state, _), ahead in zip(advanced(tools, 5, 1), (True, False), strict=True):
        given, _, following = tools.trainer.advance.__self__.ahead
        assert given is state
        assert (following is not None) == ahead


@pytest.mark.skipif(jax.device_count() == 1, reason="one core plays by itself")
def test_what_is_begun_and_not_wanted_is_in_nobodys_way():
    env = rspo.make("gym:CartPole-v1")
    policy = init_policy(env.spec, 1, 8, 2, True, jax.random.key(0))
    keys = jax.random.split(KEY, 4)
    with staged(env):
        wanted = [collect(env, policy, 7, key) for key in keys]
        begun = [rollout_host.begin(env, policy, 7, key) for key in keys]
        del begun[2]
        again = collect(env, policy, 7, keys[2])
        assert equal(again, wanted[2])
        for finish, one in zip(reversed(begun), (wanted[3], wanted[1], wanted[0]), strict=True):
            assert equal(finish(), one)
        rollout_host.begin(env, policy, 300, keys[0])  # more than a pipe holds; nobody will read it
        processes = [player.process for player in rollout_host._stage(env)._players]
    assert {process.returncode for process in processes} == {-signal.SIGKILL}  # they play what nobody waits for


def test_both_peaks_are_found_too():
    ppo = SETTINGS["ppo"] | {"overlap": True}
    archive = rspo.discover(TwoPeaks(), iterations=2, quiet=True, **SETTINGS | {"ppo": ppo})
    assert {strategy.descriptor for strategy in archive} == {"left", "right"}


@pytest.mark.skipif(jax.device_count() == 1, reason="takes two cores")
def test_one_core_learns_what_all_play_and_a_killed_run_goes_on_so(tmp_path: Path):
    small = ("--ppo.overlap", "--iterations", "1", "--ppo.updates", "25", "--ppo.hidden", "8", "--ppo.epochs", "1")
    command, killed, whole = ("discover", "half-cheetah", *small, "--out"), tmp_path / "killed", tmp_path / "whole"
    outcome = rigged("KILL", 3, killed / ".checkpoint", *command, killed)
    assert outcome.code == -signal.SIGKILL, outcome
    assert (killed / "checkpoint.safetensors").exists()
    record = json.loads((killed / "run.json").read_text())
    assert (record["devices"], record["players"]) == (1, jax.device_count())
    for arguments in (("resume", killed), (*command, whole)):
        outcome = product.rspo(*arguments)
        assert outcome.code == 0, outcome
    assert results(killed) == results(whole)
