"""The simplest iterative method: steps that would surprise the kept policies pay a little more."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from rspo import Method
from rspo.core.settings import Positive
from rspo.core.types import Trajectory
from rspo.methods.base import Score, Stream
from rspo.methods.references import References


@dataclass(frozen=True)
class Surprise(Method):
    """Settings of the method: each becomes a flag, `--method.NAME`."""

    weight: float = 0.5
    """Weight of the surprise stream relative to the task's."""
    cap: Positive = 5.0
    """Upper bound of one step's surprise."""

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        return ("episodic", "episodic")

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        """-log pi_j(a | s) of the kept policy that is surprised least."""
        surprise = jnp.where(rivals.mask, rivals.step_nll(data), jnp.inf).min(-1)
        surprise = jnp.where(rivals.mask.any(), jnp.clip(surprise, 0.0, self.cap), 0.0)
        reward = jnp.stack([data.reward, surprise], axis=-1)
        weight = jnp.broadcast_to(jnp.asarray([1.0, self.weight]), reward.shape)
        return Score(reward, weight, {"surprise": surprise.mean()})
