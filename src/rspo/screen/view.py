"""The display of a run: a live line per iteration, and a table at the end. Plain text when
piped."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from rspo.config import Config
from rspo.screen.estimate import TimeLeft
from rspo.search.archive import Archive, Strategy
from rspo.search.loop import Found, Position
from rspo.text import LONGEST, NAME, counted, printable

STYLES = {"novel": "green", "duplicate": "yellow", "weak": "yellow", "failed": "red"}
PLAIN_SECONDS = 10.0  # between progress lines without a terminal


class Display:
    """The screen of one run; writes to standard error, so that standard output stays clean for
    results."""

    def __init__(self, config: Config, quiet: bool = False) -> None:
        self.config, self.plan = config, config.plan
        self.updates = config.training.updates  # of a round
        self.console = Console(
            stderr=True, quiet=quiet, highlight=False, soft_wrap=True, markup=False, emoji=False
        )
        self.live = Progress(
            TextColumn("iteration {task.fields[iteration]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            console=self.console,
            transient=True,
            disable=quiet or not self.console.is_terminal,
        )
        self.bar = self.live.add_task("", total=self.updates, iteration="", numbers="compiling ...")
        self.started = self.spoken = time.monotonic()
        self.estimate = TimeLeft(self.plan.rounds, self.updates)

    @contextlib.contextmanager
    def showing(self, archive: Archive, start: Position | None) -> Iterator[None]:
        config, rounds = self.config, len(archive) // self.plan.per_round
        self.say(
            f"{config.env}: {counted(config.iterations, 'policy', 'policies')} by "
            f"{config.method.name}, {counted(config.ppo.updates, 'update')} of {config.ppo.batch} "
            f"steps each, seed {config.seed}"
        )
        updates = rounds * self.updates + (len(start.rows[0]) if start else 0)
        if updates:
            done = f"{len(archive)} of {counted(config.iterations, 'iteration')}"
            self.say(f"continuing after {done}, {counted(updates, 'update')}")
        self.live.update(self.bar, iteration=f"{rounds + 1}/{self.plan.rounds}")
        with self.live:
            yield

    def show(self, event: Position | Found) -> None:
        if isinstance(event, Found):
            self.console.print(self._sentence(event))
            return
        row = _over_members(event)
        accepted = f"  accepted {row['accepted']:4.0%}" if "accepted" in row else ""
        numbers = f"return {row['return']:.3f}{accepted}{self._left(event)}"
        iteration = f"{event.round + 1}/{self.plan.rounds}"
        self.live.update(self.bar, completed=row["update"], iteration=iteration, numbers=numbers)
        if not self.console.is_terminal and time.monotonic() - self.spoken > PLAIN_SECONDS:
            self.spoken = time.monotonic()
            self.say(f"iteration {iteration}  update {row['update']}/{self.updates}  {numbers}")

    def say(self, text: str) -> None:
        self.console.print(printable(text, LONGEST))

    def _sentence(self, event: Found) -> Text:
        strategy, found = event.strategy, event.strategy.evaluation
        updates = len(event.rows)
        early = f"  ended after {counted(updates, 'update')}" if updates < self.updates else ""
        clock = _clock(time.monotonic() - self.started)
        name = f" '{printable(found.descriptor, NAME)}'" if found.descriptor else ""
        return Text.assemble(
            f"iteration {strategy.index + 1}/{self.config.iterations}  ",
            _status(strategy),
            f"{name}  return {found.return_mean:.3f} (greedy {found.greedy_return_mean:.3f})  "
            f"accepted {found.accepted:.0%}{early}  {clock} so far",
            f"\n  {printable(strategy.reason, LONGEST)}" if strategy.status != "novel" else "",
        )

    def _left(self, position: Position) -> str:
        """The time until the run's end; empty after the first call, which compiles."""
        seconds = self.estimate.left(position.round, len(position.rows[0]), time.monotonic())
        return "" if seconds is None else f"  {_clock(seconds)} left"


def _over_members(position: Position) -> dict[str, Any]:
    """The last update's metrics, averaged over members where all have them."""
    last = [rows[-1] for rows in position.rows]
    shown = [name for name in ("return", "accepted") if name in last[0]]
    return {"update": last[0]["update"]} | {
        name: sum(row[name] for row in last) / len(last) for name in shown
    }


def strategy_table(archive: Archive) -> Table:
    """What was found, one row per strategy."""
    config = archive.config
    what = (
        f"{counted(archive.distinct, 'distinct strategy', 'distinct strategies')} for {config.env}"
    )
    title = f"{what} ({config.method.name}, seed {config.seed})"
    why = [f"{s.index} {s.status}: {s.reason}" for s in archive if s.status != "novel" and s.reason]
    table = Table(
        title=Text(printable(title, LONGEST)),
        caption=Text("\n".join(printable(line, LONGEST) for line in why)) if why else None,
        caption_justify="left",
    )
    for column in ("#", "status", "strategy"):
        table.add_column(column)
    for column in ("return", "std", "greedy", "accepted"):
        table.add_column(column, justify="right")
    for strategy in archive:
        found = strategy.evaluation
        table.add_row(
            str(strategy.index),
            _status(strategy),
            Text(printable(found.descriptor or "", NAME)),
            f"{found.return_mean:.3f}",
            f"{found.return_std:.3f}",
            f"{found.greedy_return_mean:.3f}",
            f"{found.accepted:.0%}",
        )
    return table


def _status(strategy: Strategy) -> Text:
    return Text(strategy.status, STYLES[strategy.status])


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
