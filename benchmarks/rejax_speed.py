"""rspo's training speed compared with rejax's PPO, also pure JAX, on the same game with the same
network, batch and epochs.

    python benchmarks/rejax_speed.py --out results/rejax-speed.json

rejax's dependencies conflict with rspo's, so it has its own virtual environment in the folder
`.rejax`, created on first use. Both train alternately, several times, on a machine that should be
idle.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from statistics import median
from typing import Any

import machine
from output import command, say
from rspo_side import RspoSide
from worker import Worker

HERE = Path(__file__).parent
HOME = Path(".rejax")
GAMES = ("four-goals-easy", "four-goals-hard")
PACKAGES = ("rejax==0.1.3", "equinox")


class RejaxSide:
    """Its process."""

    def __init__(self, game: str) -> None:
        self.process = subprocess.Popen(
            [_python(), HERE / "rejax_side.py", game],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(HERE.parent / "src")},
            text=True,
        )

    def train(self, updates: int) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{updates}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("rejax's process ended early.")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def _python() -> str:
    python = HOME / "bin" / "python"
    if not python.exists():
        say(f"making rejax's environment in {HOME}")
        venv.create(HOME, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def measure(quick: bool) -> dict[str, Any]:
    repetitions, updates = (2, 2) if quick else (7, 20)
    data: dict[str, Any] = {"machine": machine.describe(machine.OURS), "rounds": []}
    data["rejax"] = json.loads(
        subprocess.run(
            [_python(), "-m", "pip", "list", "--format", "json"],
            check=True,
            capture_output=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        ).stdout
    )
    for game in GAMES[:1] if quick else GAMES:
        with Worker(RspoSide) as rspo:
            say(f"compiling {game}")
            rspo("compile", game)
            rejax = RejaxSide(game)
            turns = {
                "rspo": lambda n, game=game, rspo=rspo: rspo("train", game, 0, n),
                "rejax": lambda n, rejax=rejax: rejax.train(n),
            }
            for train in turns.values():
                train(1)  # warm-up
            for repetition in range(repetitions):
                # Every second round in reverse, so that the order does not bias the results.
                for name in sorted(turns, reverse=bool(repetition % 2)):
                    result = turns[name](updates)
                    say(f"{game}, {name}: {result['steps'] / result['seconds']:,.0f} steps/s")
                    data["rounds"].append({"game": game, "name": name, **result})
            rejax.close()
    return data


def markdown(data: dict[str, Any]) -> str:
    versions = {package["name"]: package["version"] for package in data["rejax"]}
    theirs = ", ".join(f"{name} {versions[name]}" for name in ("rejax", "jax") if name in versions)
    lines = [
        "# Training speed beside rejax",
        "",
        f"{machine.sentence(data['machine'])} rejax's environment: {theirs}.",
        "",
        "Same game (rspo's own, in JAX), network, batch and epochs. In rspo an episode that ends "
        "early stands still until the horizon, and its remaining steps are trained on too; rejax "
        "starts the next episode. *Game steps* leave the standing still out, at its share in these "
        "updates; over a whole iteration about half of the steps are game steps ([speed](speed.md)), "
        "and the ratio is about half. Ratios are taken within each repetition, and then their "
        "median.",
        "",
        "| game | rspo, steps/s | rejax, steps/s | ratio | game steps in these updates | ratio of "
        "game steps |",
        "|---|---|---|---|---|---|",
    ]
    for game in dict.fromkeys(entry["game"] for entry in data["rounds"]):
        speeds = {
            name: [
                entry["steps"] / entry["seconds"]
                for entry in data["rounds"]
                if (entry["game"], entry["name"]) == (game, name)
            ]
            for name in ("rspo", "rejax")
        }
        live = median(
            entry["live"]
            for entry in data["rounds"]
            if (entry["game"], entry["name"]) == (game, "rspo")
        )
        ratios = [a / b for a, b in zip(speeds["rspo"], speeds["rejax"], strict=True)]
        cells = [f"{median(v):,.0f} ({min(v):,.0f} to {max(v):,.0f})" for v in speeds.values()]
        all_steps, game_steps = (
            f"{median(v):.2f} ({min(v):.2f} to {max(v):.2f})"
            for v in (ratios, [ratio * live for ratio in ratios])
        )
        row = [game, *cells, all_steps, f"{live:.0%}", game_steps]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command(__doc__ or "", "results/rejax-speed.json", measure, markdown)
