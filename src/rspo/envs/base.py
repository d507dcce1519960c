"""The contracts of the two kinds of environment: in JAX, or on the host.

A JAX environment is a set of pure functions of one instance; the collector maps them over a batch
inside a jitted program. Randomness comes in as `noise`, plain uniform numbers that the collector
draws for the whole batch at once: drawing a key for every environment costs more than the games
themselves, and a game that is a function of its noise can be replayed and checked against any other
implementation, step by step.

A host environment is stateful, on the CPU, written in whatever there is. The collector steps a
batch of instances together and keeps several batches going, one per core: each in a process of its
own where the environment can be made by name, else in threads.
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
    """All of an environment of S states and A choices for one agent. What ends an episode leads to
    itself and pays nothing more."""

    transition: Any  # [S, A, S] probabilities
    reward: Any  # [S, A]
    start: Any  # [S] probabilities
    obs: Any  # [S, O] what is seen in each state


class World:
    """What both kinds may say about themselves; all of it is optional."""

    compiled: ClassVar[bool]
    """Whether it is stepped inside of compiled programs."""

    @property
    def title(self) -> str:
        """What to call it in a message."""
        return type(self).__name__

    def describe(self, trajectory: Trajectory) -> Descriptor | None:
        """Name what the (recorded, NumPy) episodes show; None where an environment has no names."""
        return None

    def behaviour(self, trajectory: Trajectory) -> Any:
        """Of each episode, [N], one number from 0 to 1 that tells behaviours apart, for methods
        that keep an archive of them: a jittable function of what was seen, done and earned, without
        recorded states. None where an environment has no such number."""
        return None

    def tables(self) -> Tables | None:
        """Where an environment is so small that returns can be computed exactly; None elsewhere."""
        return None

    def scene(self, state: Any) -> Sequence[Shape]:
        """What to draw of one (NumPy) state, in the square [-1, 1]^2; nothing where there is no
        drawing."""
        return ()

    def backdrop(self) -> Sequence[Shape]:
        """What stands behind every scene and never moves, such as the lines of a grid."""
        return ()

    def heatmaps(self, trajectory: Trajectory) -> Mapping[str, np.ndarray]:
        """Grids [y, x] to show of the (recorded, NumPy) episodes, y upwards, each under a short
        title."""
        return {}

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """What to draw of a finished run's strategies, by number and name: SVG texts by file name,
        for the run folder (`rspo.core.charts` helps). The report shows those of single strategies
        too, whose file names begin with their number, such as "000-gait.svg"."""
        return {}

    def photographs(self, strategies: Mapping[str, Played]) -> Mapping[str, bytes]:
        """The same by the environment's own renderer, as PNG files by name; NoRendererError where
        it cannot draw."""
        return {}

    @property
    def settings(self) -> Mapping[str, Any]:
        """What its runs start from, as in a configuration file, where no preset knows better."""
        return {}

    @property
    def weights(self) -> np.ndarray | None:
        """What each of the `Spec.features` is worth: their weighted sum is the reward."""
        return None

    @property
    def obs_names(self) -> Sequence[str]:
        """What the observed numbers are called, where they have names."""
        return ()

    @property
    def action_names(self) -> Sequence[str]:
        """What the choices are called, or the numbers of a continuous action; for several choices
        at once, the choices of each after those of the one before."""
        return ()

    @property
    def drawable(self) -> bool:
        """Whether its author has written a drawing."""
        return type(self).scene is not World.scene


class Env(eqx.Module, World):
    """What the author of a JAX environment writes: `spec`, `reset` and `step`."""

    compiled: ClassVar[bool] = True

    @property
    def state_numbers(self) -> int:
        """How many numbers a state has."""
        noise = jax.ShapeDtypeStruct((self.spec.reset_noise,), np.float32)
        return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(self.reset, noise)[0]))

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
    """What one step of K instances gives. There is no automatic reset: `obs` is always the one
    after the action."""

    obs: Any  # [K, A, O], or a View of such arrays
    reward: np.ndarray  # [K, A]
    terminated: np.ndarray  # [K] the task ended: no future reward exists
    truncated: np.ndarray  # [K] the environment cut the episode short: future reward was possible
    alive: np.ndarray | None = None  # [K, A] agents that act in the next step; None: all do
    features: np.ndarray | None = None  # [K, A, F] of this step's reward


class Instances(abc.ABC):
    """Some instances of one host environment; `which` of them is always in ascending order. Only
    one thread uses them at a time, not always the same."""

    @abc.abstractmethod
    def reset(self, which: np.ndarray, seeds: np.ndarray) -> Any:
        """Begin an episode in each of the instances `which` [K], the seed decides which one: obs
        [K, A, O], or a View of such arrays."""

    @abc.abstractmethod
    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        """Take a step in each of the instances `which` [K]; `action` [K, A], or [K, A, D] in their
        own units."""

    def state(self) -> Any:
        """What `describe` and drawings need to know of all the instances: leaves [size, ...] of
        their own memory."""
        return None


class Camera(NamedTuple):
    """An instance that can be looked at while it is stepped."""

    instances: Instances  # a single one
    look: Callable[[], Any]  # what it shows now: colours [height, width, 3], 8 bits each
    close: Callable[[], Any]


class HostEnv(World, abc.ABC):
    """What the author of a host environment writes: `spec` and `batch`."""

    compiled: ClassVar[bool] = False

    @property
    def state_numbers(self) -> int:
        """About how many numbers a recorded state has: nobody knows before."""
        return 2 * self.spec.obs_size

    name: str | None = None
    """What `rspo.make` makes the very same by, in any process; None if nothing does."""

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
    def filmed(self) -> bool:
        """Whether it has a `camera`."""
        return False

    @property
    def pace(self) -> float | None:
        """Steps a second at which it is meant to be seen, where it says so."""
        return None

    def camera(self) -> Camera:
        """A new one."""
        raise NotImplementedError

    @property
    def most_lanes(self) -> int | None:
        """How many instances there can be at all, where that is not for the collector to choose."""
        return None

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Between which numbers its observations lie, [A, O] each, as far as it says so; who looks
        at them warns of others."""
        return None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Whole episodes, eight or more, of about 8192 steps in all, and no more updates than it
        takes; numbers that lie between -1 and 1 stay as they are."""
        unit = self.bounds is not None and bool((np.abs(self.bounds) <= 1).all())
        episodes = max(round(8192 / self.spec.horizon / 8), 1) * 8
        return {
            "ppo": {
                "batch": episodes * self.spec.horizon,
                "settled": 10,
                "epochs": 10,
                "minibatches": 8,
                "entropy_coefficient": 0.01,
                "normalize_obs": not unit,
                "normalize_reward": True,
                "padding": "restart" if self.can_restart else "count",
            },
            "judge": {"episodes": 64},
        }

    @property
    def can_restart(self) -> bool:
        """Whether single instances can be reset while the others go on, as `ppo.padding` "restart"
        asks for."""
        return True


AnyEnv = Env | HostEnv


def at(tree: Any, *index: int) -> Any:
    """One element of every (NumPy) leaf of a recorded state: `at(states, t, n)`."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)
