"""The same settings with several seeds, as jobs; then a page that compares them."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rspo.bench.executors import Ended, Executor
from rspo.config import Config, to_dict
from rspo.report import write_comparison


def discover_seeds(
    config: Config,
    seeds: Sequence[int],
    home: Path,
    executor: Executor,
    say: Callable[[str], None],
) -> tuple[Path | None, list[str]]:
    """One run folder per seed in `home`; returns the page that compares them, if there are two or
    more, and a sentence for each that failed. Finished runs are not repeated."""
    start = re.sub("[:/]", "-", f"{config.env[:100]}-{config.method.name}")
    tasks = [
        {
            "name": f"{start}-seed{seed}",
            "config": to_dict(dataclasses.replace(config, seed=seed)),
            "folder": str(home / f"{start}-seed{seed}"),
            "domain": "",
            "record": {"job": f"{start}-seed{seed}"},
        }
        for seed in seeds
    ]
    say(f"{len(tasks)} seeds of {config.method.name} in {config.env}, {executor.workers} at a time")
    done, failed = list[Ended](), list[Ended]()
    for event in executor.run(tasks):
        if isinstance(event, Ended):
            (failed if event.error else done).append(event)
            name = event.task["name"]
            say(f"{name}: {event.error or 'done'} ({len(done) + len(failed)} of {len(tasks)})")
    sentences = [f"{event.task['name']}: {event.error}" for event in failed]
    if len(done) < 2:
        return None, sentences
    folders = sorted(Path(event.task["folder"]) for event in done)
    return write_comparison(folders, home / "comparison.html"), sentences
