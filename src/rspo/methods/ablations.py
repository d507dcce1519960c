"""RSPO with a part left out (the paper's ablations)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rspo.methods.base import Settings
from rspo.methods.rspo import RSPO


def changed(tables: Mapping[str, Settings], **settings: Any) -> dict[str, Settings]:
    """Every table of settings, with the method's own settings overridden by these."""

    def one(table: Settings) -> Settings:
        own = table.get("method", {})
        return {**table, "method": {**own, **{k: v for k, v in settings.items() if k in own}}}

    return {domain: one(table) for domain, table in tables.items()}


@dataclass(frozen=True)
class NoSwitch(RSPO):
    """The soft objective: the task's reward plus intrinsic rewards, no filter and no switching."""

    switch: Literal["hard", "smooth", "off"] = "off"

    tuned: ClassVar[Mapping[str, Settings]] = {
        **changed(RSPO.tuned, switch="off"),
        # The largest weight with which policies still learn the task.
        "four-goals": {"method": {"lambda_b": 0.001}},
        "four-goals-hard": {},
        "robots": {"method": {"lambda_b": 0.001, "streams": "grouped"}},
    }
    paper: ClassVar[Mapping[str, Settings]] = {
        **changed(RSPO.paper, switch="off"),
        "four-goals": {},  # "the default behaviour-driven intrinsic reward", which RSPO lacks there
    }


@dataclass(frozen=True)
class NoIntrinsic(RSPO):
    """Trajectory filtering alone: rejected trajectories earn nothing."""

    lambda_b: float = 0.0
    lambda_r: float = 0.0

    tuned: ClassVar[Mapping[str, Settings]] = changed(RSPO.tuned, lambda_b=0.0, lambda_r=0.0)
    paper: ClassVar[Mapping[str, Settings]] = changed(RSPO.paper, lambda_b=0.0, lambda_r=0.0)


@dataclass(frozen=True)
class BehaviourOnly(RSPO):
    """No reward-driven intrinsic reward."""

    lambda_r: float = 0.0

    tuned: ClassVar[Mapping[str, Settings]] = changed(RSPO.tuned, lambda_r=0.0)
    paper: ClassVar[Mapping[str, Settings]] = changed(RSPO.paper, lambda_r=0.0)
