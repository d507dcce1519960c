"""The outer loop: what a seed determines, retries, references, and that nothing is compiled
twice."""

import dataclasses

import jax
import numpy as np
import pytest

from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.core.members import member
from rspo.errors import DivergedError
from rspo.methods.rspo import RSPO
from rspo.rollout.collector import collector
from rspo.search import loop as search_module
from rspo.search.archive import Archive
from rspo.search.loop import ROWS, Found, Position, Tools, keys, search
from worlds import Bandit, Rooms

ENV = Rooms(depth=3, blind=True)
UPDATES = ROWS + 5  # two calls of the jitted program, of different length
CONFIG = Config(
    "rooms",
    iterations=3,
    method=RSPO(lambda_b=0.1),
    ppo=PPO(batch=256, updates=UPDATES, learning_rate=2e-2, hidden=8, layers=1),
    judge=Judge(episodes=32),
)


def run(config=CONFIG, env=ENV):
    """The archive and everything that the search said on the way."""
    archive = Archive(config)
    with collector(env) as play:
        return archive, list(search(play, config, archive))


def same(one, other):
    leaves = zip(*map(jax.tree.leaves, (one, other)), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


@pytest.fixture(scope="module")
def finished():
    return run()


def test_one_strategy_an_iteration_each_with_all_its_rows(finished):
    archive, events = finished
    found = [event for event in events if isinstance(event, Found)]
    assert [event.strategy.index for event in found] == [0, 1, 2]
    assert [event.strategy for event in found] == list(archive)
    for event in found:
        assert [row["update"] for row in event.rows] == list(range(1, UPDATES + 1))
        assert all(len(row["accepted_by"]) == event.strategy.index for row in event.rows)
    assert len(events) == 3 * (2 + 1)


def test_each_policy_is_measured_against_all_the_earlier_ones(finished):
    archive, _ = finished
    for strategy in archive:
        earlier = archive[: strategy.index]
        assert strategy.evaluation.threshold == tuple(np.float32(s.threshold) for s in earlier)
        assert (
            len(strategy.evaluation.distance)
            == len(strategy.evaluation.accepted_by)
            == len(earlier)
        )


def test_the_same_seed_gives_the_same_policies_to_the_last_bit(finished):
    again, _ = run()
    for one, other in zip(finished[0], again, strict=True):
        assert same(one.policy, other.policy)
        assert (one.evaluation, one.threshold, one.status) == (
            other.evaluation,
            other.threshold,
            other.status,
        )


def test_another_seed_gives_other_policies(finished):
    other, _ = run(dataclasses.replace(CONFIG, seed=1))
    assert not any(same(a.policy, b.policy) for a, b in zip(finished[0], other, strict=True))


def test_iterations_of_one_run_differ(finished):
    first, second, third = finished[0]
    assert not same(first.policy, second.policy)
    assert not same(second.policy, third.policy)


@pytest.mark.parametrize("moment", [0, 1, 4])
def test_going_on_from_any_position_gives_the_same_result(finished, moment):
    """As a resumed run does: the archive so far, and the position."""
    archive, events = finished
    position = events[moment]
    assert isinstance(position, Position)
    resumed = Archive(CONFIG, archive[: position.round])
    list(search(collector(ENV), CONFIG, resumed, position))
    for one, other in zip(archive, resumed, strict=True):
        assert same(one.policy, other.policy)
        assert one.evaluation == other.evaluation


@pytest.mark.slow
def test_a_growing_archive_compiles_nothing_anew_while_there_are_places(monkeypatch):
    """Eight at first, then sixteen."""
    ppo = dataclasses.replace(CONFIG.ppo, normalize_obs=True, normalize_reward=True)
    method = RSPO(lambda_b=0.1, lambda_r=0.1, predictor_steps=2)
    config = dataclasses.replace(
        CONFIG, iterations=11, ppo=dataclasses.replace(ppo, updates=3), method=method
    )
    compiled, built = [], []
    monkeypatch.setattr(
        search_module, "Tools", lambda *given: built.append(Tools(*given)) or built[-1]
    )

    def listen(event, duration, **_):
        if event.startswith("/jax/core/compile"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        events = search(collector(ENV), config, Archive(config))
        counts = [len(compiled) for event in events if isinstance(event, Found)]
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert counts[0] > 0  # the first iteration compiles, which also shows that the listener hears
    assert counts[:9] == counts[:1] * 9  # the ninth has eight rivals
    assert counts[9] > counts[8]
    assert counts[10] == counts[9]
    (tools,) = built
    assert tools.trainer.cache_info().currsize == 2
    assert [tools.trainer(places).advance._cache_size() for places in (8, 16)] == [1, 1]


# --- where an iteration starts ---


def starts(init, *moments):
    config = dataclasses.replace(CONFIG, ppo=dataclasses.replace(CONFIG.ppo, init=init))
    tools = Tools(collector(ENV), config)
    return [tools.begin(Archive(config), *moment).state.policy for moment in moments]


def test_iterations_start_from_fresh_weights_or_from_the_same():
    first, second = starts("fresh", (0, 1), (1, 1))
    assert not same(first, second)
    first, second, retried = starts("same", (0, 1), (1, 1), (1, 2))
    assert same(first, second)
    assert not same(first, retried)  # from the same weights a retry would have less to differ by


def test_every_attempt_has_its_own_random_streams():
    for init in ("fresh", "same"):
        config = dataclasses.replace(CONFIG, ppo=dataclasses.replace(CONFIG.ppo, init=init))
        drawn = [keys(config, iteration, attempt) for iteration in (0, 1, 2) for attempt in (1, 2)]
        streams = [
            jax.random.key_data(key).tolist() for own in drawn for key in own[1:]
        ]  # all but the weights'
        assert len(streams) == len({tuple(stream) for stream in streams})


# --- retries and references ---


def demanding(**judge):
    """Only the first policy can be good enough."""
    return dataclasses.replace(CONFIG, judge=Judge(episodes=32, quality=1e6, **judge))


def kept(position):
    """The policy that is trained there, as it is kept: without its critic."""
    return dataclasses.replace(member(position.state.policy, 0), critic=None)


@pytest.mark.slow
def test_a_policy_that_is_not_good_is_trained_anew():
    archive, events = run(demanding(attempts=2))
    assert [strategy.status for strategy in archive] == ["novel", "failed", "failed"]
    assert [strategy.attempt for strategy in archive] == [1, 2, 2]
    attempts = [(e.round, e.attempt) for e in events if isinstance(e, Position)]
    assert attempts == [pair for pair in [(0, 1), (1, 1), (1, 2), (2, 1), (2, 2)] for _ in range(2)]
    last = [e for e in events if isinstance(e, Position) and e.round == 2][-1]
    assert same(kept(last), archive[2].policy)  # the last attempt stays
    ends = [e for e in events if isinstance(e, Position) and len(e.rows[0]) == UPDATES]
    first = next(e for e in ends if e.round == 2)
    assert not same(kept(first), archive[2].policy)


@pytest.mark.slow
def test_a_retry_starts_from_other_weights():
    """With a learning rate of 0 a policy ends as it started."""
    frozen = dataclasses.replace(CONFIG.ppo, learning_rate=0.0, init="same")
    config = dataclasses.replace(
        CONFIG, ppo=frozen, judge=Judge(episodes=32, attempts=2, quality=1e6, accept=1.1)
    )
    _, events = run(config)
    ends = {(e.round, e.attempt): e.state.policy for e in events if isinstance(e, Position)}
    assert (1, 2) in ends
    assert same(ends[0, 1], ends[1, 1])
    assert not same(ends[1, 1], ends[1, 2])


def test_without_retries_there_is_one_attempt():
    archive, _ = run(demanding())
    assert [strategy.attempt for strategy in archive] == [1, 1, 1]


@pytest.mark.parametrize(("references", "compared"), [("all", [0, 1, 2]), ("novel", [0, 1, 1])])
def test_later_iterations_differ_from_all_policies_or_from_the_novel_ones(references, compared):
    archive, events = run(demanding(references=references))
    assert [strategy.status for strategy in archive] == ["novel", "failed", "failed"]
    assert [len(strategy.evaluation.accepted_by) for strategy in archive] == compared
    assert archive[2].evaluation.threshold == tuple(
        np.float32(s.threshold) for s in archive[: compared[2]]
    )
    rows = [event.rows[-1] for event in events if isinstance(event, Found)]
    assert [len(row["accepted_by"]) for row in rows] == compared


@pytest.mark.slow
def test_numbers_that_are_not_finite_stop_the_run_in_a_sentence():
    config = dataclasses.replace(CONFIG, ppo=dataclasses.replace(CONFIG.ppo, batch=32))
    with pytest.raises(
        DivergedError, match=r"iteration 1 at update 1: the loss is nan.*learning_rate"
    ):
        run(config, Bandit((1.0, float("nan"))))
