"""The records that travel between the rooms. Axes, in this order wherever they occur:

P population, T time, N environments, A agents, C channels, R references.
A is always there (1 for one agent); agents are homogeneous and share one policy.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array


class Discrete(NamedTuple):
    """An action space of `n` choices."""

    n: int


class Spec(NamedTuple):
    """What an environment tells about itself before anything runs; all of it static."""

    obs_size: int
    action_space: Discrete
    horizon: int
    """Steps after which an episode is truncated; every trajectory has this length."""
    agents: int = 1
    reset_noise: int = 0
    """How many uniform numbers in [0, 1) one reset consumes."""
    step_noise: int = 0
    """How many uniform numbers in [0, 1) one step consumes."""


class Step(NamedTuple):
    """What one step of one environment gives. There is no automatic reset: `obs` is always the one after the action."""

    obs: Array  # [A, O]
    reward: Array  # [A]
    terminated: Array  # [] the task ended: no future reward exists
    # Truncation is not here: the collector truncates at `Spec.horizon`, and nothing else does.


class Samples(NamedTuple):
    """Single steps; the axes [T, N, A] stand before those given, or one axis of samples does."""

    obs: Array  # [O]
    action: Array  # []
    reward: Array  # []
    counted: Array  # [] whether it enters losses and likelihoods


class Trajectory(eqx.Module):
    """A batch of whole episodes, one a column. An episode that terminates early stays frozen until the horizon."""

    obs: Array  # [T, N, A, O] before the action
    action: Array  # [T, N, A]
    log_prob: Array  # [T, N, A] under the policy that acted
    reward: Array  # [T, N, A]
    terminated: Array  # [T, N] true from the terminating step on
    live: Array  # [T, N] false on the frozen steps after termination
    counted: Array  # [T, N] the steps that enter losses and likelihoods: the live ones, or all (`PPO.padding`)
    last_obs: Array  # [N, A, O] after the last action
    state: Any = None  # the environment's own states [T, N, ...] after each action, when recorded
    start: Any = None  # those before the first action [N, ...], when recorded

    @property
    def samples(self) -> Samples:
        counted = jnp.broadcast_to(self.counted[..., None], self.action.shape)
        return Samples(self.obs, self.action, self.reward, counted)


class Shape(NamedTuple):
    """One thing to draw, in the environment's own coordinates: a disc, or a limb with round ends."""

    role: str  # "agent", "goal", ...: renderers choose the colour by it
    x: float
    y: float
    size: float  # the radius of the disc, half the thickness of the limb
    label: str = ""
    end: tuple[float, float] | None = None  # where a limb that begins at (x, y) ends; None: a disc
