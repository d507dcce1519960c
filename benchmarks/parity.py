"""Do the NumPy games agree with rspo's? Random actions, whole episodes, replayed in JAX step by
step."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from four_goals_gym import FourGoalsGym
from four_goals_numpy import FourGoalsNumpy
from jax import Array

from rspo.envs.four_goals import AGENT_SIZE, FourGoals

# closer to a landmark's edge than this, rounding may decide whether it is touched
ROUNDING = 1e-5
MODES = ("easy", "medium", "hard")


class Episode(NamedTuple):
    """A finished episode: observations before the first action and after each one."""

    goals: np.ndarray  # [4, 2]
    obs: np.ndarray  # [t + 1, O]
    action: np.ndarray  # [t]
    reward: np.ndarray  # [t]
    terminated: bool  # at its last step; otherwise the horizon ended it


def check(episodes: int = 400, seed: int = 0) -> dict[str, int]:
    """Raise if a game differs from rspo's; reports how many episodes of each were compared."""
    compared = {}
    for mode in MODES:
        rng = np.random.default_rng(seed)
        for name, play in (("gym", play_gym), ("numpy", play_numpy)):
            compared[f"{name}-{mode}"] = compare(mode, list(play(mode, episodes, rng)))
    return compared


def play_gym(mode: str, episodes: int, rng: np.random.Generator) -> Iterator[Episode]:
    game = FourGoalsGym(mode)
    for i in range(episodes):
        obs, _ = game.reset(seed=i)
        rows, actions, rewards = [obs], [], []
        terminated = truncated = False
        while not (terminated or truncated):
            actions.append(rng.integers(5))
            obs, reward, terminated, truncated, _ = game.step(actions[-1])
            rows.append(obs)
            rewards.append(reward)
        yield Episode(
            np.array(game.goals), np.array(rows), np.array(actions), np.array(rewards), terminated
        )


def play_numpy(mode: str, episodes: int, rng: np.random.Generator) -> Iterator[Episode]:
    n = 50
    game = FourGoalsNumpy(mode, n, seed=int(rng.integers(1000)))
    first = game.reset()
    running = [([first[i]], [], []) for i in range(n)]
    played = 0
    while played < episodes:
        goals, actions = game.goals.copy(), rng.integers(5, size=n)
        obs, reward, done, infos = game.step(actions)
        for i, (rows, taken, rewards) in enumerate(running):
            rows.append(infos[i]["terminal_observation"] if done[i] else obs[i])
            taken.append(actions[i])
            rewards.append(reward[i])
            if done[i]:
                terminated = not infos[i]["TimeLimit.truncated"]
                yield Episode(
                    goals[i], np.array(rows), np.array(taken), np.array(rewards), terminated
                )
                running[i] = ([obs[i]], [], [])
                played += 1


def compare(mode: str, episodes: list[Episode]) -> int:
    """Replay all in one jitted program, padded to the horizon; returns how many could be
    compared."""
    game = FourGoals(mode)
    goals = np.stack([episode.goals for episode in episodes]).astype(np.float32)
    pad = lambda x: np.pad(x, (0, game.spec.horizon - len(x)))
    actions = np.stack([pad(episode.action) for episode in episodes]).astype(np.int32)
    first, after, reward, terminated = jax.device_get(
        jax.jit(jax.vmap(lambda g, a: replay(game, g, a)))(goals, actions)
    )
    compared = 0
    for i, episode in enumerate(episodes):
        t = len(episode.action)
        distance = np.linalg.norm(after[i, :t, :8].reshape(t, 4, 2), axis=-1)
        if (np.abs(distance - (game.sizes + AGENT_SIZE)) < ROUNDING).any():
            continue
        expected = np.concatenate([first[i][None], after[i, :t]])
        np.testing.assert_allclose(
            episode.obs, expected, atol=2e-6, err_msg=f"observations, {mode}"
        )
        np.testing.assert_allclose(
            episode.reward, reward[i, :t], atol=1e-6, err_msg=f"rewards, {mode}"
        )
        ends = np.append(np.zeros(t - 1, bool), episode.terminated)
        np.testing.assert_array_equal(ends, terminated[i, :t], err_msg=f"terminations, {mode}")
        assert episode.terminated or t == game.spec.horizon, (
            f"an episode of {mode} was cut at step {t}"
        )
        compared += 1
    assert compared > 0.9 * len(episodes), f"only {compared} episodes of {mode} could be compared"
    return compared


def replay(game: FourGoals, goals: Array, actions: Array) -> tuple[Array, Array, Array, Array]:
    """One episode in rspo's own game: first observation; observation, reward and termination after
    each action."""
    state, first = game.reset((goals.ravel() + 1.0) / 2.0)
    no_noise = actions[:0].astype(np.float32)

    def step(state, action):
        state, out = game.step(state, action[None], no_noise)
        return state, (out.obs[0], out.reward[0], out.terminated)

    return first[0], *jax.lax.scan(step, state, actions)[1]
