"""How unlikely a trajectory is under the kept policies: the paper's NLL, its cross-entropy D and
the threshold delta.

NLL(tau; pi_j) = - sum_t log pi_j(a_t | s_t)          D(pi, pi_j) = E_{tau ~ pi} NLL(tau; pi_j)
delta_j        = alpha * D(pi_rnd, pi_j)               phi_j(tau) = [ NLL(tau; pi_j) >= delta_j ]

`Measure.of="return"` puts | R(tau) - E_{pi_j} R | in the place of the NLL.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.devices import map_samples
from rspo.core.distributions import Gaussian
from rspo.core.sequences import chunked, joined, replayed
from rspo.core.settings import Above, Positive, Share, Within
from rspo.core.types import Samples, Trajectory
from rspo.errors import InputError


@dataclass(frozen=True)
class Measure:
    """How distance between policies is measured, for training and for judging alike."""

    of: Literal["actions", "return"] = "actions"
    """What must be unusual about a trajectory for a kept policy: its actions (the paper's NLL), or
    its return, by the difference of an agent's return from the kept policy's mean return over
    agents."""
    alpha: Positive = 0.5
    """The threshold of a kept policy is alpha times the distance of random play from it, by default
    the cross-entropy of random play under it."""
    least: float | None = None
    """The automatic threshold is never below this, if given."""
    delta: Annotated[float | None, Within(-math.inf)] = None
    """One fixed threshold for every kept policy instead of the automatic one."""
    random: Literal["uniform", "initial"] = "uniform"
    """The random play that sets the automatic threshold: a uniformly random policy, or a freshly
    initialised network."""
    cap: Annotated[float | None, Above(0)] = None
    """Upper bound of one step's -log pi_j, and of one step's prediction error; the paper has
    none."""
    gaussian: Literal["density", "distance"] = "density"
    """-log pi_j of a continuous action: the Gaussian's (the paper), or |a - mu_j|^2 / 2 (the
    authors' code), which ignores the standard deviation and is never negative."""
    discount: Share = 1.0
    """Weight of step t in the likelihood is discount^t; the paper's sum is undiscounted."""

    def validate(self) -> None:
        """Refuse, in one sentence, settings that make no sense together."""
        if self.delta is not None and self.least is not None:
            raise InputError(
                f"measure.least is {self.least} and measure.delta is {self.delta}: a fixed "
                "threshold needs no least value. Leave one of them out."
            )
        if self.of == "return" and self.delta is not None and self.delta <= 0:
            raise InputError(
                f"measure.delta is {self.delta}, but it must be greater than 0 where measure.of is "
                "'return': a difference is never below 0, so all would be accepted."
            )


Scorer = Callable[[Any, Any, Samples], Array]
"""From a policy, what the method remembers of it, and samples: one number per sample."""


class References(eqx.Module):
    """The kept policies as one pytree of fixed capacity R, so that keeping one more does not
    recompile."""

    policies: Any  # a Policy whose every leaf has a leading axis R
    threshold: Array  # [R] delta_j
    returns: Array  # [R] the mean return of each policy
    memory: Any  # what the method remembers of each policy, leaves with a leading axis R
    mask: Array  # [R] true where a policy is kept; the kept ones of an archive come first
    measure: Measure = eqx.field(static=True)

    @property
    def capacity(self) -> int:
        return self.mask.shape[0]

    def step_nll(self, trajectory: Trajectory) -> Array:
        """-log pi_j(a_t | s_t) of every step under every kept policy: [T, N, A, R]; 0 where nothing
        is kept."""
        return self.each(
            lambda policy, _, samples: step_nll(policy, samples, self.measure),
            trajectory,
            self.mask,
        )

    def each(self, score: Scorer, trajectory: Trajectory, wanted: Array) -> Array:
        """`score(policy, memory, samples)` of every step and every reference `wanted` [R]: [T, N,
        A, R]; 0 elsewhere. Samples are single steps, or whole episodes where policies have a memory
        to replay."""
        samples, steps = trajectory.samples, trajectory.reward.shape[0]
        piecewise = lambda samples, rest: rest[0].each_of(score, samples, rest[1])
        if not self.policies.recurrent:
            return map_samples(piecewise, samples, (self, wanted))
        return joined(map_samples(piecewise, chunked(samples, steps), (self, wanted)), steps)

    def each_of(self, score: Scorer, samples: Samples, wanted: Array) -> Array:
        """The same for samples [B], or [B, T] of whole episodes, with a last axis R.

        A loop over the kept references only: faster than one product over all slots, empty or not.
        """
        wanted = wanted & self.mask

        def one(j: Array) -> Array:
            pick = lambda leaf: jax.lax.dynamic_index_in_dim(leaf, j, keepdims=False)
            policy, memory = jax.tree.map(pick, (self.policies, self.memory))
            return score(policy, memory, samples)

        nothing = jnp.zeros(samples.reward.shape)
        fill = lambda j, table: table.at[j].set(jax.lax.cond(wanted[j], one, lambda _: nothing, j))
        empty = jnp.zeros((self.capacity, *samples.reward.shape))
        last = jnp.max(jnp.where(self.mask, jnp.arange(1, self.capacity + 1), 0))
        return jnp.moveaxis(jax.lax.fori_loop(0, last, fill, empty), 0, -1)

    def distance(self, trajectory: Trajectory, nll: Array) -> Array:
        """The distance of every trajectory, given the NLL of its steps, from every kept policy:
        [N, A, R]."""
        if self.measure.of == "return":
            return jnp.abs(trajectory.returns[..., None] - self.returns)
        return episode_nll(nll, self.measure)

    def accepts(self, distance: Array) -> Array:
        """phi_j of every trajectory: [N, A, R]; true where nothing is kept."""
        return (distance >= self.threshold) | ~self.mask


def live_rivals(policies: Any, own: Array, measure: Measure) -> References:
    """The other members of a population as they are now: policies with leaves [P, ...], the
    member's own slot masked."""
    size = jax.tree.leaves(policies)[0].shape[0]
    frozen = jax.lax.stop_gradient(dataclasses.replace(policies, critic=None))
    nothing = jnp.zeros(size)
    return References(frozen, nothing, nothing, (), jnp.arange(size) != own, measure)


def step_nll(policy: Any, samples: Samples, measure: Measure) -> Array:
    """-log pi(a_t | s_t), capped; 0 on steps that do not count: the samples' own axes."""
    played = replayed(policy, samples)
    if measure.gaussian == "distance" and isinstance(played, Gaussian):
        nll = played.distance(samples.action)
    else:
        nll = -played.log_prob(samples.action)
    if measure.cap is not None:
        nll = jnp.minimum(nll, measure.cap)
    return jnp.where(samples.counted, nll, 0.0)


def episode_nll(nll: Array, measure: Measure) -> Array:
    """NLL(tau; pi) from its steps: [T, ...] -> [...]."""
    return discounted_sum(nll, measure.discount)


def discounted_sum(steps: Array, discount: float) -> Array:
    """sum_t discount^t x_t over the leading axis."""
    return jnp.tensordot(discount ** jnp.arange(steps.shape[0]), steps, axes=1)


def automatic_threshold(
    policy: Any, mean_return: Array | float, trajectory: Trajectory, measure: Measure
) -> Array:
    """delta = alpha * D(the policy that played the trajectories, policy)."""
    if measure.of == "return":
        distance = jnp.abs(trajectory.returns - mean_return).mean()
    else:
        distance = cross_entropy(policy, trajectory, measure)
    delta = measure.alpha * distance
    return delta if measure.least is None else jnp.maximum(delta, measure.least)


def cross_entropy(policy: Any, trajectory: Trajectory, measure: Measure) -> Array:
    """D(the policy that played the trajectories, policy) by their actions."""
    samples, steps = trajectory.samples, trajectory.reward.shape[0]
    if not policy.recurrent:
        return episode_nll(step_nll(policy, samples, measure), measure).mean()
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), chunked(samples, steps))
    return episode_nll(step_nll(policy, flat, measure).T, measure).mean()
