"""Recorded episodes as data for the page, as many as fit."""

import base64
import math
from typing import Any

import numpy as np

from rspo.report.reading import Found, RunFolder
from rspo.report.still import film_id
from rspo.text import printable

BUDGET = 3_500_000  # characters of all animations of a page together
MARGIN = 1.15  # around the drawn area
SMALLEST = 0.1  # half of a side
TYPES = {"i": "<i2", "u": "<u2", "f": "<f4"}


def animations(run: RunFolder) -> dict[str, Any]:
    """The data for the player in the page."""
    shown = [
        strategy
        for strategy in run.strategies
        if strategy.episodes and strategy.episodes["episodes"]
    ]
    share = BUDGET // max(len(shown), 1)
    return {
        "extent": _extent(shown),
        "strategies": [_strategy(strategy, share) for strategy in shown],
    }


def _extent(shown: list[Found]) -> float:
    """Half the side of the square that contains every greedy episode, the same for all strategies;
    a sampled one that goes further is scaled down."""
    most = SMALLEST
    for strategy in shown:
        assert strategy.episodes is not None
        unit = strategy.episodes["unit"]
        for _, x, y, size, _, end in strategy.episodes["backdrop"]:
            reach = [abs(value) + size for value in (x, y, *(end or ()))]
            most = max([most, *(far for far in reach if math.isfinite(far))])
        for n, fact in enumerate(strategy.episodes["episodes"]):
            if fact["mode"] == "greedy" and f"{n}.place" in strategy.arrays:
                places = [
                    strategy.arrays[name]
                    for name in (f"{n}.place", f"{n}.end")
                    if name in strategy.arrays
                ]
                most = max(
                    most,
                    *(
                        float(np.abs(np.nan_to_num(place.astype(float))).max()) / unit
                        for place in places
                    ),
                )
    return round(MARGIN * most, 4)


def _strategy(strategy: Found, budget: int) -> dict[str, Any]:
    assert strategy.episodes is not None
    backdrop = [
        (role, x, y, size, printable(label), end)
        for role, x, y, size, label, end in strategy.episodes["backdrop"]
    ]
    episodes = _episodes(strategy, budget)
    names = strategy.episodes.get("names") or {"obs": (), "actions": ()}
    return {
        "index": strategy.index,
        "unit": strategy.episodes["unit"],
        "backdrop": backdrop,
        "names": {kind: [printable(name) for name in names[kind]] for kind in ("obs", "actions")},
        "episodes": episodes,
    }


def _episodes(strategy: Found, budget: int) -> list[dict[str, Any]]:
    """Greedy and sampled ones alternately until the budget is used up, at least one; then in their
    original order."""
    assert strategy.episodes is not None
    facts = strategy.episodes["episodes"]
    modes = [
        [n for n, fact in enumerate(facts) if fact["mode"] == mode]
        for mode in ("greedy", "sampled")
    ]
    in_turn = sorted((place, n) for numbers in modes for place, n in enumerate(numbers))
    chosen: dict[int, dict[str, Any]] = {}
    for _, n in in_turn:
        packed = {name: _packed(strategy.arrays[f"{n}.{name}"]) for name in _names(strategy, n)}
        film = _film(strategy, n)
        if film and len(film["data"]) > budget:
            if chosen:
                break
            film = {}  # observations are shown instead
        packed = {"total": packed["total"]} if film else packed
        size = sum(len(array["data"]) for array in packed.values()) + len(film.get("data", ""))
        if chosen and size > budget:
            break
        budget -= size
        if film and n == 0:  # the still picture already contains its frames
            film = {name: value for name, value in film.items() if name != "data"}
            film["id"] = film_id(strategy.index)
        kinds = {"kinds": [(role, printable(label)) for role, label in facts[n].get("kinds", ())]}
        rest = {name: value for name, value in facts[n].items() if name != "film"}
        chosen[n] = {**rest, **(kinds if "kinds" in facts[n] else {}), "packed": packed}
        if film:
            chosen[n]["film"] = film
    return [chosen[n] for n in sorted(chosen)]


def _film(strategy: Found, n: int) -> dict[str, Any]:
    """The frames of an episode in one image, if there are any. Browsers run no script inside an
    image."""
    assert strategy.episodes is not None
    facts = strategy.episodes["episodes"][n].get("film")
    if facts is None:
        return {}
    data = base64.b64encode(strategy.arrays[f"{n}.film"].tobytes()).decode()
    return {**facts, "data": data}


def _names(strategy: Found, n: int) -> list[str]:
    names = [name.removeprefix(f"{n}.") for name in strategy.arrays if name.startswith(f"{n}.")]
    return [name for name in names if name != "film"]


def _packed(array: np.ndarray) -> dict[str, Any]:
    kind = TYPES[array.dtype.kind]
    with np.errstate(over="ignore"):  # for numbers far outside the picture
        numbers = array.astype(kind)
    return {
        "type": kind,
        "shape": array.shape,
        "data": base64.b64encode(numbers.tobytes()).decode(),
    }
