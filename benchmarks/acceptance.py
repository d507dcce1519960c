"""How many trajectories are accepted while a policy distinct from Apple is learned (the paper's
efficiency figure).

    python benchmarks/acceptance.py RUN ... --out results/acceptance.svg

Takes run folders of Monster-Hunt, with intrinsic reward and without (`--method no-intrinsic`),
and reads from each the iteration after the first Apple policy. Draws the share of trajectories that
all policies kept by then accept, over environment steps; the numbers go into a JSON file beside the
picture.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from naming import agreed_name

from rspo.core import charts
from rspo.core.lines import Line
from rspo.errors import InputError
from rspo.runs.run import Run, summary

KINDS = ("with intrinsic reward", "without intrinsic reward")


def curve(folder: Path) -> dict[str, Any]:
    """Acceptance by environment steps in the iteration after the first Apple policy."""
    run = Run.open(folder)
    strategies = summary(run.load())["strategies"]
    apples = [s["index"] for s in strategies if agreed_name(s) == "Apple"]
    if not apples or apples[0] + 1 >= len(strategies):
        raise InputError(
            f"{folder} has no finished iteration after an Apple policy: choose another run."
        )
    following = apples[0] + 1
    text = (folder / "strategies" / f"{following:03d}" / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    return {
        "run": folder.name,
        "method": run.config.method.name,
        "seed": run.config.seed,
        "iteration": following + 1,
        "found": strategies[following]["descriptor"],
        "steps": [row["update"] * run.config.ppo.batch for row in rows],
        "accepted": [row["accepted"] for row in rows],
    }


def kind(curve: dict[str, Any]) -> int:
    return int(curve["method"] == "no-intrinsic")


def picture(curves: list[dict[str, Any]]) -> str:
    """One line for each curve, in the colour of its kind."""
    drawn = [
        Line(
            KINDS[kind(curve)],
            kind(curve),
            np.array(curve["steps"]) / 1e6,
            np.array(curve["accepted"], float),
        )
        for curve in curves
    ]
    return charts.lines(
        "Share of accepted trajectories in the iteration after Apple",
        drawn,
        y_range=(0.0, 1.0),
        x_label="million environment steps",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", help="run folders of Monster-Hunt")
    parser.add_argument(
        "--out", type=Path, default=Path("results/acceptance.svg"), help="the picture to write"
    )
    options = parser.parse_args()
    try:
        curves = [curve(folder) for folder in options.runs]
    except InputError as error:
        sys.exit(str(error))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps(curves, indent=1) + "\n")
    options.out.write_text(picture(curves))


if __name__ == "__main__":
    main()
