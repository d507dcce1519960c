"""What makes a method a method: the contract between the learner and the methods.

A method is a frozen dataclass of its own settings (they become command-line flags) with pure
functions. It plans how k policies come about, declares reward streams and scores a batch of
trajectories; PPO learns one value head a stream and never asks which method it is. What a method
needs beyond that are its own learners (`init`, `update`), a loss joint over the members of a
population (`loss`), latents that a policy is given before an episode (`context`), and what it keeps
of a finished policy (`memory`, `remember`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from rspo.core.policies import Policy
from rspo.core.types import Samples, Spec, Trajectory
from rspo.methods.references import References

Stream = Literal["episodic", "settled", "endless"]
"""When a stream of rewards ends: with its episode, bootstrapping where that is cut off; with its
episode, owing nothing even there; or never, so that what comes after an episode counts too."""


class Plan(NamedTuple):
    """How k policies come about: one after the other, side by side, or as one policy with k
    latents."""

    rounds: int = 1
    members: int = 1
    """Policies trained side by side in one round, each with its own data and optimiser."""
    latents: int = 1
    """Latents of each of them; every one is a strategy of its own."""

    @property
    def per_round(self) -> int:
        return self.members * self.latents

    @property
    def policies(self) -> int:
        return self.rounds * self.per_round


class Setup(NamedTuple):
    """What a method knows when a round begins."""

    spec: Spec
    plan: Plan
    capacity: int
    """Places for rivals."""


class Score(NamedTuple):
    """What a method makes of a batch."""

    reward: Array  # [T, N, A, C] the reward streams
    weight: Array  # [T, N, A, C] what each stream's normalised advantage counts for
    metrics: dict[str, Array]  # scalars, or [R] for one number a rival


@dataclass(frozen=True)
class Method:
    """The base: the task's own reward, one stream, nothing learned on the side, one policy after
    the other."""

    def validate(self) -> None:
        """Refuse, in one sentence, settings that make no sense together."""

    def plan(self, policies: int) -> Plan:
        """How this many policies come about."""
        return Plan(rounds=policies)

    @property
    def latent_size(self) -> int:
        """Numbers that a policy sees beside its observation."""
        return 0

    def latents(self, plan: Plan) -> Array:
        """The latents that become strategies of their own: [plan.latents, latent_size]."""
        return jnp.eye(plan.latents, self.latent_size)

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        """The reward streams, each a channel, given room for `capacity` rivals."""
        return ("episodic",)

    def init(self, setup: Setup, key: Array) -> Any:
        """A member's own learners at the start of a round."""
        return ()

    def context(self, state: Any, key: Array, episodes: int) -> Array | None:
        """Before play: the latent of each episode, [episodes, latent_size]."""
        return None

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        """Rewards from a member's batch. Its rivals are the kept policies, or, in a population, the
        other members as they are now; `progress` is the part of the round that is done, from 0 to
        1."""
        reward = data.reward[..., None]
        return Score(reward, jnp.ones_like(reward), {})

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        """An auxiliary loss of all members together, once per minibatch. Leaves have a leading axis
        P: each member's own learners, policy and minibatch; rivals are those of `score`, [P, R]."""
        return jnp.zeros(())

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        """One step of all members' own learners, leaves [P, ...]."""
        return states

    def memory(self, spec: Spec, key: Array) -> Any:
        """The structure of what `remember` gives."""
        return ()

    def remember(
        self, state: Any, policy: Policy, play: Callable[[Any, Array], Trajectory], key: Array
    ) -> Any:
        """What to keep of a finished policy beside itself; `play(policy, key)` collects a batch of
        episodes."""
        return ()
