"""The typed configuration of a run: what the command line's flags, a configuration file and `config.json` all hold."""

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from rspo.errors import InputError, suggestion
from rspo.likelihood import Measure
from rspo.objective import Objective, make_objective
from rspo.ppo import PPO
from rspo.types import Spec


@dataclass(frozen=True)
class Judge:
    """How an iteration's result is judged, and what becomes of it."""

    episodes: int = 512
    """Fresh episodes for the evaluation, sampled, and as many greedy ones."""
    quality: float = 0.5
    """A policy is good if its return reaches this share of the way from random play to the first good policy."""
    accept: float = 0.5
    """It keeps its distance if at least this share of its sampled episodes is accepted by each kept policy."""
    references: Literal["all", "novel"] = "all"
    """Which policies later iterations must differ from: every one (the paper), or only those judged novel."""
    attempts: int = 1
    """How often an iteration may be trained, each time from other weights, until its policy is good and keeps its
    distance; the last attempt stays."""


@dataclass(frozen=True)
class Config:
    """Everything that determines a run's result."""

    env: str
    """The environment's name (`rspo list`)."""
    iterations: int = 4
    """How many policies to train, one after the other."""
    seed: int = 0
    """The same seed gives the same run on the same machine."""
    objective: str = "rspo"
    """The method (`rspo list`); `method` holds its own settings."""
    method: Objective = field(default_factory=Objective)
    ppo: PPO = field(default_factory=PPO)
    measure: Measure = field(default_factory=Measure)
    judge: Judge = field(default_factory=Judge)

    def episodes(self, spec: Spec) -> int:
        """Episodes side by side in one update."""
        return self.ppo.batch // spec.horizon


def validate(config: Config, spec: Spec) -> None:
    """Refuse, in one sentence, what could not run."""
    ppo, measure, judge = config.ppo, config.measure, config.judge
    _at_least("iterations", config.iterations, 1)
    _at_least("seed", config.seed, 0)
    for name in ("updates", "epochs", "minibatches", "hidden", "layers"):
        _at_least(f"ppo.{name}", getattr(ppo, name), 1)
    for name in ("learning_rate", "clip", "gradient_clip"):
        _above_zero(f"ppo.{name}", getattr(ppo, name))
    for name in ("decay", "entropy_decay"):
        start, end = span = getattr(ppo, name)
        if not 0 <= start <= end <= 1:
            raise InputError(f"ppo.{name} is {span}, but it must be two numbers between 0 and 1, the smaller first.")
    for name in ("gamma", "gae_lambda", "momentum"):
        _share(f"ppo.{name}", getattr(ppo, name))
    if ppo.batch % spec.horizon or ppo.batch < spec.horizon:
        near = max(1, round(ppo.batch / spec.horizon)) * spec.horizon
        raise InputError(
            f"ppo.batch is {ppo.batch}, but it must be a multiple of the episode length {spec.horizon}: try {near}."
        )
    samples = ppo.batch * spec.agents
    if samples % ppo.minibatches:
        raise InputError(f"ppo.minibatches is {ppo.minibatches}, but it must divide the {samples} samples of a batch.")
    _above_zero("measure.alpha", measure.alpha)
    _share("measure.discount", measure.discount)
    if measure.cap is not None:
        _above_zero("measure.cap", measure.cap)
    _at_least("judge.episodes", judge.episodes, 1)
    _at_least("judge.attempts", judge.attempts, 1)
    _share("judge.accept", judge.accept)
    for setting in dataclasses.fields(config.method):
        value = getattr(config.method, setting.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            _at_least(f"method.{setting.name}", value, 0)


def _at_least(name: str, value: float, bound: int) -> None:
    if not value >= bound:
        raise InputError(f"{name} is {value}, but it must be {bound} or more.")


def _above_zero(name: str, value: float) -> None:
    if not value > 0:
        raise InputError(f"{name} is {value}, but it must be greater than 0.")


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} is {value}, but it must lie between 0 and 1.")


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def from_dict(data: dict[str, Any], source: str) -> Config:
    """The inverse of `to_dict`; `source` names the file in the sentence about what is wrong with it."""
    if not isinstance(data.get("objective"), str):
        raise InputError(f"{source} does not name an objective.")
    default = Config(env="", objective=data["objective"], method=make_objective(data["objective"]))
    return merge(default, data, source)


def merge(default: Any, data: dict[str, Any], source: str, prefix: str = "") -> Any:
    """`default` with the settings of `data` put in, each checked by name and type."""
    hints = typing.get_type_hints(type(default))
    changes: dict[str, Any] = {}
    for name, value in data.items():
        if name not in hints:
            raise InputError(f"{source} has an unknown setting '{prefix}{name}'. {suggestion(name, hints)}")
        current = getattr(default, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, dict):
                raise InputError(f"{source} sets '{prefix}{name}' to {value!r}, but it is a group of settings.")
            changes[name] = merge(current, value, source, f"{prefix}{name}.")
        else:
            changes[name] = _checked(hints[name], value, f"{source} sets '{prefix}{name}' to {value!r}")
    return dataclasses.replace(default, **changes)


def _checked(hint: Any, value: Any, complaint: str) -> Any:
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise InputError(f"{complaint}, but allowed are: {', '.join(map(str, typing.get_args(hint)))}.")
        return value
    if typing.get_origin(hint) is tuple:
        parts = typing.get_args(hint)
        if not isinstance(value, list | tuple) or len(value) != len(parts):
            raise InputError(f"{complaint}, but it must be a list of {len(parts)} numbers.")
        return tuple(_checked(part, item, complaint) for part, item in zip(parts, value, strict=True))
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if option is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, option) and not (option is int and isinstance(value, bool)):
            return value
    wanted = " or ".join("none" if option is types.NoneType else option.__name__ for option in options)
    raise InputError(f"{complaint}, but it must be of type {wanted}.")
