"""The typed configuration of a run: what the command line's flags, a configuration file and
`config.json` all hold."""

import dataclasses
import math
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from rspo.core.typed import checked
from rspo.core.types import Spec
from rspo.errors import InputError, suggestion
from rspo.learn.ppo import PPO
from rspo.methods.base import Method
from rspo.methods.references import Measure
from rspo.registry import METHODS


@dataclass(frozen=True)
class Judge:
    """How an iteration's result is judged, and what becomes of it."""

    episodes: int = 512
    """Fresh episodes for the evaluation, sampled, and as many greedy ones."""
    quality: float = 0.5
    """A policy is good if its return reaches this share of the way from random play to the first
    good policy."""
    accept: float = 0.5
    """It keeps its distance if at least this share of its sampled episodes is accepted by each kept
    policy."""
    references: Literal["all", "novel"] = "all"
    """Which policies later iterations must differ from: every one (the paper), or only those judged
    novel."""
    attempts: int = 1
    """How often an iteration may be trained, each time from other weights, until its policy is good
    and keeps its distance; the last attempt stays."""


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
    method: Method = field(default_factory=lambda: METHODS.make("rspo"))
    ppo: PPO = field(default_factory=PPO)
    measure: Measure = field(default_factory=Measure)
    judge: Judge = field(default_factory=Judge)

    def episodes(self, spec: Spec) -> int:
        """Episodes side by side in one update."""
        return self.ppo.batch // spec.horizon


# What each number may be, both ends included. Those not named here must be 0 or more.
_BOUNDS: dict[str, tuple[float, float]] = {
    "iterations": (1, 10**4),
    "seed": (0, 2**32 - 1),
    "ppo.batch": (1, 10**7),
    "ppo.updates": (1, 10**9),
    "ppo.epochs": (1, 10**6),
    "ppo.minibatches": (1, 10**8),
    "ppo.hidden": (1, 10**4),
    "ppo.layers": (1, 100),
    "ppo.chunk": (1, 10**7),
    "ppo.gamma": (0, 1),
    "ppo.gae_lambda": (0, 1),
    "ppo.momentum": (0, 0.9999),
    "method.release": (0, 1),
    "method.ungated": (0, 1),
    "method.ungated_every": (1, 10**4),
    "measure.delta": (-math.inf, math.inf),
    "measure.discount": (0, 1),
    "judge.episodes": (1, 10**6),
    "judge.quality": (-math.inf, math.inf),
    "judge.accept": (0, 1),
    "judge.attempts": (1, 10**6),
}
_ABOVE_ZERO = {"ppo.learning_rate", "ppo.clip", "ppo.gradient_clip", "measure.alpha", "measure.cap"}


def validate(config: Config, spec: Spec) -> None:
    """Refuse, in one sentence, what could not run."""
    for name, value in _flat(config):
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(name, value)
        elif isinstance(value, tuple):
            _check_span(name, value)
    config.method.validate()
    config.measure.validate()
    ppo = config.ppo
    if config.measure.of == "return" and ppo.padding == "restart":
        raise InputError(
            "measure.of is 'return' and ppo.padding is 'restart': several episodes follow on one "
            "another, and only the "
            "first would be measured. Set ppo.padding to 'drop' or 'count', or measure.of to "
            "'actions'."
        )
    if ppo.horizon == "end" and ppo.padding == "restart":
        raise InputError(
            "ppo.horizon is 'end' and ppo.padding is 'restart': the horizon cuts through the "
            "episode that began last, "
            "which does not end there. Set ppo.padding to 'count' or 'drop', or ppo.horizon to "
            "'cut'."
        )
    if config.judge.attempts > 1 and config.method.plan(config.iterations).per_round > 1:
        raise InputError(
            f"judge.attempts is {config.judge.attempts}, but this method trains several policies "
            "in one round, which "
            "cannot be tried again one by one. Leave judge.attempts at 1."
        )
    if ppo.batch % spec.horizon:
        near = max(1, round(ppo.batch / spec.horizon)) * spec.horizon
        raise InputError(
            f"ppo.batch is {ppo.batch}, but it must be a multiple of the episode length "
            f"{spec.horizon}: try {near}."
        )
    samples, kind = ppo.batch * spec.agents, "samples"
    if ppo.memory != "none":
        samples, kind = -(-spec.horizon // ppo.chunk) * samples // spec.horizon, "sequences"
    if samples % ppo.minibatches:
        raise InputError(
            f"ppo.minibatches is {ppo.minibatches}, but it must divide the {samples} {kind} of a "
            "batch."
        )


def _flat(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every single setting by its full name."""
    for setting in dataclasses.fields(group):
        value = getattr(group, setting.name)
        if dataclasses.is_dataclass(value):
            yield from _flat(value, f"{prefix}{setting.name}.")
        else:
            yield f"{prefix}{setting.name}", value


def _check_number(name: str, value: float) -> None:
    least, most = _BOUNDS.get(name, (0, math.inf))
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value}, but it must be a finite number.")
    if name in _ABOVE_ZERO and value <= 0:
        raise InputError(f"{name} is {value}, but it must be greater than 0.")
    if value < least:
        raise InputError(f"{name} is {value}, but it must be {least} or more.")
    if value > most:
        raise InputError(f"{name} is {value}, but it must be {most} or less.")


def _check_span(name: str, span: tuple[float, ...]) -> None:
    start, end = span
    if not 0 <= start <= end <= 1:
        raise InputError(
            f"{name} is {span}, but it must be two numbers between 0 and 1, the smaller first."
        )


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def from_dict(data: dict[str, Any], source: str) -> Config:
    """The inverse of `to_dict`; `source` names the file in the sentence about what is wrong with
    it."""
    if not isinstance(data.get("objective"), str):
        raise InputError(f"{source} does not name an objective.")
    default = Config(env="", objective=data["objective"], method=METHODS.make(data["objective"]))
    return merge(default, data, source)


def merge(default: Any, data: dict[str, Any], source: str, prefix: str = "") -> Any:
    """`default` with the settings of `data` put in, each checked by name and type."""
    hints = typing.get_type_hints(type(default))
    changes: dict[str, Any] = {}
    for name, value in data.items():
        if name not in hints:
            raise InputError(
                f"{source} has an unknown setting '{prefix}{name}'. {suggestion(name, hints)}"
            )
        current = getattr(default, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, dict):
                raise InputError(
                    f"{source} sets '{prefix}{name}' to {value!r}, but it is a group of settings."
                )
            changes[name] = merge(current, value, source, f"{prefix}{name}.")
        else:
            changes[name] = checked(
                hints[name], value, f"{source} sets '{prefix}{name}' to {value!r}"
            )
    return dataclasses.replace(default, **changes)
