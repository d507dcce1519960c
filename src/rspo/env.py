"""The contract of a JAX environment, and the registry of those that have a name.

An environment is a set of pure functions of one instance; the collector maps them over a batch inside a jitted program.
Randomness comes in as `noise`, plain uniform numbers that the collector draws for the whole batch at once: drawing a
key for every environment costs more than the games themselves, and a game that is a function of its noise can be
replayed and checked against any other implementation, step by step.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jax import Array

from rspo.errors import InputError, suggestion
from rspo.host import HostEnv
from rspo.types import Descriptor, Played, Shape, Spec, Step, Trajectory


class Env(eqx.Module):
    """What an environment author writes. All but `spec`, `reset` and `step` is optional."""

    @property
    @abc.abstractmethod
    def spec(self) -> Spec: ...

    @abc.abstractmethod
    def reset(self, noise: Array) -> tuple[Any, Array]:
        """noise [spec.reset_noise] -> state, obs [A, O]."""

    @abc.abstractmethod
    def step(self, state: Any, action: Array, noise: Array) -> tuple[Any, Step]:
        """state, action [A], noise [spec.step_noise] -> state, Step."""

    def describe(self, trajectory: Trajectory) -> Descriptor | None:
        """Name what the (recorded, NumPy) episodes show; None where an environment has no names."""
        return None

    def scene(self, state: Any) -> Sequence[Shape]:
        """What to draw of one (NumPy) state, in the square [-1, 1]^2; nothing where there is no drawing."""
        return ()

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """What to draw of a finished run's strategies, by number and name: SVG texts by file name, for the run folder
        (`rspo.charts` helps); nothing where there is no drawing. The report shows those of single strategies too,
        whose file names begin with their number, such as "000-gait.svg"."""
        return {}

    def backdrop(self) -> Sequence[Shape]:
        """What stands behind every scene and never moves, such as the lines of a grid."""
        return ()

    def heatmaps(self, trajectory: Trajectory) -> Mapping[str, np.ndarray]:
        """Grids [y, x] to show of the (recorded, NumPy) episodes, y upwards, each under a short title."""
        return {}


AnyEnv = Env | HostEnv
PREFIXES = ("gym:", "pettingzoo:")  # of names that other libraries know
_REGISTRY: dict[str, tuple[Callable[[], AnyEnv], str]] = {}


def register(name: str, factory: Callable[[], AnyEnv], summary: str) -> None:
    _REGISTRY[name] = (factory, summary)


def environments() -> dict[str, str]:
    """The names that `make` knows, each with its one-line summary."""
    _load()
    return {name: summary for name, (_, summary) in _REGISTRY.items()}


def make(name: str) -> AnyEnv:
    """The environment of this name."""
    _load()
    if isinstance(name, str) and name.startswith("gym:"):
        from rspo.envs import gymnasium

        return gymnasium.from_id(name.removeprefix("gym:"))
    if isinstance(name, str) and name.startswith("pettingzoo:"):
        from rspo.envs import pettingzoo

        return pettingzoo.from_module(name.removeprefix("pettingzoo:"))
    if not isinstance(name, str) or name not in _REGISTRY:
        raise InputError(
            f"Unknown environment '{name}'. {suggestion(str(name), _REGISTRY)} `rspo list` shows them all."
        )
    return _REGISTRY[name][0]()


def title(env: AnyEnv) -> str:
    """What to call an environment in a message."""
    return env.title if isinstance(env, HostEnv) else type(env).__name__


def _load() -> None:
    import rspo.envs  # noqa: F401  (registers the built-in worlds on first use)


def at(tree: Any, *index: int) -> Any:
    """One element of every (NumPy) leaf of a recorded state: `at(states, t, n)`."""
    import jax

    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)
