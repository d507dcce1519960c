"""The screen of several jobs: on a terminal a bar for all of them and one for each that runs,
otherwise a line now and then."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from rspo.bench.markdown import Numbers
from rspo.bench.progress import Progress as Jobs
from rspo.text import LONGEST, NAME, printable

BARS = 8  # of running jobs; a cluster may have thousands
PLAIN_SECONDS = 60.0  # between lines without a terminal, if no job ends


class JobsDisplay:
    """Writes to standard error, and the tables at the end to standard output."""

    def __init__(self) -> None:
        self.results = Console(highlight=False, markup=False, emoji=False)
        self.console = Console(
            stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False
        )
        self.live = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}%  {task.fields[left]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.bars = [
            self.live.add_task("", total=1.0, left="", visible=False) for _ in range(1 + BARS)
        ]
        self.ended, self.said = -1, 0.0

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.live.stop()

    @property
    def width(self) -> int:
        """Characters in a line of standard output."""
        return self.results.width

    def tables(self, numbers: Sequence[Numbers]) -> None:
        for name, head, lines in numbers:
            table = Table(
                title=Text(name) if name else None,
                title_justify="left",
                box=None,  # so that six iterations fit in 80 characters
                padding=(0, 1, 0, 0),
            )
            for column in head:
                table.add_column(Text(column), overflow="fold")
            for line in lines:
                table.add_row(*map(Text, line))
            self.results.print(table, "")

    def say(self, text: str) -> None:
        self.console.print(printable(text, LONGEST))

    def show(self, jobs: Jobs) -> None:
        if self.console.is_terminal:
            lines = [(jobs.counts, jobs.share, jobs.left)]
            lines += [(f"  {printable(name, NAME)}", share, "") for name, share in jobs.running]
            for place, bar in enumerate(self.bars):
                name, share, left = lines[place] if place < len(lines) else ("", 0.0, "")
                self.live.update(
                    bar, description=name, completed=share, left=left, visible=place < len(lines)
                )
            return
        ended, now = jobs.done + jobs.failed, time.monotonic()
        if ended != self.ended or now - self.said > PLAIN_SECONDS:
            self.ended, self.said = ended, now
            self.say(str(jobs))
