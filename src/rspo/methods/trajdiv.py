"""Trajectory diversity (TrajDiv or TrajeDi, Lupu et al., ICML 2021; a baseline of the paper).

    sum_i J(pi_i) + beta JSD        JSD = 1/n sum_i E_{tau ~ pi_i} 1/T sum_t log d_i,t / d_t
    d_i,t(tau) = prod_t' pi_i(a_t' | s_t')^(gamma^|t - t'|)        d_t = 1/n sum_i d_i,t

JSD is the Jensen-Shannon divergence of the population with an action-discounting kernel: of whole
trajectories if gamma is 1, of single actions if it is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.members import count, each_member
from rspo.core.policies import Policy
from rspo.core.sequences import replayed
from rspo.core.settings import Count, Share
from rspo.core.types import Samples
from rspo.methods.base import Kind, Method, Plan, Settings
from rspo.methods.references import References


@dataclass(frozen=True)
class TrajDiv(Method):
    """Settings of TrajDiv."""

    beta: float = 0.1
    """Weight of the divergence; the paper's grid is 0.01, 0.1 and 1."""
    gamma: Share = 0.9
    """Discount of an action by its distance in time; the paper's grid is 0.1, 0.5 and 0.9."""
    samples: Count = 512
    """Steps per member in one gradient of the divergence: as many whole episodes as fit, or part
    of one. Every member is evaluated on those of all the others."""

    kind: ClassVar[Kind] = "population"
    whole_episodes: ClassVar[bool] = True
    # There a gradient step uses an eighth of a batch, and there are ten times as many steps.
    paper: ClassVar[Mapping[str, Settings]] = {"robots": {"method": {"samples": 64}}}
    tuned: ClassVar[Mapping[str, Settings]] = {**paper, "four-goals": {"method": {"beta": 1.0}}}

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        keys = jax.random.split(key, count(policies))
        steps = minibatch.reward.shape[2] if policies.recurrent else self.samples
        samples = each_member(lambda one, key: self._part(one, steps, key), minibatch, keys)
        everyone = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), samples)
        log_probs = each_member(
            lambda policy: replayed(policy, everyone).log_prob(everyone.action), policies
        ).reshape(count(policies), *samples.reward.shape)
        own = jnp.arange(count(policies))
        return (
            -self.beta
            * jax.vmap(
                lambda i, log_probs, samples: _surrogate(log_probs, i, samples, self.gamma),
                (0, 1, 0),
            )(own, log_probs, samples).mean()
        )

    def _part(self, samples: Samples, longest: int, key: Array) -> Samples:
        """Some of a member's episodes [E, T], chosen by the key, each at most `longest` steps."""
        episodes, steps = samples.reward.shape
        which_key, cut_key = jax.random.split(key)
        which = jax.random.permutation(which_key, episodes)[: max(1, self.samples // steps)]
        length = min(steps, longest)
        start = jax.random.randint(cut_key, (), 0, steps - length + 1)
        cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf[which], start, length, axis=1)
        return jax.tree.map(cut, samples)


def divergence(log_probs: Array, own: Array, samples: Samples, gamma: float) -> Array:
    """log d_i,t / d_t of every step of a member's episodes [E, T], from the log-probabilities of
    its actions under all members [P, E, T]; 0 where a step does not count."""
    episode = jnp.cumsum(samples.starts, axis=-1)
    time = jnp.arange(log_probs.shape[-1])
    same = (episode[:, :, None] == episode[:, None]) & samples.counted[:, None]
    kernel = jnp.where(same, gamma ** jnp.abs(time[:, None] - time), 0.0)  # [E, T, T]
    log_d = jnp.einsum("etu,peu->pet", kernel, log_probs)
    # Relative to the member's own: the sums of logarithms are large, their differences small.
    log_mean = jax.nn.logsumexp(log_d - log_d[own], axis=0) - jnp.log(log_probs.shape[0])
    return jnp.where(samples.counted, -log_mean, 0.0)


def _surrogate(log_probs: Array, own: Array, samples: Samples, gamma: float) -> Array:
    """A surrogate with the gradient of a member's part of the divergence, divided by the number of
    steps as in PPO: by the score function an action is credited with its episode's divergence
    minus the mean; and the divergence of given episodes depends directly on the members."""
    counted = samples.counted
    steps = jnp.maximum(counted.sum(-1), 1)
    each = divergence(log_probs, own, samples, gamma).sum(-1) / steps  # [E]
    held = jax.lax.stop_gradient(each)
    score = jnp.where(counted, log_probs[own], 0.0).sum(-1) / steps
    return ((held - held.mean()) * score + each / steps).mean()
