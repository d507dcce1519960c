"""Converts anything that a user passes as an environment to one of rspo's two kinds."""

import sys
from typing import Any

from rspo.envs.base import AnyEnv, Env, HostEnv
from rspo.envs.given import own_code, tried
from rspo.errors import InputError
from rspo.registry import OWN, has_name, is_own, make, of_length, own
from rspo.rollout.patience import watching


def adapt(env: Any, horizon: int | None = None) -> AnyEnv:
    """A name, an environment of rspo's, Gymnasium's or PettingZoo's, a vector env, or a function
    that makes one; with episodes of `horizon` steps where it has no time limit of its own."""
    if isinstance(env, Env | HostEnv):
        return of_length(env, env.title, horizon)
    if isinstance(env, str):
        return _own(env, horizon) if is_own(env) else make(env, horizon)
    if adapter := _adapter(env, None, horizon):
        return adapter
    if not callable(env):
        raise InputError(
            f"{env!r} is not an environment: pass a name from `rspo list`, a rspo.Env, a "
            "rspo.HostEnv, a Gymnasium or PettingZoo environment, or a function that makes one."
        )
    made = _made(env)
    if isinstance(made, Env | HostEnv):
        return of_length(made, made.title, horizon)
    with own_code(label(env), "making it", "trained in"):  # it will be made again
        adapter = _adapter(made, env, horizon)
    if adapter:
        return adapter
    raise InputError(f"{env!r} made {made!r}, which is not an environment that rspo knows.")


def _own(target: str, horizon: int | None) -> AnyEnv:
    """Made by a function that the user named; other processes make it by the same name."""
    with watching(target):
        factory = tried(target, "importing it", lambda: own(target))
    world = adapt(factory, horizon)
    if isinstance(world, HostEnv) and world.name is None:
        world.name = target
    return world


def _made(env: Any) -> Any:
    with watching(label(env)):
        return tried(label(env), "making it", env)


def _adapter(env: Any, made_by: Any, horizon: int | None) -> HostEnv | None:
    """None if it is neither Gymnasium's nor PettingZoo's. Neither is imported here: a caller with
    such an object already did."""
    if (gymnasium := sys.modules.get("gymnasium")) is not None:
        from rspo.envs.adapters import gymnasium as gym_adapter

        if isinstance(env, gymnasium.vector.VectorEnv):
            return gym_adapter.GymVector(env, horizon)
        if isinstance(env, gymnasium.Env):
            if made_by:
                return gym_adapter.GymEnv(made_by, horizon)
            return gym_adapter.from_object(env, horizon)
    if (pettingzoo := sys.modules.get("pettingzoo")) is not None:
        from rspo.envs.adapters import pettingzoo as zoo_adapter

        if isinstance(env, pettingzoo.ParallelEnv):
            if made_by:
                return zoo_adapter.ParallelWorld(made_by, horizon)
            return zoo_adapter.from_object(env, horizon)
        if isinstance(env, pettingzoo.AECEnv):
            raise InputError(
                f"The agents of {env} act in turns, but rspo needs them to act at the same time: "
                "use its parallel_env, or pettingzoo.utils.conversions.aec_to_parallel."
            )
    return None


def label(env: Any) -> str:
    """Its default name in a run folder. A registered name is used only for what it stands for."""
    if isinstance(env, str):
        return env
    if isinstance(env, HostEnv) and env.name is not None:
        return env.name
    spec: Any = getattr(env, "spec", None)
    if isinstance(env, HostEnv):
        named = env.title
    elif isinstance(getattr(spec, "id", None), str):  # Gymnasium's
        named = spec.id
    else:
        named = getattr(env, "__name__", type(getattr(env, "unwrapped", env)).__name__)
    named = "environment" if named == "<lambda>" else named
    return f"my-{named}" if has_name(named) else named


def called(env: Any, name: Any) -> str:
    """Its name in a run folder: `name`, if the user gives one."""
    if name is None:
        return label(env)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"name is {name!r}, but it must be a line of text.")
    if has_name(name) or is_own(name):
        raise InputError(
            f"name is '{name}', but that means another environment: choose a name that is not in "
            f"`rspo list` and does not have the form {OWN}."
        )
    if isinstance(env, str) and has_name(env):
        raise InputError(f"'{env}' already has a name: leave out name={name!r}.")
    return name
