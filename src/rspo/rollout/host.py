"""Collecting episodes from a host environment: the same record as from a JAX environment.

Episodes are dealt in shares, one a core. Whoever plays a share asks the policy, then steps the instances, all the way
to the horizon: none waits for another. An environment that has a name trains in processes, any other in threads; what
is recorded for a description plays here. What comes out depends on the key and the number of players alone.
"""

import contextlib
import itertools
import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from rspo.core import interrupt
from rspo.core.devices import player_count
from rspo.core.distributions import Distribution
from rspo.core.policies import Policy
from rspo.core.types import Padding, Trajectory
from rspo.envs.base import HostEnv, Instances
from rspo.envs.given import own_code, warn_outside
from rspo.errors import InputError
from rspo.rollout.actor import actor, draw, noise_of, plain
from rspo.rollout.patience import Signs, watching
from rspo.rollout.play import Record, Stopped, play
from rspo.rollout.worker import Player, Question, to_bytes

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
    """As `rspo.rollout.collector.collect`; arrays are NumPy's, and log-probabilities are left to who needs them."""
    spec = env.spec
    if padding == "restart" and not env.can_restart:
        raise InputError(
            "ppo.padding is 'restart', but this vector environment cannot reset single environments: make it with "
            "autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED, or set ppo.padding to 'count' or 'drop'."
        )
    stage = _stage(env)
    share = -(-episodes // stage.most)
    lanes = min(share, LANES) if env.most_lanes is None else min(episodes, env.most_lanes)
    noise, seeds = noise_of(policy, (spec.agents, spec.obs_size)), episode_seeds(key, episodes)
    shares = [seeds[i : i + lanes] for i in range(0, episodes, lanes)]
    workers = 1 if env.most_lanes is not None else min(len(shares), stage.most)
    if workers > 1 and not record and isinstance(policy, Policy) and (players := stage.players(env)):
        with stage.losing(players):
            question, packed = Question(noise, lanes, greedy, padding), to_bytes(plain(policy))
            turns = zip(shares, itertools.cycle(tuple(players)), strict=False)
            asked = [player.ask(packed, question, seeds) for seeds, player in turns]
            with watching(env.title, *(player.signs for player in players)):
                parts = [answer() for answer in asked]
            return trajectory_of(env, parts, padding)
    stopped, signs = threading.Event(), Signs()

    def each_step() -> None:
        signs.beat()
        if stopped.is_set():
            raise Stopped

    def play_here(batch: Instances, device: Any, seeds: np.ndarray) -> Record:
        act = actor(policy, device, greedy, draw(noise, spec.horizon, seeds, lanes))
        return play(env, batch, act, lanes, seeds, padding, record, each_step)

    with stage.lock, watching(env.title, signs):
        cast = zip(stage.batches(env, lanes, workers), itertools.cycle(jax.devices()), strict=False)
        parts = _deal(shares, [partial(play_here, batch, device) for batch, device in cast], stopped.set)
    return trajectory_of(env, parts, padding)


Share = np.ndarray  # the seeds of its episodes


def _deal(shares: list[Share], play_share: Sequence[Callable[..., Record]], stop: Callable[[], None]) -> list[Record]:
    """Each share to one who is free, on a thread for each."""
    free: queue.SimpleQueue[Callable[..., Record]] = queue.SimpleQueue()
    for one in play_share:
        free.put(one)

    def take(share: Share) -> Record:
        one = free.get()  # at once: there is one for every thread
        try:
            return one(share)
        finally:
            free.put(one)

    with ThreadPoolExecutor(len(play_share)) as pool:
        tasks = [pool.submit(take, share) for share in shares]
        try:
            return interrupt.results(tasks)
        except BaseException:  # Ctrl-C, or a share failed: do not play the others to the horizon
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


def episode_seeds(key: Array, episodes: int) -> np.ndarray:
    """The seed that each episode of a batch begins from: [N]."""
    return np.asarray(_seeds(key, episodes), np.int64)


@partial(jax.jit, static_argnums=1)
def _seeds(key: Array, episodes: int) -> Array:
    return jax.random.randint(jax.random.split(key, 3)[0], (episodes,), 0, 2**31 - 1)


def trajectory_of(env: HostEnv, parts: list[Record], padding: Padding) -> Trajectory:
    def join(name: str, axis: int = 1) -> Any:
        return np.concatenate([getattr(part, name) for part in parts], axis)

    live = join("live")
    states = [jax.tree.map(lambda *leaves: np.stack(leaves), *part.states) for part in parts if part.states]
    rows: dict[str, Any] = {name: join(name) for name in ("obs", "action", "reward", "terminated")}
    for name, what in (("obs", "an observation"), ("reward", "a reward")):
        if not np.isfinite(rows[name]).all():
            raise InputError(f"{env.title} gave {what} that is not finite; see rspo.check_env.")
    warn_outside(env, rows["obs"])
    return Trajectory(
        **rows,
        log_prob=None,
        live=live,
        counted=live | (padding == "count"),
        last_obs=join("last_obs", 0),
        state=jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *states) if states else None,
        start=jax.tree.map(lambda *leaves: np.concatenate(leaves, 0), *(part.start for part in parts)),
        truncated=join("truncated"),
    )


class _Stage:
    """What an environment is played on: made when it is needed, and kept, for making it takes its time."""

    def __init__(self) -> None:
        self.most = player_count()  # at a time, be it processes or threads
        self.lock = threading.Lock()  # threads of the caller's take turns, but for what processes play
        self._batches: dict[int, list[Instances]] = {}
        self._players: list[Player] | None = None

    def batches(self, env: HostEnv, lanes: int, count: int) -> list[Instances]:
        """As many batches of this many instances each."""
        made = self._batches.setdefault(lanes, [])
        while len(made) < count:
            with own_code(env.title, "making it"):
                made.append(env.batch(lanes))
        return made[:count]

    def players(self, env: HostEnv) -> list[Player]:
        """A process a core; none if others cannot make this environment."""
        if env.name is None:
            return []
        with self.lock:
            if self._players is None:
                players = [Player(env.name) for _ in range(self.most)]
                weakref.finalize(env, _end, players)
                try:
                    with watching(env.title, *(player.signs for player in players)):
                        known = [player.knows(env.spec) for player in players]
                    if not all(known):
                        _end(players)
                except BaseException:
                    _end(players, now=True)
                    raise
                self._players = players
            return self._players

    @contextlib.contextmanager
    def losing(self, players: list[Player]) -> Iterator[None]:
        """Them all if this fails, or on Ctrl-C: nobody plays the others' shares to the horizon."""
        try:
            yield
        except BaseException:
            if self._players is players:
                self._players = None  # first: a second Ctrl-C may come while they end
            _end(players, now=True)
            raise

    def kill(self) -> None:
        """Processes at once, whoever holds the lock."""
        for player in self._players or []:
            player.kill()

    def leave(self) -> None:
        self._batches.clear()
        _end(self._players or [])
        self._players = None


_STAGES: weakref.WeakKeyDictionary[HostEnv, _Stage] = weakref.WeakKeyDictionary()


def _kill_all() -> None:
    for stage in list(_STAGES.values()):
        stage.kill()


interrupt.killed_too.append(_kill_all)


def _stage(env: HostEnv) -> _Stage:
    return _STAGES.setdefault(env, _Stage())


def leave(env: HostEnv) -> None:
    """Let go of what this environment was played on, its processes first of all."""
    _STAGES.pop(env, _Stage()).leave()


def _end(players: list[Player], now: bool = False) -> None:
    """At once, if need be, or if they play what nobody waits for."""
    for player in players:
        player.kill() if now or player.asked else player.dismiss()
    while players:
        players.pop().wait()
