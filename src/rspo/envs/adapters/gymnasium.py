"""Any Gymnasium environment with Box observations and Box or Discrete actions: `gym:<id>`, an
object, a vector env."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rspo.core.types import Spec
from rspo.envs import given
from rspo.envs.adapters.spaces import (
    action_space,
    bounds_of,
    check_module,
    native_action,
    observed_numbers,
)
from rspo.envs.base import HostEnv, HostStep, Instances
from rspo.errors import InputError


def from_id(name: str) -> "GymEnv":
    """The environment that `gymnasium.make` knows by this name."""
    try:
        import gymnasium
    except ImportError as error:
        raise InputError(f"gym:{name} needs Gymnasium: pip install 'rspo[gym]'.") from error
    module, colon, _ = name.rpartition(":")
    if colon:
        check_module(module, "gymnasium")
    try:
        with given.own_code(
            f"gym:{name}", "making it", passing=(gymnasium.error.Error, ImportError)
        ):
            env = GymEnv(lambda: _make(name))
    except (gymnasium.error.Error, ImportError) as error:
        raise InputError(
            f"Gymnasium cannot make '{name}': {' '.join(str(error).split())}"
        ) from error
    if isinstance(env.entry_point, str):  # else a class or function that only this process has
        env.name = f"gym:{name}"
    return env


_MADE: set[str] = set()


def _make(name: str) -> Any:
    """What Gymnasium warns of, it says of the first one in a process, not of each."""
    import gymnasium

    if name in _MADE:
        with warnings.catch_warnings(action="ignore"):
            return gymnasium.make(name)
    env = gymnasium.make(name)
    _MADE.add(name)
    return env


def from_object(env: Any) -> "GymEnv":
    """An environment like this one, as often as it is needed."""
    return GymEnv(_copier(env))


def _copier(env: Any) -> Callable[[], Any]:
    import gymnasium

    ways: list[Callable[[], Any]] = [lambda: copy.deepcopy(env)]
    if env.spec is not None:
        ways.insert(0, lambda: gymnasium.make(env.spec))
    for way in ways:
        try:
            way().close()
        except Exception:  # whatever an environment raises when it is copied: the next way
            continue
        return way
    raise InputError(
        f"{env} cannot be copied, and rspo needs many of them: pass a function that makes one, "
        "rspo.discover(lambda: make_my_env())."
    )


class GymEnv(HostEnv):
    """Environments that `factory` makes. `horizon` is the length of an episode; by default their
    own time limit."""

    def __init__(self, factory: Callable[[], Any], horizon: int | None = None) -> None:
        self.factory = factory
        probe = factory()
        self._title = whose = probe.spec.id if probe.spec else type(probe.unwrapped).__name__
        horizon = horizon or time_limit(probe)
        if horizon is None:
            raise InputError(
                f"{whose} has no time limit: from Python, wrap it in gymnasium.wrappers.TimeLimit, "
                "or say how long an "
                "episode is with rspo.envs.adapters.gymnasium.GymEnv(factory, horizon=...)."
            )
        size = observed_numbers(probe.observation_space, whose)
        self._spec = Spec(size, action_space(probe.action_space, whose), horizon)
        self._bounds = bounds_of([probe.observation_space])
        self.entry_point = getattr(
            probe.spec, "entry_point", None
        )  # what Gymnasium makes it by, if it does
        probe.close()

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def title(self) -> str:
        return self.name or self._title

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        return self._bounds

    def batch(self, size: int) -> "GymInstances":
        return GymInstances([self.factory() for _ in range(size)])


def time_limit(env: Any) -> int | None:
    """Steps after which a TimeLimit, anywhere among the wrappers, ends an episode."""
    while env is not None:
        limit = getattr(env, "_max_episode_steps", None) or getattr(
            getattr(env, "spec", None), "max_episode_steps", None
        )
        if limit is not None:
            return int(limit)
        env = env.__dict__.get("env")
    return None


class GymInstances(Instances):
    def __init__(self, envs: list[Any]) -> None:
        self.envs = envs
        self.actions, self.shape = envs[0].action_space, tuple(envs[0].observation_space.shape)

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        pairs = zip(which.tolist(), seeds.tolist(), strict=True)
        obs = [given.started(self.envs[i].reset(seed=seed)) for i, seed in pairs]
        return _rows(given.observations(obs, self.shape, "reset"))

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        pairs = zip(which.tolist(), action[:, 0], strict=True)
        results = [self.envs[i].step(native_action(self.actions, a)) for i, a in pairs]
        obs, reward, terminated, truncated = given.steps(results, self.shape)
        return HostStep(_rows(obs), reward[:, None], terminated, truncated)


class GymVector(HostEnv):
    """A vector environment, as it is: its number of environments is fixed, and it brings its own
    processes if any."""

    def __init__(self, vector: Any, horizon: int | None = None) -> None:
        self.vector = vector
        self._title = whose = str(vector)
        horizon = horizon or time_limit(vector) or time_limit(getattr(vector, "envs", [None])[0])
        if horizon is None:
            raise InputError(
                f"{whose} has no time limit: pass rspo.envs.adapters.gymnasium.GymVector(vector, "
                "horizon=...)."
            )
        size = observed_numbers(vector.single_observation_space, whose)
        self._spec = Spec(size, action_space(vector.single_action_space, whose), horizon)
        self._bounds = bounds_of([vector.single_observation_space])

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        return self._bounds

    @property
    def title(self) -> str:
        return self._title

    @property
    def most_lanes(self) -> int:
        return int(self.vector.num_envs)

    @property
    def can_restart(self) -> bool:
        return _autoreset(self.vector) == "DISABLED"

    def batch(self, size: int) -> "GymLanes":
        return GymLanes(self.vector)


class GymLanes(Instances):
    """The lanes of a vector environment. It steps all of them, needed or not."""

    def __init__(self, vector: Any) -> None:
        self.vector, self.space = vector, vector.single_action_space
        self.shape = tuple(vector.single_observation_space.shape)
        self.mode = _autoreset(vector)
        self.ended: np.ndarray | None = None  # before the first reset it is not known of any

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        lanes = np.isin(np.arange(self.vector.num_envs), which)
        seed = int(seeds[0])  # one for all: not every vector environment takes a list
        if self.mode == "DISABLED" and self.ended is not None:
            obs = given.started(self.vector.reset(seed=seed, options={"reset_mask": lanes}))
            self.ended &= ~lanes
        else:
            obs = given.started(self.vector.reset(seed=seed))
            self.ended = np.zeros(len(lanes), bool)
        return self._seen(obs, "reset")[which]

    def _seen(self, obs: Any, verb: str) -> np.ndarray:
        """All that the lanes show, of its own memory: the vector may write the next one over it."""
        given.check_lanes(obs, self.vector.num_envs, verb)
        return _rows(given.observations(obs, self.shape, verb)).copy()

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        assert self.ended is not None
        if (
            self.mode == "DISABLED" and self.ended.any()
        ):  # nobody waits for these, but they must not be stepped on
            self.vector.reset(options={"reset_mask": self.ended.copy()})
        actions = np.stack(
            [native_action(self.space, np.zeros(action.shape[2:], action.dtype))] * len(self.ended)
        )
        actions[which] = np.stack([native_action(self.space, a) for a in action[:, 0]])
        obs, *rest, info = given.stepped(self.vector.step(actions))
        reward, terminated, truncated = (
            given.lanes(values, len(self.ended), name)
            for values, name in zip(rest, given.STEP[1:4], strict=True)
        )
        self.ended = terminated | truncated
        obs = self._seen(obs, "step")
        if self.mode == "SAME_STEP" and self.ended.any():
            if "final_obs" not in info:
                raise given.Unfit(
                    "its step gives no final_obs in info where an episode ended, though it resets "
                    "itself"
                )
            obs[self.ended] = _rows(
                given.observations(list(info["final_obs"][self.ended]), self.shape, "step")
            )
        return HostStep(obs[which], reward[which, None], terminated[which], truncated[which])


def _autoreset(vector: Any) -> str:
    return getattr(vector.metadata.get("autoreset_mode"), "name", "NEXT_STEP")


def _rows(obs: np.ndarray) -> np.ndarray:
    """One agent's numbers for each environment: [N, 1, O]."""
    return obs.reshape(len(obs), 1, -1)
