"""Diversity-guided policy optimization (DGPO, Chen et al., AAAI 2024): beyond the paper.

    r_in = min_{z' != z} log q(z | s) / (q(z | s) + q(z' | s))
    A    = A_task [ q(z | s) > distinct ] + a A_in [ otherwise ] + b A_in [ R_z reaches the target ]

One policy is given one of k latents z before an episode. In states that do not distinguish its
latent from the most similar one it is paid for doing so, elsewhere by the task; a latent that
earns enough keeps moving away from the others.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.members import each_member
from rspo.core.settings import Share, Within
from rspo.core.types import Trajectory
from rspo.methods.base import Score, Setup, Stream
from rspo.methods.discriminator import Guessing, from_states, of_own
from rspo.methods.episodes import for_everyone
from rspo.methods.latents import Latents
from rspo.methods.references import References

FORGET = 0.1  # of each latent's running mean return, per update
HARDLY = 1e-6  # instead of 0: a value head learns only steps with a weight


class Learners(eqx.Module):
    """DGPO's own learners."""

    guessing: Guessing
    returns: Array  # [k] each latent's running mean return
    seen: Array  # [k] updates that it was played in


@dataclass(frozen=True)
class DGPO(Latents):
    """Settings of DGPO."""

    distinct: Share = 0.9
    """The task is rewarded in states where the discriminator's probability of the latent exceeds
    this."""
    a: float = 1.0
    """Weight of diversity in the other states."""
    b: float = 0.1
    """Weight of diversity of latents that reach the target, in every state."""
    target: Annotated[float | None, Within(-math.inf)] = None
    """The mean return that is enough. By default the best latent's so far."""
    epsilon: float = 0.1
    """How far a latent may be below the target, as a fraction of it."""

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        return ("episodic", "episodic")

    def init(self, setup: Setup, key: Array) -> Learners:
        latents = setup.plan.latents
        return Learners(self.init_guessing(setup, key), jnp.zeros(latents), jnp.zeros(latents))

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        log_q = from_states(state.guessing.model, data)
        distinct = jnp.exp(of_own(log_q, data)) > self.distinct
        enough = (data.view.latent * self._enough(state)).sum(-1) > 0
        inside = jnp.where(distinct, 0.0, self.a) + jnp.where(enough, self.b, 0.0)
        weight = jnp.stack([jnp.where(distinct, 1.0, 0.0), inside], -1)
        reward = jnp.stack([data.reward, margin(log_q, data)], -1)
        metrics = {
            "distinct": distinct.mean(),
            "enough": self._enough(state).mean(),
            "intrinsic": reward[..., 1].mean(),
        }
        return Score(reward, jnp.maximum(weight, HARDLY), metrics)

    def _enough(self, state: Learners) -> Array:
        """Which latents reach the target: [k]."""
        best = jnp.where(state.seen > 0, state.returns, -jnp.inf).max()
        target = best if self.target is None else jnp.asarray(self.target)
        return (state.returns >= target - self.epsilon * jnp.abs(target)) & (state.seen > 0)

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        return each_member(self._learned, states, for_everyone(data))

    def _learned(self, state: Learners, data: Trajectory) -> Learners:
        guessing = self.guessed(state.guessing, from_states, data)
        latent = data.view.latent[0, :, 0]  # [N, k]
        episodes = latent.sum(0)
        mean = data.returns.mean(1) @ latent / jnp.maximum(episodes, 1)
        seen = state.seen + (episodes > 0)
        rate = jnp.where(episodes > 0, jnp.maximum(FORGET, 1 / jnp.maximum(seen, 1)), 0.0)
        return Learners(guessing, state.returns + rate * (mean - state.returns), seen)


def margin(log_q: Array, data: Trajectory) -> Array:
    """min over the other latents of log q(z | s) / (q(z | s) + q(z' | s)): [T, N, A]."""
    others = jnp.where(data.view.latent > 0, -jnp.inf, log_q).max(-1)
    return jax.nn.log_sigmoid(of_own(log_q, data) - others)
