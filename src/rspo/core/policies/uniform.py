"""Random play."""

import equinox as eqx

from rspo.core.distributions import Categorical, Distribution, Uniform
from rspo.core.policies.memoryless import Memoryless
from rspo.core.types import View


class UniformPolicy(Memoryless):
    """The fully random policy of the paper's automatic threshold: every choice that is allowed, or
    every number in [-1, 1], alike."""

    actions: int = eqx.field(static=True)
    continuous: bool = eqx.field(static=True)

    def act(self, view: View) -> Distribution:
        xp = view.obs.__array_namespace__()
        zeros = xp.zeros((*view.obs.shape[:-1], self.actions), dtype=xp.float32)
        return Uniform(zeros) if self.continuous else Categorical(zeros).allowing(view.mask)


def uniform_policy(actions: int, continuous: bool = False) -> UniformPolicy:
    return UniformPolicy(actions, continuous)
