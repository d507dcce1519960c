"""The contract of a collector, which plays whole episodes in one environment."""

import abc
from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

from jax import Array

from rspo.core.distributions import Distribution
from rspo.core.types import Padding, Trajectory, View

S = TypeVar("S")
Function = TypeVar("Function", bound=Callable[..., Any])


class Acting(Protocol):
    """What a collector needs of a policy."""

    def initial(self, *batch: int) -> Any: ...

    def step(self, carry: Any, view: View) -> tuple[Any, Distribution]: ...


class Collector(abc.ABC):
    """Plays episodes in one environment, and knows how to compile programs that play."""

    compiled: bool
    """Whether rollouts are part of compiled programs, so that steps are cheap."""

    def __init__(self, env: Any) -> None:
        self.env, self.spec = env, env.spec

    @abc.abstractmethod
    def __call__(
        self,
        policy: Acting,
        episodes: int,
        key: Array,
        *,
        padding: Padding = "count",
        greedy: bool = False,
        record: bool = False,
        latent: Any = None,
    ) -> Trajectory:
        """Play `episodes` episodes side by side from their start to the horizon; `latent`
        [episodes, Z] is seen by the policy with its observations.

        After termination an episode is frozen: same observation, reward 0. With the padding
        "count" those steps count in losses and likelihoods (the paper's sums compare trajectories
        of one fixed length); with "drop" only live steps do. With "restart" a new episode begins
        there instead, and every step is live.
        """

    @abc.abstractmethod
    def program(self, function: Function) -> Function:
        """A function that plays: one compiled program, or Python that calls compiled functions."""

    @abc.abstractmethod
    def each(self, function: Callable[[Any], Any], count: int) -> Any:
        """`function(i)`, which plays, for each i below `count` in turn: leaves [count, ...]."""

    @abc.abstractmethod
    def trainer(
        self,
        play: Callable[[S, Any], Any],
        learn: Callable[[S, Any, Any, Any], tuple[S, dict[str, Array]]],
        rows: int,
    ) -> Callable[[S, Any, Any, Any], tuple[S, dict[str, Any]]]:
        """`advance(state, rivals, key, n)`: n <= rows times `learn(state, rivals, play(state, key),
        key)`. It returns `rows` rows of metrics, of which the first n are set."""

    def close(self) -> None:  # noqa: B027  (most have nothing to release)
        """Release its resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
