"""Environments and methods by name: built-in ones, those that a program registers, and those of
plug-ins.

A plug-in is an installed package with entry points in the groups below (docs/plugins.md). Nothing
is imported before its name is asked for, so that listing names is instant.
"""

import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rspo.errors import InputError, suggestion


@dataclass(frozen=True)
class Entry:
    """Where to find what a name stands for, and the arguments to make it with."""

    target: str | Callable[..., Any]
    """A callable, or "package.module:name" of one."""
    summary: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def make(self, **more: Any) -> Any:
        factory = _imported(self.target) if isinstance(self.target, str) else self.target
        return factory(**self.arguments, **more)


class Registry:
    """A registry of one kind of named thing."""

    def __init__(self, kind: str, group: str, built_in: Mapping[str, Entry]) -> None:
        self.kind, self.group = kind, group
        self._entries = dict(built_in)
        self._plugins: dict[str, Entry] | None = None

    def register(self, name: str, factory: Callable[..., Any], summary: str) -> None:
        self._entries[name] = Entry(factory, summary)

    def summaries(self) -> dict[str, str]:
        """Every name with its one-line summary."""
        return {name: entry.summary for name, entry in self._all().items()}

    def make(self, name: Any) -> Any:
        entries = self._all()
        if not isinstance(name, str) or name not in entries:
            near = suggestion(str(name), entries)
            raise InputError(f"Unknown {self.kind} '{name}'. {near} `rspo list` shows them all.")
        return entries[name].make(**self._arguments(name))

    def _arguments(self, name: str) -> dict[str, Any]:
        """Extra arguments for making a thing of this name."""
        return {}

    def _all(self) -> dict[str, Entry]:
        """Built-in names come first: a plug-in cannot override them."""
        if self._plugins is None:
            self._plugins = {
                point.name: Entry(
                    point.value,
                    f"from the package {point.dist.name if point.dist else point.module}",
                )
                for point in importlib.metadata.entry_points(group=self.group)
            }
        return self._plugins | self._entries


def _imported(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _robot(name: str, summary: str) -> Entry:
    return Entry("rspo.envs.robots.mujoco:Mujoco", f"MuJoCo: {summary}", {"name": name})


def _four_goals(mode: str, summary: str) -> Entry:
    return Entry("rspo.envs.four_goals:FourGoals", summary, {"mode": mode})


def _skirmish(name: str, summary: str) -> Entry:
    return Entry("rspo.envs.skirmish:Skirmish", f"StarCraft: {summary}", {"name": name})


ENVIRONMENTS = Registry(
    "environment",
    "rspo.environments",
    {
        "four-goals-easy": _four_goals("easy", "reach one of four fixed landmarks"),
        "four-goals-medium": _four_goals("medium", "reach one of four landmarks placed at random"),
        "four-goals-hard": _four_goals("hard", "as medium, with smaller landmarks worth more"),
        "monster-hunt": Entry(
            "rspo.envs.monster_hunt:MonsterHunt",
            "two agents: hunt a monster together, or eat apples alone",
        ),
        "escalation": Entry(
            "rspo.envs.escalation:Escalation",
            "two agents: follow a light together; one who follows alone pays",
        ),
        "tree": Entry(
            "rspo.envs.tree:Tree", "four choices in a binary tree; small enough for exact returns"
        ),
        "point": Entry(
            "rspo.envs.point:Point",
            "push a disc to a goal, past a U that catches whoever goes straight",
        ),
        "2m_vs_1z": _skirmish("2m_vs_1z", "two marines against a zealot"),
        "2c_vs_64zg": _skirmish("2c_vs_64zg", "two colossi on a cliff against 64 zerglings"),
        "3m": _skirmish("3m", "three marines against three"),
        "half-cheetah": _robot("half-cheetah", "run; nothing ends an episode"),
        "hopper": _robot("hopper", "hop on one leg without falling"),
        "walker2d": _robot("walker2d", "walk on two legs without falling"),
        "humanoid": _robot("humanoid", "walk as a humanoid without falling"),
    },
)

# Prefixes for environments of other libraries; the rest of the name is the argument.
PREFIXES = {
    "gym:": "rspo.envs.adapters.gymnasium:from_id",
    "pettingzoo:": "rspo.envs.adapters.pettingzoo:from_module",
    "smac:": "rspo.envs.adapters.smac:from_map",
}


class MethodRegistry(Registry):
    """Methods, each of which gets its own name."""

    def _arguments(self, name: str) -> dict[str, Any]:
        return {"name": name}


METHODS = MethodRegistry(
    "method",
    "rspo.methods",
    {
        "rspo": Entry("rspo.methods.rspo:RSPO", "Reward-Switching Policy Optimization"),
        "no-switch": Entry(
            "rspo.methods.ablations:NoSwitch", "ablation: the soft objective, no filter"
        ),
        "no-intrinsic": Entry(
            "rspo.methods.ablations:NoIntrinsic", "ablation: trajectory filtering alone"
        ),
        "behaviour-only": Entry(
            "rspo.methods.ablations:BehaviourOnly", "ablation: no reward-driven intrinsic reward"
        ),
        "pg": Entry("rspo.methods.base:Method", "PPO with restarts: the task's reward alone"),
        "dipg": Entry(
            "rspo.methods.dipg:DIPG", "different trajectories, by maximum mean discrepancy"
        ),
        "rpg": Entry(
            "rspo.methods.rpg:RPG", "other weights of the reward's features for each policy"
        ),
        "sipo-rbf": Entry("rspo.methods.sipo_rbf:SIPORBF", "different states, by a kernel"),
        "sipo-wd": Entry("rspo.methods.sipo_wd:SIPOWD", "different states, by a learned distance"),
        "rnd": Entry("rspo.methods.rnd:RND", "restarts with a reward for rarely seen states"),
        "ridge-rider": Entry(
            "rspo.methods.ridge_rider:RidgeRider",
            "from a saddle along the Hessian's eigenvectors; exact in tabular games",
        ),
        "pga-map-elites": Entry(
            "rspo.methods.pga_map_elites:PGAMapElites",
            "an archive of behaviours: the best policy of each, bred or improved by a critic",
        ),
        "pbt-ce": Entry(
            "rspo.methods.pbt_ce:PBTCE",
            "a population, each far from the others by cross-entropy",
        ),
        "dvd": Entry(
            "rspo.methods.dvd:DvD",
            "a population whose actions span a volume; a bandit sets its weight",
        ),
        "smerl": Entry(
            "rspo.methods.smerl:SMERL",
            "a policy whose latents can be told apart, where returns are good",
        ),
        "trajdiv": Entry(
            "rspo.methods.trajdiv:TrajDiv",
            "a population with different trajectories, by Jensen-Shannon divergence",
        ),
        "maven": Entry(
            "rspo.methods.maven:MAVEN",
            "a policy whose latents show in trajectories, chosen by a bandit",
        ),
        "domino": Entry(
            "rspo.methods.domino:DOMiNO",
            "a population in different states, nearly as good as its first member",
        ),
        "dgpo": Entry(
            "rspo.methods.dgpo:DGPO",
            "a policy that learns to tell its latents apart, then the task",
        ),
    },
)


OWN = "mypackage.module:make_env"
"""The form of a name of the user's own environment function."""


def make(name: Any, horizon: int | None = None) -> Any:
    """The environment of this name, or of a name with a prefix; with episodes of `horizon` steps
    if it has no time limit. The name may come from a run folder, so it can only lead to installed
    packages for environments."""
    if isinstance(name, str):
        for prefix, target in PREFIXES.items():
            if name.startswith(prefix):
                return _imported(target)(name.removeprefix(prefix), horizon)
        if name not in ENVIRONMENTS.summaries() and (meant := _elsewhere(name)):
            raise InputError(
                f"Unknown environment '{name}'. Did you mean '{meant}'? `rspo list` shows them all."
            )
    return of_length(ENVIRONMENTS.make(name), name, horizon)


def of_length(env: Any, name: str, horizon: int | None) -> Any:
    """The environment, unless its episodes have another length than the one asked for."""
    if horizon not in (None, env.spec.horizon):
        raise InputError(
            f"The episodes of {name} have {env.spec.horizon} steps, not {horizon}: leave the "
            "horizon out."
        )
    return env


def _elsewhere(name: str) -> str | None:
    """The name with its prefix, if it looks like Gymnasium's or PettingZoo's."""
    if re.fullmatch(r"[\w.]+\.\w+_v\d+", name):
        return f"pettingzoo:{name}"
    return f"gym:{name}" if re.fullmatch(r"[\w./:-]+-v\d+", name) else None


def is_own(name: Any) -> bool:
    """Whether it has the form of a user's own function, `mypackage.module:make_env`."""
    return (
        isinstance(name, str)
        and not has_name(name)
        and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", name) is not None
    )


def own(target: str) -> Any:
    """What such a name stands for. Importing runs code, so call this only with names given by the
    user, never from a run folder."""
    module, _, path = target.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # last, so that it shadows nothing installed
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # a missing dependency of the user's module
        raise InputError(
            f"There is no module '{error.name}', which '{target}' names, here or among the "
            "installed packages."
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InputError(f"The module '{module}' has no '{path}', which '{target}' names.")
        found = getattr(found, part)
    return found


def has_name(name: str) -> bool:
    """Whether `make` can make it in any process."""
    return name in ENVIRONMENTS.summaries() or name.startswith(tuple(PREFIXES))
