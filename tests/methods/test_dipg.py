"""DIPG: similarity, MMD and loss against plain NumPy, the sign, and that it finds the other door."""

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
from rspo.methods.base import Method, Plan, Setup
from rspo.methods.dipg import DIPG, Sketch
from worlds import Rooms

SEEDS = st.integers(0, 2**32 - 1)
STEPS, OBS, COORDINATES, KEPT, CAPACITY = 5, 3, 6, 2, 3
METHOD = DIPG(coefficient=0.7, coordinates=COORDINATES, trajectories=4, clip=0.8, width=1.5)
score = jax.jit(METHOD.score)


def random_case(seed):
    rng = np.random.default_rng(seed)
    played = plain.random_trajectory(rng, steps=STEPS, obs=OBS)
    coordinates = rng.choice(STEPS * OBS, COORDINATES, replace=False).astype(np.int32)
    sketches = [
        Sketch(coordinates, rng.standard_normal((4, COORDINATES)).astype(np.float32))
        for _ in range(KEPT)
    ]
    policies = [plain.random_policy(rng, OBS) for _ in range(KEPT)]
    kept = plain.references(policies, [0.0] * KEPT, CAPACITY, memory=sketches)
    return rng, played, coordinates, sketches, kept


def kernel(x, y):
    difference = np.clip(np.abs(np.float64(x) - y), 0, METHOD.clip)
    return np.exp(-(difference**2).sum() / (2 * METHOD.width**2))


def mean_kernel(xs, ys):
    return np.mean([kernel(x, y) for x in xs for y in ys])


def plain_features(played, coordinates):
    """One row an episode and agent."""
    _, episodes, agents, _ = played.obs.shape
    rows = np.zeros((episodes, agents, len(coordinates)))
    for n, a in np.ndindex(episodes, agents):
        vector = np.concatenate([played.obs[t, n, a] for t in range(STEPS)])
        rows[n, a] = [vector[c] for c in coordinates]
    return rows


@given(seed=SEEDS)
@settings(max_examples=20)
def test_similarity_and_discrepancy_are_those_of_the_formula(seed):
    rng, played, coordinates, sketches, kept = random_case(seed)
    rows = plain_features(played, coordinates)
    # Coordinates are the run's: those of a new round's own do not matter once a policy is kept.
    own = rng.choice(STEPS * OBS, COORDINATES, replace=False).astype(np.int32)
    found = score(own, played, kept, 0.0)
    few = rows.reshape(-1, COORDINATES)[: METHOD.trajectories]
    wanted = [
        mean_kernel(few, few)
        - 2 * mean_kernel(few, sketch.features)
        + mean_kernel(sketch.features, sketch.features)
        for sketch in sketches
    ]
    np.testing.assert_allclose(found.metrics["mmd_to"], [*wanted, 0], atol=1e-5)
    for n, a in np.ndindex(rows.shape[:2]):
        similar = max(mean_kernel([rows[n, a]], sketch.features) for sketch in sketches)
        np.testing.assert_allclose(found.extra[:, n, a], similar, rtol=1e-4)
    np.testing.assert_array_equal(found.reward[..., 0], played.reward)
    assert (found.weight == 1).all()


@given(seed=SEEDS)
@settings(max_examples=10)
def test_the_kernel_is_that_of_a_similarity(seed):
    """Between 0 and 1, 1 of the same, and no MMD between a set and itself."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 4, COORDINATES)).astype(np.float32)
    assert METHOD.similarity(x[0], x[:1]) == 1
    assert 0 < METHOD.similarity(x[0], y) < 1
    np.testing.assert_allclose(METHOD.discrepancy(x, x), 0, atol=1e-6)
    assert METHOD.discrepancy(x, y) > -1e-6
    # Differences are clipped: beyond that, nothing is less similar.
    far = np.exp(-COORDINATES * METHOD.clip**2 / (2 * METHOD.width**2))
    np.testing.assert_allclose(METHOD.similarity(x[0], x[:1] + 100), far, rtol=1e-4)


def test_with_nothing_kept_nothing_is_similar():
    _, played, coordinates, _, kept = random_case(0)
    empty = plain.references([member(kept.policies, 0)], [], CAPACITY, 0, [member(kept.memory, 0)])
    found = score(coordinates, played, empty, 0.0)
    assert not found.extra.any()
    assert not found.metrics["mmd_to"].any()
    np.testing.assert_array_equal(
        METHOD.update(coordinates[None], alone(played), alone(empty), None), coordinates[None]
    )


def test_coordinates_are_drawn_once_and_no_more_than_there_are():
    env = Rooms(doors=2, depth=1)
    method, setup = DIPG(), Setup(env.spec, Plan(), 8)
    drawn = np.asarray(method.init(setup, jax.random.key(0)))
    assert sorted(drawn) == list(range(6))  # two steps of three numbers
    long = Setup(env.spec._replace(horizon=50), Plan(), 8)
    drawn = np.asarray(method.init(long, jax.random.key(1)))
    assert len(set(drawn)) == 16
    assert drawn.max() < 150
    assert drawn.min() >= 0


def test_a_new_round_takes_over_the_coordinates_of_the_first_kept_policy():
    _, played, coordinates, _, kept = random_case(1)
    own = np.arange(COORDINATES, dtype=np.int32)
    np.testing.assert_array_equal(
        METHOD.update(own[None], alone(played), alone(kept), None)[0], coordinates
    )


def test_what_is_remembered_are_trajectories_of_the_policy():
    rng = np.random.default_rng(0)
    played = plain.random_trajectory(rng, steps=STEPS, obs=OBS, episodes=3, agents=1)
    coordinates = np.arange(COORDINATES, dtype=np.int32)
    kept = METHOD.remember(coordinates, None, lambda policy, key: played, None)
    rows = plain_features(played, coordinates).reshape(-1, COORDINATES)
    np.testing.assert_allclose(kept.features, rows[[0, 1, 2, 0]])  # three episodes for four places
    shapes = jax.eval_shape(
        lambda: METHOD.memory(Rooms().spec._replace(obs_size=OBS, horizon=STEPS), jax.random.key(0))
    )
    same = jax.tree.map(lambda a, b: a.shape == b.shape and a.dtype == b.dtype, shapes, kept)
    assert jax.tree.all(same)


# --- the loss ---


def loss_of(policies, samples):
    return METHOD.loss((), policies, samples, (), None)


def random_samples(seed, padding):
    rng = np.random.default_rng(seed)
    policy = plain.random_policy(rng, normalizer=False)
    played = plain.random_trajectory(rng, padding=padding)
    similar = rng.random(played.reward.shape).astype(np.float32)
    flat = jax.tree.map(
        lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[3:]),
        played.samples._replace(extra=similar),
    )
    return policy, flat


@given(seed=SEEDS, padding=st.booleans())
@settings(max_examples=10)
def test_the_loss_is_log_pi_times_the_similarity(seed, padding):
    policy, samples = random_samples(seed, padding)
    wanted = [
        plain.log_probs(policy, samples.view.obs[b])[samples.action[b]] * samples.extra[b]
        for b in np.flatnonzero(samples.counted)
    ]
    found = loss_of(*jax.tree.map(jnp.asarray, alone((policy, samples))))
    np.testing.assert_allclose(found, 0.7 * np.mean(wanted), rtol=1e-3, atol=1e-4)


def test_a_step_against_the_gradient_makes_similar_actions_less_likely():
    """Two public codes have the opposite sign."""
    policy, samples = random_samples(3, True)
    similar = samples.action == 1  # trajectories with this action are those of a kept policy
    samples = samples._replace(extra=similar.astype(np.float32))
    slope = jax.grad(loss_of)(*jax.tree.map(jnp.asarray, alone((policy, samples))))
    moved = jax.tree.map(
        lambda weight, slope: np.asarray(weight - 0.05 * slope),
        policy.actor,
        member(slope, 0).actor,
    )
    before = np.mean([plain.log_probs(policy, obs)[1] for obs in samples.view.obs[similar]])
    after = np.mean(
        [plain.log_softmax(plain.forward(moved.net, obs))[1] for obs in samples.view.obs[similar]]
    )
    assert after < before - 0.01


# --- it finds the other door ---

ENV = Rooms(doors=2, depth=1, consolation=0.25)
LEARNER = PPO(batch=256, updates=30, learning_rate=1e-2, hidden=16, layers=1, epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "wanted"),
    [(DIPG(name="dipg"), ["door 0", "door 1"]), (Method(), ["door 0", "door 0"])],
    ids=["dipg", "pg"],
)
def test_it_finds_the_door_that_restarts_do_not(method, wanted):
    """Random play prefers door 0; either room pays 1 at best."""
    config = Config("rooms", 2, method=method, ppo=LEARNER, judge=Judge(episodes=64))
    archive = rspo.discover(ENV, config=config, quiet=True)
    assert [strategy.descriptor for strategy in archive] == wanted
    assert min(strategy.evaluation.greedy_return_mean for strategy in archive) == 1
