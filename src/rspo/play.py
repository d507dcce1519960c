"""Playing one share of a host environment's episodes, from their start to the horizon: plain NumPy, in any process."""

import threading
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from rspo.actor import Act
from rspo.host import Batch, HostEnv
from rspo.types import Padding, Spec


class Stopped(Exception):
    """Nobody wants the rest of these episodes any more."""


@dataclass
class Record:
    """What one share of the episodes gives, [T, n, ...]."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    live: np.ndarray
    last_obs: np.ndarray
    states: list[Any] = field(default_factory=list)
    start: Any = None


def _empty(spec: Spec, obs: np.ndarray, action: np.ndarray) -> Record:
    steps = (spec.horizon, len(obs))
    never = lambda: np.zeros(steps, bool)  # noqa: E731
    return Record(
        obs=np.empty((spec.horizon, *obs.shape), np.float32),
        action=np.empty((spec.horizon, *action.shape), action.dtype),
        reward=np.zeros((*steps, spec.agents), np.float32),
        terminated=never(),
        truncated=never(),
        live=never(),
        last_obs=obs,
    )


def play(
    env: HostEnv,
    batch: Batch,
    act: Act,
    noise: np.ndarray,
    seeds: np.ndarray,
    padding: Padding,
    record: bool,
    stop: threading.Event,
) -> Record:
    """One share of the episodes, from their start to the horizon. The policy sees all lanes, used or not, so that one
    that is compiled is compiled for one size."""
    spec, episodes, seeds = env.spec, len(seeds), seeds.copy()
    to_env, everyone = spec.action_space.to_env, np.arange(episodes)
    obs = np.zeros((noise.shape[1], spec.agents, spec.obs_size), np.float32)
    obs[:episodes] = batch.reset(everyone, seeds)
    states = lambda: jax.tree.map(lambda leaf: leaf[:episodes], batch.state())  # noqa: E731
    start = states() if record else None
    live, cut, which = np.ones(episodes, bool), np.zeros(episodes, bool), everyone
    rows = None
    for t in range(spec.horizon):
        if stop.is_set():
            raise Stopped
        action = act(obs, noise[t])[:episodes]
        if rows is None:
            rows = _empty(spec, obs[:episodes], action)
        rows.obs[t], rows.action[t], rows.live[t] = obs[:episodes], action, live
        if which.size:
            step = batch.step(which, to_env(action[which]))
            obs[which], rows.reward[t, which] = step.obs, step.reward
            ended = step.terminated | step.truncated
            if ended.any():
                rows.truncated[t, which] = step.truncated & ~step.terminated
                live[which] = ~ended
        if record:
            rows.states.append(states())
        if live.all():
            continue
        rows.terminated[t] = ~live & ~rows.truncated[t]
        # An episode that the environment itself cut short is not followed by another: values bootstrap from its end.
        cut |= rows.truncated[t]
        if padding == "restart" and (again := np.flatnonzero(~live & ~cut)).size:
            seeds[again] += 1
            obs[again] = batch.reset(again, seeds[again])
            live[again] = True
        which = np.flatnonzero(live)
    assert rows is not None
    rows.last_obs, rows.start = obs[:episodes].copy(), start
    return rows
