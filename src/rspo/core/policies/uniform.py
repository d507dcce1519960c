"""Random play."""

import equinox as eqx

from rspo.core.distributions import Distribution, Uniform, choosing
from rspo.core.policies.memoryless import Memoryless
from rspo.core.spaces import ActionSpace, Box, Discrete
from rspo.core.types import View


class UniformPolicy(Memoryless):
    """The fully random policy of the paper's automatic threshold: uniform over the allowed
    choices, or over [-1, 1]."""

    space: ActionSpace = eqx.field(static=True)

    def act(self, view: View) -> Distribution:
        xp = view.obs.__array_namespace__()
        zeros = xp.zeros((*view.obs.shape[:-1], self.space.n), dtype=xp.float32)
        if isinstance(self.space, Box):
            return Uniform(zeros)
        return choosing(self.space, zeros, view.mask)


def uniform_policy(space: ActionSpace | int) -> UniformPolicy:
    """Random play in this action space; an integer means that many choices."""
    return UniformPolicy(Discrete(space) if isinstance(space, int) else space)
