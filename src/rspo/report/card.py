"""A strategy as a card: its name, its return, how new it is, what it does."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rspo.core import charts
from rspo.core.axes import number
from rspo.report.diversity import maps_of
from rspo.report.learning import curves, switches
from rspo.report.reading import Found, RunFolder
from rspo.report.still import still

# Statistics that belong together are drawn together: a grid's cells, a distribution's shares.
CELL = re.compile(r"[^()]+\(\d{1,3},\d{1,3}\)")
SHARE = re.compile(r"P\(([^()=]+)=(\d{1,3})\)")


@dataclass(frozen=True)
class Bars:
    """A histogram in a box of `count` by 1."""

    summary: str
    count: int
    drawing: str
    ends: tuple[str, str]
    """Labels below the first and the last bar."""


def card(
    run: RunFolder, strategy: Found, shown: int, extent: float, *, filmed: bool = False
) -> dict[str, Any]:
    """A strategy as the template expects it; `shown` of its episodes are in the page, drawn up to
    `extent` or in rendered frames."""
    found = strategy.evaluation
    sampled, drawn = found["sampled_descriptor"], curves(run, strategy)
    return {
        "index": strategy.index,
        "label": strategy.label,
        "status": strategy.status,
        "reason": strategy.reason,
        "attempt": strategy.attempt,
        "colour": strategy.index,
        "evaluation": found,
        "sampled_name": sampled if sampled != found["descriptor"] else None,
        "shown": shown,
        "picture": (
            f"Animation of strategy {strategy.index}, {strategy.status}; "
            "the facts are in the text below it"
        ),
        "still": still(strategy, extent, filmed=filmed),
        "novelty": _novelty(run, strategy),
        "choices": _choices(strategy),
        "forces": _forces(strategy),
        "numbers": _numbers(strategy),
        "distributions": _distributions(found["stats"]),
        "maps": maps_of(strategy),
        "charts": [chart for chart in drawn if not chart.zero],
        "zero": ", ".join(chart.title for chart in drawn if chart.zero),
        "switches": switches(run, strategy),
    }


def _novelty(run: RunFolder, strategy: Found) -> list[dict[str, Any]]:
    """What each earlier policy says about this one."""
    found = strategy.evaluation
    columns = (found["accepted_by"], found["distance"], found["threshold"])
    return [
        {
            "index": reference.index,
            "label": reference.label,
            "colour": reference.index,
            "accepted": accepted,
            "distance": distance,
            "threshold": threshold,
        }
        for reference, accepted, distance, threshold in zip(
            run.references(strategy), *columns, strict=True
        )
    ]


def _taken(strategy: Found) -> np.ndarray | None:
    """How often each action was taken, where there is no drawing."""
    if strategy.episodes is None or any(
        "kinds" in episode for episode in strategy.episodes["episodes"]
    ):
        return None
    return strategy.arrays["actions"]


def _choices(strategy: Found) -> list[tuple[str, float]]:
    """The share of each action, where they are choices."""
    taken = _taken(strategy)
    return (
        []
        if taken is None or taken.ndim != 1
        else [
            (_name(strategy, "choices", i) or f"action {i}", float(share))
            for i, share in enumerate(taken)
        ]
    )


def _name(strategy: Found, kind: str, i: int) -> str:
    """The environment's name for it, if any."""
    names = ((strategy.episodes or {}).get("names") or {}).get(kind, ())
    return names[i] if i < len(names) else ""


def _forces(strategy: Found) -> list[Bars]:
    """A histogram for each dimension, where actions are real numbers."""
    taken = _taken(strategy)
    if taken is None or taken.ndim != 2:
        return []
    edges = np.linspace(-1, 1, taken.shape[1] + 1)
    between = [
        f"{number(low)} to {number(high)}" for low, high in itertools.pairwise(edges.round(6))
    ]
    return [
        _bars(_name(strategy, "actions", i) or f"a{i}", shares, between, ("\N{MINUS SIGN}1", "1"))
        for i, shares in enumerate(taken)
    ]


def _numbers(strategy: Found) -> list[tuple[str, float]]:
    """The statistics that are not drawn."""
    drawn = lambda name: SHARE.fullmatch(name) or (CELL.fullmatch(name) and maps_of(strategy))
    return [
        (name, value) for name, value in strategy.evaluation["stats"].items() if not drawn(name)
    ]


def _distributions(stats: dict[str, float]) -> list[Bars]:
    """Shares `P(name=k)` as bars over k, 0 where not given."""
    shares: dict[str, dict[int, float]] = {}
    for name, value in stats.items():
        if found := SHARE.fullmatch(name):
            shares.setdefault(found[1], {})[int(found[2])] = value
    return [_distribution(name, values) for name, values in shares.items()]


def _distribution(name: str, values: dict[int, float]) -> Bars:
    most = max(values)
    over = np.array([values.get(k, 0.0) for k in range(most + 1)])
    return _bars(name, over, [str(k) for k in range(most + 1)], ("0", str(most)))


def _bars(title: str, shares: np.ndarray, places: Sequence[str], ends: tuple[str, str]) -> Bars:
    """One bar per share, scaled to the largest."""
    most = int(shares.argmax())
    said = [f"{title} {place}: {share:.0%}" for share, place in zip(shares, places, strict=True)]
    drawing = charts.columns(shares / (float(shares[most]) or 1.0), len(shares), 1, said)
    summary = f"{title}: most often {places[most]}, {shares[most]:.0%}"
    return Bars(summary, len(shares), drawing, ends)
