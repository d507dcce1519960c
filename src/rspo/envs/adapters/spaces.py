"""Shared by the two adapters: conversion of Gymnasium's spaces, and which modules a name may
import."""

import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rspo.core.spaces import ActionSpace, Box, Discrete, MultiDiscrete
from rspo.envs.adapters.observations import Observed, kind_of
from rspo.errors import InputError


def bounds_of(seen: Sequence[Observed]) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds of each agent's observations, [A, O] each; None where there are none at all."""
    low, high = (np.stack(side) for side in zip(*(one.bounds for one in seen), strict=True))
    return None if np.isinf(low).all() and np.isinf(high).all() else (low, high)


def action_space(space: Any, whose: str) -> ActionSpace:
    match kind_of(space):
        case "Discrete":
            return Discrete(int(space.n))
        case "MultiDiscrete":
            return MultiDiscrete(tuple(int(n) for n in space.nvec.ravel()))
        case "MultiBinary":
            return MultiDiscrete((2,) * int(np.prod(space.shape)))
        case "Box" if np.issubdtype(space.dtype, np.floating):
            low, high = (
                np.asarray(bound, np.float64).ravel().tolist() for bound in (space.low, space.high)
            )
            return Box(tuple(low), tuple(high))
    raise InputError(
        f"{whose} acts in a space of kind {kind_of(space)} ({space}), but rspo needs Discrete, "
        "MultiDiscrete, MultiBinary, or a Box of real numbers."
    )


def native_action(space: Any, action: np.ndarray) -> Any:
    """An action in the environment's own format: its choices may not start at 0, its numbers may
    not be flat."""
    if kind_of(space) == "Discrete":
        return int(action) + int(space.start)
    own = np.asarray(action, space.dtype).reshape(space.shape)
    return own + space.start if kind_of(space) == "MultiDiscrete" else own


def named(env: Any, kind: str) -> tuple[str, ...]:
    """The environment's names of its observations ("obs_names") or actions ("action_names"): an
    attribute of any wrapper or its metadata."""
    inner = getattr(env, "unwrapped", env)
    for holder in (env, inner):
        found = getattr(holder, "__dict__", {}).get(kind) or getattr(type(holder), kind, None)
        found = found or (getattr(holder, "metadata", None) or {}).get(kind)
        if isinstance(found, Sequence) and not isinstance(found, str):
            return tuple(str(name) for name in found)
    return ()


def check_module(module: str, builds_on: str) -> None:
    """Importing runs code, and a name may come from a run folder: allow only modules of packages
    that depend on Gymnasium or PettingZoo."""
    top = module.partition(".")[0]
    for package in importlib.metadata.packages_distributions().get(top, []):
        needs = importlib.metadata.requires(package) or []
        names = {re.split(r"[^\w-]", need, maxsplit=1)[0].lower() for need in [package, *needs]}
        if builds_on in names:
            return
    raise InputError(
        f"'{module}' is not in an installed package that builds on {builds_on}. Install it, or "
        "pass your own environment from Python: rspo.discover(make_env)."
    )
