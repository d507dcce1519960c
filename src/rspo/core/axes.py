"""The axes of charts: ranges, ticks and number formats."""

import math
from collections.abc import Sequence

import numpy as np


def bounds(values: Sequence[np.ndarray | None]) -> tuple[float, float]:
    """The range of all finite values, extended to a nearby 0, and never empty."""
    known = [np.asarray(value, float)[np.isfinite(value)] for value in values if value is not None]
    every = np.concatenate(known) if known else np.zeros(0)
    if not every.size:
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    if 0 < low < high:
        low = 0.0
    # Equal up to rounding: no axis could tell them apart.
    if high - low <= 1e-8 * max(abs(low), abs(high)):
        low, high = min(low, 0.0), max(high, 0.0)
    return (low, high) if low < high else (0.0, 1.0)


def nice_ticks(low: float, high: float) -> list[float]:
    """Two to four round numbers from just below `low` to just above `high`."""
    step = 10.0 ** math.floor(math.log10(high - low))
    for factor in (0.5, 1, 2, 5, 10):
        first, last = (
            math.floor(low / (step * factor) + 1e-9),
            math.ceil(high / (step * factor) - 1e-9),
        )
        if last - first <= 3:
            break
    return [round(i * step * factor, 12) for i in range(first, last + 1)]


def tick(value: float) -> str:
    """A round number beside an axis, where there is room for six characters."""
    return number(value) if abs(value) < 1e5 else _with_minus(f"{value:.3g}")


def number(value: float) -> str:
    """To four digits, or whole."""
    text = f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return _with_minus(text)


def _with_minus(text: str) -> str:
    return text.replace("e+0", "e").replace("e-0", "e-").replace("-", "\N{MINUS SIGN}")
