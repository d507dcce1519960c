"""Bounds of settings, declared as annotations on their types, and checked here."""

import dataclasses
import math
import typing
from typing import Annotated, Any, NamedTuple

from rspo.errors import InputError


class Within(NamedTuple):
    """Both ends included."""

    least: float
    most: float = math.inf


class Above(NamedTuple):
    """Greater than this."""

    bound: float


class Spanning(NamedTuple):
    """Two numbers in ascending order, both within these bounds."""

    least: float
    most: float


Share = Annotated[float, Within(0, 1)]
Positive = Annotated[float, Above(0)]
Real = Annotated[float, Within(-math.inf)]
Count = Annotated[int, Within(1, 10**6)]
Span = Annotated[tuple[float, float], Spanning(0, 1)]
"""Part of an iteration: where it begins and where it ends."""

Bounds = Within | Above | Spanning
USUAL = Within(0)  # of a number without an annotation


def check_settings(group: Any, prefix: str = "") -> None:
    """Refuse, in one sentence, a number outside its bounds; recurses into groups of settings."""
    hints = typing.get_type_hints(type(group), include_extras=True)
    for setting in dataclasses.fields(group):
        name, value = f"{prefix}{setting.name}", getattr(group, setting.name)
        if dataclasses.is_dataclass(value):
            check_settings(value, f"{name}.")
            continue
        bounds = _bounds(hints[setting.name])
        if isinstance(bounds, Spanning):
            _check(name, value, bounds)
            continue
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not isinstance(number, bool):
                if not math.isfinite(number):
                    raise InputError(f"{name} is {number}, but it must be a finite number.")
                _check(name, number, bounds)


def _bounds(hint: Any) -> Bounds:
    marks = getattr(hint, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Bounds)), USUAL)


def _check(name: str, value: Any, bounds: Bounds) -> None:
    match bounds:
        case Above(bound) if value <= bound:
            raise InputError(f"{name} is {value}, but it must be greater than {bound:g}.")
        case Within(least, _) if value < least:
            raise InputError(f"{name} is {value}, but it must be {least} or more.")
        case Within(_, most) if value > most:
            raise InputError(f"{name} is {value}, but it must be {most} or less.")
        case Spanning(least, most) if not least <= value[0] <= value[1] <= most:
            raise InputError(
                f"{name} is {value}, but it must be two numbers between {least} and {most}, the "
                "smaller first."
            )
