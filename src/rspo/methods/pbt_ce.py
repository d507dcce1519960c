"""Population-based training with the paper's cross-entropy as a soft objective (PBT-CE, a baseline
of the paper).

    J_i = E_{pi_i} [ R ] + beta / n * sum_{j != i} D(pi_i, pi_j)
    D(pi_i, pi_j) = E_{pi_i} [ -log pi_j(a | s) ]

All n members learn side by side; there is no filter. The gradient of D is a score function: grad
log pi_i(a | s) times -log pi_j(a | s), with the others as they were when the batch was played.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from rspo.core.members import each_member
from rspo.core.policies import Policy
from rspo.core.sequences import score_function
from rspo.core.types import Samples, Trajectory
from rspo.methods.base import Kind, Method, Plan, Score, Settings
from rspo.methods.references import References


@dataclass(frozen=True)
class PBTCE(Method):
    """Settings of PBT-CE."""

    beta: float = 1e-3
    """Weight of the cross-entropy; the largest from 1 to 1e-3 with which the paper saw
    convergence."""

    kind: ClassVar[Kind] = "population"
    # The density of continuous actions is unbounded: a member that sharpens would drown the task.
    tuned: ClassVar[Mapping[str, Settings]] = {"robots": {"measure": {"cap": 30.0}}}
    paper: ClassVar[Mapping[str, Settings]] = tuned

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        score = super().score(state, data, rivals, progress)
        nll = rivals.step_nll(data)
        metrics = {"distance_to": rivals.distance(data, nll).mean((0, 1))}
        return score._replace(metrics=metrics, extra=nll.sum(-1) / rivals.capacity)

    def loss(
        self, states: Any, policies: Policy, minibatch: Samples, rivals: References, key: Array
    ) -> Array:
        """Of each member -beta / n * mean of log pi_i(a) * sum_j -log pi_j(a)."""
        one = lambda policy, samples: score_function(policy, samples, -self.beta)
        return each_member(one, policies, minibatch).sum()
