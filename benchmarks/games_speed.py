"""How fast the stag-hunt games run and train, and how the cost of an update grows with the number
of references.

    python benchmarks/games_speed.py --out results/games-speed.json

Needs nothing beyond the package. Everything is measured in one run, interleaved and repeated; the
machine should be idle. Writes all repetitions as JSON, and tables as Markdown beside it. `--quick`
only shows that it works.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import machine
from games_report import GAMES, KINDS, markdown
from output import command, say
from rspo_side import RspoSide
from worker import Worker


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    repetitions: int = 7
    updates: int = 20
    references: tuple[int, ...] = (0, 1, 5, 10, 20)


QUICK = Settings(repetitions=1, updates=1, references=(0, 20))


def main() -> None:
    command(
        "Measure the speed of the stag-hunt games.", "results/games-speed.json", measure, markdown
    )


def measure(quick: bool) -> dict[str, Any]:
    start, settings = time.perf_counter(), QUICK if quick else Settings()
    data: dict[str, Any] = {"machine": machine.describe(machine.OURS), "settings": asdict(settings)}
    with Worker(RspoSide) as rspo:
        say("compiling")
        room = max(settings.references)
        data["compile_seconds"] = {game: rspo("compile", game, room) for game in GAMES}
        data["rounds"] = rounds(settings, rspo)
        data["programs"] = {game: rspo("programs", game) for game in GAMES}
    if any(count != 1 for count in data["programs"].values()):
        raise RuntimeError(
            f"The training program was compiled anew as the archive grew: {data['programs']}."
        )
    data["total_seconds"] = time.perf_counter() - start
    return data


def rounds(settings: Settings, rspo: Worker) -> list[dict[str, Any]]:
    """All measurements interleaved; every second round in reverse, so that the order does not bias
    them."""
    train = lambda game, kept, share, updates: rspo("train", game, kept, updates, share)
    turns: list[tuple[str, Callable[[int], Any]]] = []
    for game in GAMES:
        turns.append((f"rollout {game}", partial(rspo, "rollout", game)))
        for kept, (kind, share) in itertools.product(settings.references, KINDS.items()):
            turns.append((f"train {game} {kept} {kind}", partial(train, game, kept, share)))
    for _, turn in turns:
        turn(1)  # warm-up
    entries = []
    for repetition in range(1, settings.repetitions + 1):
        for name, turn in turns if repetition % 2 else reversed(turns):
            result = turn(settings.updates)
            entries.append({"name": name, "repetition": repetition, **result})
            pace = result["steps"] / result["seconds"]
            say(f"repetition {repetition}/{settings.repetitions}: {name}: {pace:,.0f} steps/s")
    return entries


if __name__ == "__main__":
    main()
