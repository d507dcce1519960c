"""Policies that act on the current observation alone."""

import abc
from typing import Any

import equinox as eqx

from rspo.core.distributions import Distribution
from rspo.core.types import View, as_view


class Memoryless(eqx.Module):
    """The base of such policies: they map a View with any axes to a distribution."""

    @abc.abstractmethod
    def act(self, view: View) -> Distribution: ...

    @property
    def recurrent(self) -> bool:
        return False

    def initial(self, *batch: int) -> Any:
        return ()

    def step(self, carry: Any, view: View) -> tuple[Any, Distribution]:
        return carry, self.act(view)

    def __call__(self, seen: Any) -> Distribution:
        return self.act(as_view(seen))
