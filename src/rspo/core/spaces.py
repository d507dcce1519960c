"""Action spaces: a choice among n, several choices at once, or real numbers between bounds."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Discrete(NamedTuple):
    """An action space of `n` choices."""

    n: int

    @property
    def continuous(self) -> bool:
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return ()

    def to_env(self, action: Any) -> Any:
        """What the environment gets for an action of the policy's."""
        return action

    def encode(self, action: Any) -> Any:
        """An action as `n` numbers that a network can read: one-hot."""
        return one_hot(action, self.n)


class MultiDiscrete(NamedTuple):
    """An action space of several simultaneous choices, among `sizes` options each."""

    sizes: tuple[int, ...]

    @property
    def continuous(self) -> bool:
        return False

    @property
    def n(self) -> int:
        """The total number of options: a policy's network has an output for each."""
        return sum(self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return (len(self.sizes),)

    def to_env(self, action: Any) -> Any:
        """What the environment gets for an action of the policy's."""
        return action

    def encode(self, action: Any) -> Any:
        """An action as `n` numbers that a network can read: one-hot, concatenated."""
        xp = action.__array_namespace__()
        each = [one_hot(action[..., i], size) for i, size in enumerate(self.sizes)]
        return xp.concat(each, axis=-1)


class Box(NamedTuple):
    """An action space of `n` real numbers, each between two bounds, which may be infinite.

    A policy acts in units in which the bounds are -1 and 1: one initial standard deviation then
    suits every robot, and likelihoods do not depend on units. Where a bound is infinite, the
    environment's units are kept.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def continuous(self) -> bool:
        return True

    @property
    def n(self) -> int:
        return len(self.low)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""
        return (self.n,)

    @property
    def scale(self) -> tuple[np.ndarray, ...]:
        """Both bounds, the centre and half the width, [n] each; centre 0 and half width 1 where
        unbounded."""
        return _scale(self)

    def to_env(self, action: Any) -> Any:
        """A policy's action [..., n] in the environment's units: scaled, then clipped to the
        bounds."""
        low, high, middle, half = self.scale
        xp = action.__array_namespace__()
        return xp.minimum(xp.maximum(middle + half * action, low), high)  # faster than NumPy's clip

    def encode(self, action: Any) -> Any:
        """An action as `n` numbers that a network can read: as it is, in the policy's units."""
        return action


def one_hot(choice: Any, n: int) -> Any:
    """[...] -> [..., n], on NumPy and JAX arrays alike."""
    xp = choice.__array_namespace__()
    return xp.astype(choice[..., None] == xp.arange(n), xp.float32)


@lru_cache
def _scale(space: Box) -> tuple[np.ndarray, ...]:
    low, high = np.array(space.low, np.float32), np.array(space.high, np.float32)
    bounded = np.isfinite(low) & np.isfinite(high)
    lowest, highest = np.where(bounded, low, np.float32(-1)), np.where(bounded, high, np.float32(1))
    return low, high, (highest + lowest) / 2, (highest - lowest) / 2


ActionSpace = Discrete | MultiDiscrete | Box
