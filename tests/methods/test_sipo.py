"""SIPO: both distances, the multipliers and the critics against plain NumPy, and that both forms
find the other door."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
import rspo
from latents import restarting
from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.core.members import alone, member
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.methods.base import Plan, Setup
from rspo.methods.sipo_rbf import SIPORBF
from rspo.methods.sipo_wd import SIPOWD
from rspo.methods.state_distance import drawn_states, no_bounds
from worlds import Rooms

SEEDS = st.integers(0, 2**32 - 1)
OBS, KEPT, CAPACITY, STATES, STEPS = 3, 2, 3, 4, 5
SETUP = Setup(Spec(OBS, Discrete(4), horizon=STEPS), Plan(), CAPACITY, updates=40)
RBF = SIPORBF(states=STATES, width=0.3, scale=0.2, delta=2.0, rate=0.5, warmup=0.0)
WD = SIPOWD(states=STATES, hidden=6, scale=5.0, delta=0.1, rate=0.5, clip=0.3, warmup=0.0)


def jitted(method):
    one = lambda state, data, kept: member(
        method.update(alone(state), alone(data), alone(kept), jax.random.key(0)), 0
    )
    return jax.jit(lambda *given: method.score(*given, 0.0)), jax.jit(one)


SCORE, UPDATE = {}, {}
for method in (RBF, WD):
    SCORE[method], UPDATE[method] = jitted(method)


def random_case(seed, padding=True):
    rng = np.random.default_rng(seed)
    if padding is None:  # episodes that follow one another in a column
        played = [restarting(rng, STEPS) for _ in range(2)]
    else:
        played = [plain.random_trajectory(rng, STEPS, obs=OBS, padding=padding) for _ in range(2)]
    policies = [plain.random_policy(rng, OBS) for _ in range(KEPT)]
    states = [rng.standard_normal((STATES, OBS)).astype(np.float32) for _ in range(KEPT)]
    kept = plain.references(policies, [0.0] * KEPT, CAPACITY, memory=states)
    return rng, played, states, kept


class Scale:
    """From all that was seen, kept as a list."""

    def __init__(self, states):
        self.rows = [row for kept in states for row in kept]

    def see(self, played):
        self.rows += [played.obs[tuple(i)] for i in np.argwhere(played.counted)]

    def __call__(self, x):
        low, high = np.min(self.rows, 0), np.max(self.rows, 0)
        return 2 * (np.float64(x) - low) / (high - low) - 1


def plain_rbf(state, kept):
    """r of one scaled state, given those of a policy."""
    near = [np.exp(-((state - s) ** 2).sum() / (2 * RBF.width * OBS)) for s in kept]
    return -RBF.scale * np.log(np.mean(near) + 1e-5)


def mean_counted(numbers, played):
    return numbers[played.counted].mean() if played.counted.any() else 0.0


@pytest.mark.slow
@given(seed=SEEDS, padding=st.booleans())
@settings(max_examples=10)
def test_the_kernels_rewards_multipliers_and_scale_are_those_of_the_formula(seed, padding):
    _, batches, states, kept = random_case(seed, padding)
    own, scale = RBF.init(SETUP, jax.random.key(0)), Scale(states)
    multiplier = np.zeros(CAPACITY)
    assert len(RBF.channels(CAPACITY)) == 1 + CAPACITY
    for played in batches:
        scale.see(played)
        found = SCORE[RBF](own, played, kept)
        np.testing.assert_array_equal(found.reward[..., 0], played.reward)
        np.testing.assert_allclose(found.weight[0, 0, 0], [1, *multiplier], rtol=1e-3, atol=1e-5)
        for j in range(KEPT):
            wanted = np.zeros(played.reward.shape)
            for place in map(tuple, np.argwhere(played.counted)):
                wanted[place] = plain_rbf(scale(played.obs[place]), scale(states[j]))
            np.testing.assert_allclose(found.reward[..., 1 + j], wanted, rtol=1e-3, atol=1e-4)
            mean = mean_counted(wanted, played)
            np.testing.assert_allclose(found.metrics["distance_to"][j], mean / RBF.scale, rtol=1e-3)
            lacking = STEPS * (RBF.delta * RBF.scale - mean)
            multiplier[j] = np.clip(multiplier[j] + RBF.rate * lacking, 0, RBF.largest)
        assert not found.reward[..., 1 + KEPT :].any()
        own = UPDATE[RBF](own, played, kept)
        np.testing.assert_allclose(own.duals.multiplier, multiplier, rtol=1e-3, atol=1e-4)


def plain_potentials(own, played, states, scale):
    """w_t of every step and kept policy: [T, N, A, KEPT]."""
    table = np.zeros((*played.reward.shape, KEPT))
    for j in range(KEPT):
        critic = jax.device_get(member(own.critic, j))
        level = np.mean([plain.forward(critic, scale(s)) for s in states[j]])
        for place in np.ndindex(played.reward.shape):
            table[(*place, j)] = level - plain.forward(critic, scale(played.obs[place]))[0]
    return table


@pytest.mark.slow
@given(seed=SEEDS, padding=st.sampled_from([True, False, None]))
@settings(max_examples=6)
def test_the_critics_rewards_and_multipliers_are_those_of_the_formula(seed, padding):
    _, batches, states, kept = random_case(seed, padding)
    own, scale = WD.init(SETUP, jax.random.key(0)), Scale(states)
    multiplier = np.zeros(CAPACITY)
    for played in batches:
        scale.see(played)
        found = SCORE[WD](own, played, kept)
        potential = plain_potentials(own, played, states, scale)
        bonus, total = np.zeros(played.reward.shape), np.zeros(KEPT)
        for t, n, a in map(tuple, np.argwhere(played.counted)):
            before = potential[t - 1, n, a] if t > 0 and not played.starts[t, n] else 0.0
            gain = potential[t, n, a] - before
            bonus[t, n, a] = WD.scale * (multiplier[:KEPT] * gain).sum()
            total += gain / played.returns.size / played.starts[:, n].sum()
        np.testing.assert_allclose(
            found.reward[..., 0], played.reward + bonus, rtol=1e-3, atol=1e-4
        )
        np.testing.assert_allclose(found.metrics["distance_to"][:KEPT], total, rtol=1e-3, atol=1e-4)
        lacking = WD.delta * STEPS - total
        multiplier[:KEPT] = np.clip(multiplier[:KEPT] + WD.rate * lacking, 0, WD.largest)
        own = UPDATE[WD](own, played, kept)
        np.testing.assert_allclose(own.duals.multiplier, multiplier, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_critics_learn_the_distance_with_bounded_weights():
    """What they give is the larger, the further apart the states are; its sign is that of a
    distance."""
    _, (played, _), _, kept = random_case(0)
    own = WD.init(SETUP, jax.random.key(0))
    far = dataclasses.replace(kept, memory=kept.memory + np.array([5, 0, 0], np.float32))
    found = []
    for references in (kept, far):
        state = own
        for _ in range(60):
            state = UPDATE[WD](state, played, references)
        scaled = SCORE[WD](state, played, references).metrics["distance_to"]
        found.append(float(scaled[0]))
        assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(state.critic)) <= WD.clip * 1.001
    assert found[1] > 2 * abs(found[0])
    assert found[1] > 0.5


@pytest.mark.parametrize("method", [RBF, WD], ids=["rbf", "wd"])
def test_multipliers_wait_stay_within_bounds_and_fall_where_the_distance_is_kept(method):
    waiting = dataclasses.replace(method, warmup=0.05, largest=3.0)
    duals, mask = waiting.init_duals(SETUP), np.array([True, True, False])
    gaps = jnp.array([10.0, -10.0, 10.0])
    assert int(duals.wait) == 2  # of 40 updates
    for _ in range(2):
        duals = waiting.raised(duals, gaps, mask)
        assert not duals.multiplier.any()
    for _ in range(5):
        duals = waiting.raised(duals, gaps, mask)
    np.testing.assert_allclose(duals.multiplier, [3.0, 0.0, 0.0])
    duals = waiting.raised(duals, -gaps / 10, mask)
    np.testing.assert_allclose(duals.multiplier, [2.5, 0.5, 0.0])


def test_states_are_scaled_by_what_was_seen():
    states = jnp.array([[0.0, 5.0], [4.0, 5.0], [1.0, 99.0]])
    bounds = no_bounds(2).with_states(states, jnp.array([True, True, False]))
    np.testing.assert_allclose(bounds.scaled(states[:2]), [[-1, -1], [1, -1]])
    wider = bounds.with_states(jnp.array([[8.0, 6.0]]), jnp.array([True]))
    np.testing.assert_allclose(wider.scaled(states[1]), [0, -1])


def test_states_that_count_are_remembered():
    played = plain.random_trajectory(np.random.default_rng(0), obs=OBS, padding=False)
    found = RBF.remember((), None, lambda policy, key: played, jax.random.key(0))
    assert found.shape == jax.eval_shape(lambda: RBF.memory(SETUP.spec, jax.random.key(0))).shape
    many = np.asarray(drawn_states(played, 500, jax.random.key(1)))
    counted = played.obs[played.counted]
    chosen = (many[:, None] == counted).all(-1)
    assert chosen.any(1).all()
    assert chosen.any(0).all()


ENV = Rooms(doors=2, depth=1, consolation=0.25)
LEARNER = PPO(batch=256, updates=30, learning_rate=1e-2, hidden=16, layers=1, epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        SIPORBF("sipo-rbf", delta=2.0, scale=1.0, rate=0.1, width=0.05),
        SIPOWD("sipo-wd", delta=0.05, hidden=32, clip=0.1, learning_rate=1e-2),
    ],
    ids=["rbf", "wd"],
)
def test_it_finds_the_door_that_restarts_do_not(method):
    """Random play prefers door 0; either room pays 1 at best."""
    config = Config("rooms", 2, method=method, ppo=LEARNER, judge=Judge(episodes=64))
    archive = rspo.discover(ENV, config=config, quiet=True)
    assert [strategy.descriptor for strategy in archive] == ["door 0", "door 1"]
    assert min(strategy.evaluation.greedy_return_mean for strategy in archive) == 1
