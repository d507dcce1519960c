"""How the benchmarks tell what they do and keep what they measured."""

import json
import sys
from pathlib import Path
from typing import Any


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def publish(out: Path, data: dict[str, Any], tables: str) -> None:
    """All numbers as JSON, the tables as Markdown beside it and on the screen."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(data, indent=1) + "\n")
    out.with_suffix(".md").write_text(tables)
    print(tables)
