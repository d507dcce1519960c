"""Diversity via determinants (DvD, Parker-Holder et al., NeurIPS 2020; a baseline of the paper).

    (1 - l) sum_i J(pi_i) + l log det K        K_ij = exp(-mean |phi_i - phi_j|^2)

phi_i are a member's actions in states shared by all members: means of Gaussians, log-probabilities
of choices. A bandit with two arms chooses l by whether the population's mean return grows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.distributions import Categorical, Gaussian, MultiCategorical
from rspo.core.members import count, each_member, member
from rspo.core.policies import Policy
from rspo.core.sequences import replayed
from rspo.core.settings import Count, Share, Within
from rspo.core.types import Samples, Trajectory
from rspo.methods.bandit import Window, init_window, thompson
from rspo.methods.base import Kind, Method, Plan, Score, Settings, Setup
from rspo.methods.references import References

JITTER = 0.01  # share of the identity in the kernel, which bounds log det and its slope
CLIP = 2.0  # standard deviations at which embeddings are clipped
SAME = 0.1  # members whose actions differ by less than this are treated as nearly the same
BEST_OF = 5  # recent mean returns that the next one must beat


class Chooser(eqx.Module):
    """The bandit over the weights of diversity; the same for every member."""

    window: Window
    arm: Array  # [] in use in this update
    before: Array  # [] in use in the last one, to be judged by the current batch
    returns: Array  # [BEST_OF] the population's recent mean returns


@dataclass(frozen=True)
class DvD(Method):
    """Settings of DvD."""

    weight: Share = 0.5
    """Weight of diversity if the bandit does not choose 0; the task's weight is 1 minus this."""
    states: Count = 20
    """States in which the members' actions are compared, newly drawn for every minibatch."""
    window: Count = 50
    """Updates that the bandit looks back on."""
    random: Annotated[int, Within(0, 10**6)] = 6
    """Initial updates in which the bandit chooses at random."""

    kind: ClassVar[Kind] = "population"
    # With 0.5 some members of the medium mode never learn the task.
    tuned: ClassVar[Mapping[str, Settings]] = {"four-goals": {"method": {"weight": 0.1}}}

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def init(self, setup: Setup, key: Array) -> Chooser:
        # Typed arrays: plain Python numbers would make the second update recompile.
        arm, before = jnp.asarray(0, jnp.int32), jnp.asarray(-1, jnp.int32)
        nothing = jnp.full(BEST_OF, -jnp.inf, jnp.float32)
        return Chooser(init_window(self.window), arm, before, nothing)

    def _weight(self, state: Chooser) -> Array:
        return jnp.asarray([0.0, self.weight])[state.arm]

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        score = super().score(state, data, rivals, progress)
        weight = self._weight(state)
        metrics = {"diversity_weight": weight}
        return score._replace(weight=(1 - weight) * score.weight, metrics=metrics)

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        everyone = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), minibatch)
        embeddings = _embeddings(policies, everyone, self.states, key)
        return -self._weight(member(states, 0)) * log_volume(standardized(embeddings))

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        earned = each_member(lambda played: played.returns.mean(), data).mean()
        after = self._judged(member(states, 0), earned, key)
        size = count(states)
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (size, *leaf.shape)), after)

    def _judged(self, chooser: Chooser, earned: Array, key: Array) -> Chooser:
        """The bandit updated with the outcome of the last update's weight."""
        best = chooser.returns.max()
        success = jnp.where(earned > best, 1.0, jnp.where(earned == best, 0.5, 0.0))
        window = chooser.window.record(chooser.before[None], success[None])
        returns = jnp.concatenate([chooser.returns[1:], earned[None]])
        return Chooser(window, thompson(window, 2, self.random, key), chooser.arm, returns)


def _embeddings(policies: Policy, samples: Samples, states: int, key: Array) -> Array:
    """Each member's actions in the same states, drawn from the counted ones: [P, states, n]. For
    policies with memory each state is a step of a different episode, which they replay."""
    draw_key, step_key = jax.random.split(key)
    sequences = samples.counted.ndim > 1
    counted = samples.counted.astype(jnp.float32)
    chances = counted.sum(1) if sequences else counted
    which = jax.random.categorical(draw_key, jnp.log(chances), shape=(states,))
    shared = jax.tree.map(lambda leaf: leaf[which], samples)
    if not sequences:
        return each_member(lambda policy: embedding(policy, shared), policies)
    step = jax.random.categorical(step_key, jnp.log(shared.counted.astype(jnp.float32)))
    pick = lambda leaf: jnp.take_along_axis(leaf, step[:, None, None], axis=1)[:, 0]
    return each_member(lambda policy: pick(embedding(policy, shared)), policies)


def embedding(policy: Policy, samples: Samples) -> Array:
    """A policy's means, or its log-probabilities of the allowed choices: [..., n]."""
    played = replayed(policy, samples)
    if isinstance(played, Gaussian):
        return played.mean
    choice = played.each if isinstance(played, MultiCategorical) else played
    assert isinstance(choice, Categorical)
    allowed = True if choice.mask is None else choice.mask
    return jnp.where(allowed, choice.log_probs, 0.0).reshape(*samples.reward.shape, -1)


def standardized(embeddings: Array) -> Array:
    """Each number standardised over the population and clipped: [P, ...].

    Mean and deviation are constant in the gradient: otherwise two members would stay two
    deviations apart, however they move.
    """
    mean, variance = jax.lax.stop_gradient((embeddings.mean(0), embeddings.var(0)))
    return jnp.clip((embeddings - mean) / jnp.sqrt(variance + SAME**2), -CLIP, CLIP)


def log_volume(embeddings: Array) -> Array:
    """log det of the kernel of embeddings [P, ...]."""
    flat = embeddings.reshape(embeddings.shape[0], -1)
    kernel = jnp.exp(-jnp.square(flat[:, None] - flat[None]).mean(-1))
    eye = jnp.eye(kernel.shape[0])
    return jnp.linalg.slogdet((1 - JITTER) * kernel + JITTER * eye)[1]
