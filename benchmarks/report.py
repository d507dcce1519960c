"""The measured numbers as Markdown tables, from the JSON file alone."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import machine
from flops import FORMULA
from sb3_side import KINDS, Setup

GAMES = ("four-goals-easy", "four-goals-hard")


def markdown(data: dict[str, Any]) -> str:
    sections = (_header, _training, _setups, _references, _arithmetic, _startup)
    return "\n\n".join(section(data) for section in sections) + "\n"


def _header(data: dict[str, Any]) -> str:
    compiled = ", ".join(
        f"{game} {seconds:.1f} s" for game, seconds in data["compile_seconds"].items()
    )
    return (
        f"# Training speed\n\n{machine.sentence(data['machine'])}\n\nMedian (lowest to highest) of "
        f"{data['settings']['repetitions']} interleaved repetitions. Compiling rspo's training "
        "program is not in the "
        f"steps per second: {compiled}."
    )


def _training(data: dict[str, Any]) -> str:
    """Training speeds. Ratios are medians of the ratios within each repetition."""
    note = (
        "Same game, network, batch, epochs and loss. In rspo an episode that ends early stands "
        "still until the "
        "horizon, and its remaining steps are trained on too; Stable-Baselines3 starts the next "
        "episode. *Game steps* "
        "leave the standing still out, at its share over a whole iteration: "
        + ", ".join(f"{1 - data['whole_iteration'][game]['live']:.0%} in {game}" for game in GAMES)
        + ". The ratios say how many times as fast rspo with no references is."
    )
    rows = []
    for game in GAMES:
        live = data["whole_iteration"][game]["live"]
        ours = _speeds(data, f"rspo {game} 0")
        contenders = [
            (f"**rspo**, {kept} references", f"rspo {game} {kept}", live) for kept in (0, 6)
        ]
        for kind, setup in data["chosen"].items():
            title = f"Stable-Baselines3, {KINDS[kind]}, {Setup(*setup).envs} environments"
            contenders.append((title, f"sb3 {game} {kind}", 1.0))
        for title, name, share in contenders:
            speeds = _speeds(data, name)
            ratios = [own / other for own, other in zip(ours, speeds, strict=True)]
            rows.append(
                (
                    game,
                    title,
                    f"{_count(median(speeds))} ({_spread(speeds, _count)})",
                    f"{median(ratios):.1f} ({_spread(ratios, '{:.1f}'.format)})",
                    _count(median(speeds) * share),
                    f"{median(ratios) * live / share:.1f}",
                )
            )
    head = ("game", "learner", "steps/s", "ratio", "game steps/s", "ratio")
    return f"## Training\n\n{note}\n\n" + _table(head, rows)


def _setups(data: dict[str, Any]) -> str:
    """All setups tried for Stable-Baselines3; the best of each kind is in the table above."""
    chosen = {tuple(setup) for setup in data["chosen"].values()}
    rows = []
    for trial in data["pilot"]:
        setup = Setup(*trial["setup"])
        mark = "best" if tuple(setup) in chosen else ""
        speed = _count(trial["steps"] / trial["seconds"])
        rows.append((KINDS[setup.kind], str(setup.envs), str(setup.threads), speed, mark))
    head = ("Stable-Baselines3 with", "environments", "torch threads", "steps/s", "")
    return f"## Stable-Baselines3's best settings ({GAMES[0]})\n\n" + _table(head, rows)


def _references(data: dict[str, Any]) -> str:
    game = GAMES[0]
    none = _update_times(data, game, 0)
    rows = []
    for kept in data["settings"]["references"]:
        times = _update_times(data, game, kept)
        growth = [with_ / without for with_, without in zip(times, none, strict=True)]
        rows.append(
            (
                str(kept),
                f"{median(times) * 1e3:.1f}",
                _spread(times, lambda s: f"{s * 1e3:.1f}"),
                f"{median(growth):.2f}",
            )
        )
    head = ("references kept", "ms an update", "spread", "times the cost of none")
    return f"## Cost of an update by references ({game}, room for 7)\n\n" + _table(head, rows)


def _arithmetic(data: dict[str, Any]) -> str:
    peaks = data["peak_flops"]
    best = max(median(values) for values in peaks.values())
    rows = [
        (
            f"{name}, large float32 matrix product",
            "",
            f"{median(v) / 1e9:.0f}",
            _spread(v, _giga),
            f"{median(v) / best:.0%}",
        )
        for name, v in peaks.items()
    ]
    for name, count in data["update_flops"].items():
        game, kept = name.rsplit(" ", 1)
        rates = [count / seconds for seconds in _update_times(data, game, int(kept))]
        rows.append(
            (
                f"rspo training, {game}, {kept} references",
                f"{count / 1e9:.2f}",
                f"{median(rates) / 1e9:.0f}",
                _spread(rates, _giga),
                f"{median(rates) / best:.0%}",
            )
        )
    head = ("", "GFLOP an update", "GFLOP/s", "spread", "share of the peak")
    return (
        "## Share of the cores' arithmetic\n\n"
        + _table(head, rows)
        + f"\n\nMatrix products only:\n\n```\n{FORMULA}\n```"
    )


def _startup(data: dict[str, Any]) -> str:
    rows = []
    for sign, title in (
        ("first_return", "first return on the screen"),
        ("first_strategy", "first finished strategy"),
    ):
        for cache in ("cold", "warm"):
            times = [run[cache][sign] for run in data["startup_seconds"]]
            rows.append((title, cache, f"{median(times):.1f}", _spread(times, "{:.1f}".format)))
    head = (
        "`rspo discover four-goals-easy`, new process",
        "compilation cache",
        "seconds",
        "spread",
    )
    return "## Time to the first useful output\n\n" + _table(head, rows)


def _speeds(data: dict[str, Any], name: str) -> list[float]:
    return [entry["steps"] / entry["seconds"] for entry in data["rounds"] if entry["name"] == name]


def _update_times(data: dict[str, Any], game: str, kept: int) -> list[float]:
    entries = [entry for entry in data["rounds"] if entry["name"] == f"rspo {game} {kept}"]
    return [entry["seconds"] / data["settings"]["rspo_updates"] for entry in entries]


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _giga(number: float) -> str:
    return f"{number / 1e9:.0f}"


def _spread(values: Sequence[float], text: Callable[[float], str]) -> str:
    return f"{text(min(values))} to {text(max(values))}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
