"""Progress messages and results of the benchmarks."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def command(
    what: str, out: str, measure: Callable[[bool], dict[str, Any]], markdown: Callable[[Any], str]
) -> None:
    """A benchmark's command line: measure, fully or quickly, and publish."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--out", type=Path, default=Path(out), help="the JSON file to write")
    parser.add_argument(
        "--quick", action="store_true", help="tiny settings: numbers without meaning"
    )
    options = parser.parse_args()
    data = measure(options.quick)
    publish(options.out, data, markdown(data))


def publish(out: Path, data: dict[str, Any], tables: str) -> None:
    """All numbers as JSON, the tables as Markdown beside it and on the screen."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(data, indent=1) + "\n")
    out.with_suffix(".md").write_text(tables)
    print(tables)
