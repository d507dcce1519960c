"""Any Gymnasium environment whose observations are numbers and choices: `gym:<id>`, an object, a
vector env."""

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rspo.core.types import Spec
from rspo.envs import given
from rspo.envs.adapters.adapted import Adapted, Made
from rspo.envs.adapters.cameras import Way, can_render, without_greeting
from rspo.envs.adapters.observations import Observed
from rspo.envs.adapters.spaces import action_space, bounds_of, check_module, named, native_action
from rspo.envs.base import HostStep, Instances
from rspo.errors import InputError


def from_id(name: str, horizon: int | None = None) -> "GymEnv":
    """The environment that `gymnasium.make` knows by this name."""
    without_greeting()
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
            render = lambda: _make(name, render_mode="rgb_array")
            env = GymEnv(lambda: _make(name), horizon, render=render)
    except (gymnasium.error.Error, ImportError) as error:
        raise InputError(
            f"Gymnasium cannot make '{name}': {' '.join(str(error).split())}"
        ) from error
    if isinstance(env.entry_point, str):  # else a class or function that only this process has
        env.name = f"gym:{name}"
    return env


_MADE: set[str] = set()


def _make(name: str, **settings: Any) -> Any:
    """Gymnasium's warnings are shown for the first instance in a process, not for each."""
    import gymnasium

    if name in _MADE:
        with warnings.catch_warnings(action="ignore"):
            return gymnasium.make(name, **settings)
    env = gymnasium.make(name, **settings)
    _MADE.add(name)
    return env


def from_object(env: Any, horizon: int | None = None) -> "GymEnv":
    """A host environment that makes copies of this one."""
    return GymEnv(_copier(env), horizon)


def _copier(env: Any) -> Callable[[], Any]:
    import gymnasium

    ways: list[Callable[[], Any]] = [lambda: copy.deepcopy(env)]
    if env.spec is not None:
        ways.insert(0, lambda: gymnasium.make(env.spec))
    for way in ways:
        try:
            way().close()
        except Exception:  # copying may raise anything: try the next way
            continue
        return way
    raise InputError(
        f"{env} cannot be copied, and rspo needs many of them: pass a function that makes one, "
        "rspo.discover(lambda: make_my_env())."
    )


class GymEnv(Made):
    """Environments that `factory` makes. `horizon` is the length of an episode; by default their
    own time limit. `render` makes one with the render mode `rgb_array`, where `factory` and
    `gymnasium.make` cannot; `obs_names` and `action_names` label observations and actions in
    reports."""

    def __init__(
        self,
        factory: Callable[[], Any],
        horizon: int | None = None,
        *,
        render: Callable[[], Any] | None = None,
        obs_names: Sequence[str] = (),
        action_names: Sequence[str] = (),
    ) -> None:
        self.factory = factory
        probe = factory()
        self._title = whose = probe.spec.id if probe.spec else type(probe.unwrapped).__name__
        horizon = horizon or time_limit(probe)
        if horizon is None:
            raise InputError(
                f"{whose} has no time limit: give the length of an episode, --horizon 200 or "
                "rspo.discover(env, horizon=200)."
            )
        self.observed = Observed(probe.observation_space, whose)
        actions = action_space(probe.action_space, whose)
        self._spec = Spec(self.observed.size, actions, horizon)
        self._bounds = bounds_of([self.observed])
        self._obs_names = tuple(obs_names) or named(probe, "obs_names") or self.observed.names
        self._action_names = tuple(action_names) or named(probe, "action_names")
        self._way: Way | None = _renderer(probe, factory, render)
        self._pace = probe.metadata.get("render_fps")
        self.entry_point = getattr(probe.spec, "entry_point", None)
        probe.close()

    def instances(self, envs: list[Any]) -> "GymInstances":
        return GymInstances(envs, self.observed)


def _renderer(probe: Any, factory: Way, render: Way | None) -> Way | None:
    """A factory of an environment that renders, if there is one."""
    import gymnasium

    remake = None
    if probe.spec is not None:
        remake = lambda spec=probe.spec: gymnasium.make(spec, render_mode="rgb_array")
    return can_render(probe, factory, render or remake)


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
    def __init__(self, envs: list[Any], observed: Observed) -> None:
        self.envs, self.actions, self.observed = envs, envs[0].action_space, observed

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        pairs = zip(which.tolist(), seeds.tolist(), strict=True)
        obs = [given.started(self.envs[i].reset(seed=seed)) for i, seed in pairs]
        return self.observed.rows(obs, "reset")[:, None]

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        pairs = zip(which.tolist(), action[:, 0], strict=True)
        results = [self.envs[i].step(native_action(self.actions, a)) for i, a in pairs]
        obs, reward, terminated, truncated = given.steps(results)
        seen = self.observed.rows(obs, "step")[:, None]
        return HostStep(seen, reward[:, None], terminated, truncated)


class GymVector(Adapted):
    """A vector environment as is: its number of environments is fixed, and it may have its own
    processes."""

    def __init__(self, vector: Any, horizon: int | None = None) -> None:
        self.vector = vector
        self._title = whose = str(vector)
        horizon = horizon or time_limit(vector) or time_limit(getattr(vector, "envs", [None])[0])
        if horizon is None:
            raise InputError(
                f"{whose} has no time limit: give the length of an episode, "
                "rspo.discover(env, horizon=200)."
            )
        self.observed = Observed(vector.single_observation_space, whose)
        actions = action_space(vector.single_action_space, whose)
        self._spec = Spec(self.observed.size, actions, horizon)
        self._bounds = bounds_of([self.observed])
        self._obs_names = self.observed.names

    @property
    def most_lanes(self) -> int:
        return int(self.vector.num_envs)

    @property
    def can_restart(self) -> bool:
        return _autoreset(self.vector) == "DISABLED"

    def batch(self, size: int) -> "GymLanes":
        return GymLanes(self.vector, self.observed)


class GymLanes(Instances):
    """The sub-environments of a vector environment. All of them are stepped, needed or not."""

    def __init__(self, vector: Any, observed: Observed) -> None:
        self.vector, self.space, self.observed = vector, vector.single_action_space, observed
        self.mode = _autoreset(vector)
        self.ended: np.ndarray | None = None  # unknown before the first reset

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
        """The observations of all lanes, copied: the vector environment may reuse its buffer."""
        return self.observed.lanes(obs, self.vector.num_envs, verb)[:, None].copy()

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        assert self.ended is not None
        # Finished ones are no longer used, but must not be stepped.
        if self.mode == "DISABLED" and self.ended.any():
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
            final = list(info["final_obs"][self.ended])
            obs[self.ended] = self.observed.rows(final, "step")[:, None]
        return HostStep(obs[which], reward[which, None], terminated[which], truncated[which])


def _autoreset(vector: Any) -> str:
    return getattr(vector.metadata.get("autoreset_mode"), "name", "NEXT_STEP")
