"""How different the strategies are, from what the run folder says about it."""

from typing import Any

import numpy as np

from rspo.errors import InputError
from rspo.report.reading import RunFolder


def matrix(run: RunFolder, cards: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any] | None]]]:
    """One row a policy, one column an earlier one; None where they were not compared."""
    rows = []
    for card in cards[1:]:
        against = {novelty["index"]: novelty for novelty in card["novelty"]}
        rows.append((card, [against.get(j) for j in range(len(cards) - 1)]))
    return rows


def cross_play(run: RunFolder) -> dict[str, Any] | None:
    """The payoffs in `crossplay.json`, each with a shade between the smallest and the largest."""
    record = run.extras.get("crossplay")
    if record is None:
        return None
    names = [_name(run, entry) for entry in record["strategies"]]
    payoff = np.array(record["payoff"], float)
    if payoff.shape != (len(names),) * 2:
        raise InputError(f"{run.path / 'crossplay.json'} is damaged: its table does not fit its strategies.")
    low, span = np.nanmin(payoff), np.nanmax(payoff) - np.nanmin(payoff) or 1.0
    shaded = [[(float(v), round(float(0.65 * (v - low) / span), 3)) for v in row] for row in payoff]
    return {"names": names, "rows": list(zip(names, shaded, strict=True)), "episodes": record["episodes"]}


def _name(run: RunFolder, entry: Any) -> str:
    if isinstance(entry, int) and 0 <= entry < len(run.strategies):
        return f"{entry}: {run.strategies[entry].name}"
    return str(entry)


def heatmaps(run: RunFolder) -> list[tuple[str, list[dict[str, Any]]]]:
    """Under each title the grid of every strategy."""
    titles = {title: None for s in run.strategies if s.episodes for title in s.episodes["maps"]}
    return [(title, [_heatmap(run, index, title) for index in _having(run, title)]) for title in titles]


def _having(run: RunFolder, title: str) -> list[int]:
    return [s.index for s in run.strategies if s.episodes and title in s.episodes["maps"]]


def _heatmap(run: RunFolder, index: int, title: str) -> dict[str, Any]:
    strategy = run.strategies[index]
    assert strategy.episodes is not None
    grid = np.nan_to_num(strategy.arrays[f"map.{strategy.episodes['maps'].index(title)}"])
    height, width = grid.shape
    most, top = float(grid.max()), np.unravel_index(grid.argmax(), grid.shape)
    cells = [
        (x, height - 1 - y, round(float(grid[y, x]) / most, 3) if most else 0, f"{most:.0%}" if (y, x) == top else "")
        for y in range(height)
        for x in range(width)
    ]
    where = f"most in column {top[1] + 1}, row {top[0] + 1} from below: {most:.0%}" if most else "nothing anywhere"
    name = f"{index}: {strategy.name}"
    if not most:
        cells, name = [(x, y, 0, "") for x, y, _, _ in cells], f"{name} (never)"
    summary = f"{title}, strategy {name}: {where}"
    return {
        "width": width,
        "height": height,
        "cells": cells,
        "name": name,
        "colour": index,
        "summary": summary,
    }
