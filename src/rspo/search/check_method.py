"""Checks a method before training, and says in plain words what is wrong."""

import contextlib
import dataclasses
import json
import traceback
import typing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rspo.config import Config, Judge, merge, validate
from rspo.core.learning import PPO
from rspo.core.members import member
from rspo.core.policies import Policy
from rspo.core.policies.policy import Memory
from rspo.core.settings import check_settings
from rspo.core.types import Trajectory
from rspo.envs.base import AnyEnv
from rspo.envs.given import in_short
from rspo.errors import InputError, RspoError
from rspo.learn.trainer import make_learner
from rspo.methods.base import Kind, Method, Score, Stream
from rspo.methods.references import References
from rspo.registry import METHODS
from rspo.rollout.adapt import adapt
from rspo.rollout.base import Collector
from rspo.rollout.collector import collector
from rspo.search.archive import Archive
from rspo.search.check import NEEDS, check_needs
from rspo.search.loop import Tools, keys, setup_of
from rspo.search.probes import Probe

EPISODES, UPDATES = 8, 3
MOST = 6  # largest number of policies to ask a plan for
TAKEN = ("update", "return", "length", "value_loss", "entropy", "approx_kl", "loss")


class MethodRefused(InputError):
    """A method's code raised: a sentence, and below it the traceback."""

    lines = True


class Trial(NamedTuple):
    """Where a method is tried, and with which policies."""

    env: AnyEnv
    memory: Memory = "none"


TRIALS = (
    Trial(Probe()),
    Trial(Probe(continuous=True)),
    Trial(Probe(agents=2), memory="gru"),
)


def check_method(
    method: str | type[Method] | Method, *, env: Any = None, train: bool = True
) -> Method:
    """Try a method on small environments with discrete and continuous actions, one and two agents,
    policies with and without memory, and say in plain words what is wrong; returns the method.

    Combinations that the method itself refuses are skipped. With `env` it is tried in that
    environment, for a method that needs something the small ones lack. With `train=False` only
    shapes are checked, which takes a second; otherwise a few updates are made.
    """
    made = _made(method)
    whose = f"The method {made.name}"
    with _trying(whose, "making it"):
        problems = _static_problems(made)
    if problems:
        raise InputError(f"{whose} cannot be used: {'; '.join(problems)}.")
    for trial in TRIALS if env is None else (Trial(adapt(env)),):
        if (config := _config(made, trial, refuse=env is not None)) is not None:
            _try(whose, config, trial.env, train)
    return made


def _made(method: Any) -> Method:
    made = method
    if isinstance(method, str):
        made = METHODS.make(method)
    elif isinstance(method, type) and issubclass(method, Method):
        with _trying(f"The method {method.__name__}", "making it with its default settings"):
            made = method()
    if not isinstance(made, Method):
        raise InputError(
            f"{method!r} is not a method: pass a name from `rspo list`, a subclass of rspo.Method "
            "or an object of one."
        )
    return made


@contextlib.contextmanager
def _trying(whose: str, what: str) -> Iterator[None]:
    """Wraps calls of a method's own code."""
    try:
        yield
    except RspoError:
        raise
    except Exception as error:
        lines = "".join(traceback.format_exception(error)).rstrip()
        raise MethodRefused(
            f"{whose} cannot be used: {what} fails ({in_short(error)}).\n{lines}"
        ) from None


# ---- without an environment


def _static_problems(method: Method) -> list[str]:
    problems = _settings_problems(method)
    if method.kind not in typing.get_args(Kind):
        allowed = ", ".join(typing.get_args(Kind))
        problems.append(f"its kind is {method.kind!r}, but allowed are: {allowed}")
    problems += [
        f"it needs {need!r}, but allowed are: {', '.join(NEEDS)}"
        for need in method.needs
        if need not in NEEDS
    ]
    return problems or _plan_problems(method)


def _settings_problems(method: Method) -> list[str]:
    kind = type(method)
    if not kind.__dataclass_params__.frozen or "__dataclass_fields__" not in vars(kind):  # type: ignore[attr-defined]
        return [f"{kind.__name__} must be decorated with @dataclass(frozen=True)"]
    check_settings(method, "method.")
    method.validate()
    try:
        data = json.loads(json.dumps(dataclasses.asdict(method)))
        back = merge(method, data, "JSON")
    except (TypeError, ValueError, InputError) as error:
        return [f"its settings do not come back from JSON ({in_short(error)})"]
    return [
        f"its setting {field.name} does not come back from JSON"
        for field in dataclasses.fields(method)
        if getattr(back, field.name) != getattr(method, field.name)
    ]


def _plan_problems(method: Method) -> list[str]:
    """Whether its plan for k gives k policies, with the steps of k policies."""
    for count in range(1, MOST + 1):
        plan = method.plan(count)
        if plan.policies != count:
            return [f"its plan for {count} policies gives {plan.policies}: {plan}"]
        config = Config("probe", count, method=method, ppo=PPO(batch=10, updates=UPDATES))
        if config.steps != count * 10 * UPDATES:
            return [
                f"its plan for {count} policies takes {config.steps} environment steps, but every "
                f"method takes {count * 10 * UPDATES}"
            ]
        wanted, latents = (plan.latents, method.latent_size(plan)), method.latents(plan)
        if plan.latents > 1 and latents.shape != wanted:
            return [
                f"its latents for {count} policies are of shape {latents.shape}, but they must be "
                f"{wanted}"
            ]
    return []


# ---- in one


def _config(method: Method, trial: Trial, refuse: bool) -> Config | None:
    """The configuration to try it with; None where the method refuses it."""
    spec = trial.env.spec
    ppo = PPO(
        batch=EPISODES * spec.horizon,
        updates=UPDATES,
        epochs=2,
        hidden=8,
        layers=1,
        memory=trial.memory,
        chunk=2,
    )
    config = Config("probe", 2, method=method, ppo=ppo, judge=Judge(episodes=EPISODES))
    try:
        validate(config, spec)
        check_needs(method, trial.env)
    except InputError:
        if refuse:
            raise
        return None
    return config


def _try(whose: str, config: Config, env: AnyEnv, train: bool) -> None:
    where = f" in {env.title}"
    with collector(env) as collect:
        config = dataclasses.replace(config, method=_watched(whose, where, config, collect))
        tools = Tools(collect, config)
        with _trying(whose, f"tracing it{where}"):
            problems = _traced_problems(tools) if collect.compiled else []
            if train and not problems:
                problems = _trained_problems(tools)
    if problems:
        raise InputError(f"{whose} cannot be used: {'; '.join(problems)}{where}.")


def _traced_problems(tools: Tools) -> list[str]:
    """Problems found from shapes alone."""
    config, collect, archive = tools.config, tools.collect, Archive(tools.config)
    setup = setup_of(config, collect.spec, 0)
    learner = make_learner(True, config.method, config.training, config.measure, setup)
    own = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), setup.plan.members))
    state = jax.eval_shape(learner.init, own)
    data = jax.eval_shape(partial(learner.play, collect), state, own)
    after, _ = jax.eval_shape(learner.learn, state, tools.references(archive), data, own)
    if difference := _difference(state, after):
        return [f"an update changes the training state {difference}"]
    policy = tools.playing(member(_filled(state.policy), 0), 0)
    learners = member(_filled(state.method), 0)
    jax.eval_shape(tools.remember, learners, policy, jax.random.key(0))
    return []


def _trained_problems(tools: Tools) -> list[str]:
    """Problems found in two updates with nothing kept, and one with a policy kept."""
    archive, config = Archive(tools.config), tools.config
    state = tools.begin(archive, 0, attempt=1).state
    members = config.plan.members
    own = jax.random.split(keys(config, 0, 1).train, members)
    references = jax.device_put(tools.references(archive))
    advance = tools.trainer_for(archive).advance
    problems = []
    for kept in (0, 0, 1):
        if kept:
            policy = tools.playing(member(state.policy, 0), 0)
            memory = tools.remember(member(state.method, 0), policy, jax.random.key(1))
            problems += _infinite("what it remembers of a policy", memory)
            references = _keeping(references, policy, memory)
        state, metrics = advance(state, references, own, 1)
        first = {name: np.asarray(column)[0] for name, column in metrics.items()}
        problems += _infinite("its metrics", first) + _infinite("the policy", state.policy)
        problems += _infinite("its own learners", state.method, infinite=True)
        if problems:
            return problems
    compiled = getattr(advance, "_cache_size", lambda: 1)()
    if compiled > 1:
        return [f"an update was compiled {compiled} times, though nothing but numbers changed"]
    return []


def _keeping(references: References, policy: Policy, memory: Any) -> References:
    """The same references with a policy in the first slot."""

    def put(room: Any, leaf: Any) -> np.ndarray:
        filled = np.array(room)
        filled[0] = leaf
        return filled

    places = (references.policies, references.memory, references.mask)
    policies, memories, mask = jax.tree.map(put, places, (policy, memory, True))
    return jax.device_put(
        dataclasses.replace(references, policies=policies, memory=memories, mask=mask)
    )


def _filled(shapes: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _infinite(what: str, tree: Any, infinite: bool = False) -> list[str]:
    """The problem, if a tree contains non-finite numbers; learners may start with those in
    `infinite`."""
    for path, leaf in jax.tree.leaves_with_path(jax.device_get(tree)):
        if not np.issubdtype(np.asarray(leaf).dtype, np.floating):
            continue
        if np.isnan(leaf).any() or not (infinite or np.isfinite(leaf).all()):
            name = jax.tree_util.keystr(path)
            return [f"not all numbers in {what}{name and f' ({name})'} are finite"]
    return []


def _difference(before: Any, after: Any) -> str | None:
    """The first leaf whose shape or type differs, or that one of them lacks."""
    named = lambda tree: {
        jax.tree_util.keystr(path): (leaf.shape, leaf.dtype)
        for path, leaf in jax.tree.leaves_with_path(tree)
    }
    one, other = named(before), named(after)
    for name in [*one, *other]:
        if one.get(name) != other.get(name):
            words = (
                "nothing" if leaf is None else f"{leaf[1]} of shape {leaf[0]}"
                for leaf in (one.get(name), other.get(name))
            )
            return f"from {' to '.join(words)}{f' at {name}' if name else ''}"
    same = bool(jax.tree.structure(before) == jax.tree.structure(after))  # type: ignore[operator]
    return None if same else "in their structure"


# ---- the return values of its functions, checked at each call


def _watched(whose: str, where: str, config: Config, collect: Collector) -> Method:
    """The same method, with checks at every call by the trainer."""
    kind, spec = type(config.method), collect.spec
    memory = jax.eval_shape(lambda: config.method.memory(spec, jax.random.key(0)))

    def checked(name: str, problems: Callable[..., list[str]]) -> Callable[..., Any]:
        own = getattr(kind, name)

        def call(self: Method, *given: Any) -> Any:
            with _trying(whose, f"its {name}{where}"):
                result = own(self, *given)
                found = problems(self, result, *given)
            if found:
                raise InputError(f"{whose} cannot be used: {'; '.join(found)}{where}.")
            return result

        return call

    functions: dict[str, Callable[..., list[str]]] = {
        "score": _score_problems,
        "update": _update_problems,
        "context": partial(_context_problems, config.method.latent_size(config.plan)),
        "remember": partial(_memory_problems, memory),
    }
    if kind.loss is not Method.loss:
        functions["loss"] = _loss_problems
    body = {name: checked(name, problems) for name, problems in functions.items()}
    settings = {
        field.name: getattr(config.method, field.name) for field in dataclasses.fields(kind)
    }
    made: Method = type(kind.__name__, (kind,), body)(**settings)
    return made


def _score_problems(
    method: Method, score: Any, state: Any, data: Trajectory, rivals: References, progress: Any
) -> list[str]:
    if not isinstance(score, Score):
        return [f"its score gives {type(score).__name__}, but it must give a Score"]
    channels = method.channels(rivals.capacity)
    if not channels or any(stream not in typing.get_args(Stream) for stream in channels):
        return [f"its channels are {channels!r}, but each must be one of {typing.get_args(Stream)}"]
    wanted = (*data.reward.shape, len(channels))
    problems = [
        f"its score gives a {name} of shape {np.shape(value)}, but it must be {wanted}: steps, "
        f"episodes, agents, and its {len(channels)} channels"
        for name, value in (("reward", score.reward), ("weight", score.weight))
        if np.shape(value) != wanted
    ]
    problems += [
        f"its score gives the extra{jax.tree_util.keystr(path)} of shape {np.shape(leaf)}, but "
        f"that must begin with {data.reward.shape}"
        for path, leaf in jax.tree.leaves_with_path(score.extra)
        if np.shape(leaf)[:3] != data.reward.shape
    ]
    return problems + _metric_problems(score.metrics, rivals.capacity)


def _metric_problems(metrics: dict[str, Any], capacity: int) -> list[str]:
    problems = []
    for name, value in metrics.items():
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if name in TAKEN:
            problems.append(f"its metric '{name}' has a name that training uses itself")
        elif kind not in ("f", "i", "u", "b"):
            problems.append(
                f"its metric '{name}' is of type {type(value).__name__}, but it must be an array "
                "of numbers"
            )
        elif np.shape(value) not in ((), (capacity,)):
            problems.append(
                f"its metric '{name}' is of shape {np.shape(value)}, but it must be one number, or "
                f"one for each of {capacity} rivals"
            )
    return problems


def _loss_problems(method: Method, loss: Any, *given: Any) -> list[str]:
    if np.shape(loss) == () and getattr(getattr(loss, "dtype", None), "kind", "") == "f":
        return []
    found = f"of shape {np.shape(loss)}" if hasattr(loss, "shape") else type(loss).__name__
    return [f"its loss is {found}, but it must be one number"]


def _update_problems(method: Method, after: Any, states: Any, *given: Any) -> list[str]:
    difference = _difference(states, after)
    return [f"its update changes its own learners {difference}"] if difference else []


def _context_problems(
    size: int, method: Method, latent: Any, state: Any, key: Any, episodes: int
) -> list[str]:
    wanted = (episodes, size)
    if (latent is None and size == 0) or np.shape(latent) == wanted:
        return []
    found = "none" if latent is None else f"of shape {np.shape(latent)}"
    return [f"its context gives latents {found}, but they must be {wanted}"]


def _memory_problems(wanted: Any, method: Method, memory: Any, *given: Any) -> list[str]:
    difference = _difference(wanted, memory)
    return (
        [f"what it remembers of a policy differs from what its memory says, {difference}"]
        if difference
        else []
    )
