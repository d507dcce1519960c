"""Diversity-Inducing Policy Gradient (DIPG; Masood and Doshi-Velez, 2019), a baseline of the paper.

    J(pi) + a * min_j MMD^2(pi, pi_j)
    MMD^2(pi, pi_j) = E k(x, x') - 2 E k(x, y) + E k(y, y')        x, x' ~ pi; y, y' ~ pi_j

x is the vector of a trajectory's states. As in the code of the paper's authors only the cross term
with the most similar kept policy is learned, by its score function: the loss to *minimise* is

    a * mean( log pi(a_t | s_t) * max_j E_y k(x, y) )

so that actions of trajectories that resemble a kept policy become less likely.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.members import each_member
from rspo.core.policies import Policy
from rspo.core.sequences import score_function
from rspo.core.settings import Count, Positive
from rspo.core.types import Samples, Spec, Trajectory
from rspo.methods.base import Method, Score, Settings, Setup
from rspo.methods.references import References


class Sketch(eqx.Module):
    """What is kept from a finished policy: a few coordinates of some of its trajectories."""

    coordinates: Array  # [D] places in a trajectory's vector of T * O numbers
    features: Array  # [K, D]


@dataclass(frozen=True)
class DIPG(Method):
    """Settings of DIPG."""

    coefficient: float = 1.0
    """Weight a of the similarity to the nearest kept policy; the paper's grid is 2, 1, 0.5, 0.1,
    0.01."""
    coordinates: Count = 16
    """Random coordinates of the trajectory's vector that are compared, the same throughout a
    run."""
    trajectories: Count = 32
    """Trajectories kept from each finished policy."""
    clip: Positive = 1.0
    """Largest difference that counts in one coordinate."""
    width: Positive = 1.0
    """Width of the Gaussian kernel."""

    paper: ClassVar[Mapping[str, Settings]] = {"skirmish": {"method": {"coefficient": 0.1}}}
    # Up to 2, the largest of the paper's grid, it does there what restarts do (docs/tuning.md).
    tuned: ClassVar[Mapping[str, Settings]] = {
        **paper,
        "monster-hunt": {"method": {"coefficient": 10.0}},
    }

    def init(self, setup: Setup, key: Array) -> Array:
        return self._drawn(setup.spec, key)

    def memory(self, spec: Spec, key: Array) -> Sketch:
        coordinates = self._drawn(spec, key)
        return Sketch(coordinates, jnp.zeros((self.trajectories, coordinates.size)))

    def _drawn(self, spec: Spec, key: Array) -> Array:
        size = spec.horizon * spec.obs_size
        return jax.random.permutation(key, size)[: self.coordinates].astype(jnp.int32)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        own = features(data, _of_the_run(state, rivals.memory.coordinates, rivals.mask))
        similarity = jax.vmap(self.similarity, (None, 0), -1)(own, rivals.memory.features)
        similarity = jnp.where(rivals.mask, similarity, 0.0)  # [N, A, R]
        nearest = similarity.max(-1)
        few = own.reshape(-1, own.shape[-1])[: self.trajectories]
        distance = jax.vmap(self.discrepancy, (None, 0))(few, rivals.memory.features)
        metrics = {"similarity": nearest.mean(), "mmd_to": jnp.where(rivals.mask, distance, 0.0)}
        score = super().score(state, data, rivals, progress)
        extra = jnp.broadcast_to(nearest, data.reward.shape)
        return score._replace(metrics=metrics, extra=extra)

    def similarity(self, x: Array, y: Array) -> Array:
        """E_y k(x, y) of features [..., D] and [K, D]: [...]."""
        difference = jnp.clip(x[..., None, :] - y, -self.clip, self.clip)
        return jnp.exp(-jnp.square(difference).sum(-1) / (2 * self.width**2)).mean(-1)

    def discrepancy(self, x: Array, y: Array) -> Array:
        """MMD^2 between two sets of features [K, D]."""
        cross = self.similarity(x, y).mean()
        return self.similarity(x, x).mean() - 2 * cross + self.similarity(y, y).mean()

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        one = lambda policy, samples: score_function(policy, samples, self.coefficient)
        return each_member(one, policies, minibatch).sum()

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        return each_member(_of_the_run, states, rivals.memory.coordinates, rivals.mask)

    def remember(
        self, state: Any, policy: Policy, play: Callable[[Any, Array], Trajectory], key: Array
    ) -> Sketch:
        played = features(play(policy, key), state)
        rows = played.reshape(-1, played.shape[-1])
        return Sketch(state, rows[jnp.arange(self.trajectories) % len(rows)])


def _of_the_run(own: Array, kept: Array, mask: Array) -> Array:
    """The coordinates of the first kept policy, given those of all [R, D]; if nothing is kept, the
    policy's own."""
    return jnp.where(mask[0], kept[0], own)


def features(trajectory: Trajectory, coordinates: Array) -> Array:
    """These coordinates of the vector of all observations of each trajectory: [N, A, D]."""
    time, number = jnp.divmod(coordinates, trajectory.obs.shape[-1])
    return jnp.moveaxis(trajectory.obs[time, :, :, number], 0, -1)
