"""Collecting episodes: a clock whose every observation, reward and end is known beforehand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rspo.core.policies import uniform_policy
from worlds import Clock, Steady, Tabular, collect

ENV, HORIZON, EPISODES = Clock(), 5, 64
POLICY = Tabular(jnp.asarray([[0.2, 0.1, -0.4], [0.3, -0.1, 0.0], [1.5, 0.0, 0.0]]))
play = jax.jit(
    partial(collect, ENV, episodes=EPISODES), static_argnames=("padding", "greedy", "record")
)


@pytest.fixture(scope="module")
def episodes():
    return jax.device_get(play(POLICY, key=jax.random.key(0), record=True))


def lengths(trajectory):
    """Of each episode, as its observations say; above the horizon where it never terminates."""
    return trajectory.obs[0, :, 0, 1].astype(int)


def test_episodes_of_every_length_were_played(episodes):
    assert set(lengths(episodes)) == set(range(1, HORIZON + 2))


def test_shapes(episodes):
    assert episodes.obs.shape == (HORIZON, EPISODES, 2, 3)
    for array in (episodes.action, episodes.log_prob, episodes.reward):
        assert array.shape == (HORIZON, EPISODES, 2)
    for array in (episodes.terminated, episodes.live):
        assert array.shape == (HORIZON, EPISODES)
        assert array.dtype == bool
    assert episodes.counted.shape == (HORIZON, EPISODES, 2)
    assert episodes.counted.dtype == bool
    assert episodes.last.obs.shape == (EPISODES, 2, 3)


def test_every_step_is_where_the_clock_says(episodes):
    for n, length in enumerate(lengths(episodes)):
        for t in range(HORIZON):
            live = t < length
            time = min(t, length)  # stands still after the end
            for agent in range(2):
                np.testing.assert_array_equal(episodes.obs[t, n, agent], [time, length, agent])
                reward = t + 1 + 100 * episodes.action[t, n, agent] if live else 0
                assert episodes.reward[t, n, agent] == reward
            assert episodes.live[t, n] == live
            assert episodes.terminated[t, n] == (t + 1 >= length)
        assert episodes.last.obs[n, 0, 0] == min(HORIZON, length)


def test_the_horizon_truncates_and_does_not_terminate(episodes):
    endless = lengths(episodes) > HORIZON
    assert endless.any()
    assert not episodes.terminated[:, endless].any()
    assert episodes.live[:, endless].all()


def test_recorded_states_are_those_after_each_action(episodes):
    time = np.minimum(np.arange(1, HORIZON + 1)[:, None], lengths(episodes))
    np.testing.assert_array_equal(episodes.state[0], time)


def test_states_are_kept_only_when_asked():
    assert play(POLICY, key=jax.random.key(0)).state is None


def test_padding_counts_the_steps_after_the_end_or_not(episodes):
    assert episodes.counted.all()
    dropped = play(POLICY, key=jax.random.key(0), padding="drop")
    np.testing.assert_array_equal(dropped.counted, np.stack([dropped.live] * 2, -1))
    np.testing.assert_array_equal(dropped.action, episodes.action)


def test_log_prob_is_the_acting_policys(episodes):
    np.testing.assert_allclose(
        episodes.log_prob, POLICY(episodes.obs).log_prob(episodes.action), rtol=1e-5, atol=1e-6
    )


def test_actions_are_drawn_from_the_policy():
    """Agent 1 mostly takes action 0, agent 0 does not: each draws from its own observation."""
    drawn = play(POLICY, key=jax.random.key(1))
    probability = jnp.exp(POLICY(drawn.obs).log_probs)
    for agent in range(2):
        share = np.asarray(drawn.action[:, :, agent] == 0)
        expected = np.asarray(probability[:, :, agent, 0])
        deviation = np.sqrt((expected * (1 - expected)).sum())
        assert abs(share.sum() - expected.sum()) < 4 * deviation
    assert (drawn.action[:, :, 0] != drawn.action[:, :, 1]).any()


def test_greedy_play_takes_the_likeliest_action():
    greedy = play(POLICY, key=jax.random.key(0), greedy=True)
    np.testing.assert_array_equal(greedy.action, POLICY(greedy.obs).mode())


def test_the_key_decides_everything(episodes):
    again, other = play(POLICY, key=jax.random.key(0)), play(POLICY, key=jax.random.key(1))
    np.testing.assert_array_equal(again.action, episodes.action)
    np.testing.assert_array_equal(again.obs, episodes.obs)
    assert (other.action != episodes.action).any()
    assert (lengths(other) != lengths(episodes)).any()


def test_noise_is_uniform_and_new_for_every_step_and_episode(episodes):
    drawn = episodes.state[2][episodes.live].ravel()
    assert len(np.unique(drawn)) == len(drawn)
    assert ((drawn >= 0) & (drawn < 1)).all()
    assert abs(drawn.mean() - 0.5) < 4 / np.sqrt(12 * len(drawn))


def test_an_episode_ends_once():
    """Each step ends the episode with probability 1/2, whatever went before: nothing comes back to
    life."""
    played = jax.device_get(
        collect(Steady(horizon=6, stop=0.5), uniform_policy(2), 64, jax.random.key(0))
    )
    length = played.live.sum(0)
    np.testing.assert_array_equal(played.live, np.arange(6)[:, None] < length)
    np.testing.assert_array_equal(played.terminated[:-1], ~played.live[1:])
    np.testing.assert_array_equal(played.reward[..., 0], played.live)
    assert set(length) >= {1, 2, 3}


def test_an_episode_can_end_at_its_first_step():
    ended = collect(
        Steady(horizon=3, stop=1.0), uniform_policy(2), 4, jax.random.key(0), padding="drop"
    )
    np.testing.assert_array_equal(ended.reward[..., 0], [[1] * 4, [0] * 4, [0] * 4])
    np.testing.assert_array_equal(ended.counted[..., 0], [[True] * 4, [False] * 4, [False] * 4])
    assert ended.terminated.all()


def test_with_restart_the_next_episode_begins_at_once():
    played = jax.device_get(play(POLICY, key=jax.random.key(0), padding="restart", record=True))
    length, time = played.obs[..., 0, 1], played.obs[..., 0, 0]
    np.testing.assert_array_equal(time[0], 0)
    np.testing.assert_array_equal(played.terminated, time + 1 >= length)
    np.testing.assert_array_equal(time[1:], np.where(played.terminated[:-1], 0, time[:-1] + 1))
    np.testing.assert_array_equal(
        played.state[0], time + 1
    )  # of the episode that the action was in
    np.testing.assert_array_equal(played.reward[..., 0], time + 1 + 100 * played.action[..., 0])
    assert played.live.all()
    assert played.counted.all()
    again = played.terminated[:-1]
    assert len(set(length[1:][again])) > 3  # other lengths: other episodes
    before = np.cumsum(played.terminated, 0) - played.terminated
    np.testing.assert_array_equal(played.first, before == 0)
