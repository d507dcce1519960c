"""What makes a method a method: the contract between the learner and the methods.

A method is a frozen dataclass of its own settings (they become the flags `--method.NAME`) with pure
functions. It plans how k policies are trained, declares reward streams and scores a batch of
trajectories; PPO learns one value head per stream and does not know which method it serves. Beyond
that a method may have its own learners (`init`, `update`), a loss joint over the members of a
population (`loss`), latents that a policy is given before an episode (`context`), and something to
keep from a finished policy (`memory`, `remember`). A method that does not use PPO at all brings
its own learner (`learner`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from rspo.core.learning import PPO
from rspo.core.policies import Normalizer, Policy
from rspo.core.types import Samples, Spec, Trajectory
from rspo.methods.references import References
from rspo.rollout.base import Collector

Stream = Literal["episodic", "settled", "endless"]
"""When a stream of rewards ends: with its episode, bootstrapping where that is truncated; with its
episode, without bootstrapping even there; or never, so that rewards after an episode count too."""

Kind = Literal["iterative", "population", "latent", "archive", "tabular"]
"""How a method trains k policies: one after the other, side by side, as one policy with k latents,
as the elites of an archive of behaviours, or by exact gradients of tabular games."""

Need = Literal["features", "behaviour"]
"""What a method requires of an environment: a reward that is a weighted sum of features, or a
behaviour descriptor per episode."""

Settings = Mapping[str, Any]
"""Settings as in a configuration file: single ones, groups as tables."""


class Plan(NamedTuple):
    """How k policies are trained: one after the other, side by side, or as one policy with k
    latents."""

    rounds: int = 1
    members: int = 1
    """Policies trained side by side in one round, each with its own data and optimiser."""
    latents: int = 1
    """Latents of each of them; every one is a separate strategy."""

    @property
    def per_round(self) -> int:
        return self.members * self.latents

    @property
    def policies(self) -> int:
        return self.rounds * self.per_round

    def updates(self, each: int) -> int:
        """Updates of one round, where a single policy gets `each`: a policy with k latents gets as
        many steps as k policies."""
        return each * self.latents


class Setup(NamedTuple):
    """What a method knows when a round begins."""

    spec: Spec
    plan: Plan
    capacity: int
    """Slots for rivals."""
    updates: int = 1
    """Updates of the round."""


class Score(NamedTuple):
    """The scores of a batch."""

    reward: Array  # [T, N, A, C] the reward streams
    weight: Array  # [T, N, A, C] what each stream's normalised advantage counts for
    metrics: dict[str, Array]  # scalars, or [R] for one number per rival
    extra: Any = None  # leaves [T, N, A, ...]: what `loss` finds as `extra` of its samples


class TrainState(eqx.Module):
    """Everything that training carries from one update to the next; a checkpoint is exactly this.
    Leaves are [P, ...], except the number of updates."""

    policy: Policy
    opt_state: Any
    method: Any  # the method's own learners
    returns: Normalizer | None  # what reward normalisation has seen
    # updates done; the key of an update is folded from it, so a resumed run draws the same numbers
    update: Array


class Learner(NamedTuple):
    """How a round is trained: pure functions of its state, called in turn by one program."""

    init: Callable[[Array], TrainState]
    """The start, from a key for each member."""
    play: Callable[[Collector, TrainState, Array], Any]
    """The data of one update, from the members' keys."""
    learn: Callable[[TrainState, References, Any, Array], tuple[TrainState, dict[str, Array]]]
    """One update from that data, given the kept policies, and its metrics [P, ...]."""


@dataclass(frozen=True)
class Method:
    """The base: the task's reward in one stream, no learners of its own, one policy after the
    other."""

    name: str = "pg"
    """The method's name (`rspo list`)."""

    kind: ClassVar[Kind] = "iterative"
    needs: ClassVar[tuple[Need, ...]] = ()
    tuned: ClassVar[Mapping[str, Settings]] = {}
    """Settings by domain or environment (the latter override the former), chosen on seeds that no
    result is published on."""
    paper: ClassVar[Mapping[str, Settings]] = {}
    """The same with the paper's own settings (`--paper`)."""
    memories: ClassVar[bool] = True
    """Whether it can train policies with memory."""
    whole_episodes: ClassVar[bool] = False
    """Whether `loss` sees all of a batch as whole episodes instead of minibatches of steps."""

    def validate(self) -> None:
        """Refuse, in one sentence, settings that make no sense together."""

    def plan(self, policies: int) -> Plan:
        """How this many policies are trained."""
        return Plan(rounds=policies)

    def latent_size(self, plan: Plan) -> int:
        """Size of the latent that a policy sees with its observation."""
        return plan.latents if self.kind == "latent" else 0

    def latents(self, plan: Plan) -> Array:
        """The latents that become strategies of their own: [plan.latents, latent_size]."""
        return jnp.eye(plan.latents, self.latent_size(plan))

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        """The reward streams, each a channel, given room for `capacity` rivals."""
        return ("episodic",)

    def init(self, setup: Setup, key: Array) -> Any:
        """A member's own learners at the start of a round."""
        return ()

    def context(self, state: Any, key: Array, episodes: int) -> Array | None:
        """Before the rollout: the latent of each episode, [episodes, latent_size]."""
        return None

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        """Rewards from a member's batch. Its rivals are the kept policies, or, in a population, the
        other members as they are now; `progress` is the completed fraction of the round."""
        reward = data.reward[..., None]
        return Score(reward, jnp.ones_like(reward), {})

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        """An auxiliary loss of all members together, once per minibatch. Leaves have a leading axis
        P: each member's own learners, policy and minibatch; rivals are those of `score`, [P, R];
        the key differs for every minibatch. Samples are [P, B], or whole episodes [P, B, T] where
        policies have memory; all of a batch's if the method sees `whole_episodes`."""
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
        """What to keep from a finished policy besides itself; `play(policy, key)` collects a batch
        of episodes."""
        return ()

    def learner(self, setup: Setup, settings: PPO) -> Learner | None:
        """What trains instead of PPO, where a method does not build on it."""
        return None
