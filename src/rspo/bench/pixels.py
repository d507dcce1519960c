"""A figure as PNG, by resvg. It draws no letter of a font that the machine lacks, and says nothing
of it: a font that it does draw is looked for first."""

from functools import cache
from typing import Any

# Of the common systems; resvg takes "sans-serif" for Arial, which Linux seldom has.
FAMILIES = (
    "Arial",
    "Helvetica",
    "Liberation Sans",
    "DejaVu Sans",
    "Noto Sans",
    "Roboto",
    "Ubuntu",
    "Cantarell",
    "Segoe UI",
)
NO_RESVG = "The figure is an SVG alone: `pip install 'rspo[png]'` makes a PNG of it too."
NO_FONT = (
    "The figure is an SVG alone: a PNG would have no letters, as this machine has no font such as "
    "DejaVu Sans."
)
LETTERS = "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'>{}</svg>"


def png(picture: str) -> bytes | None:
    """The pixels of an SVG; None where `why_not` says why."""
    resvg, found = _resvg(), family()
    if resvg is None or found is None:
        return None
    return _drawn(resvg, picture, found, zoom=2)


def why_not() -> str | None:
    """Why there is no PNG; None if there is one."""
    if _resvg() is None:
        return NO_RESVG
    return NO_FONT if family() is None else None


@cache
def family() -> str | None:
    """A font whose letters can be drawn."""
    resvg = _resvg()
    if resvg is None:
        return None
    blank = _drawn(resvg, LETTERS.format(""), FAMILIES[0])
    text = LETTERS.format("<text x='2' y='15' font-family='sans-serif'>abc</text>")
    return next((name for name in FAMILIES if _drawn(resvg, text, name) != blank), None)


def _resvg() -> Any:
    try:
        import resvg_py
    except ImportError:
        return None
    return resvg_py


def _drawn(resvg: Any, picture: str, name: str, zoom: int = 1) -> bytes:
    # Serif is where resvg turns to if a family is not there.
    fonts = {"sans_serif_family": name, "serif_family": name}
    return bytes(resvg.svg_to_bytes(svg_string=picture, zoom=zoom, **fonts))
