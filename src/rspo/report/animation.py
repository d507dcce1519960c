"""Recorded episodes on their way into the page, as many as fit."""

import base64
from typing import Any

import numpy as np

from rspo.report.reading import Found, RunFolder

BUDGET = 3_500_000  # characters of all animations of a page together
EXTENT = 1.15  # what is drawn at least, a little more than the square [-1, 1]^2
TYPES = {"i": "<i2", "u": "<u2", "f": "<f4"}


def animations(run: RunFolder) -> dict[str, Any]:
    """What the player in the page reads."""
    shown = [strategy for strategy in run.strategies if strategy.episodes and strategy.episodes["episodes"]]
    share = BUDGET // max(len(shown), 1)
    return {"extent": EXTENT, "strategies": [_strategy(strategy, share) for strategy in shown]}


def _strategy(strategy: Found, budget: int) -> dict[str, Any]:
    assert strategy.episodes is not None
    same = {name: strategy.episodes[name] for name in ("unit", "backdrop")}
    return {"index": strategy.index, **same, "episodes": _episodes(strategy, budget)}


def _episodes(strategy: Found, budget: int) -> list[dict[str, Any]]:
    """Greedy and sampled ones in turn until the room is used up, at least one; then in their own order."""
    assert strategy.episodes is not None
    facts = strategy.episodes["episodes"]
    modes = [[n for n, fact in enumerate(facts) if fact["mode"] == mode] for mode in ("greedy", "sampled")]
    in_turn = sorted((place, n) for numbers in modes for place, n in enumerate(numbers))
    chosen: dict[int, dict[str, Any]] = {}
    for _, n in in_turn:
        packed = {name: _packed(strategy.arrays[f"{n}.{name}"]) for name in _names(strategy, n)}
        size = sum(len(array["data"]) for array in packed.values())
        if chosen and size > budget:
            break
        budget -= size
        chosen[n] = {**facts[n], "packed": packed}
    return [chosen[n] for n in sorted(chosen)]


def _names(strategy: Found, n: int) -> list[str]:
    return [name.removeprefix(f"{n}.") for name in strategy.arrays if name.startswith(f"{n}.")]


def _packed(array: np.ndarray) -> dict[str, Any]:
    kind = TYPES[array.dtype.kind]
    return {"type": kind, "shape": array.shape, "data": base64.b64encode(array.astype(kind).tobytes()).decode()}
