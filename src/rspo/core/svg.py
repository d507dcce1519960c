"""SVG as text. All pictures are written by these few functions: lengths are rounded, and what
comes from outside is escaped."""

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

from rspo.text import printable

# Okabe and Ito's colour-blind-safe palette.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442")


def element(name: str, *inside: str, **attributes: str | float | None) -> str:
    """One element around others. `stroke_width` is the attribute stroke-width and `class_` is
    class; None leaves an attribute out."""
    words = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(_value(value))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{words}>{''.join(inside)}</{name}>" if inside else f"<{name}{words}/>"


def _value(value: str | float) -> str:
    return printable(value) if isinstance(value, str) else length(value)


def length(value: float) -> str:
    """Rounded to a thousandth."""
    return f"{round(value, 3) + 0.0:.12g}"


def text(words: str, x: float, y: float, **attributes: str | float | None) -> str:
    return element("text", escape(printable(words)), x=x, y=y, **attributes)


def title(words: str) -> str:
    """A tooltip of the enclosing element."""
    return element("title", escape(printable(words)))


def group(x: float, y: float, *inside: str) -> str:
    """Elements translated to a position."""
    return element("g", *inside, transform=f"translate({length(x)} {length(y)})")


def points(pairs: Iterable[tuple[float, float]]) -> str:
    """The points of a polyline; NaN is left out."""
    return " ".join(
        f"{length(x)},{length(y)}" for x, y in pairs if math.isfinite(x) and math.isfinite(y)
    )


def disc(x: float, y: float, radius: float, **attributes: str | float | None) -> str:
    return element("circle", cx=round(x, 1), cy=round(y, 1), r=round(radius, 1), **attributes)


def path(pairs: Sequence[tuple[float, float]], colour: str) -> list[str]:
    """The path of something, with a disc at its end."""
    places = [(round(x, 1), round(y, 1)) for x, y in pairs]
    way = element(
        "polyline", points=points(places), fill="none", stroke=colour, stroke_width=2, opacity=0.8
    )
    return [way, disc(*places[-1], 4, fill=colour)]


def document(
    width: float, height: float, *inside: str, style: str = "", **attributes: str | float | None
) -> str:
    """A complete SVG file, with integer width and height."""
    width, height = math.ceil(width), math.ceil(height)
    head = element("style", style) if style else ""
    return (
        element(
            "svg",
            "\n".join([head, *inside]),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            **attributes,
        )
        + "\n"
    )


def colour_class(colour: int) -> str:
    """The class of one of the seven colours, c0 to c6; pages and pictures define them."""
    return f"c{colour % len(COLOURS)}"


def dashes(colour: int) -> str | None:
    """The dash pattern that distinguishes lines of the same colour, from the eighth line on."""
    return (None, "6 2", "2 2")[min(colour // len(COLOURS), 2)]
