"""Checks values from a file against the types that they should have."""

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from rspo.errors import InputError
from rspo.text import shorten

WHOLE = 2**63  # above any count, seed or index


class Part(NamedTuple):
    """An error message about a part of a table, formatted only when needed."""

    complaint: object
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.complaint}, with '{self.name}' as {quoted(self.value)}"


def checked(hint: Any, value: Any, complaint: object) -> Any:
    """`value` if it fits the type `hint`, with integers converted to expected floats; else an
    error with `complaint` and the reason."""
    if hint is Any:
        return value
    if typing.is_typeddict(hint):
        return _table(hint, value, complaint)
    if typing.get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in typing.get_args(hint):
            raise InputError(
                f"{complaint}, but allowed are: {', '.join(map(str, typing.get_args(hint)))}."
            )
        return value
    if typing.get_origin(hint) is tuple:
        return _tuple(typing.get_args(hint), value, complaint)
    if typing.get_origin(hint) is Mapping:
        if not isinstance(value, dict):
            raise InputError(f"{complaint}, but it must be a table.")
        return {
            checked(str, k, complaint): checked(typing.get_args(hint)[1], v, complaint)
            for k, v in value.items()
        }
    return _one_of(
        typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,), value, complaint
    )


def _table(kind: Any, value: Any, complaint: object) -> dict[str, Any]:
    """A table checked against a TypedDict; undeclared keys are kept."""
    if not isinstance(value, dict):
        raise InputError(f"{complaint}, but it must be a table.")
    hints = _hints(kind)
    for name in sorted(kind.__required_keys__ - value.keys()):
        raise InputError(f"{complaint}, but it must have '{name}'.")
    parts = {name: value[name] for name in hints if name in value}
    return value | {
        name: checked(hints[name], part, Part(complaint, name, part))
        for name, part in parts.items()
    }


_hints = cache(typing.get_type_hints)


def quoted(value: Any) -> str:
    """A value in a sentence."""
    return shorten(repr(value), 80)


def _tuple(parts: tuple[Any, ...], value: Any, complaint: object) -> tuple[Any, ...]:
    if isinstance(value, list | tuple) and parts[-1] is Ellipsis:
        parts = parts[:1] * len(value)
    if not isinstance(value, list | tuple) or len(value) != len(parts):
        raise InputError(f"{complaint}, but it must be a list of {len(parts)} numbers.")
    return tuple(checked(part, item, complaint) for part, item in zip(parts, value, strict=True))


def _one_of(options: tuple[Any, ...], value: Any, complaint: object) -> Any:
    for option in options:
        if typing.get_origin(option) is not None:
            if value is not None:
                return checked(option, value, complaint)
        elif (
            option is float
            and isinstance(value, int)
            and not isinstance(value, bool)
            and abs(value) < 10**300
        ):
            return float(value)
        elif isinstance(value, option) and not (
            option is int and (isinstance(value, bool) or abs(value) >= WHOLE)
        ):
            return value
    wanted = " or ".join(
        "none" if option is types.NoneType else option.__name__ for option in options
    )
    raise InputError(f"{complaint}, but it must be of type {wanted}.")
