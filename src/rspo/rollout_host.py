"""Collecting episodes from a host environment: the same record as from a JAX environment.

Episodes are dealt to the threads in shares. A thread asks the policy, then steps its instances, all the way to the
horizon: no thread ever waits for another. What comes out depends on the key and the number of devices alone.
"""

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax import Array

from rspo.actor import Act, action_noise, actor, log_prob
from rspo.distributions import Distribution
from rspo.errors import InputError
from rspo.host import Batch, HostEnv
from rspo.types import Padding, Spec, Trajectory

LANES = 64  # instances in one batch at most: more would only wait for each other


def collect(
    env: HostEnv,
    policy: Callable[[Array], Distribution],
    episodes: int,
    key: Array,
    *,
    padding: Padding = "count",
    greedy: bool = False,
    record: bool = False,
) -> Trajectory:
    """As `rspo.rollout.collect`; arrays are NumPy's."""
    spec = env.spec
    if padding == "restart" and not env.can_restart:
        raise InputError(
            "ppo.padding is 'restart', but this vector environment cannot reset single environments: make it with "
            "autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED, or set ppo.padding to 'count' or 'drop'."
        )
    share = -(-episodes // jax.device_count())
    lanes = min(share, LANES) if env.most_lanes is None else min(episodes, env.most_lanes)
    noise = action_noise(policy, (episodes, spec.agents, spec.obs_size), spec.horizon, jax.random.split(key, 3)[2])
    seeds = episode_seeds(key, episodes)
    shares = [slice(first, min(first + lanes, episodes)) for first in range(0, episodes, lanes)]
    workers = 1 if env.most_lanes is not None else min(len(shares), jax.device_count())
    stop = threading.Event()
    free: queue.SimpleQueue[tuple[Batch, Act]] = queue.SimpleQueue()
    for batch, device in zip(_batches(env, lanes, workers), jax.devices(), strict=False):
        free.put((batch, actor(policy, device, greedy)))

    def play(share: slice) -> _Record:
        batch, act = free.get()  # at once: there is one for every thread
        rows = _play(env, batch, act, _padded(noise[:, share], lanes), seeds[share], padding, record, stop)
        free.put((batch, act))
        return rows

    with ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(play, share) for share in shares]
        try:
            parts = [task.result() for task in tasks]
        except BaseException:
            stop.set()  # Ctrl-C, or another share failed: do not play on to the horizon
            for task in tasks:
                task.cancel()
            raise
    return _trajectory(env, parts, padding, policy)


def episode_seeds(key: Array, episodes: int) -> np.ndarray:
    """The seed that each episode of a batch begins from: [N]."""
    return np.asarray(jax.random.randint(jax.random.split(key, 3)[0], (episodes,), 0, 2**31 - 1), np.int64)


class _Record:
    """What one share of the episodes gives, [T, n, ...]."""

    def __init__(self, spec: Spec, obs: np.ndarray, action: np.ndarray) -> None:
        steps = (spec.horizon, len(obs))
        self.obs = np.empty((spec.horizon, *obs.shape), np.float32)
        self.action = np.empty((spec.horizon, *action.shape), action.dtype)
        self.reward = np.zeros((*steps, spec.agents), np.float32)
        self.terminated = np.zeros(steps, bool)
        self.truncated = np.zeros(steps, bool)
        self.live = np.zeros(steps, bool)
        self.states: list[Any] = []
        self.start: Any = None
        self.last_obs = obs


def _play(
    env: HostEnv,
    batch: Batch,
    act: Act,
    noise: np.ndarray,
    seeds: np.ndarray,
    padding: Padding,
    record: bool,
    stop: threading.Event,
) -> _Record:
    """One share of the episodes, from their start to the horizon. The policy sees all lanes, used or not, so that it is
    compiled for one size."""
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
            break
        action = act(obs, noise[t])[:episodes]
        if rows is None:
            rows = _Record(spec, obs[:episodes], action)
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


def _trajectory(
    env: HostEnv, parts: list[_Record], padding: Padding, policy: Callable[[Array], Distribution]
) -> Trajectory:
    def join(name: str, axis: int = 1) -> Any:
        return np.concatenate([getattr(part, name) for part in parts], axis)

    live = join("live")
    states = [jax.tree.map(lambda *leaves: np.stack(leaves), *part.states) for part in parts if part.states]
    rows: dict[str, Any] = {name: join(name) for name in ("obs", "action", "reward", "terminated")}
    rows["log_prob"] = log_prob(policy, rows["obs"], rows["action"])
    for name, what in (("obs", "an observation"), ("reward", "a reward")):
        if not np.isfinite(rows[name]).all():
            raise InputError(f"{type(env).__name__} gave {what} that is not finite; see rspo.check_env.")
    return Trajectory(
        **rows,
        live=live,
        counted=live | (padding == "count"),
        last_obs=join("last_obs", 0),
        state=jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *states) if states else None,
        start=jax.tree.map(lambda *leaves: np.concatenate(leaves, 0), *(part.start for part in parts)),
        truncated=join("truncated"),
    )


def _padded(noise: np.ndarray, lanes: int) -> np.ndarray:
    """Noise for every lane of a batch, used or not."""
    missing = lanes - noise.shape[1]
    return np.pad(noise, [(0, 0), (0, missing)] + [(0, 0)] * (noise.ndim - 2)) if missing else noise


_BATCHES: weakref.WeakKeyDictionary[HostEnv, dict[int, list[Batch]]] = weakref.WeakKeyDictionary()


def _batches(env: HostEnv, lanes: int, count: int) -> list[Batch]:
    """Batches of this many instances each. They are kept as long as their environment is: making them is slow."""
    made = _BATCHES.setdefault(env, {}).setdefault(lanes, [])
    while len(made) < count:
        made.append(env.batch(lanes))
    return made[:count]
