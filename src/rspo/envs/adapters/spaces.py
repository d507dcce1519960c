"""What the two adapters share: gymnasium's spaces as rspo's, and which modules a name may lead
to."""

import importlib.metadata
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rspo.core.spaces import ActionSpace, Box, Discrete
from rspo.errors import InputError


def observed_numbers(space: Any, whose: str) -> int:
    """How many numbers an observation is, once it is laid out in a row."""
    if _kind(space) != "Box":
        raise InputError(
            f"{whose} observes a space of kind {_kind(space)}, but rspo needs a Box: from Python, "
            "pass it in a "
            "wrapper that flattens what is observed, such as gymnasium.wrappers.FlattenObservation."
        )
    return max(int(np.prod(space.shape)), 1)


def bounds_of(spaces: Sequence[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Between which numbers each agent's observations lie, [A, O] each; None where there are no
    bounds at all."""
    low, high = (
        np.array([np.asarray(getattr(space, side), np.float32).reshape(-1) for space in spaces])
        for side in ("low", "high")
    )
    return None if np.isinf(low).all() and np.isinf(high).all() else (low, high)


def action_space(space: Any, whose: str) -> ActionSpace:
    if _kind(space) == "Discrete":
        return Discrete(int(space.n))
    if _kind(space) != "Box" or not np.issubdtype(space.dtype, np.floating):
        raise InputError(
            f"{whose} acts in a space of kind {_kind(space)} ({space}), but rspo needs Discrete, "
            "or a Box of real "
            "numbers."
        )
    low, high = (
        np.asarray(bound, np.float64).ravel().tolist() for bound in (space.low, space.high)
    )
    return Box(tuple(low), tuple(high))


def native_action(space: Any, action: np.ndarray) -> Any:
    """What the environment itself wants: its first choice may not be 0, its numbers may not stand
    in a row."""
    if _kind(space) == "Discrete":
        return int(action) + int(space.start)
    return np.asarray(action, space.dtype).reshape(space.shape)


def _kind(space: Any) -> str:
    """By its name, so that nothing must be imported to ask."""
    return type(space).__name__


def check_module(module: str, builds_on: str) -> None:
    """Importing runs code, and a name may come from a run folder: only modules of packages
    installed for this."""
    top = module.partition(".")[0]
    for package in importlib.metadata.packages_distributions().get(top, []):
        needs = importlib.metadata.requires(package) or []
        names = {re.split(r"[^\w-]", need, maxsplit=1)[0].lower() for need in [package, *needs]}
        if builds_on in names:
            return
    raise InputError(
        f"'{module}' is not in an installed package that builds on {builds_on}. Install it, or "
        "pass your own "
        "environment from Python: rspo.discover(make_env)."
    )
