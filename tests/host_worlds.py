"""Host environments for tests: a JAX one in disguise, and one that counts."""

import jax
import numpy as np

from rspo.core.spaces import Box
from rspo.core.types import Spec
from rspo.envs.base import HostEnv, HostStep, Instances
from rspo.rollout import host as rollout_host
from rspo.rollout import play as rollout_play


class Wrapped(HostEnv):
    """A JAX environment that the host steps, with the noise that `collect` would draw for the same
    key."""

    def __init__(self, env, episodes, key):
        self.env, self.episode = (
            env,
            {seed: n for n, seed in enumerate(rollout_host.episode_seeds(key, episodes))},
        )
        reset_key, step_key, _ = jax.random.split(key, 3)
        self.starts = np.asarray(jax.random.uniform(reset_key, (episodes, env.spec.reset_noise)))
        steps = (env.spec.horizon, episodes)
        self.noise = np.asarray(jax.random.uniform(step_key, (*steps, env.spec.step_noise)))
        again_key = jax.random.fold_in(
            reset_key, 1
        )  # of episodes that begin where another one ended
        self.again = np.asarray(jax.random.uniform(again_key, (*steps, env.spec.reset_noise)))
        self.reset, self.step = jax.jit(env.reset), jax.jit(env.step)

    @property
    def spec(self):
        return self.env.spec

    def batch(self, size):
        return WrappedBatch(self, size)


class WrappedBatch(Instances):
    def __init__(self, env, size):
        self.env = env
        self.episode, self.time, self.states = (
            np.zeros(size, int),
            np.zeros(size, int),
            [None] * size,
        )

    def reset(self, which, seeds):
        obs = []
        for i, seed in zip(which, seeds, strict=True):
            if seed in self.env.episode:
                self.episode[i], self.time[i] = self.env.episode[seed], 0
                noise = self.env.starts[self.episode[i]]
            else:
                noise = self.env.again[self.time[i] - 1, self.episode[i]]
            self.states[i], seen = self.env.reset(noise)
            obs.append(seen)
        return _stacked(obs)

    def step(self, which, action):
        steps = []
        for i, a in zip(which, action, strict=True):
            noise = self.env.noise[self.time[i], self.episode[i]]
            self.states[i], step = self.env.step(self.states[i], a, noise)
            self.time[i] += 1
            steps.append(step)
        obs, reward, terminated, alive, features = _stacked(steps)
        return HostStep(obs, reward, terminated, np.zeros(len(which), bool), alive, features)

    def state(self):
        filled = [self.states[0] if state is None else state for state in self.states]
        return _stacked(filled)


def _stacked(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def share_noise(monkeypatch, episodes, key):
    """Choices by the noise that `collect` would draw for the same key in a JAX environment of one
    agent or several."""
    episode = {seed: n for n, seed in enumerate(rollout_host.episode_seeds(key, episodes).tolist())}

    def draw(noise, steps, seeds, lanes):
        rows = jax.random.uniform(jax.random.split(key, 3)[2], (steps, episodes, *noise.shape))
        missing = [(0, 0), (0, lanes - len(seeds))] + [(0, 0)] * len(noise.shape)
        return np.pad(np.asarray(rows)[:, [episode[seed] for seed in seeds.tolist()]], missing)

    monkeypatch.setattr(rollout_play, "draw", draw)


class Rows(HostEnv):
    """Observes the time and the seed, and pays the time; it terminates after `ends` steps, or is
    truncated then."""

    def __init__(self, ends=3, cut=False, horizon=8, bad=None):
        self.ends, self.cut, self.bad = ends, cut, bad
        self._spec = Spec(2, Box((-2.0, 0.0), (2.0, np.inf)), horizon)

    @property
    def spec(self):
        return self._spec

    def batch(self, size):
        return RowsBatch(self, size)


class RowsBatch(Instances):
    def __init__(self, env, size):
        self.env, self.seed, self.time, self.given = env, np.zeros(size), np.zeros(size), []

    def _obs(self, which):
        return np.stack([self.time[which], self.seed[which] % 1000], -1)[:, None]

    def reset(self, which, seeds):
        self.seed[which], self.time[which] = seeds, 0
        return self._obs(which)

    def step(self, which, action):
        assert action.shape == (len(which), 1, 2)
        assert (np.abs(action[..., 0]) <= 2).all()
        assert (action[..., 1] >= 0).all()
        self.time[which] += 1
        over = self.time[which] >= self.env.ends
        reward = (
            self.time[which][:, None]
            if self.env.bad is None
            else np.full((len(which), 1), self.env.bad)
        )
        return HostStep(self._obs(which), reward, over & (not self.env.cut), over & self.env.cut)
