"""Pictures as SVG text: a matrix with its numbers, grids and bars as small multiples. Nothing here
reads a file.

They are readable on light and dark backgrounds (the viewer's preference decides) and for the
colour-blind: values are shades of one scale from dark blue to yellow ("cividis", Nunez, Anderton
and Renslow 2018), and numbers stand beside.
"""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

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
    "<style>text{font:12px "
    "sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.quiet{fill:#666}"
    ".paper{fill:#fff}.frame{fill:none;stroke:#999}.bar{fill:#0072b2}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.quiet{fill:#aaa}.paper{fill:#16181c}.bar{fill:#56b4e9}}"
    ".over-dark{fill:#fff}.over-light{fill:#000}</style>"
)
CHARACTER = 6.6  # width of a letter, about
GAP = 16


def page(title: str, width: float, height: float, body: str) -> str:
    """A whole picture of this size below its title."""
    width, height = (
        math.ceil(max(width, len(title) * CHARACTER * 1.3)) + 2 * GAP,
        math.ceil(height) + 2 * GAP + 20,
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" '
        f'role="img"><title>{escape(title)}</title>{STYLE}<rect class="paper" width="{width}" '
        f'height="{height}"/>\n'
        f'<text class="title" x="{GAP}" y="{GAP + 8}">{escape(title)}</text>\n'
        f'<g transform="translate({GAP} {GAP + 20})">{body}</g></svg>\n'
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


def _cell(x: float, y: float, side: float, share: float, label: str, size: int = 12) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{side - 1:g}" height="{side - 1:g}" '
        f'fill="{shade(share)}"/>'
        f'<text class="{ink(share)}" x="{x + side / 2:g}" y="{y + side / 2 + size / 3:g}" '
        'text-anchor="middle" '
        f'style="font-size:{size}px">{escape(label)}</text>'
    )


def matrix(title: str, names: Sequence[str], values: np.ndarray, rows: str, columns: str) -> str:
    """A square table of numbers, each on the colour of its value; `rows` and `columns` say what the
    two axes are."""
    side, low, high = 46, float(values.min()), float(values.max())
    left = max(len(name) for name in [*names, rows]) * CHARACTER + 8
    top = (
        max(len(name) for name in names) * CHARACTER * 0.75 + 34
    )  # written slantwise, below the axis' own name
    parts = [f'<text class="quiet" x="{left:g}" y="12">{escape(columns)}</text>']
    parts.append(f'<text class="quiet" x="0" y="{top - 8:g}">{escape(rows)}</text>')
    for i, name in enumerate(names):
        x, y = left + (i + 0.5) * side, top + (i + 0.5) * side + 4
        parts.append(
            f'<text transform="translate({x:g} {top - 6:g}) rotate(-45)">{escape(name)}</text>'
        )
        parts.append(f'<text x="{left - 6:g}" y="{y:g}" text-anchor="end">{escape(name)}</text>')
    for (i, j), value in np.ndenumerate(values):
        share = (float(value) - low) / (high - low) if high > low else 0.5
        parts.append(_cell(left + j * side, top + i * side, side, share, short(float(value))))
    overhang = max(len(name) for name in names) * CHARACTER * 0.75
    return page(
        title,
        left + len(names) * side + overhang - side / 2,
        top + len(names) * side,
        "\n".join(parts),
    )


def short(value: float) -> str:
    """Three digits; a value that rounds to nothing is 0, without a sign."""
    return f"{0.0 if abs(value) < 5e-4 else value:.3g}"


def grids(title: str, panels: Mapping[str, tuple[np.ndarray, str]]) -> str:
    """One grid of shares [y, x] a panel, in per cent, y upwards, and a line below; colours go up to
    its own maximum."""
    side = 30
    height, width = next(iter(panels.values()))[0].shape

    def draw(panel: tuple[np.ndarray, str]) -> str:
        grid, below = panel
        most = max(float(grid.max()), 1e-9)
        cells = [
            _cell(
                x * side,
                (height - 1 - y) * side,
                side,
                share / most,
                f"{share:.0%}"[:-1] if share else "",
                size=10,
            )
            for (y, x), share in np.ndenumerate(grid)
        ]
        return "".join(cells) + _below(height * side, below)

    return _multiples(
        title,
        {name: draw(panel) for name, panel in panels.items()},
        width * side,
        height * side + 16,
    )


def bars(title: str, panels: Mapping[str, np.ndarray], axis: str) -> str:
    """One distribution over 0, 1, 2, ... a panel: shares from 0 to 1 as bars, and the most frequent
    value in words."""
    height, step = 80, 4
    ticks = range(0, max(len(shares) for shares in panels.values()), 10)

    def draw(shares: np.ndarray) -> str:
        most = int(shares.argmax())
        parts = [
            f'<rect class="bar" x="{k * step}" y="{height * (1 - share):.1f}" width="{step - 1}" '
            f'height="{height * share:.1f}"/>'
            for k, share in enumerate(shares)
            if share > 0
        ]
        parts.append(f'<rect class="frame" width="{len(shares) * step}" height="{height}"/>')
        parts += [
            f'<text class="quiet" x="{(k + 0.5) * step:g}" y="{height + 13}" '
            f'text-anchor="middle">{k}</text>'
            for k in ticks
        ]
        return "".join(parts) + _below(height + 14, f"{axis} = {most} in {shares[most]:.0%}")

    drawn = {name: draw(shares) for name, shares in panels.items()}
    return _multiples(title, drawn, (ticks[-1] + 1) * step, height + 30)


def _below(y: float, text: str) -> str:
    return f'<text class="quiet" x="0" y="{y + 13:g}">{escape(text)}</text>'


def _multiples(title: str, panels: Mapping[str, str], width: float, height: float) -> str:
    """Panels in rows of five, each below its name."""
    width, height = max(width, max(map(len, panels)) * CHARACTER) + GAP, height + 18 + GAP
    parts = []
    for i, (name, content) in enumerate(panels.items()):
        row, column = divmod(i, 5)
        head = f'<text y="10">{escape(name)}</text><g transform="translate(0 18)">{content}</g>'
        parts.append(f'<g transform="translate({column * width:g} {row * height:g})">{head}</g>')
    return page(
        title,
        min(len(panels), 5) * width - GAP,
        math.ceil(len(panels) / 5) * height - GAP,
        "\n".join(parts),
    )
