"""Charts as SVG: a matrix with its numbers, grids and bars as small multiples, lines with a
legend. Nothing here reads a file.

They are readable on light and dark backgrounds (the viewer's preference decides) and for the
colour-blind: values are shades of one scale from dark blue to yellow ("cividis", Nunez, Anderton
and Renslow 2018), and shown as numbers too.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rspo.core import svg
from rspo.core.lines import Line, chart

SCALE = (
    "00224e",
    "123570",
    "3b496c",
    "575d6d",
    "707173",
    "8a8678",
    "a59c74",
    "c3b369",
    "e1cc55",
    "fee838",
)
STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.quiet{fill:#666}"
    ".paper{fill:#fff}.frame{fill:none;stroke:#999}.bar{fill:#0072b2}"
    ".grid{stroke:#ddd}.line{fill:none;stroke-width:2}.band{opacity:.2}"
    ".mark{color:#666;stroke-dasharray:3 3}"
    + "".join(f".c{i}{{color:{colour}}}" for i, colour in enumerate(svg.COLOURS[:6]))
    + ".c6{color:#222}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.quiet{fill:#aaa}.paper{fill:#16181c}"
    ".bar{fill:#56b4e9}.grid{stroke:#444}.mark{color:#aaa}.c0{color:#5aa9e6}.c6{color:#f0e442}}"
    ".over-dark{fill:#fff}.over-light{fill:#000}"
)
CHARACTER = 6.6  # approximate width of a letter
GAP = 16
MANY = 100  # cells of a grid above which only the largest is labelled


def page(title: str, width: float, height: float, body: str) -> str:
    """A whole picture of this size below its title."""
    width = math.ceil(max(width, len(title) * CHARACTER * 1.3)) + 2 * GAP
    height = math.ceil(height) + 2 * GAP + 20
    return svg.document(
        width,
        height,
        svg.title(title),
        svg.element("rect", class_="paper", width=width, height=height),
        svg.text(title, GAP, GAP + 8, class_="title"),
        svg.group(GAP, GAP + 20, body),
        style=STYLE,
        role="img",
    )


def shade(share: float) -> str:
    """The colour of a value, from 0 to 1."""
    red, green, blue = (round(value) for value in _mixed(share))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _mixed(share: float) -> list[float]:
    anchors = [[int(code[i : i + 2], 16) for i in (0, 2, 4)] for code in SCALE]
    place = min(max(share, 0.0), 1.0) * (len(anchors) - 1)
    below = min(int(place), len(anchors) - 2)
    return [
        a + (b - a) * (place - below)
        for a, b in zip(anchors[below], anchors[below + 1], strict=True)
    ]


def ink(share: float) -> str:
    """The class of text on the colour of a value: whichever of black and white stands out more
    (WCAG 2)."""
    parts = [value / 255 for value in _mixed(share)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "over-dark" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "over-light"


def _cell(
    x: float, y: float, side: float, share: float, label: str, said: str = "", size: float = 12
) -> str:
    """A square in the colour of its value. `label` is written in it, `said` is its tooltip."""
    edge = side * 0.97
    square = svg.element(
        "rect",
        *([svg.title(said)] if said else []),
        x=x,
        y=y,
        width=edge,
        height=edge,
        fill=shade(share),
    )
    if not label:
        return square
    look = {"class_": ink(share), "text_anchor": "middle", "style": f"font-size:{size:g}px"}
    return square + svg.text(label, x + side / 2, y + side / 2 + size / 3, **look)


def matrix(title: str, names: Sequence[str], values: np.ndarray, rows: str, columns: str) -> str:
    """A square table of numbers, each on the colour of its value; `rows` and `columns` say what the
    two axes are."""
    side, low, high = 46, float(values.min()), float(values.max())
    left = max(len(name) for name in [*names, rows]) * CHARACTER + 8
    overhang = max(len(name) for name in names) * CHARACTER * 0.75  # of slanting names
    top = overhang + 34
    parts = [
        svg.text(columns, left, 12, class_="quiet"),
        svg.text(rows, 0, top - 8, class_="quiet"),
    ]
    for i, name in enumerate(names):
        x, y = left + (i + 0.5) * side, top + (i + 0.5) * side + 4
        parts.append(svg.group(x, top - 6, svg.text(name, 0, 0, transform="rotate(-45)")))
        parts.append(svg.text(name, left - 6, y, text_anchor="end"))
    for (i, j), value in np.ndenumerate(values):
        share = (float(value) - low) / (high - low) if high > low else 0.5
        parts.append(_cell(left + j * side, top + i * side, side, share, short(float(value))))
    width = left + len(names) * side + overhang - side / 2
    return page(title, width, top + len(names) * side, "\n".join(parts))


def short(value: float) -> str:
    """Three digits; a value that rounds to zero is 0, without a sign."""
    return f"{0.0 if abs(value) < 5e-4 else value:.3g}"


def grid(shares: np.ndarray, side: float = 30) -> str:
    """Shares [y, x] in per cent, y upwards; the colour scale ends at the largest."""
    height, most = len(shares), max(float(shares.max()), 1e-9)

    def cell(y: int, x: int, share: float) -> str:
        written = share > 0 and (shares.size <= MANY or share == most)
        label = f"{share:.0%}"[:-1] if written else ""
        said = f"column {x + 1}, row {y + 1} from below: {share:.1%}"
        place = (x * side, (height - 1 - y) * side)
        return _cell(*place, side, share / most, label, said, size=side / 3)

    return "".join(cell(y, x, float(share)) for (y, x), share in np.ndenumerate(shares))


def columns(shares: np.ndarray, width: float, height: float, said: Sequence[str] = ()) -> str:
    """One bar per share, filling the width, with heights relative to 1; `said` are their
    tooltips."""
    step = width / len(shares)
    return "".join(
        svg.element(
            "rect",
            *([svg.title(said[k])] if said else []),
            class_="bar",
            x=k * step,
            y=height * (1 - share),
            width=0.85 * step,
            height=height * share,
        )
        for k, share in enumerate(shares.tolist())
        if share > 0 or said
    )


def grids(title: str, panels: Mapping[str, tuple[np.ndarray, str]]) -> str:
    """One grid per panel, with a caption below."""
    side = 30
    height, width = next(iter(panels.values()))[0].shape
    drawn = {
        name: grid(shares, side) + _below(height * side, below)
        for name, (shares, below) in panels.items()
    }
    return _multiples(title, drawn, width * side, height * side + 16)


def bars(title: str, panels: Mapping[str, np.ndarray], axis: str) -> str:
    """One distribution over 0, 1, 2, ... per panel: shares from 0 to 1 as bars, and the mode in
    words."""
    height, step = 80, 4
    longest = max(len(shares) for shares in panels.values())

    def draw(shares: np.ndarray) -> str:
        most, width = int(shares.argmax()), len(shares) * step
        parts = [
            columns(shares, width, height),
            svg.element("rect", class_="frame", width=width, height=height),
            *(
                svg.text(
                    str(k), (k + 0.5) * step, height + 13, class_="quiet", text_anchor="middle"
                )
                for k in range(0, longest, 10)
            ),
        ]
        return "".join(parts) + _below(height + 14, f"{axis} = {most} in {shares[most]:.0%}")

    drawn = {name: draw(shares) for name, shares in panels.items()}
    return _multiples(title, drawn, longest * step, height + 30)


def lines(
    title: str,
    drawn: Sequence[Line],
    y_range: tuple[float, float] | None = None,
    x_label: str = "update",
) -> str:
    """Lines over a common axis, with a legend to the right; lines with the same label share an
    entry."""
    width, height = 480, 260
    made = chart(
        title, drawn, y_range=y_range, key=True, x_label=x_label, width=width, height=height
    )
    key = [
        svg.group(width + 8, 12 + 20 * i, sample, svg.text(label, 26, 8))
        for i, (sample, label) in enumerate(made.key)
    ]
    beside = 34 + CHARACTER * max((len(label) for _, label in made.key), default=0)
    tall = max(height, 20 * len(made.key) + 12)
    return page(title, width + beside, tall, "\n".join([made.drawing, *key]))


def _below(y: float, words: str) -> str:
    return svg.text(words, 0, y + 13, class_="quiet")


def _multiples(title: str, panels: Mapping[str, str], width: float, height: float) -> str:
    """Panels in rows of five, each below its name."""
    width, height = max(width, max(map(len, panels)) * CHARACTER) + GAP, height + 18 + GAP
    parts = []
    for i, (name, content) in enumerate(panels.items()):
        row, column = divmod(i, 5)
        head = svg.text(name, 0, 10)
        parts.append(svg.group(column * width, row * height, head, svg.group(0, 18, content)))
    wide, tall = min(len(panels), 5) * width - GAP, math.ceil(len(panels) / 5) * height - GAP
    return page(title, wide, tall, "\n".join(parts))
