"""The same settings with several seeds, as jobs; then a page that compares them."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rspo.bench.executors import Ended, Executor
from rspo.bench.jobs import finished, found
from rspo.bench.progress import Pace, Progress, Work
from rspo.config import Config, to_dict
from rspo.report import write_comparison


def discover_seeds(
    config: Config,
    seeds: Sequence[int],
    home: Path,
    executor: Executor,
    say: Callable[[str], None],
    show: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Path | None, list[str]]:
    """One run folder per seed in `home`; returns the page that compares them, if there are two or
    more, and a sentence for each that failed. Finished runs are not repeated."""
    start = re.sub("[:/]", "-", f"{config.env[:100]}-{config.method.name}")
    works = [
        Work(name, home / name, dataclasses.replace(config, seed=seed))
        for seed in seeds
        for name in [f"{start}-seed{seed}"]
    ]
    tasks = [
        {
            "name": work.name,
            "config": to_dict(work.config),
            "folder": str(work.folder),
            "domain": "",
            "record": {"job": work.name},
        }
        for work in works
    ]
    say(f"{len(tasks)} seeds of {config.method.name} in {config.env}, {executor.workers} at a time")
    done, failed, pace = list[Ended](), list[Ended](), Pace(works, executor.workers)
    for event in executor.run(tasks):
        if isinstance(event, Ended):
            (failed if event.error else done).append(event)
            record = None if event.error else finished(Path(event.task["folder"]))
            say(f"{event.task['name']}: {event.error or (found(record) if record else 'done')}")
            pace.ended(event.task["name"], failed=event.error is not None)
        if isinstance(event, Ended) or pace.due():
            show(pace.progress())
    sentences = [f"{event.task['name']}: {event.error}" for event in failed]
    if len(done) < 2:
        return None, sentences
    folders = sorted(Path(event.task["folder"]) for event in done)
    return write_comparison(folders, home / "comparison.html"), sentences
