"""Any PettingZoo environment with a parallel API and homogeneous agents: `pettingzoo:<module>`, an
object, a factory."""

import copy
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rspo.core.types import Spec
from rspo.envs import given
from rspo.envs.adapters.adapted import Made
from rspo.envs.adapters.cameras import can_render, without_greeting
from rspo.envs.adapters.observations import Observed
from rspo.envs.adapters.spaces import action_space, bounds_of, check_module, named, native_action
from rspo.envs.base import HostStep, Instances
from rspo.errors import InputError


def from_module(name: str, horizon: int | None = None) -> "ParallelWorld":
    """The environment that a module's `parallel_env` makes, such as `mpe2.simple_spread_v3`."""
    without_greeting()
    try:
        import pettingzoo  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"pettingzoo:{name} needs PettingZoo: pip install 'rspo[pettingzoo]'."
        ) from error
    check_module(name, "pettingzoo")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"Cannot import '{name}': {error}.") from error
    if not hasattr(module, "parallel_env"):
        raise InputError(
            f"The module '{name}' has no parallel_env: rspo needs the parallel API, in which all "
            "agents act at the same time."
        )
    with given.own_code(f"pettingzoo:{name}", "making it"):
        render = lambda: module.parallel_env(render_mode="rgb_array")
        world = ParallelWorld(module.parallel_env, horizon, render=render)
    world.name = f"pettingzoo:{name}"
    return world


def from_object(env: Any, horizon: int | None = None) -> "ParallelWorld":
    """A host environment that makes copies of this one."""
    try:
        copy.deepcopy(env).close()
    except Exception as error:
        raise InputError(
            f"{env} cannot be copied, and rspo needs many of them: pass a function that makes one, "
            "rspo.discover(lambda: make_my_world())."
        ) from error
    return ParallelWorld(lambda: copy.deepcopy(env), horizon)


class ParallelWorld(Made):
    """Environments that `factory` makes. `horizon` is the length of an episode; by default their
    `max_cycles`. `render` makes one with the render mode `rgb_array`, where `factory` cannot;
    `obs_names` and `action_names` label observations and actions in reports."""

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
        self._title = str(probe)
        agents = list(probe.possible_agents)
        seen = {a: Observed(probe.observation_space(a), f"{probe}'s {a}") for a in agents}
        sizes = {a: seen[a].size for a in agents}
        spaces = {a: action_space(probe.action_space(a), f"{probe}'s {a}") for a in agents}
        for agent in agents[1:]:
            _check_alike(probe, agents[0], agent, sizes, spaces)
        horizon = horizon or _cycles(probe)
        if horizon is None:
            raise InputError(
                f"{probe} has no max_cycles: give the length of an episode, "
                "--horizon 200 or rspo.discover(env, horizon=200)."
            )
        self._spec = Spec(sizes[agents[0]], spaces[agents[0]], horizon, agents=len(agents))
        self.observed = [seen[agent] for agent in agents]
        self._bounds = bounds_of(self.observed)
        self._obs_names = tuple(obs_names) or named(probe, "obs_names") or self.observed[0].names
        self._action_names = tuple(action_names) or named(probe, "action_names")
        self._way = can_render(probe, factory, render)
        self._pace = probe.metadata.get("render_fps")
        probe.close()

    def instances(self, envs: list[Any]) -> "Worlds":
        return Worlds(envs, self)


def _check_alike(
    world: Any, one: str, other: str, sizes: dict[str, int], spaces: dict[str, Any]
) -> None:
    """Agents share one policy, so their spaces must be the same."""
    for verb, kinds in (("observes", sizes), ("acts in", spaces)):
        if kinds[one] != kinds[other]:
            unit = " numbers" if verb == "observes" else ""
            raise InputError(
                f"The agents of {world} differ: {one} {verb} {kinds[one]}{unit}, {other} "
                f"{kinds[other]}{unit}. All agents share one policy, so their spaces must be the "
                "same; SuperSuit's padding wrappers can make them so."
            )


def _cycles(world: Any) -> int | None:
    """`max_cycles`, which environments keep in different places."""
    seen = [world]
    for inner in seen:
        if isinstance(getattr(inner, "max_cycles", None), int):
            return int(inner.max_cycles)
        parts = (getattr(inner, name, None) for name in ("unwrapped", "env", "aec_env"))
        seen += [part for part in parts if part is not None and not any(part is s for s in seen)]
    return None


class Worlds(Instances):
    """An agent that leaves before the others keeps its last observation and earns nothing until
    all have left."""

    def __init__(self, worlds: list[Any], kind: ParallelWorld) -> None:
        self.worlds, self.names = worlds, list(worlds[0].possible_agents)
        self.spaces = [worlds[0].action_space(name) for name in self.names]
        self.observed = kind.observed
        self.obs = np.zeros((len(worlds), kind.spec.agents, kind.spec.obs_size), np.float32)

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        for i, seed in zip(which.tolist(), seeds.tolist(), strict=True):
            self._see(
                i, given.started(self.worlds[i].reset(seed=seed)), self.worlds[i].agents, "reset"
            )
        return self.obs[which]

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        reward = np.zeros(action.shape[:2])
        terminated, truncated = np.zeros(len(which), bool), np.zeros(len(which), bool)
        for k, i in enumerate(which.tolist()):
            world = self.worlds[i]
            moves = {
                name: native_action(space, move)
                for name, space, move in zip(self.names, self.spaces, action[k], strict=True)
                if name in world.agents
            }
            obs, earned, ends, cuts, _ = given.stepped(world.step(moves))
            moved, present = list(moves), [name in moves for name in self.names]
            ended = given.flags(
                given.of_agents(ends, moved, "terminated", "step"), "terminated", moved
            )
            cut = given.flags(given.of_agents(cuts, moved, "truncated", "step"), "truncated", moved)
            stays = [name for name, gone in zip(moved, ended | cut, strict=True) if not gone]
            self._see(i, obs, stays, "step")
            reward[k, present] = given.rewards(
                given.of_agents(earned, moved, "reward", "step"), moved
            )
            over = not stays
            truncated[k] = over and any(cuts.values())
            terminated[k] = over and not truncated[k]
        return HostStep(self.obs[which], reward, terminated, truncated)

    def _see(self, i: int, obs: Any, stays: list[str], verb: str) -> None:
        """Observations are required for agents that stay, and optional for those that have
        left."""
        given.of_agents(obs, stays, "observation", verb)
        for a, name in enumerate(self.names):
            if name in obs:
                self.obs[i, a] = self.observed[a].rows([obs[name]], verb)[0]
