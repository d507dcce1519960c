"""NLL, cross-entropy, thresholds, phi: against the paper's sums in plain loops, and as the
evaluation reports them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plain
from rspo.config import Config
from rspo.core.devices import PIECE
from rspo.core.learning import PPO
from rspo.core.members import member
from rspo.core.policies import uniform_policy
from rspo.core.types import Trajectory
from rspo.methods.references import Measure, References, cross_entropy, step_nll
from rspo.rollout.collector import collector
from rspo.search.archive import capacity
from rspo.search.evaluation import make_evaluator, make_threshold
from rspo.search.loop import Tools
from worlds import Clock, Tabular, collect

SEEDS = st.integers(0, 2**32 - 1)
CAPACITY = 4
MEASURES = pytest.mark.parametrize(
    "measure",
    [Measure(), Measure(cap=1.5), Measure(discount=0.8), Measure(cap=2.0, discount=0.5)],
    ids=str,
)


@jax.jit
def likelihoods(references: References, trajectory: Trajectory):
    steps = references.step_nll(trajectory)
    distance = references.distance(trajectory, steps)
    return steps, distance, references.accepts(distance)


# [T, N, A]: shared evenly among the cores or not, in one piece for each or in several.
@pytest.mark.parametrize("shape", [(3, 2, 2), (3, 3, 1), (8, 2 * PIECE // 4, 2), (5, 128, 2)])
def test_pieces_on_several_cores_come_back_in_their_places(shape):
    rng = np.random.default_rng(0)
    steps, episodes, agents = shape
    trajectory = plain.random_trajectory(rng, steps, episodes, agents, padding=False)
    policies = [plain.random_policy(rng) for _ in range(2)]
    found, _, _ = likelihoods(plain.references(policies, [1.0, 1.0], 3, 2), trajectory)
    for j, policy in enumerate(policies):
        np.testing.assert_allclose(
            found[..., j], plain.step_nll(policy, trajectory), rtol=1e-4, atol=1e-5
        )
    assert not found[..., 2].any()


@pytest.mark.slow
@MEASURES
@pytest.mark.parametrize("padding", [True, False], ids=["count", "drop"])
@given(seed=SEEDS, kept=st.integers(0, CAPACITY))
def test_nll_and_phi_follow_the_paper(measure, padding, seed, kept):
    rng = np.random.default_rng(seed)
    trajectory = plain.random_trajectory(rng, padding=padding)
    policies = [plain.random_policy(rng) for _ in range(CAPACITY)]
    wanted = [plain.step_nll(policy, trajectory, measure.cap) for policy in policies[:kept]]
    sums = [plain.episode_nll(steps, measure.discount) for steps in wanted]
    threshold = [plain.between(rng, total) for total in sums]
    references = plain.references(policies, threshold, CAPACITY, kept, measure=measure)
    steps, nll, accepts = likelihoods(references, trajectory)
    for j in range(kept):
        np.testing.assert_allclose(steps[..., j], wanted[j], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(nll[..., j], sums[j], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(accepts[..., j], sums[j] >= threshold[j])
    assert not steps[..., kept:].any()
    assert accepts[..., kept:].all()


@given(seed=SEEDS, kept=st.integers(0, CAPACITY))
def test_returns_may_set_trajectories_apart_instead(seed, kept):
    """By their difference from each kept policy's mean return."""
    rng = np.random.default_rng(seed)
    trajectory = plain.random_trajectory(rng)
    trajectory.reward[:] = rng.standard_normal(
        trajectory.reward.shape
    )  # a next episode's rewards are not the first's
    policies, means = [plain.random_policy(rng) for _ in range(CAPACITY)], rng.standard_normal(kept)
    returns = np.where(trajectory.live[..., None], trajectory.reward, 0.0).sum(0)
    wanted = [abs(returns - mean) for mean in means]
    threshold = [plain.between(rng, distance) for distance in wanted]
    measure = Measure(of="return")
    references = plain.references(
        policies, threshold, CAPACITY, kept, measure=measure, returns=means
    )
    _, distance, accepts = likelihoods(references, trajectory)
    for j in range(kept):
        np.testing.assert_allclose(distance[..., j], wanted[j], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(accepts[..., j], wanted[j] >= threshold[j])
    assert accepts[..., kept:].all()


def test_a_trajectory_exactly_at_the_threshold_is_accepted():
    rng = np.random.default_rng(0)
    trajectory, policy = (
        plain.random_trajectory(rng, episodes=1, agents=1),
        plain.random_policy(rng),
    )
    nll = likelihoods(plain.references([policy], [0.0], 1), trajectory)[1][0, 0, 0]
    for threshold, accepted in ((nll, True), (np.nextafter(nll, np.float32(np.inf)), False)):
        assert (
            bool(likelihoods(plain.references([policy], [threshold], 1), trajectory)[2].all())
            == accepted
        )


@MEASURES
@given(seed=SEEDS)
def test_cross_entropy_is_the_mean_over_episodes_and_agents(measure, seed):
    rng = np.random.default_rng(seed)
    trajectory, policy = plain.random_trajectory(rng, padding=False), plain.random_policy(rng)
    wanted = plain.episode_nll(
        plain.step_nll(policy, trajectory, measure.cap), measure.discount
    ).mean()
    found = CROSS_ENTROPY(policy, trajectory, measure)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


CROSS_ENTROPY = jax.jit(cross_entropy, static_argnames="measure")


def test_cross_entropy_with_itself_is_the_entropy():
    """D(pi, pi) estimated from pi's own play is the entropy of its trajectories."""
    env, policy = (
        Clock(),
        Tabular(jnp.asarray([[0.3, 0.0, -0.1], [0.1, -0.2, 0.0], [1.0, 0.0, -1.0]])),
    )
    trajectory = collect(env, policy, 4000, jax.random.key(0))
    entropy = policy(trajectory.obs).entropy().sum(0)
    np.testing.assert_allclose(
        cross_entropy(policy, trajectory, Measure()), entropy.mean(), rtol=0.01
    )


EPISODES = 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "padding"),
    [
        (Measure(), "drop"),
        (Measure(cap=1.5), "count"),
        (Measure(discount=0.8), "count"),
        (Measure(cap=2.0, discount=0.5), "drop"),
    ],
    ids=str,
)
def test_threshold_is_alpha_times_the_cross_entropy_of_random_play(measure, padding):
    measure = dataclasses.replace(measure, alpha=0.3)
    env, policy, key = (
        Clock(),
        plain.random_policy(np.random.default_rng(1), actions=3),
        jax.random.key(5),
    )
    rivals = []

    def rival(key):
        rivals.append(key)
        return uniform_policy(3)

    delta, random_return, _ = make_threshold(collector(env), EPISODES, padding, rival, measure)(
        policy, 0.0, key
    )
    assert len(rivals) == 1
    played = collect(env, uniform_policy(3), EPISODES, jax.random.split(key)[1], padding=padding)
    nll = plain.episode_nll(plain.step_nll(policy, played, measure.cap), measure.discount)
    np.testing.assert_allclose(delta, 0.3 * nll.mean(), rtol=1e-4)
    np.testing.assert_allclose(random_return, np.asarray(played.reward).sum(0).mean(), rtol=1e-5)


@pytest.mark.parametrize("least", [None, 100.0])
def test_the_threshold_of_returns_is_alpha_times_the_distance_of_random_play(least):
    measure, key = Measure(of="return", alpha=0.3, least=least), jax.random.key(5)
    policy, random = plain.random_policy(np.random.default_rng(1), actions=3), uniform_policy(3)
    delta, *_ = make_threshold(collector(Clock()), EPISODES, "count", lambda key: random, measure)(
        policy, 0.7, key
    )
    played = collect(Clock(), random, EPISODES, jax.random.split(key)[1])
    distance = abs(np.asarray(played.reward).sum(0) - 0.7).mean()
    assert distance > 0.4
    np.testing.assert_allclose(delta, max(0.3 * distance, least or 0.0), rtol=1e-4)


def test_a_fixed_delta_replaces_the_automatic_one():
    policy = plain.random_policy(np.random.default_rng(1), actions=3)
    threshold = make_threshold(
        collector(Clock()), EPISODES, "count", lambda key: uniform_policy(3), Measure(delta=3.5)
    )
    assert float(threshold(policy, 0.0, jax.random.key(0))[0]) == 3.5


def fresh(tools, key):
    """The policy that a round with this key starts from."""
    return member(tools.trainer(capacity(0)).init(key[None]).policy, 0)


@pytest.mark.parametrize("random", ["uniform", "initial"])
def test_random_play_is_a_uniform_or_a_fresh_policy(random):
    """Half of the cross-entropy under a policy by hand, for the policies that a run would take as
    random."""
    config = Config("clock", ppo=PPO(batch=5, hidden=8), measure=Measure(random=random))
    config = dataclasses.replace(config, judge=dataclasses.replace(config.judge, episodes=EPISODES))
    tools, key = Tools(collector(Clock()), config), jax.random.key(3)
    policy = plain.random_policy(np.random.default_rng(2), actions=3, normalizer=False)
    rival_key, play_key = jax.random.split(key)
    rival = uniform_policy(3) if random == "uniform" else fresh(tools, rival_key)
    played = collect(Clock(), rival, EPISODES, play_key)
    nll = plain.episode_nll(plain.step_nll(policy, played)).mean()
    np.testing.assert_allclose(tools.threshold(policy, 0.0, key)[0], 0.5 * nll, rtol=1e-4)
    if random == "initial":
        other = tools.threshold(policy, 0.0, jax.random.key(4))[0]
        assert float(other) != float(tools.threshold(policy, 0.0, key)[0])


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 2])
def test_evaluation_reports_returns_distances_and_acceptance(kept):
    rng, env, key = np.random.default_rng(4), Clock(), jax.random.key(9)
    policy, others = (
        plain.random_policy(rng, actions=3),
        [plain.random_policy(rng, actions=3) for _ in range(3)],
    )
    played = collect(env, policy, 32, jax.random.split(key)[0], padding="drop")
    greedy = collect(env, policy, 32, jax.random.split(key)[1], padding="drop", greedy=True)
    nll = [plain.episode_nll(plain.step_nll(other, played, 3.0)) for other in others[:kept]]
    threshold = [float(np.median(n)) + 1e-3 for n in nll]
    references = plain.references(others, threshold, 3, kept, measure=Measure(cap=3.0))
    found, _ = make_evaluator(collector(env), 32, padding="drop")(policy, references, key)
    assert found.episodes == 32
    returns, greedy_returns = (
        np.asarray(t.reward, np.float64).sum(0).mean(-1) for t in (played, greedy)
    )
    np.testing.assert_allclose(
        (found.return_mean, found.return_std), (returns.mean(), returns.std()), rtol=1e-5
    )
    np.testing.assert_allclose(
        (found.greedy_return_mean, found.greedy_return_std),
        (greedy_returns.mean(), greedy_returns.std()),
        rtol=1e-5,
    )
    accepts = np.array([n >= delta for n, delta in zip(nll, threshold, strict=True)])
    np.testing.assert_allclose(found.distance, [n.mean() for n in nll], rtol=1e-4)
    np.testing.assert_allclose(found.threshold, threshold, rtol=1e-6)
    np.testing.assert_allclose(found.accepted_by, [a.mean() for a in accepts])
    np.testing.assert_allclose(found.accepted, accepts.all(0).mean() if kept else 1.0)
    assert found.descriptor is None
    assert not found.clear


def test_step_nll_takes_a_policy_without_networks_too():
    trajectory = plain.random_trajectory(np.random.default_rng(0))
    np.testing.assert_allclose(
        step_nll(uniform_policy(4), trajectory.samples, Measure()), np.log(4), rtol=1e-6
    )
