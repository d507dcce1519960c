"""Collects episodes from a host environment, as the same record as from a JAX environment.

Episodes are split into shares, one per core. Each worker alternates between policy and instances
all the way to the horizon, without waiting for the others. An environment with a name runs in
worker processes, any other in threads; episodes recorded for a description are played in this
process. The result depends only on the key and the number of players.
"""

import contextlib
import dataclasses
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
from rspo.core.devices import compiler_options, everywhere, player_count
from rspo.core.distributions import Noise
from rspo.core.policies import Policy
from rspo.core.types import Padding, Trajectory, View
from rspo.envs.base import HostEnv, Instances
from rspo.envs.given import own_code, warn_outside
from rspo.errors import InputError
from rspo.rollout.base import Acting, Collector, Function, S
from rspo.rollout.patience import Signs, watching
from rspo.rollout.play import Record, Share, Stopped, play
from rspo.rollout.worker import Player, to_bytes

LANES = 64  # maximum instances per batch: more would only wait for each other


class HostCollector(Collector):
    """Steps instances on the CPU, in worker processes or in threads. These are created on first
    use and kept, because creation is slow."""

    env: HostEnv
    compiled = False

    def __init__(self, env: HostEnv) -> None:
        super().__init__(env)
        self.most = player_count()  # parallel processes or threads
        self.lock = threading.Lock()  # the caller's threads take turns, except for worker processes
        self._batches: dict[int, list[Instances]] = {}
        self._players: list[Player] | None = None
        _COLLECTORS.add(self)

    def __call__(
        self,
        policy: Acting,
        episodes: int,
        key: Array,
        *,
        padding: Padding = "count",
        greedy: bool = False,
        record: bool = False,
        latent: Any = None,
    ) -> Trajectory:
        """Returns NumPy arrays, without log-probabilities."""
        env = self.env
        if padding == "restart" and not env.can_restart:
            raise InputError(
                "ppo.padding is 'restart', but this vector environment cannot reset single "
                "environments: make it with autoreset_mode="
                "gymnasium.vector.AutoresetMode.DISABLED, or set ppo.padding to 'count' or 'drop'."
            )
        policy = jax.tree.map(np.asarray, policy)
        share = -(-episodes // self.most)
        lanes = min(share, LANES) if env.most_lanes is None else min(episodes, env.most_lanes)
        noise, seeds = noise_of(policy, env, latent), episode_seeds(key, episodes)
        part = lambda i, rows: None if rows is None else np.asarray(rows)[i : i + lanes]
        shares = [
            Share(seeds[i : i + lanes], lanes, noise, padding, greedy, record, part(i, latent))
            for i in range(0, episodes, lanes)
        ]
        workers = 1 if env.most_lanes is not None else min(len(shares), self.most)
        if (
            workers > 1
            and not record
            and isinstance(policy, Policy)
            and (players := self.players())
        ):
            return trajectory_of(env, self._play_in_processes(policy, shares, players), padding)
        played = trajectory_of(env, self._play_in_threads(policy, shares, workers), padding)
        return dataclasses.replace(played, seeds=seeds) if record else played

    def _play_in_processes(
        self, policy: Policy, shares: list[Share], players: list[Player]
    ) -> list[Record]:
        with self.losing(players):
            packed = to_bytes(policy)
            turns = zip(shares, itertools.cycle(tuple(players)), strict=False)
            asked = [player.ask(packed, share) for share, player in turns]
            with watching(self.env.title, *(player.signs for player in players)):
                return [answer() for answer in asked]

    def _play_in_threads(self, policy: Acting, shares: list[Share], workers: int) -> list[Record]:
        stopped, signs = threading.Event(), Signs()

        def each_step() -> None:
            signs.beat()
            if stopped.is_set():
                raise Stopped

        def play_here(batch: Instances, share: Share) -> Record:
            return play(self.env, batch, policy, share, each_step)

        with self.lock, watching(self.env.title, signs):
            batches = self.batches(shares[0].lanes, workers)
            return _deal(shares, [partial(play_here, batch) for batch in batches], stopped.set)

    def program(self, function: Function) -> Function:
        return function

    def each(self, function: Callable[[Any], Any], count: int) -> Any:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *(function(i) for i in range(count)))

    def trainer(
        self,
        play: Callable[[S, Any], Any],
        learn: Callable[[S, Any, Any, Any], tuple[S, dict[str, Array]]],
        rows: int,
    ) -> Callable[[S, Any, Any, Any], tuple[S, dict[str, Any]]]:
        """Alternates rollouts in Python with the compiled learner."""
        learn = jax.jit(
            learn,
            in_shardings=everywhere(),
            out_shardings=everywhere(),
            compiler_options=compiler_options(),
        )
        placed = partial(jax.device_put, device=everywhere())  # slower inside the compiled program

        def advance(state: S, rivals: Any, keys: Array, count: int) -> tuple[S, dict[str, Any]]:
            learn_from, learn_keys = placed((rivals, keys))
            table = []
            for _ in range(count):
                interrupt.check()
                data = play(jax.device_get(state), keys)
                state, metrics = learn(state, learn_from, placed(data), learn_keys)
                table.append(metrics)
            return state, jax.tree.map(lambda *column: np.stack(column), *jax.device_get(table))

        return advance

    def batches(self, lanes: int, count: int) -> list[Instances]:
        """`count` batches of `lanes` instances each."""
        made = self._batches.setdefault(lanes, [])
        while len(made) < count:
            with own_code(self.env.title, "making it"):
                made.append(self.env.batch(lanes))
        return made[:count]

    def players(self) -> list[Player]:
        """One worker process per core; none if other processes cannot make this environment."""
        if self.env.name is None:
            return []
        with self.lock:
            if self._players is None:
                name, horizon = self.env.name, self.env.spec.horizon
                players = [Player(name, horizon) for _ in range(self.most)]
                weakref.finalize(self, _end, players)
                try:
                    with watching(self.env.title, *(player.signs for player in players)):
                        known = [player.knows(self.env.spec) for player in players]
                    if not all(known):
                        _end(players)
                except BaseException:
                    _end(players, now=True)
                    raise
                self._players = players
            return self._players

    @contextlib.contextmanager
    def losing(self, players: list[Player]) -> Iterator[None]:
        """Drop all workers on failure or Ctrl-C, so that none plays its share to the horizon."""
        try:
            yield
        except BaseException:
            if self._players is players:
                self._players = None  # first: a second Ctrl-C may come while they end
            _end(players, now=True)
            raise

    def kill(self) -> None:
        """Kill the processes at once, without taking the lock."""
        for player in self._players or []:
            player.kill()

    def close(self) -> None:
        self._batches.clear()
        _end(self._players or [])
        self._players = None


_COLLECTORS: weakref.WeakSet[HostCollector] = weakref.WeakSet()


def _kill_all() -> None:
    for one in list(_COLLECTORS):
        one.kill()


interrupt.killed_too.append(_kill_all)


def noise_of(policy: Acting, env: HostEnv, latent: Any) -> Noise:
    """The noise that the policy's distribution needs to sample, for one episode."""
    spec = env.spec
    size = None if latent is None else latent.shape[-1]
    view = View(np.zeros((1, spec.agents, spec.obs_size), np.float32))
    if size is not None:
        view = view._replace(latent=np.zeros((1, spec.agents, size), np.float32))
    kind, shape = policy.step(policy.initial(1, spec.agents), view)[1].noise
    return Noise(kind, shape[1:])


def _deal(
    shares: list[Share], play_share: Sequence[Callable[[Share], Record]], stop: Callable[[], None]
) -> list[Record]:
    """Give each share to a free worker, on one thread per share."""
    free: queue.SimpleQueue[Callable[..., Record]] = queue.SimpleQueue()
    for one in play_share:
        free.put(one)

    def take(share: Share) -> Record:
        one = free.get()  # without waiting: there is one per thread
        try:
            return one(share)
        finally:
            free.put(one)

    with ThreadPoolExecutor(len(play_share)) as pool:
        tasks = [pool.submit(take, share) for share in shares]
        try:
            return interrupt.results(tasks)
        except BaseException:  # Ctrl-C, or a share failed: stop the others too
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


def episode_seeds(key: Array, episodes: int) -> np.ndarray:
    """The seed of each episode in a batch: [N]."""
    return np.asarray(_seeds(key, episodes), np.int64)


@partial(jax.jit, static_argnums=1)
def _seeds(key: Array, episodes: int) -> Array:
    return jax.random.randint(jax.random.split(key, 3)[0], (episodes,), 0, 2**31 - 1)


def trajectory_of(env: HostEnv, parts: list[Record], padding: Padding) -> Trajectory:
    """The shares concatenated."""

    def join(name: str, axis: int = 1) -> Any:
        values = [getattr(part, name) for part in parts]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis), *values)

    live, view, reward = join("live"), join("view"), join("reward")
    for values, what in ((view.obs, "an observation"), (reward, "a reward")):
        if not np.isfinite(values).all():
            raise InputError(f"{env.title} gave {what} that is not finite; see rspo.check_env.")
    warn_outside(env, view.obs)
    states = [
        jax.tree.map(lambda *leaves: np.stack(leaves), *part.states)
        for part in parts
        if part.states
    ]
    return Trajectory(
        view=view,
        action=join("action"),
        log_prob=None,
        reward=reward,
        terminated=join("terminated"),
        live=live,
        counted=join("alive") & (live | (padding == "count"))[..., None],
        last=join("last", 0),
        state=jax.tree.map(lambda *leaves: np.concatenate(leaves, 1), *states) if states else None,
        start=join("start", 0),
        truncated=join("truncated"),
        features=join("features"),
    )


def _end(players: list[Player], now: bool = False) -> None:
    """End the workers, by force if need be or if they still play an unwanted share."""
    for player in players:
        player.kill() if now or player.asked else player.dismiss()
    while players:
        players.pop().wait()
