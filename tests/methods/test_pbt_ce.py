"""PBT-CE: its loss and its gradient against plain NumPy, and that a population spreads over the
doors of `Rooms`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from rspo.core.learning import PPO
from rspo.core.members import each_member, member
from rspo.core.types import Samples
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Plan, Setup
from rspo.methods.pbt_ce import PBTCE
from rspo.methods.references import Measure, live_rivals, step_nll
from rspo.rollout.collector import collector
from worlds import Rooms

MEMBERS, ACTIONS = 3, 4
SEEDS = st.integers(0, 2**32 - 1)


def rivals_of(policies):
    size = jax.tree.leaves(policies)[0].shape[0]
    return each_member(lambda own: live_rivals(policies, own, Measure()), jnp.arange(size))


@partial(jax.jit, static_argnums=0)
def loss(method, policies, samples):
    """With rivals made of the very policies that are learned."""
    rivals = rivals_of(policies)
    nll = lambda policy, _, samples: step_nll(policy, samples, Measure())
    surprise = each_member(lambda one, own: one.each_of(nll, own, one.mask), rivals, samples)
    samples = samples._replace(extra=surprise.sum(-1) / surprise.shape[0])
    return method.loss((), policies, samples, rivals, jax.random.key(0))


gradient = jax.jit(jax.grad(loss, argnums=1), static_argnums=0)


def random_case(seed, padding=False, members=MEMBERS):
    rng = np.random.default_rng(seed)
    policies = [plain.random_policy(rng, actions=ACTIONS, normalizer=False) for _ in range(members)]
    played = [
        plain.random_trajectory(rng, actions=ACTIONS, padding=padding) for _ in range(members)
    ]
    flat = [
        jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[3:]), one.samples)
        for one in played
    ]
    stack = lambda *leaves: jnp.asarray(np.stack(leaves))
    return policies, flat, jax.tree.map(stack, *policies), jax.tree.map(stack, *flat)


def plain_terms(policies, flat, beta):
    """Of each member: its loss, and the gradient of that by the biases of its last layer, which
    shift its logits."""
    values, slopes = [], []
    for i, samples in enumerate(flat):
        value, slope, counted = 0.0, np.zeros(ACTIONS), 0
        for b in np.flatnonzero(samples.counted):
            obs, action = samples.view.obs[b], samples.action[b]
            own = plain.log_probs(policies[i], obs)
            surprise = -sum(
                plain.log_probs(other, obs)[action] for j, other in enumerate(policies) if j != i
            )
            value += own[action] * surprise
            slope += (np.eye(ACTIONS)[action] - np.exp(own)) * surprise
            counted += 1
        scale = -beta / len(policies) / max(counted, 1)
        values.append(scale * value)
        slopes.append(scale * slope)
    return values, slopes


@pytest.mark.slow
@given(seed=SEEDS, padding=st.booleans())
@settings(max_examples=15)
def test_the_loss_and_its_gradient_are_those_of_the_formula_and_rivals_are_held_still(
    seed, padding
):
    policies, flat, stacked, samples = random_case(seed, padding)
    method = PBTCE(beta=0.3)
    values, slopes = plain_terms(policies, flat, 0.3)
    np.testing.assert_allclose(loss(method, stacked, samples), sum(values), rtol=1e-3, atol=1e-4)
    found = gradient(method, stacked, samples)
    # A member's own term alone moves it: where gradients reached the rivals, those of all the
    # others would as well.
    np.testing.assert_allclose(found.actor.net.biases[-1], slopes, rtol=1e-3, atol=1e-4)
    assert not any(leaf.any() for leaf in jax.tree.leaves(found.critic))


@pytest.mark.parametrize("cap", [None, 1.5])
def test_the_score_hands_on_how_surprised_the_others_are(cap):
    rng = np.random.default_rng(1)
    policies = [plain.random_policy(rng) for _ in range(MEMBERS)]
    played = plain.random_trajectory(rng, padding=False)
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *policies)
    rivals = live_rivals(stacked, jnp.asarray(1), Measure(cap=cap))
    score = PBTCE().score((), jax.tree.map(jnp.asarray, played), rivals, 0.0)
    nll = [plain.step_nll(policies[j], played, cap) for j in (0, 2)]
    np.testing.assert_allclose(score.extra, sum(nll) / MEMBERS, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(score.reward[..., 0], played.reward)


def test_without_a_weight_nothing_is_asked():
    _, _, stacked, samples = random_case(0)
    assert loss(PBTCE(beta=0.0), stacked, samples) == 0
    assert not any(
        leaf.any() for leaf in jax.tree.leaves(gradient(PBTCE(beta=0.0), stacked, samples))
    )


def test_memories_are_replayed():
    """With memory a minibatch is whole episodes: the same sum over what each member does by its own
    memory."""
    rng = np.random.default_rng(3)
    policies = [plain.random_policy(rng, actions=ACTIONS, memory=True) for _ in range(2)]
    shape = (2, 3, 6)  # members, episodes, steps
    starts = rng.random(shape) < 0.3
    starts[..., 0] = True
    played = plain.random_trajectory(
        rng, steps=6, episodes=3, agents=2, actions=ACTIONS, padding=False
    )
    part = lambda leaf: np.moveaxis(np.asarray(leaf), (2, 1), (0, 1))
    samples = jax.tree.map(lambda leaf: jnp.asarray(part(leaf)), played.samples)._replace(
        starts=jnp.asarray(starts)
    )
    stacked = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *policies)
    wanted = 0.0
    for i in range(2):
        terms = [
            log_probs_along(policies[i], samples, i, n)[0]
            * -log_probs_along(policies[1 - i], samples, i, n)[0]
            for n in range(3)
        ]
        counted = np.asarray(samples.counted[i])
        wanted += -0.5 / 2 * (np.stack(terms) * counted).sum() / counted.sum()
    np.testing.assert_allclose(
        loss(PBTCE(beta=0.5), stacked, samples), wanted, rtol=1e-3, atol=1e-4
    )


def log_probs_along(policy, samples, i, n):
    """Of the actions of one episode [T], by its own memory, and the memory."""
    found, memory = [], np.zeros(5)
    for t in range(samples.reward.shape[2]):
        if samples.starts[i, n, t]:
            memory = np.zeros(5)
        obs = plain.normalized(policy, np.asarray(samples.view.obs[i, n, t]))
        memory, logits = plain.gru_step(policy.actor.net, memory, obs)
        found.append(plain.log_softmax(logits)[int(samples.action[i, n, t])])
    return np.array(found), memory


def test_a_step_against_the_gradient_raises_the_cross_entropy():
    """D(pi_i, pi_j) exactly, in one state that all the samples are of, drawn from each member."""
    rng = np.random.default_rng(0)
    policies, _, stacked, _ = random_case(5)
    # Far from certain of anything, or a step would hardly show.
    policies, stacked = jax.tree.map(lambda leaf: leaf / 4, (policies, stacked))
    obs, count = np.ones(3, np.float32), 20_000
    probabilities = [np.exp(plain.log_probs(policy, obs)) for policy in policies]
    action = np.stack([rng.choice(ACTIONS, count, p=p / p.sum()) for p in probabilities]).astype(
        np.int32
    )
    view = plain.View(jnp.broadcast_to(obs, (MEMBERS, count, 3)))
    ones = jnp.ones((MEMBERS, count))
    samples = Samples(view, jnp.asarray(action), ones, ones.astype(bool), ones.astype(bool))
    slopes = gradient(PBTCE(beta=1.0), stacked, samples)
    for i, policy in enumerate(policies):
        moved = jax.tree.map(
            lambda w, slope: np.asarray(w - slope), policy.actor, member(slopes.actor, i)
        )
        after = np.exp(plain.log_softmax(plain.forward(moved.net, obs)))
        others = sum(-plain.log_probs(other, obs) for j, other in enumerate(policies) if j != i)
        assert after @ others > probabilities[i] @ others


# --- it spreads a population ---

ENV = Rooms(doors=3, consolation=0.25)
LEARNER = PPO(
    batch=192, updates=40, learning_rate=1e-2, hidden=16, layers=1, entropy_coefficient=0.02
)


def doors_opened(beta, seeds):
    """Of the three members, by seed: how many different doors; and the metrics of the last
    update."""
    method, rows = PBTCE(beta=beta), LEARNER.updates
    setup = Setup(ENV.spec, method.plan(MEMBERS), capacity=MEMBERS)
    assert setup.plan == Plan(members=MEMBERS)
    trainer = make_trainer(collector(ENV), method, LEARNER, Measure(), setup, rows)
    kept = plain.references(
        [plain.random_policy(np.random.default_rng(0), ENV.states, 3)], [0.0], 1, kept=0
    )
    found = []
    for seed in seeds:
        keys = jax.random.split(jax.random.key(seed), MEMBERS)
        state, table = trainer.advance(trainer.init(keys), kept, keys, rows)
        start = jnp.eye(ENV.states)[:1]
        doors = {int(member(state.policy, i)(start).mode()[0]) for i in range(MEMBERS)}
        found.append((len(doors), {name: np.asarray(column[-1]) for name, column in table.items()}))
    return found


@pytest.mark.slow
def test_a_population_opens_more_doors_than_its_members_would_alone():
    """Random play prefers door 0; every door's room pays 2."""
    seeds = range(4)
    alone, spread = doors_opened(0.0, seeds), doors_opened(0.3, seeds)
    assert sum(doors for doors, _ in spread) > sum(doors for doors, _ in alone)
    for _, metrics in alone + spread:
        assert metrics["return"].min() > 1.5
        assert metrics["distance_to"].shape == (MEMBERS, MEMBERS)
        assert not np.diag(metrics["distance_to"]).any()  # none of itself
    distance = [
        np.mean([metrics["distance_to"].sum() for _, metrics in found]) for found in (alone, spread)
    ]
    assert distance[1] > distance[0]


@pytest.mark.parametrize("policies", [1, 5])
def test_all_members_learn_in_one_round(policies):
    assert PBTCE().plan(policies) == Plan(rounds=1, members=policies)
