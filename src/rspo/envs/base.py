"""The contracts of the two kinds of environment: in JAX, or on the host.

A JAX environment is a set of pure functions of one instance; the collector vmaps them over a batch
inside a jitted program. Randomness comes in as `noise`, plain uniform numbers that the collector
draws for the whole batch at once: a key per environment would cost more than the games themselves,
and a pure function of its noise can be replayed and checked against another implementation, step
by step.

A host environment is stateful, runs on the CPU and is written in anything. The collector steps a
batch of instances together and runs several batches in parallel, one per core: in worker processes
where the environment can be made by name, else in threads.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax import Array

from rspo.core.types import Descriptor, Played, Shape, Spec, Step, Trajectory


class Tables(NamedTuple):
    """The complete tables of an environment with S states and A choices for one agent. Terminal
    states lead to themselves and pay nothing."""

    transition: Any  # [S, A, S] probabilities
    reward: Any  # [S, A]
    start: Any  # [S] probabilities
    obs: Any  # [S, O] the observation in each state


class World:
    """The optional part of both kinds of environment."""

    compiled: ClassVar[bool]
    """Whether it is stepped inside compiled programs."""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return type(self).__name__

    def describe(self, trajectory: Trajectory) -> Descriptor | None:
        """Name what the (recorded, NumPy) episodes show; None where an environment has no names."""
        return None

    def behaviour(self, trajectory: Trajectory) -> Any:
        """For each episode, [N], one number from 0 to 1 that distinguishes behaviours, for methods
        that keep an archive of them: a jittable function of observations, actions and rewards,
        without recorded states. None where an environment has no such number."""
        return None

    def tables(self) -> Tables | None:
        """The tables of an environment so small that returns can be computed exactly; None
        otherwise."""
        return None

    def scene(self, state: Any) -> Sequence[Shape]:
        """The shapes of one (NumPy) state, in the square [-1, 1]^2; none where there is no
        drawing."""
        return ()

    def backdrop(self) -> Sequence[Shape]:
        """The fixed background of every scene, such as the lines of a grid."""
        return ()

    def heatmaps(self, trajectory: Trajectory) -> Mapping[str, np.ndarray]:
        """Heat maps [y, x] of the (recorded, NumPy) episodes, y upwards, each with a short
        title."""
        return {}

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """Pictures of a finished run's strategies: SVG texts by file name, for the run folder
        (`rspo.core.charts` helps). The report also shows those whose file names begin with a
        strategy's number, such as "000-gait.svg"."""
        return {}

    def photographs(self, strategies: Mapping[str, Played]) -> Mapping[str, bytes]:
        """The same by the environment's own renderer, as PNG files by name; NoRendererError where
        it cannot draw."""
        return {}

    @property
    def settings(self) -> Mapping[str, Any]:
        """Default settings of its runs, as in a configuration file, unless a preset overrides
        them."""
        return {}

    @property
    def weights(self) -> np.ndarray | None:
        """The weight of each of the `Spec.features`: their weighted sum is the reward."""
        return None

    @property
    def obs_names(self) -> Sequence[str]:
        """Names of the observed numbers, if any."""
        return ()

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the choices, or of the numbers of a continuous action; for several choices at
        once, the options of each, concatenated."""
        return ()

    @property
    def drawable(self) -> bool:
        """Whether `scene` is implemented."""
        return type(self).scene is not World.scene

    @property
    def filmed(self) -> bool:
        """Whether it has a `camera`."""
        return False

    @property
    def pace(self) -> float | None:
        """Steps per second at which it should be shown, if it says so."""
        return None

    def camera(self) -> "Camera":
        """A new camera."""
        raise NotImplementedError


class Env(eqx.Module, World):
    """The base of a JAX environment; implement `spec`, `reset` and `step`."""

    compiled: ClassVar[bool] = True

    @property
    def state_numbers(self) -> int:
        """How many numbers a state has."""
        noise = jax.ShapeDtypeStruct((self.spec.reset_noise,), np.float32)
        return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(self.reset, noise)[0]))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Whole episodes of about 8192 steps in all."""
        horizon = self.spec.horizon
        return {"ppo": {"batch": max(round(8192 / horizon), 1) * horizon}}

    @property
    @abc.abstractmethod
    def spec(self) -> Spec: ...

    @abc.abstractmethod
    def reset(self, noise: Array) -> tuple[Any, Any]:
        """noise [spec.reset_noise] -> state, obs [A, O] or a View of such arrays."""

    @abc.abstractmethod
    def step(self, state: Any, action: Array, noise: Array) -> tuple[Any, Step]:
        """state, action [A], noise [spec.step_noise] -> state, Step."""


class HostStep(NamedTuple):
    """The result of one step of K instances. There is no automatic reset: `obs` is always the one
    after the action."""

    obs: Any  # [K, A, O], or a View of such arrays
    reward: np.ndarray  # [K, A]
    terminated: np.ndarray  # [K] the task ended: no future reward exists
    truncated: np.ndarray  # [K] the environment truncated the episode: future reward was possible
    alive: np.ndarray | None = None  # [K, A] agents that act in the next step; None: all do
    features: np.ndarray | None = None  # [K, A, F] of this step's reward


class Instances(abc.ABC):
    """Some instances of one host environment; `which` is always in ascending order. Only one
    thread uses them at a time, not always the same one."""

    @abc.abstractmethod
    def reset(self, which: np.ndarray, seeds: np.ndarray) -> Any:
        """Begin an episode with its seed in each of the instances `which` [K]: obs [K, A, O], or a
        View of such arrays."""

    @abc.abstractmethod
    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        """Take a step in each of the instances `which` [K]; `action` [K, A], or [K, A, D] in the
        environment's units."""

    def state(self) -> Any:
        """What `describe` and drawings need from all the instances: leaves [size, ...], copied."""
        return None


class Camera(NamedTuple):
    """An instance that can be rendered while it is stepped."""

    instances: Instances  # a single one
    look: Callable[[], Any]  # the current frame: colours [height, width, 3], 8 bits each
    close: Callable[[], Any]


class HostEnv(World, abc.ABC):
    """The base of a host environment; implement `spec` and `batch`."""

    compiled: ClassVar[bool] = False

    @property
    def state_numbers(self) -> int:
        """A guess of how many numbers a recorded state has: unknown in advance."""
        return 2 * self.spec.obs_size

    name: str | None = None
    """The name by which `rspo.make` makes the same one in any process; None if there is none."""

    @property
    @abc.abstractmethod
    def spec(self) -> Spec: ...

    @property
    def title(self) -> str:
        return self.name or type(self).__name__

    @abc.abstractmethod
    def batch(self, size: int) -> Instances:
        """New instances, yet to be reset."""

    @property
    def most_lanes(self) -> int | None:
        """The fixed number of instances, where the collector cannot choose it."""
        return None

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Declared bounds of its observations, [A, O] each, if any; values outside them cause a
        warning."""
        return None

    @property
    def settings(self) -> Mapping[str, Any]:
        """At least eight whole episodes of about 4096 steps in all, and updates until the return
        has settled; observations with bounds within -1 and 1 are not normalised. Stepping takes
        most of the time, so few steps are learned from thoroughly."""
        unit = self.bounds is not None and bool((np.abs(self.bounds) <= 1).all())
        episodes = max(round(4096 / self.spec.horizon / 8), 1) * 8
        return {
            "ppo": {
                "batch": episodes * self.spec.horizon,
                "settled": 10,
                "epochs": 10,
                "minibatches": 8,
                "learning_rate": 1e-3,
                "entropy_coefficient": 0.01,
                "normalize_obs": not unit,
                "normalize_reward": True,
                "padding": "restart" if self.can_restart else "count",
            },
            "judge": {"episodes": 64},
        }

    @property
    def can_restart(self) -> bool:
        """Whether single instances can be reset while the others continue, as `ppo.padding`
        "restart" requires."""
        return True


AnyEnv = Env | HostEnv


def at(tree: Any, *index: int) -> Any:
    """One element of every (NumPy) leaf of a recorded state: `at(states, t, n)`."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)
