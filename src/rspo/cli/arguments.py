"""Command-line arguments, parsed by tyro; its multi-line error boxes become one sentence."""

import contextlib
import io
import re
import types
import typing
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from rspo.errors import InputError
from rspo.text import shorten

T = TypeVar("T")

LONGEST = 4200  # characters of a flag with its value; the longest path has 4096
IN_OUR_WORDS = (
    (
        r"Error parsing \[?(\S+?)\]?: invalid literal for int\(\) with base 10: (.+)",
        r"\1 is \2, but it must be a whole number.",
    ),
    (
        r"Error parsing \[?(\S+?)\]?: could not convert string to float: (.+)",
        r"\1 is \2, but it must be a number.",
    ),
    (
        r"Error parsing (--\S+): Could not parse .* \[(.+)\] into .*float.*",
        r"\1 is \2, but each must be a number.",
    ),
    (
        r"invalid choice (.+) for argument '(.+)'. Expected one of \((.+)\)\.",
        r"\2 is \1, but it must be one of \3.",
    ),
    (r"Missing value for argument '(.+)'. Expected 1 values\.", r"\1 needs a value."),
    (r"Missing value for argument '(.+)'. Expected (\d+) values\.", r"\1 needs \2 values."),
    (
        r"Missing from (rspo \w+): PATH .*",
        r"\1 needs a run folder, such as `\1 runs/four-goals-easy-rspo-seed0`.",
    ),
)


REGISTRY = ConstructorRegistry()
READ = {int: "INT", float: "FLOAT", Path: "PATH", str: "STR"}


@REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """X | None is shown as X; what is not given, or given as `none`, is None."""
    inner = [kind for kind in typing.get_args(info.type) if kind is not type(None)]
    union = typing.get_origin(info.type) in (typing.Union, types.UnionType)
    if not union or len(inner) != 1 or len(typing.get_args(info.type)) != 2:
        return None
    kind = inner[0]
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else None
    if choices is None and kind not in READ:
        return None
    read = str if choices else kind
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(choices)}}}" if choices else READ[kind],
        instance_from_str=lambda words: None if words[0].lower() == "none" else read(words[0]),
        is_instance=lambda value: value is None or isinstance(value, read),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
        choices=choices,
    )


def parse(
    kind: type[T],
    arguments: list[str],
    prog: str,
    default: T | None = None,
    *,
    help: str = "--help",
    lists: Collection[str] = (),
) -> T:
    """The parsed arguments; `default` fills in the rest, `help` is the flag that explains all of
    them, and `lists` take one value or more."""
    for word in arguments:
        if len(word) > LONGEST:  # tyro would take minutes to find similar options
            raise InputError(
                f"{shorten(repr(word), 60)} is longer than any option. `{prog} {help}` explains "
                "all options."
            )
    for word, after in pairwise([*arguments, "--"]):
        if word in lists and after.startswith("--"):  # tyro would take none for all
            raise InputError(f"{word} needs a value. `{prog} {help}` explains all options.")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), REGISTRY:
            if default is None:
                return tyro.cli(kind, args=arguments, prog=prog)
            return tyro.cli(kind, args=arguments, prog=prog, default=default)
    except SystemExit as end:
        if end.code == 0:  # help was requested
            raise
        raise InputError(
            f"{_sentence(said.getvalue())} `{prog} {help}` explains all options."
        ) from None


def _sentence(box: str) -> str:
    """The essence of a box: what is above its first rule, and similar options."""
    lines = [line.strip(" │") for line in box.splitlines()[1:]]  # the first is the title
    what, *rest = re.split(r"\n[─-]+\n", "\n".join(lines).lstrip("-\n"))
    what = " ".join(what.split())
    for pattern, ours in IN_OUR_WORDS:
        if match := re.fullmatch(pattern, what):
            return match.expand(ours)
    meant = [
        name
        for part in rest
        if "Perhaps you meant" in part
        for name in re.findall(r"^(--[\w.-]+)", part, re.M)
    ]
    return f"{what.rstrip('.')}." + (
        f" Did you mean {' or '.join(dict.fromkeys(meant))}?" if meant else ""
    )
