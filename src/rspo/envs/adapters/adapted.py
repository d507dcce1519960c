"""The base of the environments of other libraries: what they are is read once, from one
instance."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rspo.core.types import Spec
from rspo.envs.adapters.cameras import Way, without_greeting
from rspo.envs.base import Camera, HostEnv, Instances


class Adapted(HostEnv):
    """Answers from what its constructor found."""

    _spec: Spec
    _title: str
    _bounds: tuple[np.ndarray, np.ndarray] | None = None
    _obs_names: Sequence[str] = ()
    _action_names: Sequence[str] = ()

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def title(self) -> str:
        return self.name or self._title

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        return self._bounds

    @property
    def obs_names(self) -> Sequence[str]:
        return self._obs_names

    @property
    def action_names(self) -> Sequence[str]:
        return self._action_names


class Made(Adapted):
    """Made by a function, as many as are needed."""

    factory: Callable[[], Any]
    _way: Way | None  # makes one that renders
    _pace: float | None

    @abc.abstractmethod
    def instances(self, envs: list[Any]) -> Instances:
        """These environments, stepped together."""

    def batch(self, size: int) -> Instances:
        return self.instances([self.factory() for _ in range(size)])

    @property
    def filmed(self) -> bool:
        return self._way is not None

    @property
    def pace(self) -> float | None:
        return self._pace

    def camera(self) -> Camera:
        assert self._way is not None
        without_greeting()
        env = self._way()
        return Camera(self.instances([env]), env.render, env.close)
