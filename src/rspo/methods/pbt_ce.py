"""Population-based training with the paper's cross-entropy as a soft objective (PBT-CE, a baseline
of the paper).

    J_i = E_{pi_i} [ R ] + beta / n * sum_{j != i} D(pi_i, pi_j)
    D(pi_i, pi_j) = E_{pi_i} [ -log pi_j(a | s) ]

All n members learn side by side; there is no filter. The gradient of D is a score function: grad
log pi_i(a | s) times -log pi_j(a | s), the others held still.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from rspo.core.members import each_member
from rspo.core.policies import Policy
from rspo.core.sequences import replayed
from rspo.core.types import Samples, Trajectory
from rspo.methods.base import Method, Plan, Score
from rspo.methods.references import References


@dataclass(frozen=True)
class PBTCE(Method):
    """Settings of PBT-CE."""

    beta: float = 1e-3
    """Weight of the cross-entropy; with larger ones of 1 to 1e-3 the paper saw no convergence."""

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        score = super().score(state, data, rivals, progress)
        distance = rivals.distance(data, rivals.step_nll(data)).mean((0, 1))
        return score._replace(metrics={"distance_to": distance})

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        return each_member(self._own_loss, policies, minibatch, rivals).sum()

    def _own_loss(self, policy: Policy, samples: Samples, rivals: References) -> Array:
        """-beta / n * mean of log pi_i(a) * sum_j -log pi_j(a)."""
        surprise = rivals.nll_of(samples).sum(-1) / rivals.capacity
        log_prob = replayed(policy, samples).log_prob(samples.action)
        count = jnp.maximum(samples.counted.sum(), 1)
        return -self.beta * (log_prob * surprise * samples.counted).sum() / count
