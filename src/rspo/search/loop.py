"""The outer loop: train a policy, judge it, keep it, train the next one to differ. No files and no printing here."""

import contextlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from rspo.config import Config
from rspo.core import interrupt
from rspo.core.policies import uniform_policy
from rspo.core.types import Spec
from rspo.envs.base import AnyEnv
from rspo.errors import DivergedError
from rspo.learn.trainer import TrainState, init_state, make_trainer
from rspo.methods.references import References
from rspo.rollout.collector import collect, fused
from rspo.search.archive import Archive, Strategy
from rspo.search.evaluation import make_evaluator, make_threshold
from rspo.search.judge import Verdict, judge
from rspo.search.recording import Recording

ROWS = 10  # updates in one call of the jitted program, at most
SECONDS = 2.0  # that it should take, so that whoever asks it to stop need not wait for long


class Position(NamedTuple):
    """Where a run stands between two calls of the jitted program; a checkpoint restores it."""

    iteration: int
    attempt: int
    state: TrainState
    rows: tuple[dict[str, Any], ...]  # the metrics of the iteration's updates so far


class Found(NamedTuple):
    """An iteration's result, already in the archive."""

    strategy: Strategy
    rows: tuple[dict[str, Any], ...]
    recording: Recording | None = None  # what to show of it


def shapes(config: Config, spec: Spec) -> tuple[TrainState, Any]:
    """The shapes of a training state and of what the objective remembers of a policy, without any device work."""
    state = jax.eval_shape(lambda: init_state(spec, config, jax.random.key(0)))
    remembered = jax.eval_shape(lambda: config.method.memory(spec, jax.random.key(0)))
    return state, remembered


class Keys(NamedTuple):
    """Every random stream of one attempt, all derived from the run's seed."""

    weights: Array
    train: Array
    evaluate: Array
    threshold: Array
    remember: Array


def keys(config: Config, iteration: int, attempt: int) -> Keys:
    root = jax.random.key(config.seed)
    own = Keys(*jax.random.split(jax.random.fold_in(jax.random.fold_in(root, iteration), attempt), 5))
    if config.ppo.init == "same" and attempt == 1:
        return own._replace(weights=jax.random.fold_in(root, 2**31))
    return own


def search(env: AnyEnv, config: Config, archive: Archive, start: Position | None = None) -> Iterator[Position | Found]:
    """Run the iterations that `archive` lacks, from `start` on if given; yields signs of life and results."""
    tools = Tools(env, config)
    for iteration in range(len(archive), config.iterations):
        position = start or tools.begin(iteration, attempt=1)
        start = None
        while True:
            position = yield from _train(tools, archive, position)
            found, verdict = _finish(tools, archive, position)
            # Names decide nothing here: a method that uses them to search would know more than its rivals.
            if (verdict.good and verdict.distant) or position.attempt == config.judge.attempts:
                break
            position = tools.begin(iteration, position.attempt + 1)
        archive.add(found.strategy)
        yield found


class Tools:
    """The jitted programs of a run, built once: keeping one more policy never compiles anything anew."""

    def __init__(self, env: AnyEnv, config: Config) -> None:
        padding, episodes = config.ppo.padding, config.judge.episodes
        self.config, self.pace = config, Pace()
        self.trainer = make_trainer(env, config, ROWS)
        self.template, self.memory = shapes(config, env.spec)
        self.evaluate = make_evaluator(env, episodes, padding)
        self.threshold = make_threshold(env, episodes, padding, self._rival(env), config.measure)
        batch = config.episodes(env.spec)
        play = lambda policy, key: collect(env, policy, batch, key, padding=padding)  # noqa: E731
        self.remember = fused(env)(lambda state, policy, key: config.method.remember(state, policy, play, key))

    def _rival(self, env: AnyEnv) -> Callable[[Array], Any]:
        """Whose play sets the automatic thresholds."""
        if self.config.measure.random == "uniform":
            return lambda key: uniform_policy(env.spec.action_space.n, env.spec.action_space.continuous)
        return lambda key: self.trainer.init(key).policy

    def begin(self, iteration: int, attempt: int) -> Position:
        return Position(iteration, attempt, self.trainer.init(keys(self.config, iteration, attempt).weights), ())

    def references(self, archive: Archive) -> References:
        return archive.references(self.template.policy, self.memory)


def _train(tools: Tools, archive: Archive, position: Position) -> Generator[Position, None, Position]:
    """Train to the end of the iteration, a few updates at a time."""
    config = tools.config
    references = jax.device_put(tools.references(archive))
    key = keys(config, position.iteration, position.attempt).train
    kept = int(references.mask.sum())
    while (done := int(position.state.update)) < config.ppo.updates:
        count = min(tools.pace.count, ROWS - done % ROWS, config.ppo.updates - done)
        with tools.pace.of(count):
            state, table = jax.block_until_ready(tools.trainer.advance(position.state, references, key, count))
        rows = tuple(_row(jax.device_get(table), i, done, kept) for i in range(count))
        _check_finite(config, position.iteration, rows, state)
        position = position._replace(state=state, rows=position.rows + rows)
        done += count
        if done % ROWS == 0 or done == config.ppo.updates or tools.pace.slow or interrupt.asked():
            yield position
    return position


class Pace:
    """How many updates to make in one call of the jitted program. That changes no bit of what they do."""

    def __init__(self) -> None:
        self.calls, self.seconds = (
            0,
            math.inf,
        )  # for an update; not known before the second call, for the first compiles

    @property
    def slow(self) -> bool:
        """Too slow for `ROWS` updates in one call."""
        return self.calls > 1 and self.count < ROWS

    @property
    def count(self) -> int:
        return max(1, min(ROWS, int(SECONDS / self.seconds)))

    @contextlib.contextmanager
    def of(self, count: int) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.calls += 1
        if self.calls > 1:
            self.seconds = (time.monotonic() - began) / count


def _check_finite(config: Config, iteration: int, rows: Sequence[dict[str, Any]], state: TrainState) -> None:
    """The loss is measured before each step, so the last step shows in the policy alone."""
    losses = [(row["update"], row["loss"]) for row in rows if not np.isfinite(row["loss"])]
    # Below the root of the largest number, so that products of two weights are numbers too; false for nan.
    sound = all((np.abs(leaf) < 1e18).all() for leaf in jax.tree.leaves(jax.device_get(state.policy)))
    if losses or not sound:
        update, loss = losses[0] if losses else (rows[-1]["update"], "beyond all numbers")
        raise DivergedError(
            f"Training diverged in iteration {iteration + 1} at update {update}: the loss is {loss}. Try a lower "
            f"ppo.learning_rate (now {config.ppo.learning_rate:g}), and check the environment's rewards and "
            "observations for numbers that are not finite."
        )


def _row(table: dict[str, np.ndarray], i: int, done: int, kept: int) -> dict[str, Any]:
    """The metrics of one update as JSON values; per-reference ones only for the references there are."""
    values = {name: column[i] for name, column in table.items()}
    return {"update": done + i + 1} | {
        name: float(value) if value.ndim == 0 else [float(v) for v in value[:kept]] for name, value in values.items()
    }


def _finish(tools: Tools, archive: Archive, position: Position) -> tuple[Found, Verdict]:
    """Evaluate and judge the trained policy, and gather what later iterations need of it."""
    own = keys(tools.config, position.iteration, position.attempt)
    policy = position.state.policy
    evaluation, recording = tools.evaluate(policy, tools.references(archive), own.evaluate)
    interrupt.check()
    threshold, random_return = tools.threshold(policy, evaluation.return_mean, own.threshold)
    interrupt.check()
    verdict = judge(evaluation, archive, float(random_return))
    strategy = Strategy(
        index=position.iteration,
        status=verdict.status,
        evaluation=evaluation,
        policy=jax.device_get(policy),
        threshold=float(threshold),
        memory=jax.device_get(tools.remember(position.state.objective, policy, own.remember)),
        attempt=position.attempt,
    )
    return Found(strategy, position.rows, recording), verdict
