"""The outer loop: train a round of policies, judge and keep each, train the next ones to differ. No
files and no printing here."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.config import Config
from rspo.core import interrupt
from rspo.core.members import member
from rspo.core.policies import Policy, uniform_policy
from rspo.core.types import Spec
from rspo.errors import DivergedError
from rspo.learn.trainer import Trainer, make_learner, make_trainer
from rspo.methods.base import Plan, Setup, TrainState
from rspo.methods.references import References
from rspo.rollout.base import Collector
from rspo.search.archive import Archive, Strategy, capacity
from rspo.search.evaluation import make_evaluator, make_threshold
from rspo.search.judge import Verdict, judge
from rspo.search.recording import Recording
from rspo.search.settled import EVERY, over

ROWS = EVERY  # maximum updates in one call of the jitted program
SECONDS = 2.0  # target duration of a call, so that a stop takes effect soon
Row = dict[str, Any]


class Position(NamedTuple):
    """The state of a run between two calls of the jitted program; a checkpoint restores it."""

    round: int
    attempt: int
    state: TrainState
    rows: tuple[tuple[Row, ...], ...]  # of each member, the metrics of the round's updates so far


class Found(NamedTuple):
    """A strategy, already in the archive."""

    strategy: Strategy
    rows: tuple[Row, ...]
    recording: Recording | None = None  # for the report


class Place(NamedTuple):
    """Where a strategy comes from."""

    round: int
    member: int
    latent: int


def place_of(plan: Plan, index: int) -> Place:
    """The place of the strategy with this number: strategies are ordered by round, then member,
    then latent."""
    within = index % plan.per_round
    return Place(index // plan.per_round, within // plan.latents, within % plan.latents)


def setup_of(config: Config, spec: Spec, kept: int) -> Setup:
    """The setup of a round that begins with this many kept policies."""
    plan = config.plan
    places = plan.members if plan.members > 1 else capacity(kept)
    return Setup(spec, plan, places, config.training.updates)


def training_shapes(config: Config, spec: Spec, kept: int) -> TrainState:
    """The shapes of a training state, without any device work."""
    setup = setup_of(config, spec, kept)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), setup.plan.members))
    learner = make_learner(True, config.method, config.training, config.measure, setup)
    return jax.eval_shape(learner.init, keys)


def kept_shapes(config: Config, spec: Spec) -> tuple[Policy, Any]:
    """The shapes of a kept policy and of what the method remembers of it, without any device
    work."""
    policy = jax.eval_shape(lambda state: member(state.policy, 0), training_shapes(config, spec, 0))
    size = config.method.latent_size(config.plan)
    context = jax.ShapeDtypeStruct((size,), jnp.float32) if size else None
    policy = dataclasses.replace(policy, critic=None, context=context)
    return policy, jax.eval_shape(lambda: config.method.memory(spec, jax.random.key(0)))


class Keys(NamedTuple):
    """Every random stream of one attempt at a round, all derived from the run's seed."""

    weights: Array
    train: Array
    evaluate: Array
    threshold: Array
    remember: Array

    def of(self, place: Place, plan: Plan) -> "Keys":
        """The keys of one of its strategies; the first one's are the round's own."""
        within = place.member * plan.latents + place.latent
        return self if within == 0 else Keys(*(jax.random.fold_in(key, within) for key in self))


def keys(config: Config, round: int, attempt: int) -> Keys:
    root = jax.random.key(config.seed)
    own = Keys(*jax.random.split(jax.random.fold_in(jax.random.fold_in(root, round), attempt), 5))
    if config.ppo.init == "same" and attempt == 1:
        return own._replace(weights=jax.random.fold_in(root, 2**31))
    return own


def evaluation_key(config: Config, strategy: Strategy) -> Array:
    """The key with which a strategy was evaluated."""
    place = Place(strategy.round, strategy.member, strategy.latent)
    return keys(config, strategy.round, strategy.attempt).of(place, config.plan).evaluate


def _each_its_own(key: Array, members: int) -> Array:
    return key[None] if members == 1 else jax.random.split(key, members)


def search(
    collect: Collector, config: Config, archive: Archive, start: Position | None = None
) -> Iterator[Position | Found]:
    """Train the strategies that `archive` lacks, from `start` if given; yields progress and
    results."""
    tools, plan = Tools(collect, config), config.plan
    while len(archive) < plan.policies:
        place = place_of(plan, len(archive))
        position = start or tools.begin(archive, place.round, attempt=1)
        start = None
        while True:
            position = yield from _train(tools, archive, position)
            found, verdict = _finish(tools, archive, position, place)
            # Names decide nothing here: a method that uses them would have an unfair advantage.
            if (verdict.good and verdict.distant) or position.attempt == config.judge.attempts:
                break
            position = tools.begin(archive, place.round, position.attempt + 1)
        archive.add(found.strategy)
        yield found
        if place_of(plan, len(archive)).round == place.round:
            start = position  # the rest of this round is already trained


class Tools:
    """The jitted programs of a run, built once for a given number of slots for kept policies."""

    def __init__(self, collect: Collector, config: Config) -> None:
        self.config, self.collect, self.plan, self.pace = config, collect, config.plan, Pace()
        padding, episodes = config.ppo.padding, config.judge.episodes
        self.shapes = kept_shapes(config, collect.spec)
        self.trainer = cache(self._trainer)
        self.evaluate = make_evaluator(collect, episodes, padding)
        self.threshold = make_threshold(collect, episodes, padding, self._rival(), config.measure)
        batch = config.episodes(collect.spec)
        play = lambda policy, key: collect(policy, batch, key, padding=padding)
        self.remember = collect.program(
            lambda state, policy, key: config.method.remember(state, policy, play, key)
        )

    def _trainer(self, places: int) -> Trainer:
        setup = setup_of(self.config, self.collect.spec, places)
        return make_trainer(
            self.collect, self.config.method, self.config.training, self.config.measure, setup, ROWS
        )

    def trainer_for(self, archive: Archive) -> Trainer:
        return self.trainer(capacity(len(archive.kept)))

    def _rival(self) -> Callable[[Array], Any]:
        """Whose play sets the automatic thresholds."""
        space = self.collect.spec.action_space
        if self.config.measure.random == "uniform":
            return lambda key: uniform_policy(space)
        members = self.plan.members
        begin = lambda key: self.trainer(capacity(0)).init(_each_its_own(key, members)).policy
        return lambda key: self.playing(member(begin(key), 0), 0)

    def playing(self, policy: Policy, latent: int) -> Policy:
        """A policy as it is kept: without critic, and with its latent, if any."""
        method = self.config.method
        context = method.latents(self.plan)[latent] if method.latent_size(self.plan) else None
        return dataclasses.replace(policy, critic=None, context=context)

    def begin(self, archive: Archive, round: int, attempt: int) -> Position:
        own, members = keys(self.config, round, attempt), self.plan.members
        same = self.config.ppo.init == "same"
        weights = (
            jnp.stack([own.weights] * members) if same else _each_its_own(own.weights, members)
        )
        return Position(round, attempt, self.trainer_for(archive).init(weights), ((),) * members)

    def references(self, archive: Archive) -> References:
        return archive.references(*self.shapes)


def _train(
    tools: Tools, archive: Archive, position: Position
) -> Generator[Position, None, Position]:
    """Train to the end of the round, a few updates at a time."""
    config, plan = tools.config, tools.plan
    if over(config, position.rows):
        return position
    references = jax.device_put(tools.references(archive))
    own = _each_its_own(keys(config, position.round, position.attempt).train, plan.members)
    kept = int(references.mask.sum()) if plan.members == 1 else plan.members
    advance = tools.trainer_for(archive).advance
    while not over(config, position.rows):
        done = int(position.state.update)
        count = min(tools.pace.count, ROWS - done % ROWS, config.training.updates - done)
        with tools.pace.of(count):
            state, table = jax.block_until_ready(advance(position.state, references, own, count))
        table = jax.device_get(table)
        rows = tuple(
            before + tuple(_row(table, i, which, done, kept) for i in range(count))
            for which, before in enumerate(position.rows)
        )
        _check_finite(config, position.round, [row for one in rows for row in one[-count:]], state)
        position = position._replace(state=state, rows=rows)
        done += count
        if done % ROWS == 0 or over(config, rows) or tools.pace.slow or interrupt.asked():
            yield position
    return position


class Pace:
    """How many updates to make in one call of the jitted program. Results do not depend on it, to
    the last bit."""

    def __init__(self) -> None:
        self.calls = 0
        # Per update; unknown before the second call, because the first one compiles.
        self.seconds = math.inf

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


def _check_finite(config: Config, round: int, rows: Sequence[Row], state: TrainState) -> None:
    """The loss is measured before each step, so the last step shows only in the policy."""
    losses = [(row["update"], row["loss"]) for row in rows if not np.isfinite(row["loss"])]
    # Below the square root of the largest float, so that products of two weights are finite; false
    # for NaN.
    sound = all(
        (np.abs(leaf) < 1e18).all() for leaf in jax.tree.leaves(jax.device_get(state.policy))
    )
    if losses or not sound:
        update = losses[0][0] if losses else rows[-1]["update"]
        what = f"the loss is {losses[0][1]}" if losses else "the weights are no longer finite"
        raise DivergedError(
            f"Training diverged in iteration {round + 1} at update {update}: {what}. Try a lower "
            f"ppo.learning_rate (now {config.ppo.learning_rate:g}), and check the environment's "
            "rewards and observations for numbers that are not finite."
        )


def _row(table: dict[str, np.ndarray], i: int, which: int, done: int, kept: int) -> Row:
    """The metrics of one update of one member as JSON values; per-rival ones only for existing
    rivals."""
    values = {name: column[i, which] for name, column in table.items()}
    return {"update": done + i + 1} | {
        name: float(value) if value.ndim == 0 else [float(v) for v in value[:kept]]
        for name, value in values.items()
    }


def _finish(
    tools: Tools, archive: Archive, position: Position, place: Place
) -> tuple[Found, Verdict]:
    """Evaluate and judge one strategy of the trained round, and gather what later ones need of
    it."""
    own = keys(tools.config, position.round, position.attempt).of(place, tools.plan)
    # On the host: taken apart on the devices, every array would be a program to compile.
    state = jax.device_get((position.state.policy, position.state.method))
    trained, learners = member(state, place.member)
    policy = tools.playing(trained, place.latent)
    evaluation, recording = tools.evaluate(policy, tools.references(archive), own.evaluate)
    interrupt.check()
    threshold, *random = tools.threshold(policy, evaluation.return_mean, own.threshold)
    interrupt.check()
    verdict = judge(evaluation, archive, *map(float, random))
    strategy = Strategy(
        index=len(archive),
        status=verdict.status,
        reason=verdict.reason,
        evaluation=evaluation,
        policy=policy,
        threshold=float(threshold),
        memory=jax.device_get(tools.remember(learners, policy, own.remember)),
        attempt=position.attempt,
        **place._asdict(),
    )
    return Found(strategy, position.rows[place.member], recording), verdict
