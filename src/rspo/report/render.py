"""The template engine: everything that comes from a run folder is escaped, and only our own script
may run."""

import base64
import hashlib
import importlib.metadata
import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rspo.core.axes import number
from rspo.report.words import fixed
from rspo.text import counted, printable


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("rspo.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value, lines=True) if type(value) is str else value,
    )
    made.filters |= {"fixed": fixed, "short": number, "percent": _percent, "drawn": _drawn}
    made.filters["counted"] = counted
    return made


def render(template: str, watched: str | None = None, **values: Any) -> str:
    """A complete page; a `watched` one polls its server for newer versions."""
    scripts = [own("traces.js") + own("player.js"), *([own("watch.js")] if watched else [])]
    page = environment().get_template(template)
    return page.render(
        style=Markup(own("style.css")),
        scripts=[Markup(script) for script in scripts],
        script_hashes=" ".join(_digest(script) for script in scripts),
        watched=watched,
        version=importlib.metadata.version("rspo"),
        **values,
    )


def _digest(script: str) -> str:
    """Its hash for the content security policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def own(name: str) -> str:
    """A file that comes with rspo, put into the page as it is."""
    return files("rspo.report").joinpath("templates", name).read_text("utf-8")


def embedded(values: Any) -> Markup:
    """JSON that is safe between <script> tags: nothing in it can end the element or open a
    comment."""
    text = json.dumps(_finite(values), allow_nan=False, separators=(",", ":"))
    for character in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _drawn(picture: str) -> Markup:
    """Output of `rspo.core.svg`, which is already escaped."""
    return Markup(picture)


def _percent(share: float) -> str:
    return f"{share:.0%}"
