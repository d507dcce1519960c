"""How many trajectories are accepted while a policy distinct from Apple is learned (the paper's
efficiency figure).

    python benchmarks/acceptance.py RUN ... --out results/acceptance.svg

Takes run folders of Monster-Hunt, with intrinsic reward and without (`--objective no-intrinsic`),
and reads from each the iteration after the first Apple policy. Draws the share of trajectories that
all policies kept by then accept, over environment steps; the numbers go into a JSON file beside the
picture.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from naming import agreed_name

from rspo.core import charts
from rspo.errors import InputError
from rspo.runs.run import Run, summary

# Okabe and Ito's colours, on white and on near-black.
PENS = {
    "with intrinsic reward": ("#0072b2", "none"),
    "without intrinsic reward": ("#d55e00", "6 4"),
}


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
        "objective": run.config.objective,
        "seed": run.config.seed,
        "iteration": following + 1,
        "found": strategies[following]["descriptor"],
        "steps": [row["update"] * run.config.ppo.batch for row in rows],
        "accepted": [row["accepted"] for row in rows],
    }


def kind(curve: dict[str, Any]) -> str:
    return (
        "without intrinsic reward"
        if curve["objective"] == "no-intrinsic"
        else "with intrinsic reward"
    )


def picture(curves: list[dict[str, Any]]) -> str:
    """One line a curve, solid with intrinsic reward and dashed without."""
    width, height, left = 480, 240, 40
    most = max(curve["steps"][-1] for curve in curves)
    parts = [
        f'<g transform="translate({left} 20)"><rect class="frame" width="{width}" '
        f'height="{height}"/>'
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y, steps = width * tick, height * (1 - tick), most * tick / 1e6
        parts.append(
            f'<text class="quiet" x="-6" y="{y + 4:g}" text-anchor="end">{tick:.0%}</text>'
        )
        parts.append(
            f'<text class="quiet" x="{x:g}" y="{height + 16}" text-anchor="middle">{steps:.3g} '
            "M</text>"
        )
    pen = {
        name: f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        for name, (colour, dash) in PENS.items()
    }
    for curve in curves:
        pairs = zip(curve["steps"], curve["accepted"], strict=True)
        points = " ".join(
            f"{width * steps / most:.1f},{height * (1 - share):.1f}" for steps, share in pairs
        )
        parts.append(f'<polyline points="{points}" {pen[kind(curve)]}/>')
    for i, name in enumerate(PENS):
        parts.append(f'<path d="M{width + 12} {20 + 20 * i}h28" {pen[name]}/>')
        parts.append(f'<text x="{width + 46}" y="{24 + 20 * i}">{name}</text>')
    parts.append(
        f'<text class="quiet" x="{width / 2:g}" y="{height + 34}" text-anchor="middle">environment '
        "steps</text></g>"
    )
    legend = 46 + charts.CHARACTER * max(map(len, PENS))
    title = "Accepted trajectories in the iteration after Apple"
    return charts.page(title, left + width + legend, height + 60, "".join(parts))


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
