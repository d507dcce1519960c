"""Discriminators against plain NumPy, and sums along episodes that follow one another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from latents import LATENTS, pieces, restarting, with_latents
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.methods import discriminator
from rspo.methods.episodes import own_return, running_sum

SPEC = Spec(3, Discrete(4), horizon=5, agents=2)
SEEDS = st.integers(0, 2**32 - 1)


summed, returned = jax.jit(running_sum), jax.jit(own_return)


@given(seed=SEEDS, again=st.booleans())
@settings(max_examples=15)
def test_sums_stay_within_their_episode(seed, again):
    rng = np.random.default_rng(seed)
    data = restarting(rng) if again else plain.random_trajectory(rng, steps=6, episodes=4)
    running, whole = np.zeros_like(data.reward), np.zeros_like(data.reward)
    for n, a, b in pieces(data):
        running[a:b, n] = np.cumsum(data.reward[a:b, n], axis=0)
        whole[a:b, n] = data.reward[a:b, n].sum(0)
    np.testing.assert_allclose(summed(data, data.reward), running, atol=1e-5)
    np.testing.assert_allclose(returned(data), whole, atol=1e-5)


def fresh(actions, rng):
    """A discriminator that is sure of itself, with a normaliser of its own."""
    guessing = discriminator.init_guessing(SPEC, LATENTS, 8, 1e-2, jax.random.key(0), actions)
    size = 3 + 4 * actions
    model = discriminator.Discriminator(
        plain.random_mlp(rng, (size, 8, 8, LATENTS)),
        dataclasses.replace(guessing.model.normalizer, mean=jnp.full(size, 0.3)),
        guessing.model.space,
    )
    return dataclasses.replace(guessing, model=model)


def plain_logits(model, data, t, n, a):
    x = data.view.obs[t, n, a]
    if model.space is not None:
        x = np.concatenate([x, np.eye(4)[data.action[t, n, a]]])
    return plain.forward(model.net, np.clip((x - 0.3) / np.sqrt(1 + 1e-8), -10, 10))


@pytest.mark.parametrize("again", [False, True])
def test_log_q_is_a_states_own_or_sums_up_what_all_agents_of_an_episode_showed(again):
    rng = np.random.default_rng(1)
    data = restarting(rng) if again else plain.random_trajectory(rng, padding=False)
    model = fresh(actions=True, rng=rng).model
    states = discriminator.from_states(model, data)
    episodes = discriminator.from_episodes(model, data)
    for n, a, b in pieces(data):
        shown = np.zeros(LATENTS)
        for t in range(a, b):
            for agent in range(2):
                logits = plain_logits(model, data, t, n, agent)
                np.testing.assert_allclose(
                    states[t, n, agent], plain.log_softmax(logits), rtol=1e-3, atol=1e-3
                )
                shown += logits * data.counted[t, n, agent]
            for agent in range(2):
                np.testing.assert_allclose(
                    episodes[t, n, agent], plain.log_softmax(shown), rtol=1e-3, atol=1e-3
                )


@pytest.mark.parametrize("guess", [discriminator.from_states, discriminator.from_episodes])
def test_it_learns_which_latent_showed(guess):
    """Every latent is seen in one observation, whose place tells it."""
    rng = np.random.default_rng(2)
    data, which = with_latents(rng, plain.random_trajectory(rng, episodes=24))
    obs = data.view.obs.copy()
    obs[..., :] = 0.1 * obs + np.eye(3)[which][:, None]
    data = dataclasses.replace(data, view=data.view._replace(obs=obs.astype(np.float32)))
    data = jax.tree.map(jnp.asarray, data)
    guessing = discriminator.init_guessing(SPEC, LATENTS, 16, 1e-2, jax.random.key(0))
    before = discriminator.of_own(guess(guessing.model, data), data)
    np.testing.assert_allclose(before, -np.log(LATENTS), atol=0.2)
    after = jax.jit(lambda guessing: discriminator.fit(guessing, guess, data, 100, 1e-2))(guessing)
    assert discriminator.of_own(guess(after.model, data), data).mean() > -0.05
    np.testing.assert_allclose(after.model.normalizer.mean, obs.mean((0, 1, 2)), atol=1e-3)


def test_steps_that_do_not_count_are_not_learned_from():
    rng = np.random.default_rng(3)
    data, _ = with_latents(rng, plain.random_trajectory(rng, padding=False))
    noise = np.where(data.counted[..., None], data.view.obs, 99.0).astype(np.float32)
    other = dataclasses.replace(data, view=data.view._replace(obs=noise))
    guessing = discriminator.init_guessing(SPEC, LATENTS, 8, 1e-2, jax.random.key(0))
    step = jax.jit(
        lambda data: discriminator.fit(guessing, discriminator.from_states, data, 2, 1e-2)
    )
    for one, two in zip(*(jax.tree.leaves(step(d)) for d in (data, other)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_all_latents_are_played_as_often():
    drawn = [discriminator.evenly(3, jax.random.key(i), 8) for i in range(20)]
    counts = np.array([np.asarray(one).sum(0) for one in drawn])
    assert set(counts.ravel()) == {2, 3}
    assert len(set(map(tuple, counts.tolist()))) == 3
