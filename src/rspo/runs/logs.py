"""Metrics for TensorBoard and Weights & Biases, by their own writers."""

import abc
import contextlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rspo.config import Config, to_dict
from rspo.errors import InputError, suggestion
from rspo.runs import store
from rspo.search.loop import Found, Position


class Log(abc.ABC):
    """Gets the events of a run and passes on what is new in them."""

    def __init__(self, start: Position | None) -> None:
        # A resumed iteration's rows up to its checkpoint were logged by the previous process.
        self.place = (start.round, start.attempt) if start else (0, 1)
        self.done = len(start.rows[0]) if start else 0

    def show(self, event: Position | Found) -> None:
        if isinstance(event, Found):
            found = event.strategy.evaluation
            names = (
                "return_mean",
                "return_std",
                "greedy_return_mean",
                "greedy_return_std",
                "accepted",
            )
            self.strategy(event.strategy.index, {name: getattr(found, name) for name in names})
            return
        place = (event.round, event.attempt)
        if place != self.place:
            self.place, self.done = place, 0
        members = len(event.rows)
        for member, rows in enumerate(event.rows):
            for row in rows[self.done :]:
                # Members of a population are logged as separate iterations.
                self.row(
                    event.round * members + member,
                    event.attempt,
                    row["update"],
                    dict(_scalars(row)),
                )
        self.done = len(event.rows[0])

    @abc.abstractmethod
    def row(self, iteration: int, attempt: int, update: int, values: Mapping[str, float]) -> None:
        """The metrics of one update."""

    @abc.abstractmethod
    def strategy(self, index: int, values: Mapping[str, float]) -> None:
        """The evaluation of a finished iteration."""

    @abc.abstractmethod
    def close(self) -> None:
        """Finish the log."""


def _scalars(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """One number per name; per-reference values get the reference's index as well."""
    for name, value in row.items():
        if isinstance(value, list):
            yield from ((f"{name}/{j}", float(item)) for j, item in enumerate(value))
        elif name != "update":
            yield name, float(value)


class TensorBoard(Log):
    """One TensorBoard run per iteration, so that iterations are overlaid; evaluations in a
    separate one."""

    def __init__(self, path: Path, config: Config, start: Position | None) -> None:
        super().__init__(start)
        from tensorboard.summary import Writer

        self.make, self.path = Writer, path / "tensorboard"
        self.writers: dict[str, Any] = {}

    def _writer(self, name: str) -> Any:
        if name not in self.writers:
            store.make_folder(self.path / name)
            self.writers[name] = self.make(str(self.path / name))
        return self.writers[name]

    def row(self, iteration: int, attempt: int, update: int, values: Mapping[str, float]) -> None:
        self._write(
            f"iteration-{iteration}" + (f"-attempt-{attempt}" if attempt > 1 else ""),
            update,
            values,
        )

    def strategy(self, index: int, values: Mapping[str, float]) -> None:
        self._write(
            "strategies", index, {f"evaluation/{name}": value for name, value in values.items()}
        )

    def _write(self, run: str, step: int, values: Mapping[str, float]) -> None:
        writer = self._writer(run)
        for name, value in values.items():
            writer.add_scalar(name, value, step=step)
        writer.flush()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class WeightsAndBiases(Log):
    """One W&B run; `WANDB_MODE=offline` and its other variables work as everywhere."""

    def __init__(self, path: Path, config: Config, start: Position | None) -> None:
        super().__init__(start)
        import wandb

        self.updates = config.training.updates
        # A resumed run continues the same W&B run.
        name = store.sha256(str(path.resolve()).encode())[:16]
        try:
            self.run = wandb.init(
                project="rspo",
                name=path.name,
                id=name,
                resume="allow",
                dir=str(path),
                config=to_dict(config),
            )
        except wandb.Error as error:
            words = str(error).splitlines()[0]
            raise InputError(
                f"Weights & Biases refused: {words} Log in, or set WANDB_MODE=offline."
            ) from error
        self.run.define_metric("*", step_metric="total_update")
        self.run.define_metric("strategy/*", step_metric="strategy/index")

    def row(self, iteration: int, attempt: int, update: int, values: Mapping[str, float]) -> None:
        place = {
            "iteration": iteration,
            "attempt": attempt,
            "total_update": iteration * self.updates + update,
        }
        self.run.log({**place, **values})

    def strategy(self, index: int, values: Mapping[str, float]) -> None:
        self.run.log(
            {"strategy/index": index}
            | {f"strategy/{name}": value for name, value in values.items()}
        )

    def close(self) -> None:
        self.run.finish()


LOGS = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def check_log(kind: str | None, path: Path | None) -> None:
    """Refuse what cannot be logged, before anything runs."""
    if kind is not None and kind not in LOGS:
        raise InputError(f"Unknown log '{kind}'. {suggestion(str(kind), LOGS)}")
    if kind is not None and path is None:
        raise InputError(
            f"log is '{kind}', but there is no run folder to keep it in: give `out` as well."
        )
    if kind is not None and importlib.util.find_spec(kind) is None:
        raise InputError(f"log is '{kind}', which is not installed: pip install 'rspo[{kind}]'.")


@contextlib.contextmanager
def logging(
    kind: str | None, path: Path | None, config: Config, start: Position | None
) -> Iterator[Log | None]:
    """The log of this kind, or none; closed however the run ends."""
    if kind is None or path is None:
        yield None
        return
    store.make_folder(path / kind)  # refuses a link, unlike both libraries
    log = LOGS[kind](path, config, start)
    try:
        yield log
    finally:
        log.close()
