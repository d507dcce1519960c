"""The records that travel between the rooms. Axes, in this order wherever they occur:

P population, T time, N environments, A agents, C channels, R references.
A is always there (1 for one agent); agents are homogeneous and share one policy.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array


class Discrete(NamedTuple):
    """An action space of `n` choices."""

    n: int

    @property
    def continuous(self) -> bool:
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return ()

    def to_env(self, action: Any) -> Any:
        """What the environment gets for an action of the policy's."""
        return action

    def converter(self, rows: int) -> Callable[[np.ndarray], np.ndarray]:
        """`to_env` for NumPy arrays, as copies: an environment may write into what it gets."""
        return np.copy


class Box(NamedTuple):
    """An action space of `n` real numbers, each between two bounds; an infinite bound is none.

    A policy acts in units in which the bounds are -1 and 1, whatever the environment's own: one initial deviation then
    suits every robot, and likelihoods do not depend on units. Where a bound is infinite its own units stay.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def continuous(self) -> bool:
        return True

    @property
    def n(self) -> int:
        return len(self.low)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return (self.n,)

    @property
    def scale(self) -> tuple[np.ndarray, ...]:
        """Both bounds, the middle and half the width, [n] each; 0 and 1 where there are no bounds."""
        return _scale(self)

    def to_env(self, action: Any) -> Any:
        """What the environment gets for an action [..., n] of the policy's: scaled, then clipped to the bounds."""
        low, high, middle, half = self.scale
        xp = action.__array_namespace__()
        return xp.minimum(xp.maximum(middle + half * action, low), high)  # a third of the time of NumPy's clip

    def converter(self, rows: int) -> Callable[[np.ndarray], np.ndarray]:
        """`to_env` for NumPy arrays [rows, n], one after another: without what takes longer than to compute."""
        low, high, middle, half = (np.ascontiguousarray(np.broadcast_to(x, (rows, self.n))) for x in self.scale)
        maximum, minimum = np.maximum, np.minimum
        if (middle == 0).all() and (half == 1).all():
            return lambda action: minimum(maximum(action, low), high)
        return lambda action: minimum(maximum(middle + half * action, low), high)


@lru_cache
def _scale(space: Box) -> tuple[np.ndarray, ...]:
    low, high = np.array(space.low, np.float32), np.array(space.high, np.float32)
    bounded = np.isfinite(low) & np.isfinite(high)
    lowest, highest = np.where(bounded, low, np.float32(-1)), np.where(bounded, high, np.float32(1))
    return low, high, (highest + lowest) / 2, (highest - lowest) / 2


ActionSpace = Discrete | Box


class Spec(NamedTuple):
    """What an environment tells about itself before anything runs; all of it static."""

    obs_size: int
    action_space: ActionSpace
    horizon: int
    """Steps after which an episode is truncated; every trajectory has this length."""
    agents: int = 1
    reset_noise: int = 0
    """How many uniform numbers in [0, 1) one reset consumes."""
    step_noise: int = 0
    """How many uniform numbers in [0, 1) one step consumes."""


Padding = Literal["count", "drop", "restart"]
"""What follows when an episode ends before the horizon (`PPO.padding`)."""


class Step(NamedTuple):
    """What one step of one environment gives. There is no automatic reset: `obs` is always the one after the action."""

    obs: Array  # [A, O]
    reward: Array  # [A]
    terminated: Array  # [] the task ended: no future reward exists
    # Truncation is not here: the collector truncates at `Spec.horizon`, and nothing else does.


class Samples(NamedTuple):
    """Single steps; the axes [T, N, A] stand before those given, or one axis of samples does."""

    obs: Array  # [O]
    action: Array  # [] a choice, or [D] numbers in the policy's units
    reward: Array  # []
    counted: Array  # [] whether it enters losses and likelihoods


class Trajectory(eqx.Module):
    """A batch of episodes, one a column, all of the horizon's length. One that terminates early stays frozen until
    then, or, with the padding "restart", gives way to the next one."""

    obs: Array  # [T, N, A, O] before the action
    action: Array  # [T, N, A] choices, or [T, N, A, D] numbers in the policy's units
    log_prob: Array | None  # [T, N, A] under the policy that acted; None of a host environment
    reward: Array  # [T, N, A]
    terminated: Array  # [T, N] true from the terminating step on; with "restart", at terminating steps alone
    live: Array  # [T, N] false on the frozen steps after termination
    counted: Array  # [T, N] the steps that enter losses and likelihoods: the live ones, or all (`PPO.padding`)
    last_obs: Array  # [N, A, O] after the last action
    state: Any = None  # the environment's own states [T, N, ...] after each action, when recorded
    start: Any = None  # those before the first action [N, ...], when recorded
    truncated: Any = None  # [T, N] true at a step after which a host environment cut the episode short of the horizon

    @property
    def samples(self) -> Samples:
        counted = jnp.broadcast_to(self.counted[..., None], self.reward.shape)
        return Samples(self.obs, self.action, self.reward, counted)

    @property
    def ended(self) -> Array:
        """[T, N] true where an episode ended before the horizon, or a host environment cut it short."""
        return self.terminated if self.truncated is None else self.terminated | self.truncated

    @property
    def first(self) -> Array:
        """[T, N] the steps of each column's first episode: what a return is the sum over."""
        ended = self.ended
        xp = ended.__array_namespace__()
        before = xp.concat([xp.zeros_like(ended[:1]), ended[:-1]])
        return xp.cumulative_sum(xp.astype(before, xp.int32), axis=0) == 0

    @property
    def returns(self) -> Array:
        """[N, A] the undiscounted sum of each column's first episode."""
        return (self.reward * self.first[..., None]).sum(0)


class Descriptor(NamedTuple):
    """The name of the strategy that a batch of episodes shows, and the numbers behind the name."""

    label: str
    stats: Mapping[str, float]
    clear: bool = True
    """False if the episodes show no one strategy: such a label is distinct only as that of the first good policy."""


class Played(NamedTuple):
    """What `pictures` knows of a finished strategy."""

    label: str | None  # of its descriptor
    stats: Mapping[str, float]  # the same
    episodes: Callable[[], Trajectory]  # plays its greedy evaluation episodes again, recorded (NumPy)


class Shape(NamedTuple):
    """One thing to draw, in the environment's own coordinates: a disc, or a limb with round ends."""

    role: str  # "agent", "goal", ...: renderers choose the colour by it
    x: float
    y: float
    size: float  # the radius of the disc, half the thickness of the limb
    label: str = ""
    end: tuple[float, float] | None = None  # where a limb that begins at (x, y) ends; None: a disc
