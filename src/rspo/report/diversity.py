"""How different the strategies are, from the files in the run folder."""

from typing import Any

import numpy as np

from rspo.core import charts
from rspo.report.reading import Found, RunFolder
from rspo.report.words import flat


def matrix(
    cards: list[dict[str, Any]],
) -> list[tuple[dict[str, Any], list[dict[str, Any] | None]]]:
    """One row per policy, one column per earlier one; None where they were not compared."""
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
    known = payoff[np.isfinite(payoff)]
    low, span = (known.min(), np.ptp(known) or 1.0) if known.size else (0.0, 1.0)
    return {
        "names": names,
        "rows": list(zip(names, _shaded(payoff, low, span), strict=True)),
        "episodes": record["episodes"],
    }


def _shaded(values: np.ndarray, low: float, span: float) -> list[list[tuple[float, float]]]:
    """Each value with a shade from 0 to 1."""
    return [
        [(float(value), round(float((value - low) / span), 3)) for value in row] for row in values
    ]


def population(run: RunFolder) -> dict[str, Any] | None:
    """The score in `diversity.json`, its kernel between each two distinct strategies, and
    everything it depends on."""
    record = run.extras.get("diversity")
    if record is None:
        return None
    names = [strategy.label for strategy in run.strategies if strategy.status == "novel"]
    kernel = np.array(record["matrix"], float)
    facts = [
        (name, value)
        for name, value in flat(record)
        if name not in ("run", "value", "matrix", "authors.matrix")
    ]
    rows = list(zip(names, _shaded(kernel, 0.0, 1.0), strict=True))
    return {"value": record["value"], "names": names, "rows": rows, "facts": facts}


def _name(run: RunFolder, entry: Any) -> str:
    if isinstance(entry, int) and 0 <= entry < len(run.strategies):
        return f"{entry}: {run.strategies[entry].name}"
    return str(entry)


def heatmaps(run: RunFolder) -> list[tuple[str, list[dict[str, Any]]]]:
    """The grids of all strategies, by title."""
    drawn = [(title, grid) for strategy in run.strategies for title, grid in maps_of(strategy)]
    titles = dict.fromkeys(title for title, _ in drawn)
    return [(title, [grid for other, grid in drawn if other == title]) for title in titles]


def maps_of(strategy: Found) -> list[tuple[str, dict[str, Any]]]:
    """A strategy's heat maps, by their titles."""
    titles = strategy.episodes["maps"] if strategy.episodes else []
    return [
        (title, _heatmap(strategy, title, strategy.arrays[f"map.{i}"]))
        for i, title in enumerate(titles)
    ]


def _heatmap(strategy: Found, title: str, grid: np.ndarray) -> dict[str, Any]:
    grid = np.nan_to_num(grid)
    height, width = grid.shape
    most, top = float(grid.max()), np.unravel_index(grid.argmax(), grid.shape)
    where = (
        f"most in column {top[1] + 1}, row {top[0] + 1} from below: {most:.0%}"
        if most
        else "nothing anywhere"
    )
    return {
        "width": width,
        "height": height,
        "drawing": charts.grid(grid, side=1),
        "label": strategy.label if most else f"{strategy.label} (never)",
        "colour": strategy.index,
        "summary": f"{title}, strategy {strategy.index}: {where}",
    }
