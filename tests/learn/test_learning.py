"""The whole of it learns: all the optima of small tasks with known ones, and the four goals of
4-Goals.

`Rooms` has three doors with equal optima, and random play prefers the first door. Reinforcement
learning with restarts therefore returns to it; RSPO must find all three, one per iteration.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rspo
from rspo.core.learning import PPO
from rspo.core.members import alone, member
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Plan, Setup
from rspo.methods.references import Measure, References
from rspo.methods.reward_model import fit, init_predictor
from rspo.methods.rspo import RSPO
from rspo.rollout.collector import collector
from worlds import Ladder, Rooms, Tabular, collect

ENV = Rooms(doors=3, depth=5, consolation=0.25, blind=True)
BEST = 5.0
LEARNER = {
    "batch": 384,
    "updates": 40,
    "learning_rate": 1e-2,
    "hidden": 16,
    "layers": 1,
    "entropy_coefficient": 0.02,
}
JUDGE = {"episodes": 64, "quality": 0.8}


def discover(name, seed=0, **method):
    return rspo.discover(
        ENV,
        iterations=3,
        seed=seed,
        ppo=LEARNER,
        judge=JUDGE,
        method={"name": name, **method},
        quiet=True,
    )


PAPER = {"switch": "hard", "streams": "single"}
VARIANTS = {
    "filtering": ("no-intrinsic", {}),
    "behaviour-driven": ("behaviour-only", {"lambda_b": 0.2, **PAPER}),
    "reward-driven": (
        "rspo",
        {"lambda_b": 0.0, "lambda_r": 0.2, "predictor_hidden": 16, "predictor_steps": 100, **PAPER},
    ),
    "by default": ("rspo", {}),
    "smooth, a stream for each": (
        "rspo",
        {"lambda_b": 0.2, "switch": "smooth", "streams": "per-reference"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), VARIANTS.values(), ids=VARIANTS)
def test_rspo_finds_every_door(name, method):
    archive = discover(name, **method)
    assert [strategy.status for strategy in archive] == ["novel"] * 3
    assert {strategy.descriptor for strategy in archive} == {"door 0", "door 1", "door 2"}
    for strategy in archive:
        assert strategy.evaluation.return_mean > 0.9 * BEST
        assert strategy.evaluation.greedy_return_mean == BEST
        door = int(strategy.descriptor.removeprefix("door "))
        assert strategy.act(np.eye(1 + ENV.depth), greedy=True).tolist() == [door] * (1 + ENV.depth)
        assert all(share > 0.9 for share in strategy.evaluation.accepted_by)


@pytest.mark.slow
def test_restarts_alone_come_back_to_the_same_door():
    archive = discover("pg")
    assert all(
        strategy.evaluation.return_mean > 0.9 * BEST for strategy in archive
    )  # it learns as well ...
    assert archive.distinct < 3  # ... but not anything new
    assert {strategy.status for strategy in archive} >= {"duplicate"}


def stop_at_different_heights(paid):
    """Three iterations on the ladder; a return within 1.5 of a kept policy's mean is rejected."""
    method, judge = {"lambda_b": 0.0, "paid": paid}, {"episodes": 64, "quality": 0.3}
    return rspo.discover(
        Ladder(),
        iterations=3,
        ppo=LEARNER,
        judge=judge,
        measure={"of": "return", "delta": 1.5},
        method=method,
        quiet=True,
    )


@pytest.mark.slow
def test_returns_set_strategies_apart():
    archive = stop_at_different_heights("end")
    assert [strategy.evaluation.greedy_return_mean for strategy in archive] == [8.0, 6.0, 4.0]
    assert all(strategy.status == "novel" for strategy in archive)
    assert all(strategy.evaluation.accepted > 0.9 for strategy in archive)


@pytest.mark.slow
def test_paid_step_by_step_nobody_learns_to_stop():
    """Stopping makes the earlier rewards count; after it, nothing is earned either way."""
    archive = stop_at_different_heights("step")
    assert archive[0].evaluation.greedy_return_mean == 8.0
    assert archive[1].evaluation.greedy_return_mean != 6.0


# --- each part of the switch on its own: what it drives a policy to ---


def trained(method, references, updates=60):
    """Training under given references; the metrics of the first and of the last update."""
    settings = PPO(
        batch=384, updates=updates, learning_rate=1e-2, hidden=16, layers=1, entropy_coefficient=0.0
    )
    setup = Setup(ENV.spec, Plan(), capacity=1)
    trainer = make_trainer(
        collector(ENV), method, settings, references.measure, setup, rows=updates
    )
    start, keys = trainer.init(jax.random.key(0)[None]), jax.random.key(1)[None]
    state, table = trainer.advance(start, references, keys, updates)
    return member(state.policy, 0), {
        name: (float(row.ravel()[0]), float(row.ravel()[-1])) for name, row in table.items()
    }


def always(door):
    return Tabular(jnp.zeros((1 + ENV.depth, 3)).at[:, door].set(4.0))


def reference_to(door, delta, memory=()):
    delta, mask = jnp.asarray([delta]), jnp.asarray([True])
    return References(alone(always(door)), delta, jnp.zeros(1), alone(memory), mask, Measure())


OTHER = float(np.log(np.exp(4) + 2))  # the NLL of an action that the reference does not prefer


@pytest.mark.slow
def test_the_behaviour_driven_reward_leads_out_of_the_rejected_region():
    """All six steps must be unlike the reference's, which random play rarely is."""
    first, last = trained(RSPO(lambda_b=0.1), reference_to(0, 5.5 * OTHER))[1]["accepted"]
    assert first < 0.25
    assert last > 0.95


@pytest.mark.slow
def test_a_weight_beyond_the_theorems_bound_makes_rejection_pay():
    """Five of six steps unlike the reference's earn more than 20, accepted episodes at most 5."""
    _, metrics = trained(RSPO(lambda_b=1.0), reference_to(0, 5.5 * OTHER))
    assert metrics["accepted"][1] < 0.1
    assert metrics["intrinsic"][1] > 0.9 * 5 * OTHER / 6


@pytest.mark.slow
def test_the_reward_driven_reward_leads_to_rewards_that_the_predictor_does_not_know():
    """All is rejected, so the prediction error is all there is; it knows what is behind door 0."""
    predictor = init_predictor(ENV.spec, 16, 1e-2, jax.random.key(0))
    known = collect(ENV, always(0), 64, jax.random.key(1))
    model = jax.jit(lambda p: fit(p, [known], 200, 1e-2).model)(predictor)
    reference = reference_to(0, 1e9, memory=model)
    policy, metrics = trained(RSPO(lambda_b=0.0, lambda_r=1.0, predictor_hidden=16), reference)
    assert metrics["accepted"] == (0.0, 0.0)
    assert metrics["intrinsic"][1] > 2 * metrics["intrinsic"][0]
    played = collect(ENV, policy, 256, jax.random.key(2))
    assert float(model.error(played.samples).mean()) > 10 * float(model.error(known.samples).mean())


@pytest.mark.slow
def test_the_filter_alone_keeps_to_what_is_accepted():
    """Random play earns most behind door 0, but four of six steps must be unlike the reference's,
    who always goes there: what is left of that door's reward is less than half of another's."""
    policy, metrics = trained(RSPO(lambda_b=0.0), reference_to(0, 3.5 * OTHER))
    assert metrics["accepted"][1] > 0.95
    assert policy(jnp.eye(1 + ENV.depth)).mode()[0] != 0
    assert metrics["return"][1] > 0.9 * BEST


# --- 4-Goals ---


@pytest.mark.slow
def test_four_goals_easy_gives_its_four_goals_in_four_iterations():
    archive = rspo.discover("four-goals-easy", iterations=4, seed=0, quiet=True)  # with its preset
    assert [strategy.status for strategy in archive] == ["novel"] * 4
    assert {strategy.descriptor for strategy in archive} == {"up", "right", "down", "left"}
    assert all(strategy.evaluation.greedy_return_mean > 0.95 for strategy in archive)
