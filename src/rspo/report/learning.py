"""How an iteration went: its curves, and the moment each switch turned off."""

from collections.abc import Sequence

import numpy as np

from rspo.core.lines import Chart, Line, Mark, chart
from rspo.report.reading import Found, RunFolder

# a switch counts as off once acceptance stays at or above this
OFF = 0.95
FEW = 5  # maximum number of policies labelled by name
LONG = 0.05  # unless that is in this last fraction of an iteration


def curves(run: RunFolder, strategy: Found) -> list[Chart]:
    """Return, acceptance, intrinsic reward and entropy over the updates of an iteration."""
    rows, colour = strategy.rows, strategy.index
    x = np.array([row["update"] for row in rows])
    column = lambda name: np.array([row[name] for row in rows], float)
    one = lambda title, name: chart(title, [Line(title, colour, x, column(name))])
    charts = [one("Return", "return")]
    references = run.references(strategy)
    if references and rows and "accepted_by" in rows[0]:
        by = np.array([row["accepted_by"] for row in rows], float)
        lines = [
            Line(
                f"by {earlier.label}", earlier.index, x, by[:, j], short=_short(earlier, references)
            )
            for j, earlier in enumerate(references)
        ]
        charts.append(
            chart(
                "Accepted, by each earlier policy",
                lines,
                _marks(run, strategy),
                (0.0, 1.0),
                key=True,
            )
        )
    if references and rows and "intrinsic" in rows[0]:
        charts.append(one("Intrinsic reward per step", "intrinsic"))
    return [*charts, one("Entropy", "entropy")] if rows and "entropy" in rows[0] else charts


def _short(one: Found, of: Sequence[Found]) -> str:
    """Only its number, where there are too many for names."""
    return one.label if len(of) <= FEW else str(one.index)


def switched_off(accepted: np.ndarray) -> int | None:
    """The row from which acceptance stays at `OFF` or above for long enough; else None."""
    below = np.flatnonzero(accepted < OFF)
    first = int(below[-1]) + 1 if below.size else 0
    return first if len(accepted) - first >= max(1, LONG * len(accepted)) else None


def _moments(run: RunFolder, strategy: Found) -> list[tuple[Found, int | None]]:
    """For each reference the update at which its switch turned off, or None; only while there was
    a filter."""
    rows = strategy.rows[: _filtered(run, strategy)]
    if not rows or "accepted_by" not in rows[0]:
        return []
    by = np.array([row["accepted_by"] for row in rows], float)
    moments = [switched_off(by[:, j]) for j in range(by.shape[1])]
    updates = [None if moment is None else int(rows[moment]["update"]) for moment in moments]
    return list(zip(run.references(strategy), updates, strict=True))


def _filtered(run: RunFolder, strategy: Found) -> int:
    """How many updates come before the filter is lifted."""
    updates = run.config["ppo"]["updates"]
    release = run.config["method"].get("release", 0.0)
    return sum((row["update"] - 1) / updates < 1 - release for row in strategy.rows)


def _marks(run: RunFolder, strategy: Found) -> list[Mark]:
    marks = [
        Mark(f"switch of {reference.index} off at update {update}", update, reference.index)
        for reference, update in _moments(run, strategy)
        if update is not None and update > 1
    ]
    lifted = _filtered(run, strategy)
    if 0 < lifted < len(strategy.rows):
        marks.append(Mark(f"filter lifted at update {lifted + 1}", lifted + 1))
    return marks


def switches(run: RunFolder, strategy: Found) -> str:
    """When they turned off, in words."""
    moments = _moments(run, strategy)
    names = lambda found: ", ".join(_short(one, found) for one in found)
    off = [
        f"{one.label} at update {update}"
        for one, update in moments
        if update is not None and update > 1
    ]
    said = {
        "Switched off": ", ".join(off),
        "Stayed on": names([one for one, update in moments if update is None]),
        "Never on": names([one for one, update in moments if update == 1]),
        "The filter was lifted": _lift(run, strategy) if moments else "",
    }
    return " ".join(f"{what}: {which}." for what, which in said.items() if which)


def _lift(run: RunFolder, strategy: Found) -> str:
    lifted = _filtered(run, strategy)
    return f"at update {lifted + 1}" if lifted < len(strategy.rows) else ""
