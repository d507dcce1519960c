"""Where an archive comes from: a run folder, or the memory of this process. Either can be saved,
shown as a page and played."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.core.types import Spec
from rspo.envs.base import AnyEnv
from rspo.errors import InputError
from rspo.report import write_report
from rspo.runs.run import Run
from rspo.screen import player
from rspo.search.archive import Archive, Strategy
from rspo.search.loop import Found

World = Callable[[Any], AnyEnv]
"""The environment to play in, given one or None."""


@dataclass(frozen=True)
class Playable:
    """Has the environment that strategies play in."""

    world: World

    def play(
        self, strategies: Sequence[Strategy], path: Path | None, *, env: Any = None, **how: Any
    ) -> None:
        player.play(self.world(env), strategies, path, **how)


@dataclass(frozen=True)
class Folder(Playable):
    """A run folder."""

    path: Path

    def save(self, archive: Archive, path: Path) -> Path:
        Run.open(self.path).copy_to(path)
        return path

    def report(self, archive: Archive, path: Path | None) -> Path:
        return write_report(self.path, path)


@dataclass(frozen=True)
class Unsaved(Playable):
    """A run that was not saved."""

    spec: Spec
    found: Sequence[Found]

    def save(self, archive: Archive, path: Path) -> Path:
        run = Run.create(path, archive.config, self.spec)
        with run.locked():
            for number, found in enumerate(self.found, start=1):
                run.save(found, Archive(archive.config, archive[:number]))
            run.summarize(archive)
        write_report(path)
        return path

    def report(self, archive: Archive, path: Path | None) -> Path:
        if path is None:
            raise InputError(
                "This run has no folder for its page: give the page's name, such as "
                'archive.report("report.html").'
            )
        with tempfile.TemporaryDirectory() as folder:
            return write_report(self.save(archive, Path(folder) / "run"), path)
