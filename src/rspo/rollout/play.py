"""Plays one share of a host environment's episodes, from start to horizon: plain NumPy, in any
process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from rspo.core.distributions import Noise
from rspo.core.types import Padding, View, as_view
from rspo.envs import given
from rspo.envs.base import HostEnv, Instances

# separates the noise of an episode's actions from the environment's, which has the same seed
ACTIONS = 1


class Stopped(Exception):
    """The rest of these episodes is no longer wanted."""


class Share(NamedTuple):
    """Some of the episodes, and how to play them."""

    seeds: np.ndarray  # [n]
    lanes: int  # number of instances; the first n are used
    noise: Noise  # what the policy's distribution needs, for one episode
    padding: Padding
    greedy: bool = False
    record: bool = False
    latent: np.ndarray | None = None  # [n, Z]


@dataclass
class Record:
    """The record of one share of the episodes, [T, n, ...]."""

    view: View
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    live: np.ndarray
    alive: np.ndarray  # [T, n, A]
    last: View  # [n, ...]
    features: np.ndarray | None = None
    states: list[Any] = field(default_factory=list)
    start: Any = None


def play(
    env: HostEnv, batch: Instances, policy: Any, share: Share, each_step: Callable[[], None]
) -> Record:
    """Play a share; an error in the environment's own code becomes one sentence."""
    with given.own_code(env.title):
        return play_share(env, batch, policy, share, each_step)


def play_share(
    env: HostEnv, batch: Instances, policy: Any, share: Share, each_step: Callable[[], None]
) -> Record:
    """Play a share from start to horizon. `each_step` is called before each step, and may raise
    `Stopped`."""
    return _Playing(env, batch, policy, share).to_the_horizon(each_step)


class _Playing:
    """The policy sees all lanes, used or not, so that its sums do not depend on the other
    lanes."""

    def __init__(self, env: HostEnv, batch: Instances, policy: Any, share: Share) -> None:
        spec, self.count = env.spec, len(share.seeds)
        self.env, self.batch, self.policy, self.share = env, batch, policy, share
        self.seeds, self.everyone = share.seeds.copy(), np.arange(self.count)
        self.steps, self.shape = (spec.horizon, self.count), (spec.agents, spec.obs_size)
        self.noise = draw(share.noise, spec.horizon, share.seeds, share.lanes)
        first = self._begun(self.everyone)
        room = lambda leaf: np.zeros((spec.horizon + 1, share.lanes, *leaf.shape[1:]), leaf.dtype)
        self.seen = jax.tree.map(room, first)
        self._show(0, self.everyone, first)
        self.latent = None
        if share.latent is not None:
            self.latent = np.zeros((share.lanes, spec.agents, share.latent.shape[-1]), np.float32)
            self.latent[: self.count] = share.latent[:, None]
        self.memory = policy.initial(share.lanes, spec.agents)

    def _begun(self, which: np.ndarray) -> View:
        """Begin new episodes in some of the instances."""
        obs = self.batch.reset(which, self.seeds[which])
        view = as_view(obs)
        return View(
            given.first(view.obs, (which.size, *self.shape)).astype(np.float32, copy=False),
            None if view.mask is None else np.asarray(view.mask, bool),
            None if view.state is None else np.asarray(view.state, np.float32),
        )

    def _show(self, t: int, which: np.ndarray, view: View) -> None:
        for room, now in zip(self.seen, view, strict=True):
            if room is not None:
                room[t, which] = now

    def _act(self, t: int) -> np.ndarray:
        now = jax.tree.map(lambda room: room[t], self.seen)._replace(latent=self.latent)
        self.memory, distribution = self.policy.step(self.memory, now)
        return np.asarray(
            distribution.mode() if self.share.greedy else distribution.sample(self.noise[t])
        )

    def to_the_horizon(self, each_step: Callable[[], None]) -> Record:
        spec, record, count = self.env.spec, self.share.record, self.count
        rows = self._empty()
        actions, to_env = [], spec.action_space.to_env
        live, cut, alive = (
            np.ones(count, bool),
            np.zeros(count, bool),
            np.ones((count, spec.agents), bool),
        )
        which = self.everyone
        for t in range(spec.horizon):
            each_step()
            for room in self.seen:
                if room is not None:
                    room[t + 1] = room[t]
            rows.live[t], rows.alive[t] = live, alive
            actions.append(self._act(t))
            terminated = truncated = np.zeros(0, bool)
            if which.size:
                # A copy: an environment may write into it.
                asked = np.array(to_env(actions[-1][:count][which]))
                step = given.whole(self.batch.step(which, asked), (which.size, *self.shape))
                self._show(t + 1, which, as_view(step.obs))
                rows.reward[t, which] = step.reward
                if step.alive is not None:
                    alive[which] = step.alive
                if rows.features is not None:
                    rows.features[t, which] = step.features
                terminated, truncated = step.terminated, step.truncated
            if record:
                rows.states.append(self._states())
            rows.truncated[t, which] = truncated & ~terminated
            live[which] = ~(terminated | truncated)
            rows.terminated[t] = ~live & ~rows.truncated[t]
            # An episode that the environment truncates is not followed by another: values
            # bootstrap from its end.
            cut |= rows.truncated[t]
            if self.share.padding == "restart" and (again := np.flatnonzero(~live & ~cut)).size:
                self.seeds[again] += 1
                self._show(t + 1, again, self._begun(again))
                live[again], alive[again] = True, True
                self._forget(again)
            which = self.everyone if live.all() else np.flatnonzero(live)
        rows.action = np.stack(actions)[:, :count]
        return rows

    def _forget(self, again: np.ndarray) -> None:
        """Reset the policy's memory of finished episodes."""
        fresh = self.policy.initial(again.size, self.env.spec.agents)
        for memory, new in zip(jax.tree.leaves(self.memory), jax.tree.leaves(fresh), strict=True):
            memory[again] = new

    def _states(self) -> Any:
        return jax.tree.map(lambda leaf: leaf[: self.count], self.batch.state())

    def _empty(self) -> Record:
        """An unfilled record."""
        spec, steps = self.env.spec, self.steps
        part = lambda cut: jax.tree.map(lambda room: room[cut][..., : self.count, :, :], self.seen)
        latent = None if self.latent is None else self.latent[: self.count]
        every = None if latent is None else np.broadcast_to(latent, (spec.horizon, *latent.shape))
        return Record(
            view=part(slice(None, -1))._replace(latent=every),
            action=np.empty(0),
            reward=np.zeros((*steps, spec.agents), np.float32),
            terminated=np.zeros(steps, bool),
            truncated=np.zeros(steps, bool),
            live=np.ones(steps, bool),
            alive=np.ones((*steps, spec.agents), bool),
            last=part(-1)._replace(latent=latent),
            features=np.zeros((*steps, spec.agents, spec.features), np.float32)
            if spec.features
            else None,
            start=self._states() if self.share.record else None,
        )


def draw(noise: Noise, steps: int, seeds: np.ndarray, lanes: int) -> np.ndarray:
    """The noise for every step of the episodes of these seeds: [T, lanes, A, ...], zeros in lanes
    without an episode. It depends only on the episodes' seeds, so any process can draw it."""
    rows = np.zeros((steps, lanes, *noise.shape), np.float32)
    for lane, seed in enumerate(seeds.tolist()):
        rng = np.random.default_rng((seed, ACTIONS))
        kind = rng.random if noise.kind == "uniform" else rng.standard_normal
        rows[:, lane] = kind((steps, *noise.shape), np.float32)
    return rows
