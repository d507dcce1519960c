"""Collecting episodes from a host environment: the same record as from a JAX environment.

Episodes are dealt in shares, one a core. Whoever plays a share asks the policy, then steps the instances, all the way
to the horizon: none waits for another. An environment that has a name plays in processes, any other in threads. What
comes out depends on the key and the number of devices alone.
"""

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import jax
import numpy as np
from jax import Array

from rspo.actor import action_noise, actor, log_prob, plain
from rspo.distributions import Distribution
from rspo.errors import InputError
from rspo.host import Batch, HostEnv
from rspo.play import Record, play
from rspo.player import Player
from rspo.policy import Policy
from rspo.types import Padding, Trajectory

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
    noise = action_noise(policy, (episodes, spec.agents, spec.obs_size), spec.horizon, key)
    seeds = episode_seeds(key, episodes)
    shares = [slice(first, min(first + lanes, episodes)) for first in range(0, episodes, lanes)]
    workers = 1 if env.most_lanes is not None else min(len(shares), jax.device_count())
    stop = threading.Event()
    free: queue.SimpleQueue[PlayShare] = queue.SimpleQueue()
    processes = _processes(env) if workers > 1 and not record and isinstance(policy, Policy) else []
    if processes:
        players = _far(processes, cast(Policy, policy), padding, greedy)
    else:
        players = _near(env, policy, lanes, workers, padding, greedy, record, stop)
    for player in players:
        free.put(player)

    def play_share(share: slice) -> Record:
        player = free.get()  # at once: there is one for every thread
        rows = player(_padded(noise[:, share], lanes), seeds[share])
        free.put(player)
        return rows

    with ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(play_share, share) for share in shares]
        try:
            parts = [task.result() for task in tasks]
        except BaseException:
            stop.set()  # Ctrl-C, or another share failed: do not play on to the horizon
            _end(processes)
            _PROCESSES.pop(env, None)
            for task in tasks:
                task.cancel()
            raise
    return _trajectory(env, parts, padding, policy)


PlayShare = Callable[[np.ndarray, np.ndarray], Record]  # of the noise and the seeds of its episodes


def _far(processes: list[Player], policy: Policy, padding: Padding, greedy: bool) -> list[PlayShare]:
    return [partial(process.play, plain(policy), greedy, padding=padding) for process in processes]


def _near(
    env: HostEnv,
    policy: Callable[[Array], Distribution],
    lanes: int,
    workers: int,
    padding: Padding,
    greedy: bool,
    record: bool,
    stop: threading.Event,
) -> list[PlayShare]:
    """In threads of this process."""
    return [
        partial(play, env, batch, actor(policy, device, greedy), padding=padding, record=record, stop=stop)
        for batch, device in zip(_batches(env, lanes, workers), jax.devices(), strict=False)
    ]


def episode_seeds(key: Array, episodes: int) -> np.ndarray:
    """The seed that each episode of a batch begins from: [N]."""
    return np.asarray(_seeds(key, episodes), np.int64)


@partial(jax.jit, static_argnums=1)
def _seeds(key: Array, episodes: int) -> Array:
    return jax.random.randint(jax.random.split(key, 3)[0], (episodes,), 0, 2**31 - 1)


def _trajectory(
    env: HostEnv, parts: list[Record], padding: Padding, policy: Callable[[Array], Distribution]
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


_PROCESSES: weakref.WeakKeyDictionary[HostEnv, list[Player]] = weakref.WeakKeyDictionary()


def _processes(env: HostEnv) -> list[Player]:
    """One a core that plays this environment, kept as long as it is; none if others cannot make it."""
    if env.name is None:
        return []
    if env not in _PROCESSES:
        players = _PROCESSES[env] = [Player(env.name) for _ in range(jax.device_count())]
        weakref.finalize(env, _end, players)
        if not all(player.knows() for player in players):
            _end(players)
    return _PROCESSES[env]


def _end(players: list[Player]) -> None:
    while players:
        players.pop().close()
