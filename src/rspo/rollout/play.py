"""Playing one share of a host environment's episodes, from their start to the horizon: plain NumPy, in any process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from rspo.core.types import Padding, Spec
from rspo.envs import given
from rspo.envs.base import HostEnv, Instances
from rspo.rollout.actor import Act


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
    batch: Instances,
    act: Act,
    lanes: int,
    seeds: np.ndarray,
    padding: Padding,
    record: bool,
    each_step: Callable[[], None],
) -> Record:
    """`play_share`; what the environment's own code raises is said in a sentence."""
    with given.own_code(env.title):
        return play_share(env, batch, act, lanes, seeds, padding, record, each_step)


def play_share(
    env: HostEnv,
    batch: Instances,
    act: Act,
    lanes: int,
    seeds: np.ndarray,
    padding: Padding,
    record: bool,
    each_step: Callable[[], None],
) -> Record:
    """One share of the episodes, from their start to the horizon. The policy sees all lanes, used or not, so that one
    that is compiled is compiled for one size. `each_step` is called before each, and may raise `Stopped`."""
    spec, episodes, seeds = env.spec, len(seeds), seeds.copy()
    everyone, nobody = np.arange(episodes), np.zeros(0, bool)
    seen = np.zeros((spec.horizon + 1, lanes, spec.agents, spec.obs_size), np.float32)
    obs = seen[:, :episodes]
    obs[0] = given.first(batch.reset(everyone, seeds), obs.shape[1:])
    states = lambda: jax.tree.map(lambda leaf: leaf[:episodes], batch.state())  # noqa: E731
    rows = _empty(spec, obs, states() if record else None)
    actions: list[np.ndarray] = []
    ask = _asker(spec, act, seen, episodes, actions, each_step)
    live, cut, which = np.ones(episodes, bool), np.zeros(episodes, bool), everyone
    for t in range(spec.horizon):
        obs[t + 1], rows.live[t] = obs[t], live
        action, terminated, truncated = ask(t), nobody, nobody
        if which.size:
            action = action if which is everyone else action[which]
            step = given.whole(batch.step(which, action), (which.size, *obs.shape[2:]))
            obs[t + 1, which], rows.reward[t, which] = step.obs, step.reward
            terminated, truncated = step.terminated, step.truncated
        if record:
            rows.states.append(states())
        rows.truncated[t, which] = truncated & ~terminated
        live[which] = ~(terminated | truncated)
        rows.terminated[t] = ~live & ~rows.truncated[t]
        # An episode that the environment itself cut short is not followed by another: values bootstrap from its end.
        cut |= rows.truncated[t]
        if padding == "restart" and (again := np.flatnonzero(~live & ~cut)).size:
            seeds[again] += 1
            obs[t + 1, again] = given.first(batch.reset(again, seeds[again]), (again.size, *obs.shape[2:]))
            live[again] = True
        which = everyone if live.all() else np.flatnonzero(live)
    rows.action = np.stack(actions).reshape(spec.horizon, lanes, spec.agents, *actions[0].shape[1:])[:, :episodes]
    return rows


def _asker(
    spec: Spec, act: Act, seen: np.ndarray, episodes: int, actions: list[np.ndarray], each_step: Callable[[], None]
) -> Callable[[int], np.ndarray]:
    """What the environment gets at each step, for what is seen then; the policy's own actions are noted."""
    lanes, agents = seen.shape[1:3]
    to_env, flat = spec.action_space.converter(lanes * agents), seen.reshape(len(seen), lanes * agents, -1)
    shape = (lanes, agents, *spec.action_space.shape)

    def ask(t: int) -> np.ndarray:
        each_step()
        action = act(t, flat[t])
        actions.append(action)
        return to_env(action).reshape(shape)[:episodes]

    return ask


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
