"""Checks an environment before training, after converting it to one of rspo's two kinds."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rspo.core.spaces import Box, Discrete, MultiDiscrete
from rspo.core.types import Played, Spec, Step, Trajectory, as_view
from rspo.envs.base import AnyEnv, Env, HostEnv, Instances, World
from rspo.envs.given import failure, first, own_code, tried, warn_outside, whole
from rspo.errors import InputError, RspoWarning
from rspo.methods.base import Method, Need
from rspo.rollout.adapt import adapt
from rspo.rollout.patience import Signs, watching

STEPS = 64
EPISODES = 8  # of a JAX environment
# largest observation: more would fill the memory, and fully connected layers do not suit images
MOST_OBSERVED = 4096


def check_env(env: Any) -> Spec:
    """Play briefly with random actions, name and draw what was played, and say in plain words
    everything that is wrong; returns the environment's spec."""
    world = adapt(env)
    problems = _spec_problems(world.spec)
    if not problems:
        problems = _host_problems(world) if isinstance(world, HostEnv) else _jax_problems(world)
    if problems:
        raise InputError(f"{world.title} cannot be trained in: {'; '.join(problems)}.")
    return world.spec


NEEDS: dict[Need, tuple[Callable[[AnyEnv], bool], str]] = {
    "features": (
        lambda env: env.spec.features > 0,
        "its reward is not given as a weighted sum of features (Spec.features)",
    ),
    "behaviour": (
        lambda env: type(env).behaviour is not World.behaviour,
        "it does not say how episodes behave (World.behaviour)",
    ),
}


def check_needs(method: Method, env: AnyEnv) -> None:
    """Refuse, in one sentence, a method whose need the environment does not meet."""
    for need in method.needs:
        met, why_not = NEEDS[need]
        if not met(env):
            raise InputError(
                f"The method {method.name} cannot be used in {env.title}: {why_not}. "
                "`rspo list --methods` says what each method needs."
            )


def built_in(env: AnyEnv) -> bool:
    """Whether it is one of rspo's own in JAX, which need no check before each run: host
    environments may wrap anyone's code."""
    return env.compiled and type(env).__module__.startswith("rspo.envs.")


def _spec_problems(spec: Spec) -> list[str]:
    problems = [
        f"its spec says {name} = {value!r}, which must be a whole number from 1"
        for name, value in (
            ("obs_size", spec.obs_size),
            ("horizon", spec.horizon),
            ("agents", spec.agents),
        )
        if not isinstance(value, int) or value < 1
    ]
    if not problems and spec.obs_size > MOST_OBSERVED:
        problems.append(
            f"it observes {spec.obs_size} numbers, as an image has, and rspo's networks take at "
            f"most {MOST_OBSERVED}: from Python, pass it in a wrapper that observes less"
        )
    space = spec.action_space
    if isinstance(space, Discrete | MultiDiscrete):
        sizes = (space.n,) if isinstance(space, Discrete) else space.sizes
        if not all(isinstance(n, int) and n >= 1 for n in sizes) or max(sizes, default=0) < 2:
            what = repr(space.n) if isinstance(space, Discrete) else f"{sizes!r}"
            problems.append(
                f"it has {what} actions to choose from, which must be a whole number from 2"
            )
    elif not isinstance(space, Box):
        problems.append(
            f"its action space is {space!r}, which must be a Discrete, a MultiDiscrete or a Box of "
            "rspo.core.spaces"
        )
    elif len(space.low) != len(space.high) or not all(
        a < b for a, b in zip(space.low, space.high, strict=True)
    ):
        problems.append("every lower bound of its action space must be less than its upper bound")
    return problems


def _jax_problems(env: Env) -> list[str]:
    """By shapes alone, and one short run for the numbers."""
    import jax

    from rspo.core.policies import uniform_policy
    from rspo.rollout.collector import collector

    if problems := _shape_problems(env):
        return problems
    space = env.spec.action_space
    with own_code(env.title, "playing it", "trained in"):
        collect, random = collector(env), uniform_policy(space)
        play = collect.program(lambda key: collect(random, EPISODES, key, record=True))
        played = jax.device_get(play(jax.random.key(0)))
    problems = _number_problems(played.obs, played.reward)
    problems = problems or _weight_problems(env, played.features, played.reward)
    if not problems:
        _decorate(env, played)
    return problems


def _feature_problems(features: Any, wanted: tuple[int, ...]) -> list[str]:
    """Problems with a step's features."""
    if wanted[-1] == 0 or getattr(features, "shape", None) == wanted:
        return []
    found = "no array of them" if features is None else f"some of shape {np.shape(features)}"
    return [
        f"its spec says {wanted[-1]} features of a reward, which must be {wanted}, but its step "
        f"gives {found}"
    ]


def _weight_problems(env: AnyEnv, features: Any, reward: np.ndarray) -> list[str]:
    """Whether rewards [...] are a weighted sum of the features [..., F], where there are some."""
    if not env.spec.features:
        return []
    weights = np.asarray(env.weights, np.float32)
    if weights.shape != (env.spec.features,):
        return [
            f"its weights are of shape {weights.shape}, but its spec says {env.spec.features} "
            "features"
        ]
    if not np.allclose(features @ weights, reward, rtol=1e-3, atol=1e-4):
        return ["its reward is not the sum of its features times its weights"]
    return []


def _shape_problems(env: Env) -> list[str]:
    import equinox as eqx
    import jax

    spec = env.spec
    kind = np.float32 if spec.action_space.continuous else np.int32
    move = np.zeros((spec.agents, *spec.action_space.shape), kind)
    draws = (np.zeros(size, np.float32) for size in (spec.reset_noise, spec.step_noise))
    with own_code(env.title, "tracing its reset by JAX", "trained in"):
        begun = jax.eval_shape(env.reset, next(draws))
    if not isinstance(begun, tuple) or len(begun) != 2:
        return [
            f"its reset gives {type(begun).__name__}, but it must give state and observation, in a "
            "tuple"
        ]
    state, obs = begun
    with own_code(env.title, "tracing its step by JAX", "trained in"):
        done = jax.eval_shape(env.step, state, move, next(draws))
    if (
        not isinstance(done, tuple)
        or len(done) != 2
        or not all(hasattr(done[1], name) for name in Step._fields)
    ):
        return ["its step must give the state and a rspo.core.types.Step, in a tuple"]
    after, step = done
    obs, following = as_view(obs).obs, as_view(step.obs).obs
    named = {"reset gives obs": obs, "step gives obs": following, "step gives reward": step.reward}
    named["step gives terminated"] = step.terminated
    shapes = [(spec.agents, spec.obs_size), (spec.agents, spec.obs_size), (spec.agents,), ()]
    if problems := [
        f"{name}, which must be an array"
        for name, leaf in named.items()
        if not hasattr(leaf, "shape")
    ]:
        return problems
    problems = [
        f"{name} of shape {leaf.shape}, but it must be {wanted}"
        for (name, leaf), wanted in zip(named.items(), shapes, strict=True)
        if leaf.shape != wanted
    ]
    if obs.dtype != following.dtype or obs.dtype.kind not in "fiub":
        problems.append(
            f"reset gives obs of type {obs.dtype} and step of {following.dtype}, but both must be "
            "float32"
        )
    if step.terminated.dtype != bool:
        problems.append(f"terminated is of type {step.terminated.dtype}, but it must be bool")
    problems += _feature_problems(step.features, (spec.agents, spec.features))
    before, behind = (
        jax.tree.map(lambda leaf: f"{leaf.dtype}{leaf.shape}", tree) for tree in (state, after)
    )
    if not eqx.tree_equal(before, behind):
        problems.append("the state after a step has other shapes or types than the one after reset")
    return problems


def _host_problems(env: HostEnv) -> list[str]:
    spec, which, seeds = env.spec, np.arange(min(2, env.most_lanes or 2)), np.array([7, 8])
    whose, wanted = env.title, (len(which), spec.agents, spec.obs_size)
    signs = Signs()
    with watching(whose, signs):
        lanes = tried(whose, "making it", partial(env.batch, len(which)))
        reset = partial(tried, whose, "its reset", lambda: lanes.reset(which, seeds[which]))
        begun = lambda view: tried(whose, "its reset", lambda: first(view.obs, wanted))
        view = as_view(reset())
        # A copy: the next step may overwrite it.
        start = np.array(begun(view), np.float32)
        rng, seen, earned = np.random.default_rng(0), [start], []
        for t in range(min(STEPS, spec.horizon)):
            signs.beat()
            action = _random_action(spec, len(which), rng, view.mask)
            step = tried(whose, "its step", lambda: whole(lanes.step(which, action), wanted))  # noqa: B023  (at once)
            view = as_view(step.obs)
            seen.append(np.array(view.obs, np.float32))
            earned.append(np.array(step.reward))
            if problems := _feature_problems(step.features, (*wanted[:2], spec.features)):
                return problems
            if problems := _weight_problems(env, step.features, earned[-1]):
                return problems
            if step.truncated.any() and t + 1 < spec.horizon:
                _warn(f"{whose} cut an episode short after {t + 1} of {spec.horizon} steps.")
            if (step.terminated | step.truncated).any():
                break
        again = np.array(begun(as_view(reset())), np.float32)
    if not np.array_equal(start, again, equal_nan=True):
        _warn(
            f"{whose} begins differently from the same seed: its runs can be neither repeated nor "
            "resumed to the same result."
        )
    if problems := _number_problems(np.array(seen), np.array(earned)):
        return problems
    warn_outside(env, np.array(seen))
    if not type(env).__module__.startswith("rspo.envs.") and _is_decorated(env):
        _decorate(env, _played_through(env, lanes, seeds[which]))
    return []


def _is_decorated(env: HostEnv) -> bool:
    """Whether there are names or drawings to try; whole episodes may take long."""
    methods = ("describe", "scene", "backdrop", "heatmaps", "pictures")
    return any(getattr(type(env), name) is not getattr(HostEnv, name) for name in methods)


def _played_through(env: HostEnv, lanes: Instances, seeds: np.ndarray) -> Trajectory:
    """Whole episodes with random actions, recorded as in an evaluation. No device is touched:
    their number is not yet known."""
    from rspo.core.policies import uniform_policy
    from rspo.rollout.host import noise_of, trajectory_of
    from rspo.rollout.play import Share, play_share

    space, signs = env.spec.action_space, Signs()
    random = uniform_policy(space)
    share = Share(seeds, len(seeds), noise_of(random, env, None), "count", record=True)
    with watching(env.title, signs), own_code(env.title, None, "trained in"):
        return trajectory_of(env, [play_share(env, lanes, random, share, signs.beat)], "count")


def _decorate(env: AnyEnv, played: Trajectory) -> None:
    """Name and draw what was played, as for every strategy; an environment whose code fails is
    refused."""
    from rspo.envs.decoration import LeftOut, described
    from rspo.search.pictures import pictures
    from rspo.search.recording import record

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftOut)
        try:
            named = described(env, played, played)
            record(env, played, played)
            show = Played(named.get("descriptor"), named.get("stats", {}), lambda: played)
            pictures(env, {f"0 {show.label or 'strategy'}": show}, None)
        except LeftOut as left_out:
            cause = left_out.__context__
            assert cause is not None
            raise failure(env.title, f"its {left_out.method}", "trained in", cause) from None


def _warn(text: str) -> None:
    warnings.warn(text, RspoWarning, stacklevel=4)


def _random_action(
    spec: Spec, count: int, rng: np.random.Generator, mask: np.ndarray | None
) -> np.ndarray:
    if mask is not None:
        return np.argmax(rng.random(np.shape(mask)) * mask, axis=-1).astype(np.int32)
    action = _policy_action(spec, count * spec.agents, rng)
    return spec.action_space.to_env(action).reshape(count, spec.agents, *spec.action_space.shape)


def _policy_action(spec: Spec, rows: int, rng: np.random.Generator) -> np.ndarray:
    """In the policy's units."""
    space = spec.action_space
    if isinstance(space, Discrete):
        return rng.integers(0, space.n, rows, np.int32)
    if isinstance(space, MultiDiscrete):
        return rng.integers(0, space.sizes, (rows, len(space.sizes)), np.int32)
    return rng.uniform(-1, 1, (rows, space.n)).astype(np.float32)


def _number_problems(obs: np.ndarray, reward: np.ndarray) -> list[str]:
    named = (("an observation", obs), ("a reward", reward))
    problems = [
        f"it gave {what} that is not a finite number"
        for what, values in named
        if not np.isfinite(values).all()
    ]
    if not problems and np.abs(obs).max() > 1e6:
        problems.append(
            f"it gave an observation of {np.abs(obs).max():g}, beyond what a network can use: "
            "scale it"
        )
    return problems
