"""What makes a method a method: the contract between PPO and the objectives.

An objective is a frozen dataclass of its own settings (they become command-line flags) with pure functions. It
declares reward channels and scores a batch of trajectories; PPO learns one value head a channel and never asks which
method it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from rspo.core.policies import Policy
from rspo.core.types import Spec, Trajectory
from rspo.methods.references import References


class Score(NamedTuple):
    """What an objective makes of a batch."""

    reward: Array  # [T, N, A, C] the reward streams
    weight: Array  # [T, N, A, C] what each stream's normalised advantage counts for
    metrics: dict[str, Array]  # scalars, or [R] for one number a reference
    settled: Array | None = None  # [C] true for streams that owe nothing after an episode, even one cut off; None: none


@dataclass(frozen=True)
class Method:
    """The base: the task's own reward, one channel, nothing learned on the side."""

    def validate(self) -> None:
        """Refuse, in one sentence, settings that make no sense together."""

    def channels(self, capacity: int) -> int:
        """How many reward streams, given room for `capacity` references."""
        return 1

    def init(self, spec: Spec, key: Array) -> Any:
        """The objective's own learners at the start of an iteration."""
        return ()

    def memory(self, spec: Spec, key: Array) -> Any:
        """The structure of what `remember` gives."""
        return ()

    def score(self, state: Any, trajectory: Trajectory, references: References, progress: Array | float) -> Score:
        """Rewards from a batch; `progress` is the part of the iteration that is done, from 0 to 1."""
        reward = trajectory.reward[..., None]
        return Score(reward, jnp.ones_like(reward), {})

    def loss(self, state: Any, policy: Policy, trajectory: Trajectory) -> Array:
        """An auxiliary actor loss."""
        return jnp.zeros(())

    def update(self, state: Any, trajectory: Trajectory, key: Array) -> Any:
        """One step of the objective's own learners."""
        return state

    def remember(self, state: Any, policy: Policy, play: Callable[[Any, Array], Trajectory], key: Array) -> Any:
        """What to keep of a finished policy beside itself; `play(policy, key)` collects a batch of episodes."""
        return ()
