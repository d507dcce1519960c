"""The tables and figures in results/ are those that the committed records make, to the byte."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rspo.bench import command
from rspo.bench.catalogue import BENCHES

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results"


def published() -> Iterator[tuple[str, int | None]]:
    """Every bench with a page in results/, and the steps in its name."""
    for name in BENCHES:
        for page in sorted(RESULTS.glob(f"{name}*.md")):
            found = re.fullmatch(r"(?:-steps(\d+))?", page.stem.removeprefix(name))
            if found is not None:
                yield name, int(found[1]) if found[1] else None


@pytest.mark.parametrize(("name", "steps"), list(published()))
def test_results_are_what_their_records_make(name: str, steps: int | None, tmp_path: Path) -> None:
    """Remade by `rspo bench NAME --tables`. The benches of a domain share records: a new one changes
    the tables of all of them."""
    for records in RESULTS.glob("*.jsonl"):
        (tmp_path / records.name).write_bytes(records.read_bytes())
    options = command.Options(steps=steps, tables=True, out=tmp_path, runs=tmp_path / "runs")
    for path in command.publish(BENCHES[name], options, lambda _: None):
        if path.suffix in (".md", ".csv", ".svg"):  # the others are not committed
            assert path.read_bytes() == (RESULTS / path.name).read_bytes(), path.name
