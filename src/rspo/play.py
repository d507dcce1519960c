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


def play(
    env: HostEnv,
    batch: Batch,
    act: Act,
    lanes: int,
    seeds: np.ndarray,
    padding: Padding,
    record: bool,
    stop: threading.Event,
) -> Record:
    """One share of the episodes, from their start to the horizon. The policy sees all lanes, used or not, so that one
    that is compiled is compiled for one size."""
    spec, episodes, seeds = env.spec, len(seeds), seeds.copy()
    to_env, everyone = spec.action_space.converter((episodes, spec.agents)), np.arange(episodes)
    seen = np.zeros((spec.horizon + 1, lanes, spec.agents, spec.obs_size), np.float32)
    obs = seen[:, :episodes]
    obs[0] = batch.reset(everyone, seeds)
    states = lambda: jax.tree.map(lambda leaf: leaf[:episodes], batch.state())  # noqa: E731
    rows, actions = _empty(spec, obs, states() if record else None), []
    live, cut, which = np.ones(episodes, bool), np.zeros(episodes, bool), everyone
    for t in range(spec.horizon):
        if stop.is_set():
            raise Stopped
        action = act(t, seen[t])[:episodes]
        actions.append(action)
        if which is everyone:  # most of the time: nothing is copied by indices
            step = batch.step(which, to_env(action))
            obs[t + 1], rows.reward[t] = step.obs, step.reward
        else:
            obs[t + 1], rows.live[t] = obs[t], live
            if which.size:
                step = batch.step(which, to_env(action)[which])
                obs[t + 1, which], rows.reward[t, which] = step.obs, step.reward
        ended = which.size and (_any(step.terminated) or _any(step.truncated))
        if record:
            rows.states.append(states())
        if ended:
            rows.truncated[t, which] = step.truncated & ~step.terminated
            live[which] = ~(step.terminated | step.truncated)
        elif which is everyone:
            continue
        rows.terminated[t] = ~live & ~rows.truncated[t]
        # An episode that the environment itself cut short is not followed by another: values bootstrap from its end.
        cut |= rows.truncated[t]
        if padding == "restart" and (again := np.flatnonzero(~live & ~cut)).size:
            seeds[again] += 1
            obs[t + 1, again] = batch.reset(again, seeds[again])
            live[again] = True
        which = everyone if live.all() else np.flatnonzero(live)
    rows.action = np.stack(actions)
    return rows


def _any(flags: np.ndarray) -> bool:
    return bool(np.count_nonzero(flags))  # a quarter of the time of `flags.any()`


def _empty(spec: Spec, obs: np.ndarray, start: Any) -> Record:
    """Of observations [T + 1, n, A, O], yet to be filled in."""
    steps = (spec.horizon, obs.shape[1])
    return Record(
        obs=obs[:-1],
        action=np.empty(0),
        reward=np.zeros((*steps, spec.agents), np.float32),
        terminated=np.zeros(steps, bool),
        truncated=np.zeros(steps, bool),
        live=np.ones(steps, bool),
        last_obs=obs[-1],
        start=start,
    )
