"""RND: its error, its running scale and its learning against plain NumPy, and that it goes where
plain PPO does not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
import rspo
from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.core.members import alone, member
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.learn import ppo
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Method, Plan, Score, Setup
from rspo.methods.references import Measure
from rspo.methods.rnd import RND
from rspo.registry import METHODS
from rspo.rollout.collector import collector
from worlds import Corridor, Rooms

SEEDS = st.integers(0, 2**32 - 1)
METHOD = RND(coefficient=0.5, hidden=7, discount=0.9)
SETUP = Setup(Spec(3, Discrete(4), horizon=5), Plan(), 8)
score = jax.jit(lambda state, data: METHOD.score(state, data, None, 0.0))
update = jax.jit(
    lambda state, data: member(METHOD.update(alone(state), alone(data), None, None), 0)
)


class Plain:
    """Mean and variance over everything seen, kept as a list."""

    def __init__(self):
        self.rows = []

    def see(self, row):
        self.rows.append(np.float64(row))

    def scaled(self, row):
        rows = np.stack(self.rows)
        return np.clip((row - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-8), -10, 10)

    @property
    def deviation(self):
        return np.sqrt(np.var(self.rows) + 1e-8)


def plain_errors(state, data, seen, sums):
    """Of every step, [T, N, A], and of those that count their running sums."""
    steps, episodes, agents = data.reward.shape
    following = np.concatenate([data.obs[1:], data.last.obs[None]])
    counted = data.counted & data.live[..., None]
    for place in np.argwhere(counted):
        seen.see(following[tuple(place)])
    error = np.zeros(data.reward.shape)
    for place in map(tuple, np.argwhere(counted)):
        scaled = seen.scaled(following[place])
        gap = plain.forward(state.target, scaled) - plain.forward(state.predictor, scaled)
        error[place] = (gap**2).sum() / 2
    for n, a in np.ndindex(episodes, agents):
        total = 0.0
        for t in range(steps):
            total = METHOD.discount * total + error[t, n, a]
            if counted[t, n, a]:
                sums.see(total)
    return error


@pytest.mark.slow
@given(seed=SEEDS, padding=st.booleans())
@settings(max_examples=10)
def test_error_and_running_scale_are_those_of_all_that_was_seen(seed, padding):
    rng = np.random.default_rng(seed)
    state = METHOD.init(SETUP, jax.random.key(seed))
    seen, sums = Plain(), Plain()
    for _ in range(2):
        data = plain.random_trajectory(rng, padding=padding)
        found = score(state, data)
        error = plain_errors(jax.device_get(state), data, seen, sums)
        np.testing.assert_array_equal(found.reward[..., 0], data.reward)
        np.testing.assert_allclose(
            found.reward[..., 1], error / sums.deviation, rtol=5e-3, atol=1e-4
        )
        np.testing.assert_allclose(found.metrics["novelty"], error.mean(), rtol=1e-3)
        assert (np.asarray(found.weight) == [1.0, 0.5]).all()
        state = update(state, data)


@pytest.mark.slow
def test_the_predictor_learns_and_the_target_does_not():
    data = plain.random_trajectory(np.random.default_rng(0))
    state = METHOD.init(SETUP, jax.random.key(0))
    errors, first = [], state.target
    for _ in range(60):
        errors.append(float(score(state, data).metrics["novelty"]))
        state = update(state, data)
    assert errors[-1] < 0.2 * errors[0]
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), first, state.target))


def test_what_is_new_pays_more_than_what_was_seen():
    rng = np.random.default_rng(0)
    state = METHOD.init(SETUP, jax.random.key(0))
    old = plain.random_trajectory(rng)
    for _ in range(60):
        state = update(state, old)
    new = dataclasses.replace(old, view=old.view._replace(obs=3 * old.obs[::-1] + 2))
    assert score(state, new).metrics["novelty"] > 2 * score(state, old).metrics["novelty"]


def test_the_intrinsic_stream_has_no_end():
    """Its advantage goes on through a step that terminates; the task's does not."""
    assert RND().channels(8) == ("episodic", "endless")
    data = plain.random_trajectory(np.random.default_rng(0), episodes=1, agents=1)
    ends = np.array([False, True, False, False, False])[:, None]
    data = dataclasses.replace(
        data, terminated=ends, live=np.ones_like(ends), counted=np.ones((5, 1, 1), bool)
    )
    data = jax.tree.map(jnp.asarray, data)
    late = jnp.zeros((5, 1, 1, 2)).at[3].set(1.0)  # paid in the next episode
    values = ppo.Values(jnp.zeros((5, 1, 1, 2)), jnp.zeros((1, 1, 2)))
    given = Score(late, jnp.ones_like(late), {})
    _, target = ppo.advantages(PPO(), values, data, given, RND().channels(8))
    assert target[0, 0, 0, 0] == 0
    np.testing.assert_allclose(target[0, 0, 0, 1], (0.99 * 0.95) ** 3, rtol=1e-5)


ENV = Corridor()
LEARNER = PPO(batch=512, updates=60, learning_rate=1e-2, hidden=16, layers=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "arrives"), [(RND(learning_rate=1e-2), True), (Method(), False)], ids=["rnd", "pg"]
)
def test_it_walks_to_the_end_of_a_corridor_where_plain_ppo_does_not(method, arrives):
    """Random play gets there once in 4096 episodes of 12 steps; the end pays 1 a step."""
    setup = Setup(ENV.spec, Plan(), 8)
    trainer = make_trainer(collector(ENV), method, LEARNER, Measure(), setup, LEARNER.updates)
    policy = plain.random_policy(np.random.default_rng(0), ENV.length, 2)
    kept = plain.references([policy], [0.0], 8, kept=0)
    keys = jax.random.split(jax.random.key(0), 1)
    _, table = trainer.advance(trainer.init(keys), kept, keys, LEARNER.updates)
    returns = np.asarray(table["return"])[-10:, 0]
    assert (returns.mean() > 1) == arrives


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "doors"), [("rnd", {"door 0"}), ("rspo", {"door 0", "door 1"})], ids=["rnd", "rspo"]
)
def test_it_may_open_one_door_again_and_again_for_it_ignores_what_is_kept(name, doors):
    """Random play prefers door 0; either room pays 1 at best. On other seeds it finds the other
    door by luck."""
    learner = PPO(batch=256, updates=30, learning_rate=1e-2, hidden=16, layers=1, epochs=2)
    rooms = Rooms(doors=2, depth=1, consolation=0.25)
    method, judge = METHODS.make(name), Judge(episodes=64)
    config = Config("rooms", 4, seed=2, method=method, ppo=learner, judge=judge)
    archive = rspo.discover(rooms, config=config, quiet=True)
    good = [one for one in archive if one.evaluation.greedy_return_mean == 1]
    assert {one.descriptor for one in good} == doors
