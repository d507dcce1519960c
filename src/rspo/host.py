"""The contract of a host environment: stateful, on the CPU, written in whatever there is.

The collector steps a batch of instances together and keeps several batches going, one a core: each in a process of its
own where the environment can be made by name, else in threads.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rspo.types import Descriptor, Played, Shape, Spec, Trajectory


class HostStep(NamedTuple):
    """What one step of K instances gives. There is no automatic reset: `obs` is always the one after the action."""

    obs: np.ndarray  # [K, A, O]
    reward: np.ndarray  # [K, A]
    terminated: np.ndarray  # [K] the task ended: no future reward exists
    truncated: np.ndarray  # [K] the environment cut the episode short: future reward was possible


class Batch(abc.ABC):
    """Some instances of one environment; `which` of them is always in ascending order. Only one thread uses it at a
    time, not always the same."""

    @abc.abstractmethod
    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Begin an episode in each of the instances `which` [K], the seed decides which one: obs [K, A, O]."""

    @abc.abstractmethod
    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        """Take a step in each of the instances `which` [K]; `action` [K, A], or [K, A, D] in their own units."""

    def state(self) -> Any:
        """What `describe` and drawings need to know of all the instances: leaves [size, ...] of their own memory."""
        return None


class HostEnv(abc.ABC):
    """What an environment author writes. All but `spec` and `batch` is optional."""

    name: str | None = None
    """What `rspo.make` makes the very same by, in any process; None if nothing does."""

    @property
    @abc.abstractmethod
    def spec(self) -> Spec: ...

    @property
    def title(self) -> str:
        """What to call it in a message."""
        return self.name or type(self).__name__

    @abc.abstractmethod
    def batch(self, size: int) -> Batch:
        """New instances, yet to be reset."""

    @property
    def most_lanes(self) -> int | None:
        """How many instances there can be at all, where that is not for the collector to choose."""
        return None

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Between which numbers its observations lie, [A, O] each, as far as it says so; who looks at them warns of
        others."""
        return None

    @property
    def can_restart(self) -> bool:
        """Whether single instances can be reset while the others go on, as `ppo.padding` "restart" asks for."""
        return True

    def describe(self, trajectory: Trajectory) -> Descriptor | None:
        """Name what the recorded episodes show; None where an environment has no names."""
        return None

    def scene(self, state: Any) -> Sequence[Shape]:
        """What to draw of one instance's state, as of `Env.scene`."""
        return ()

    def backdrop(self) -> Sequence[Shape]:
        """What stands behind every scene and never moves."""
        return ()

    def heatmaps(self, trajectory: Trajectory) -> Mapping[str, np.ndarray]:
        """Grids to show of the recorded episodes, as of `Env.heatmaps`."""
        return {}

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """What to draw of a finished run's strategies, as of `Env.pictures`."""
        return {}

    def photographs(self, strategies: Mapping[str, Played]) -> Mapping[str, bytes]:
        """The same by the environment's own renderer, as PNG files by name; NoRendererError where it cannot draw."""
        return {}
