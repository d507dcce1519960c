"""Whatever a user calls an environment becomes one of rspo's two kinds here, and is looked over before training."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rspo.env import AnyEnv, Env, make, title
from rspo.errors import InputError
from rspo.host import HostEnv
from rspo.types import Box, Discrete, Spec

STEPS = 64
MOST_OBSERVED = 4096  # numbers: a batch of more would fill the memory, and fully connected layers make little of images


def adapt(env: Any) -> AnyEnv:
    """A name, an environment of rspo's, Gymnasium's or PettingZoo's, a vector env, or a function that makes one."""
    if isinstance(env, Env | HostEnv):
        return env
    if isinstance(env, str):
        return make(env)
    if adapter := _adapter(env, made_by=None):
        return adapter
    if not callable(env):
        raise InputError(
            f"{env!r} is no environment: pass a name from `rspo list`, a rspo.Env, a rspo.HostEnv, a Gymnasium or "
            "PettingZoo environment, or a function that makes one."
        )
    made = _tried(label(env), "making it", env)
    if isinstance(made, Env | HostEnv):
        return made
    if adapter := _adapter(made, made_by=env):
        return adapter
    raise InputError(f"{env!r} made {made!r}, which is no environment that rspo knows.")


def _adapter(env: Any, made_by: Any) -> HostEnv | None:
    """None if it is not Gymnasium's nor PettingZoo's. Neither is imported here: whoever has its objects has done so."""
    if (gymnasium := sys.modules.get("gymnasium")) is not None:
        from rspo.envs import gymnasium as gym_adapter

        if isinstance(env, gymnasium.vector.VectorEnv):
            return gym_adapter.GymVector(env)
        if isinstance(env, gymnasium.Env):
            return gym_adapter.GymEnv(made_by) if made_by else gym_adapter.from_object(env)
    if (pettingzoo := sys.modules.get("pettingzoo")) is not None:
        from rspo.envs import pettingzoo as zoo_adapter

        if isinstance(env, pettingzoo.ParallelEnv):
            return zoo_adapter.ParallelWorld(made_by) if made_by else zoo_adapter.from_object(env)
        if isinstance(env, pettingzoo.AECEnv):
            raise InputError(
                f"The agents of {env} move in turns, but rspo needs them to move together: use its parallel_env, or "
                "pettingzoo.utils.conversions.aec_to_parallel."
            )
    return None


def label(env: Any) -> str:
    """What to call it in a run folder."""
    named = env if isinstance(env, str) else getattr(env, "__name__", type(getattr(env, "unwrapped", env)).__name__)
    return "environment" if named == "<lambda>" else named


def check_env(env: Any) -> Spec:
    """Play a little with random actions and say in plain words all that is wrong; gives the environment's spec."""
    world = adapt(env)
    problems = _spec_problems(world.spec)
    if not problems:
        problems = _host_problems(world) if isinstance(world, HostEnv) else _jax_problems(world)
    if problems:
        raise InputError(f"{title(world)} cannot be trained in: {'; '.join(problems)}.")
    return world.spec


def _spec_problems(spec: Spec) -> list[str]:
    problems = [
        f"its spec says {name} = {value!r}, which must be a whole number from 1"
        for name, value in (("obs_size", spec.obs_size), ("horizon", spec.horizon), ("agents", spec.agents))
        if not isinstance(value, int) or value < 1
    ]
    if not problems and spec.obs_size > MOST_OBSERVED:
        problems.append(
            f"it observes {spec.obs_size} numbers, as an image has, and rspo's networks take at most {MOST_OBSERVED}: "
            "from Python, pass it in a wrapper that observes less"
        )
    space = spec.action_space
    if isinstance(space, Discrete):
        if not isinstance(space.n, int) or space.n < 2:
            problems.append(f"it has {space.n!r} actions to choose from, which must be a whole number from 2")
    elif not isinstance(space, Box):
        problems.append(f"its action space is {space!r}, which must be rspo.types.Discrete or rspo.types.Box")
    elif len(space.low) != len(space.high) or not all(a < b for a, b in zip(space.low, space.high, strict=True)):
        problems.append("every lower bound of its action space must be less than its upper bound")
    return problems


def _jax_problems(env: Env) -> list[str]:
    """By shapes alone, and one short run for the numbers."""
    import jax

    from rspo.policy import uniform_policy
    from rspo.rollout import collect

    spec = env.spec
    try:
        state, obs = jax.eval_shape(env.reset, np.zeros(spec.reset_noise, np.float32))
        move = np.zeros((spec.agents, spec.action_space.n) if spec.action_space.continuous else spec.agents, np.int32)
        move = move.astype(np.float32) if spec.action_space.continuous else move
        after, step = jax.eval_shape(env.step, state, move, np.zeros(spec.step_noise, np.float32))
    except Exception as error:
        return [f"JAX cannot trace its reset and step ({type(error).__name__}: {str(error).splitlines()[0]})"]
    wanted = {"obs": (spec.agents, spec.obs_size), "reward": (spec.agents,), "terminated": ()}
    found = {"obs": step.obs.shape, "reward": step.reward.shape, "terminated": step.terminated.shape}
    problems = [
        f"step gives {n} of shape {found[n]}, but it must be {wanted[n]}" for n in wanted if found[n] != wanted[n]
    ]
    if obs.shape != wanted["obs"]:
        problems.append(f"reset gives obs of shape {obs.shape}, but it must be {wanted['obs']}")
    if step.terminated.dtype != bool:
        problems.append(f"terminated is of type {step.terminated.dtype}, but it must be bool")
    if jax.tree.map(lambda x: (x.shape, x.dtype), state) != jax.tree.map(lambda x: (x.shape, x.dtype), after):
        problems.append("the state after a step has other shapes or types than the one after reset")
    if problems:
        return problems
    random = uniform_policy(spec.action_space.n, spec.action_space.continuous)
    played = jax.device_get(collect(env, random, 8, jax.random.key(0)))
    return _number_problems(played.obs, played.reward)


def _host_problems(env: HostEnv) -> list[str]:
    spec, which, seeds = env.spec, np.arange(min(2, env.most_lanes or 2)), np.array([7, 8])
    lanes = _tried(env.title, "making it", partial(env.batch, len(which)))
    first = np.asarray(_tried(env.title, "its reset", partial(lanes.reset, which, seeds[which])))
    wanted = (len(which), spec.agents, spec.obs_size)
    if first.shape != wanted:
        return [
            f"reset gives observations of shape {first.shape}, but they must be {wanted}: instances, agents, numbers"
        ]
    rng, seen, earned = np.random.default_rng(0), [first], []
    for t in range(min(STEPS, spec.horizon)):
        action = _random_action(spec, len(which), rng)
        step = _tried(env.title, "its step", partial(lanes.step, which, action))
        if problems := _step_problems(step, wanted):
            return problems
        seen.append(np.array(step.obs))
        earned.append(np.array(step.reward))
        if step.truncated.any() and t + 1 < spec.horizon:
            warnings.warn(f"{env.title} cut an episode short after {t + 1} of {spec.horizon} steps.", stacklevel=3)
        if (step.terminated | step.truncated).any():
            break
    if not np.array_equal(first, lanes.reset(which, seeds[which]), equal_nan=True):
        warnings.warn(
            f"{env.title} begins differently from the same seed: its runs cannot be repeated, nor resumed to "
            "the same result.",
            stacklevel=3,
        )
    return _number_problems(np.array(seen), np.array(earned))


def _tried(whose: str, what: str, call: Callable[[], Any]) -> Any:
    """What the environment's own code gives; if it fails, who did and how."""
    try:
        return call()
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"{whose} cannot be trained in: {what} failed ({why}).") from error


def _random_action(spec: Spec, count: int, rng: np.random.Generator) -> np.ndarray:
    space = spec.action_space
    if isinstance(space, Discrete):
        return rng.integers(0, space.n, (count, spec.agents), np.int32)
    return space.to_env(rng.uniform(-1, 1, (count, spec.agents, space.n)).astype(np.float32))


def _step_problems(step: Any, wanted: tuple[int, ...]) -> list[str]:
    shapes = {"obs": wanted, "reward": wanted[:2], "terminated": wanted[:1], "truncated": wanted[:1]}
    problems = []
    for name, shape in shapes.items():
        value = np.asarray(getattr(step, name))
        if value.shape != shape:
            problems.append(f"step gives {name} of shape {value.shape}, but it must be {shape}")
        elif shape == wanted[:1] and value.dtype != bool:
            problems.append(f"{name} is of type {value.dtype}, but it must be bool")
    return problems


def _number_problems(obs: np.ndarray, reward: np.ndarray) -> list[str]:
    named = (("an observation", obs), ("a reward", reward))
    problems = [
        f"it gave {what} that is not a finite number" for what, values in named if not np.isfinite(values).all()
    ]
    if not problems and np.abs(obs).max() > 1e6:
        problems.append(f"it gave an observation of {np.abs(obs).max():g}, beyond what a network can use: scale it")
    return problems
