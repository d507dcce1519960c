"""The measured speed of the stag-hunt games as Markdown tables, from the JSON file alone."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import machine
import numpy as np

from rspo.presets import preset

GAMES = ("monster-hunt", "escalation")
# Share of the references that reject: only those need prediction errors. In a real run it changes
# with every update.
KINDS = {"all reject": 1.0, "half reject": 0.5, "all accept": 0.0}


def markdown(data: dict[str, Any]) -> str:
    return (
        "\n\n".join(
            [
                _header(data),
                _speed(data),
                *(_references(data, game) for game in GAMES),
                _whole(data),
            ]
        )
        + "\n"
    )


def _header(data: dict[str, Any]) -> str:
    settings = data["settings"]
    compiled = ", ".join(
        f"{game} {seconds:.1f} s" for game, seconds in data["compile_seconds"].items()
    )
    return (
        f"# Speed of the stag-hunt games\n\n{machine.sentence(data['machine'])}\n\nMedian (lowest "
        "to highest) of "
        f"{settings['repetitions']} interleaved repetitions of {settings['updates']} updates with "
        "the presets' "
        "batches, networks and epochs. One environment step moves both agents. Compiling is not in "
        "these times "
        f"({compiled}); one program served all numbers of references."
    )


def _speed(data: dict[str, Any]) -> str:
    rows = []
    for game in GAMES:
        rows.append(
            (game, "rollout alone", _range(_speeds(data, f"rollout {game}"), "{:,.0f}".format))
        )
        for kept in data["settings"]["references"]:
            speeds = _speeds(data, f"train {game} {kept} all reject")
            rows.append((game, f"training, {kept} references", _range(speeds, "{:,.0f}".format)))
    note = "The references reject every episode, which costs most."
    return f"## Environment steps per second\n\n{note}\n\n" + _table(("game", "", "steps/s"), rows)


def _references(data: dict[str, Any], game: str) -> str:
    """Ratios are medians of the ratios within each repetition. With no references all kinds are
    the same."""
    nothing = [
        median(times)
        for times in zip(*(update_seconds(data, game, 0, kind) for kind in KINDS), strict=True)
    ]
    rows = []
    for kept in data["settings"]["references"]:
        cells = [str(kept)]
        for kind in KINDS:
            times = update_seconds(data, game, kept, kind)
            growth = [with_ / without for with_, without in zip(times, nothing, strict=True)]
            cells += [
                _range(times, lambda seconds: f"{seconds * 1e3:.1f}"),
                _range(growth, "{:.2f}".format),
            ]
        rows.append(cells)
    head = [
        "references kept",
        *(title for kind in KINDS for title in (f"{kind}: ms an update", "times none")),
    ]
    note = "*Times none* is in relation to the median of the same repetition's three measurements without references."
    return f"## Cost of an update by references ({game})\n\n{note}\n\n" + _table(head, rows)


def _whole(data: dict[str, Any]) -> str:
    """The total time of the updates in a preset's whole run."""
    rows = []
    for game in GAMES:
        minutes = [f"{whole_run_minutes(data, game, kind):.1f}" for kind in KINDS]
        rows.append((game, str(preset(game).iterations), *minutes))
    note = "By adding up the updates of all iterations, their cost interpolated between the references measured."
    head = ("game", "iterations", *(f"minutes if {kind}" for kind in KINDS))
    return f"## A whole run\n\n{note}\n\n" + _table(head, rows)


def whole_run_minutes(data: dict[str, Any], game: str, kind: str) -> float:
    """Iteration k trains against k - 1 references."""
    config, measured = preset(game), data["settings"]["references"]
    cost = [median(update_seconds(data, game, kept, kind)) for kept in measured]
    each = np.interp(np.arange(config.iterations), measured, cost)
    return float(each.sum()) * config.ppo.updates / 60


def update_seconds(data: dict[str, Any], game: str, kept: int, kind: str) -> list[float]:
    name, updates = f"train {game} {kept} {kind}", data["settings"]["updates"]
    return [entry["seconds"] / updates for entry in data["rounds"] if entry["name"] == name]


def _speeds(data: dict[str, Any], name: str) -> list[float]:
    return [entry["steps"] / entry["seconds"] for entry in data["rounds"] if entry["name"] == name]


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    return f"{text(median(values))} ({text(min(values))} to {text(max(values))})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])
