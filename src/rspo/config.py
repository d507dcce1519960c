"""The typed configuration of a run: what the command line's flags, a configuration file and
`run.json` all hold."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from rspo.core.learning import PPO
from rspo.core.settings import Count, Real, Share, Within, check_settings
from rspo.core.typed import checked
from rspo.core.types import Spec
from rspo.errors import InputError, suggestion
from rspo.methods.base import Method, Plan
from rspo.methods.references import Measure
from rspo.registry import METHODS


@dataclass(frozen=True)
class Judge:
    """How an iteration's result is judged, and what becomes of it."""

    episodes: Count = 512
    """Fresh evaluation episodes with sampled actions, and the same number of greedy ones."""
    quality: Real = 0.5
    """A policy is good if its return gets this fraction of the way from random play to the first
    good policy."""
    accept: Share = 0.5
    """It keeps its distance if at least this share of its sampled episodes is accepted by each kept
    policy."""
    references: Literal["all", "distant", "novel"] = "all"
    """Which policies later iterations must differ from: all (the paper); those that are good and
    keep their distance, so that a repetition adds no constraint; or only those judged novel, for
    which the environment's names count too."""
    attempts: Count = 1
    """How often an iteration may be trained, each time from different weights, until its policy is
    good and keeps its distance; the last attempt is kept."""


@dataclass(frozen=True)
class Config:
    """Everything that determines a run's result."""

    env: str
    """The environment's name (`rspo list`)."""
    iterations: Annotated[int, Within(1, 10**4)] = 4
    """How many policies to train: one after the other, side by side, or as the method does it."""
    seed: Annotated[int, Within(0, 2**32 - 1)] = 0
    """The same seed gives the same run on the same machine."""
    horizon: Annotated[int | None, Within(1, 10**6)] = None
    """Steps per episode, for an environment without its own time limit."""
    method: Method = field(default_factory=lambda: METHODS.make("rspo"))
    """The method by name and its own settings (`rspo list`)."""
    ppo: PPO = field(default_factory=PPO)
    measure: Measure = field(default_factory=Measure)
    judge: Judge = field(default_factory=Judge)

    def episodes(self, spec: Spec) -> int:
        """Episodes side by side in one update."""
        return self.ppo.batch // spec.horizon

    @property
    def plan(self) -> Plan:
        """How the policies are trained."""
        return self.method.plan(self.iterations)

    @property
    def training(self) -> PPO:
        """The learner's settings for one round of the plan."""
        return dataclasses.replace(self.ppo, updates=self.plan.updates(self.ppo.updates))

    @property
    def steps(self) -> int:
        """Environment steps of all policies together, without retries: the same for every
        method."""
        return self.plan.rounds * self.plan.members * self.training.updates * self.ppo.batch


def validate(config: Config, spec: Spec) -> None:
    """Refuse, in one sentence, what could not run."""
    check_settings(config)
    config.method.validate()
    config.measure.validate()
    ppo = config.ppo
    if ppo.memory != "none" and not config.method.memories:
        raise InputError(
            f"ppo.memory is '{ppo.memory}', but the policies of {config.method.name} have no "
            "memory: set ppo.memory to 'none'."
        )
    if config.measure.of == "return" and ppo.padding == "restart":
        raise InputError(
            "measure.of is 'return' and ppo.padding is 'restart': several episodes would follow "
            "one another, and only the first would be measured. Set ppo.padding to 'drop' or "
            "'count', or measure.of to 'actions'."
        )
    if ppo.horizon == "end" and ppo.padding == "restart":
        raise InputError(
            "ppo.horizon is 'end' and ppo.padding is 'restart': the horizon cuts through the "
            "episode that began last, which does not end there. Set ppo.padding to 'count' or "
            "'drop', or ppo.horizon to 'cut'."
        )
    if config.judge.attempts > 1 and config.plan.per_round > 1:
        raise InputError(
            f"judge.attempts is {config.judge.attempts}, but this method trains several policies "
            "in one round, which cannot be retried one by one. Leave judge.attempts at 1."
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


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def from_dict(data: dict[str, Any], source: str) -> Config:
    """The inverse of `to_dict`; `source` is the file's name in error messages."""
    name = method_name(data)
    if name is None:
        raise InputError(f"{source} does not name a method.")
    return merge(Config(env="", method=METHODS.make(name)), data, source)


def method_name(settings: Mapping[str, Any]) -> Any:
    """The method's name in these settings: `method = "NAME"`, or the name in its group."""
    method = settings.get("method")
    return method.get("name") if isinstance(method, dict) else method


def merge(default: Any, data: dict[str, Any], source: str, prefix: str = "") -> Any:
    """`default` updated with the settings in `data`, each checked by name and type."""
    types = typing.get_type_hints(type(default))
    hints = {setting.name: types[setting.name] for setting in dataclasses.fields(default)}
    changes: dict[str, Any] = {}
    for name, value in data.items():
        if name not in hints:
            raise InputError(
                f"{source} has an unknown setting '{prefix}{name}'. {suggestion(name, hints)}"
            )
        current = getattr(default, name)
        if dataclasses.is_dataclass(current):
            if isinstance(current, Method) and isinstance(value, str):
                value = {"name": value}
            if not isinstance(value, dict):
                raise InputError(
                    f"{source} sets '{prefix}{name}' to {value!r}, but it is a group of settings."
                )
            changes[name] = merge(current, value, source, f"{prefix}{name}.")
        else:
            changes[name] = checked(
                hints[name], value, f"{source} sets '{prefix}{name}' to {value!r}"
            )
    if isinstance(default, Method) and changes.get("name", default.name) != default.name:
        raise InputError(
            f"{source} names the method '{changes['name']}' for the settings of '{default.name}': "
            "give only one."
        )
    return dataclasses.replace(default, **changes)
