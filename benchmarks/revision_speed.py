"""How fast this checkout trains the games beside another one, an earlier revision.

    git worktree add ../before REVISION
    python benchmarks/revision_speed.py ../before --out results/revision-speed.json

Each side runs its own `benchmarks/rspo_side.py` on its own sources in a process of its own, in
turns, several times over; the machine should have nothing else to do. First outputs on the screen
are timed as a person meets them, by each side's `benchmarks/startup.py`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import machine
from output import publish, say

GAMES = {"four-goals-easy": 100, "four-goals-hard": 100, "monster-hunt": 30, "escalation": 60}
KEPT = (0, 4)
SERVE = """
import json, sys
out, sys.stdout = sys.stdout, sys.stderr
from rspo_side import RspoSide
from startup import cold_and_warm
side = RspoSide()
for line in sys.stdin:
    name, *given = json.loads(line)
    result = cold_and_warm(*given) if name == "startup" else getattr(side, name)(*given)
    print(json.dumps(result), file=out, flush=True)
"""


class Side:
    """One checkout in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        path = os.pathsep.join(str((checkout / part).resolve()) for part in ("src", "benchmarks"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            cwd=checkout,
            text=True,
        )

    def __call__(self, name: str, *given: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, *given]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"The process of {name}{given} ended early.")
        return json.loads(line)


def measure(sides: dict[str, Side], turns: int) -> dict[str, Any]:
    for name, side in sides.items():
        for game in GAMES:
            say(f"{name}: {game} compiles in {side('compile', game):.1f} s")
    rates: dict[str, dict[str, list[float]]] = {}
    for turn in range(turns + 1):
        for game, updates in GAMES.items():
            for kept in KEPT:
                order = list(sides.items())[:: 1 if turn % 2 else -1]
                for name, side in order:
                    made = side("train", game, kept, updates if turn else 1)
                    rate = made["steps"] / made["seconds"]
                    if turn:  # nobody's first time counts
                        here = rates.setdefault(f"{game}, {kept} references", {})
                        here.setdefault(name, []).append(rate)
                        say(f"turn {turn} of {turns}: {game}, {kept} kept, {name}: {rate:,.0f}")
    return rates


def startups(sides: dict[str, Side], turns: int) -> dict[str, list[dict[str, Any]]]:
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, side in sides.items():
            seen[name].append(side("startup", "four-goals-easy"))
            say(f"{name}: {seen[name][-1]}")
    return seen


def markdown(data: dict[str, Any]) -> str:
    lines = [
        "# Training speed beside an earlier revision\n",
        f"Made by `python benchmarks/revision_speed.py` at revision {data['now']}, against "
        f"{data['before']}; medians of steps a second over all turns, ratios turn by turn. "
        + machine.sentence(data["machine"]),
        "\n| game | before | now | ratio, median | ratio, each turn |\n|---|---|---|---|---|",
    ]
    for game, sides in data["rates"].items():
        ratios = [now / before for before, now in zip(sides["before"], sides["now"], strict=True)]
        middle = [f"{statistics.median(sides[name]):,.0f}" for name in ("before", "now")]
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        lines.append(
            f"| {game} | {' | '.join(middle)} | {statistics.median(ratios):.2f} | {each} |"
        )
    lines.append(
        "\nSeconds until the first return stands on the screen, 4-Goals easy, each start:\n"
    )
    lines.append("| | empty cache | later |\n|---|---|---|")
    for name, seen in data["startup"].items():
        cells = [
            " ".join(f"{one[kind]['first_return']:.1f}" for one in seen)
            for kind in ("cold", "warm")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def revision(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure this checkout beside another one.")
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--out", type=Path, default=Path("results/revision-speed.json"))
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    here = Path(__file__).parents[1]
    data: dict[str, Any] = {"machine": machine.describe(machine.OURS)}
    data |= {"before": revision(options.before), "now": revision(here)}
    sides = {"before": Side(options.before), "now": Side(here)}
    data["rates"] = measure(sides, options.turns)
    data["startup"] = startups(sides, 3)
    publish(options.out, data, markdown(data))


if __name__ == "__main__":
    main()
