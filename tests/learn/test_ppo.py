"""PPO: the loss and the advantages against NumPy, and probe environments whose answers are
known."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from rspo.core import devices
from rspo.core.learning import PPO
from rspo.core.members import alone, member
from rspo.core.policies import init_normalizer
from rspo.core.types import Samples, View
from rspo.learn import ppo
from rspo.learn.ppo import Lesson, Values
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Method, Plan, Score, Setup
from rspo.methods.references import Measure
from rspo.rollout.collector import collector
from worlds import Bandit, Clock, Steady

SEEDS = st.integers(0, 2**32 - 1)
CHANNELS = 3


# --- advantages ---


@partial(jax.jit, static_argnums=(0, 4))
def advantages(config, policy, trajectory, score, channels):
    values = Values(policy.values(trajectory.view), policy.values(trajectory.last))
    return ppo.advantages(config, values, trajectory, score, channels)


@given(seed=SEEDS, padding=st.booleans(), horizon=st.sampled_from(["cut", "end"]))
@settings(max_examples=20)
def test_advantages_are_normalised_channel_by_channel_then_weighted(seed, padding, horizon):
    rng = np.random.default_rng(seed)
    trajectory = plain.random_trajectory(rng, padding=padding)
    policy = plain.random_policy(rng, channels=CHANNELS)
    scale = 10.0 ** np.arange(CHANNELS)  # streams of very different size count alike
    shape = (*trajectory.action.shape, CHANNELS)
    reward, weight = (
        (rng.standard_normal(shape) * scale).astype(np.float32),
        rng.random(shape).astype(np.float32),
    )
    config = PPO(gamma=0.9, gae_lambda=0.8, horizon=horizon)
    found, target = advantages(
        config, policy, trajectory, Score(reward, weight, {}), ("episodic",) * CHANNELS
    )
    wanted = np.zeros(shape[:3])
    for c in range(CHANNELS):
        channel = np.zeros(shape[:3])
        for n, a in np.ndindex(shape[1:3]):
            value = np.array([plain.values(policy, obs)[c] for obs in trajectory.obs[:, n, a]])
            last = plain.values(policy, trajectory.last.obs[n, a])[c]
            ended = np.array(trajectory.terminated[:, n])
            ended[-1] |= horizon == "end"
            channel[:, n, a] = plain.gae(
                reward[:, n, a, c], value, last, ended, config.gamma, config.gae_lambda
            )
            np.testing.assert_allclose(
                target[:, n, a, c], channel[:, n, a] + value, rtol=1e-3, atol=1e-3
            )
        counted = channel[np.asarray(trajectory.counted)]
        wanted += weight[..., c] * (channel - counted.mean()) / (counted.std() + 1e-8)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_a_settled_stream_does_not_bootstrap_where_an_episode_is_cut_off():
    """Paid at the last step, it does not bootstrap past it, at the horizon or where a host
    environment truncated."""
    rng = np.random.default_rng(0)
    trajectory = plain.random_trajectory(rng, steps=4, episodes=2, agents=1)
    ends = np.zeros((2, 4, 2), bool)
    ends[0, 1, 0] = ends[1, 2, 1] = (
        True  # one terminates, the other is cut short; both play on, then the horizon cuts
    )
    trajectory = dataclasses.replace(trajectory, terminated=ends[0], truncated=ends[1])
    trajectory = jax.tree.map(jnp.asarray, trajectory)
    policy = plain.random_policy(rng, channels=2)
    reward = rng.standard_normal((4, 2, 1, 2)).astype(np.float32)
    score = Score(reward, np.ones_like(reward), {})
    config = PPO(gamma=0.9, gae_lambda=0.8)
    _, target = advantages(config, policy, trajectory, score, ("settled", "episodic"))
    _, ordinary = advantages(config, policy, trajectory, score, ("episodic", "episodic"))
    np.testing.assert_allclose(target[..., 1], ordinary[..., 1], rtol=1e-6)
    over = ends.any(0)
    over[-1] = True
    for n in range(2):
        value = np.array(
            [plain.values(policy, obs)[0] for obs in np.asarray(trajectory.obs)[:, n, 0]]
        )
        wanted = (
            plain.gae(reward[:, n, 0, 0], value, 0.0, over[:, n], config.gamma, config.gae_lambda)
            + value
        )
        np.testing.assert_allclose(target[:, n, 0, 0], wanted, rtol=1e-3, atol=1e-3)
        assert abs(np.asarray(ordinary[:, n, 0, 0]) - wanted).max() > 0.01


def test_normalised_advantages_have_mean_zero_and_deviation_one_over_the_counted_steps():
    rng = np.random.default_rng(0)
    advantage = (rng.standard_normal((9, 5, 2, 3)) * [1, 100, 1e-3] + 7).astype(np.float32)
    counted = rng.random((9, 5)) < 0.5
    found = np.asarray(
        ppo.normalize(jnp.asarray(advantage), jnp.asarray(counted)[..., None, None])
    )[counted]
    np.testing.assert_allclose(found.mean((0, 1)), 0, atol=1e-2)  # 7 +- 1e-3 in single precision
    np.testing.assert_allclose(found.std((0, 1)), 1, atol=1e-2)


def test_a_constant_advantage_is_normalised_to_zero():
    assert not ppo.normalize(jnp.full((4, 3, 1, 2), 5.0), jnp.ones((4, 3, 1, 1))).any()


# --- the loss ---


def random_batch(rng, policy, shape=(12,), counted=0.7):
    obs = rng.standard_normal((*shape, 3)).astype(np.float32)
    action = rng.integers(0, 4, shape).astype(np.int32)
    log_prob = np.asarray(policy(obs).log_prob(action))
    return Lesson(
        view=View(obs),
        action=action,
        log_prob=(log_prob + rng.uniform(-0.5, 0.5, shape)).astype(
            np.float32
        ),  # ratios below, in and above the range
        advantage=rng.standard_normal(shape).astype(np.float32),
        target=rng.standard_normal((*shape, CHANNELS)).astype(np.float32),
        counted=(rng.random(shape) < 0.7).astype(np.float32)
        if counted is None
        else np.full(shape, counted, np.float32),
        learned=(rng.random((*shape, CHANNELS)) < 0.7).astype(np.float32),
    )


def plain_loss(config, policy, batch, bonus):
    """Sample by sample, over those that count."""
    terms, errors, entropies, divergences = [], [], [], []
    for i in np.flatnonzero(batch.counted):
        log_probs = plain.log_probs(policy, batch.view.obs[i])
        ratio = np.exp(log_probs[batch.action[i]] - batch.log_prob[i])
        clipped = min(max(ratio, 1 - config.clip), 1 + config.clip)
        terms.append(min(ratio * batch.advantage[i], clipped * batch.advantage[i]))
        error = (plain.values(policy, batch.view.obs[i]) - batch.target[i]) ** 2
        errors.append((error * batch.learned[i]).sum())
        entropies.append(-(np.exp(log_probs) * log_probs).sum())
        divergences.append(ratio - 1 - np.log(ratio))
    if not terms:
        return 0.0, 0.0, 0.0, 0.0
    surrogate, error, entropy = np.mean(terms), np.mean(errors), np.mean(entropies)
    return (
        -surrogate + config.value_coefficient * error - bonus * entropy,
        error,
        entropy,
        np.mean(divergences),
    )


loss = jax.jit(ppo.loss, static_argnums=0)


@given(seed=SEEDS, bonus=st.floats(0, 1))
def test_loss_is_the_clipped_surrogate_the_value_error_and_the_entropy(seed, bonus):
    rng = np.random.default_rng(seed)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch, config = random_batch(rng, policy), PPO(clip=0.2, value_coefficient=0.7)
    total, metrics = loss(config, policy, batch, bonus, max(batch.counted.sum(), 1.0))
    wanted, error, entropy, divergence = plain_loss(config, policy, batch, bonus)
    np.testing.assert_allclose(total, wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["loss"], wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["value_loss"], error, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["approx_kl"], divergence, rtol=1e-2, atol=1e-4)


@partial(jax.jit, static_argnums=0)
def gradient_of(config, policy, batch, bonus=0.0):
    """Of the whole batch at once, by the nets that are learned."""
    gradient = jax.grad(
        lambda policy: ppo.loss(config, policy, batch, bonus, batch.counted.sum())[0]
    )(policy)
    return gradient.actor, gradient.critic


def test_clipping_stops_the_gradient_where_the_ratio_went_far_enough():
    rng = np.random.default_rng(1)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch = random_batch(rng, policy, counted=1.0)
    log_prob = np.asarray(policy(batch.view.obs).log_prob(batch.action))
    for log_ratio, advantage, moves in (
        (1, 1, False),
        (1, -1, True),
        (-1, -1, False),
        (-1, 1, True),
    ):
        case = batch._replace(
            log_prob=log_prob - log_ratio, advantage=np.full(12, advantage, np.float32)
        )
        actor, _ = gradient_of(PPO(value_coefficient=0.0), policy, case)
        assert any(leaf.any() for leaf in jax.tree.leaves(actor)) == moves


# --- the update ---


def summing():
    """An optimizer that adds gradients up and moves nothing."""
    zeros = lambda nets: jax.tree.map(jnp.zeros_like, nets)
    add = lambda gradient, total, params=None: (
        zeros(gradient),
        jax.tree.map(jnp.add, total, gradient),
    )
    return optax.GradientTransformation(zeros, add)


def updated(config, optimizer, policy, batch, bonus=0.0, joint=None, seed=0):
    """A population of this one policy."""
    start = alone(optimizer.init((policy.actor, policy.critic)))
    update = lambda batch, keys: ppo.update(config, alone(policy), start, batch, bonus, joint, keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo, "make_optimizer", lambda config: optimizer)
        return member(jax.jit(update)(alone(batch), jax.random.key(seed)[None]), 0)


def assert_close(found, wanted):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def differ(one, other):
    return any((a != b).any() for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True))


# [T, N, A]: shared evenly among the cores or not, in one piece for each or in several.
SHAPES = pytest.mark.parametrize(
    "shape", [(3, 2, 2), (3, 3, 1), (8, 2 * devices.PIECE // 4, 2), (5, 128, 2)]
)


@pytest.mark.slow
@SHAPES
def test_a_gradient_in_pieces_on_several_cores_is_the_gradient_of_the_whole_batch(shape):
    rng = np.random.default_rng(2)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch, config = random_batch(rng, policy, shape), PPO(epochs=1)
    wanted = gradient_of(config, policy, batch, 0.1)
    _, total, metrics = updated(config, summing(), policy, batch, 0.1)
    assert_close(total, wanted)
    _, whole = loss(config, policy, jax.tree.map(jnp.asarray, batch), 0.1, batch.counted.sum())
    for name in whole:
        np.testing.assert_allclose(metrics[name], whole[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 4), (3, 4), (3, 1)])
def test_each_pass_uses_every_sample_once(epochs, minibatches):
    rng = np.random.default_rng(2)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch = random_batch(rng, policy, (4, 4, 2), counted=1.0)
    config = PPO(epochs=epochs, minibatches=minibatches)
    whole = gradient_of(config, policy, batch, 0.1)
    same, total, _ = updated(config, summing(), policy, batch, 0.1)
    assert_close(total, jax.tree.map(lambda leaf: epochs * minibatches * leaf, whole))
    assert not differ(same, policy)


def test_minibatches_are_drawn_at_random():
    """Plain gradient descent in parts ends elsewhere when the parts differ, and they differ by the
    key."""
    rng = np.random.default_rng(2)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch = random_batch(rng, policy, (4, 4, 2), counted=1.0)
    first, again, other = (
        updated(PPO(epochs=1, minibatches=4), optax.sgd(0.1), policy, batch, seed=seed)[0]
        for seed in (0, 0, 1)
    )
    assert not differ(first, again)
    assert differ(first, other)


@pytest.mark.slow
@given(st.integers(2, 5000), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_an_order_has_every_sample_once(samples, seed):
    orders = ppo.orders(PPO(epochs=3, minibatches=2), samples, jax.random.key(seed))
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(samples), (3, 1)))


def test_so_has_one_of_too_many_samples_to_number(monkeypatch):
    monkeypatch.setattr(ppo, "MOST_NUMBERING", 5)
    orders = ppo.orders(PPO(epochs=2, minibatches=2), 100, jax.random.key(0))
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(100), (2, 1)))
    assert (orders[0] != orders[1]).any()


def test_every_sample_is_as_likely_in_every_minibatch_and_no_two_keep_together():
    """Out of 4000 epochs: first, middle and last one; the bound is five deviations."""
    epochs, samples, parts = 4000, 48, 4
    orders = np.asarray(
        ppo.orders(PPO(epochs=epochs, minibatches=parts), samples, jax.random.key(0))
    )
    part = np.argsort(orders, axis=1) // (samples // parts)  # [epochs, samples]
    for sample in (0, 23, 47):
        share = np.bincount(part[:, sample], minlength=parts) / epochs
        np.testing.assert_allclose(share, 1 / parts, atol=5 * np.sqrt(3 / 16 / epochs))
    together = (part[:, :-1] == part[:, 1:]).mean(0)
    np.testing.assert_allclose(
        together, (samples // parts - 1) / (samples - 1), atol=5 * np.sqrt(3 / 16 / epochs)
    )


@pytest.mark.slow
def test_the_objectives_own_term_is_added_once():
    rng = np.random.default_rng(0)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch, config = random_batch(rng, policy, (3, 2, 2)), PPO(epochs=1)
    own = lambda policies, samples, key: 4.0 * policies.actor.net.biases[-1].sum()
    joint = ppo.Joint(own, alone(samples_of(batch)), jax.random.key(0))
    results = [updated(config, summing(), policy, batch, 0.0, term) for term in (None, joint)]
    (_, (without, _), before), (_, (actor, _), after) = results
    assert float(after["loss"] - before["loss"]) == pytest.approx(
        float(own(policy, (), None)), rel=1e-4
    )
    np.testing.assert_allclose(actor.net.biases[-1] - without.net.biases[-1], 4.0, rtol=1e-4)
    assert_close(actor.net.weights, without.net.weights)


def samples_of(batch):
    """The same steps as a method sees them; what they pay is the advantage, so that both can be
    compared."""
    samples = Samples(
        batch.view, batch.action, batch.advantage, batch.counted, np.zeros_like(batch.counted)
    )
    return jax.tree.map(jnp.asarray, samples)


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "minibatches"), [(2, 1), (3, 4)])
def test_each_pass_shows_every_sample_once_to_the_methods_own_term(epochs, minibatches):
    rng = np.random.default_rng(0)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch, config = (
        random_batch(rng, policy, (4, 4, 2), 1.0),
        PPO(epochs=epochs, minibatches=minibatches),
    )
    seen, drawn = [], []

    def own(policies, samples, key):
        assert samples.reward.shape == (1, 32 // minibatches)
        jax.debug.callback(
            lambda *rows: seen.append(rows[:2]) or drawn.append(float(rows[2])),
            samples.view.obs[0],
            samples.reward[0],
            jax.random.uniform(key),
        )
        return (policies.actor.net.biases[-1][:, 0] * samples.reward.sum(1)).sum()

    joint = ppo.Joint(own, alone(samples_of(batch)), jax.random.key(0))
    results = [updated(config, summing(), policy, batch, 0.0, term) for term in (None, joint)]
    jax.effects_barrier()
    (_, (without, _), _), (_, (actor, _), _) = results
    extra = actor.net.biases[-1] - without.net.biases[-1]
    np.testing.assert_allclose(
        extra, [epochs * batch.advantage.sum(), 0, 0, 0], rtol=1e-3, atol=1e-4
    )
    assert len(seen) == len(set(drawn)) == epochs * minibatches  # and each has its own key
    obs, reward = (np.concatenate(column) for column in zip(*seen, strict=True))
    for part in range(epochs):
        rows = slice(32 * part, 32 * part + 32)
        order = np.argsort(reward[rows])
        np.testing.assert_array_equal(reward[rows][order], np.sort(batch.advantage.ravel()))
        whole = batch.view.obs.reshape(32, 3)[np.argsort(batch.advantage.ravel())]
        np.testing.assert_array_equal(obs[rows][order], whole)  # a sample stays in one piece


def test_update_learns_actor_and_critic_but_not_the_normaliser():
    rng = np.random.default_rng(3)
    policy = plain.random_policy(rng, channels=CHANNELS)
    batch, config = random_batch(rng, policy, (3, 2, 2), counted=1.0), PPO(epochs=2)
    after, _, _ = updated(config, ppo.make_optimizer(config), policy, batch)
    assert differ(after.actor, policy.actor)
    assert differ(after.critic, policy.critic)
    assert not differ(after.normalizer, policy.normalizer)


# --- schedules ---

# What is left after 0, 1/4, 1/2, 3/4 and all of an iteration.
LEFT = {
    (0.0, 1.0): [1, 0.75, 0.5, 0.25, 0],
    (0.5, 1.0): [1, 1, 1, 0.5, 0],
    (0.25, 0.75): [1, 1, 0.5, 0, 0],
    (0.5, 0.5): [1, 1, None, 0, 0],  # a jump: at the jump itself either will do
}
STAYS = (1.0, 1.0)
SPANS = pytest.mark.parametrize(("span", "left"), LEFT.items())


def assert_left(found, left, scale):
    known = [i for i, share in enumerate(left) if share is not None]
    np.testing.assert_allclose(
        np.array(found)[known], scale * np.array([left[i] for i in known]), rtol=1e-4, atol=1e-9
    )


@SPANS
def test_entropy_coefficient_falls_over_its_span(span, left):
    config = PPO(updates=8, entropy_coefficient=0.2, entropy_decay=span)
    assert_left(
        [float(ppo.entropy_coefficient(config, jnp.asarray(i))) for i in (0, 2, 4, 6, 8)], left, 0.2
    )


def steps_of_adam(config, gradients):
    optimizer = ppo.make_optimizer(config)
    state, moves = optimizer.init(jnp.zeros(len(gradients[0]))), []
    for gradient in gradients:
        move, state = optimizer.update(jnp.asarray(gradient), state)
        moves.append(-np.asarray(move))
    return np.array(moves)


@SPANS
def test_learning_rate_falls_over_all_gradient_steps(span, left):
    """A constant gradient moves Adam by the learning rate."""
    config = PPO(
        updates=1, epochs=2, minibatches=2, learning_rate=0.3, decay=span, gradient_clip=1e9
    )
    assert_left(steps_of_adam(config, [[1000.0]] * 5)[:, 0], left, 0.3)


def test_by_default_the_learning_rate_falls_and_the_entropy_bonus_stays():
    assert PPO().decay == (0.0, 1.0)
    for update in (0, 100, 199):
        assert float(
            ppo.entropy_coefficient(PPO(updates=200), jnp.asarray(update))
        ) == pytest.approx(0.05)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_momentum_is_the_first_moments_decay(momentum):
    """Adam by its definition, on gradients that change sign."""
    config = PPO(decay=STAYS, gradient_clip=1e9, learning_rate=0.1, momentum=momentum)
    gradients, first, second = [3.0, -1.0, 2.0, -2.0], 0.0, 0.0
    for t, (gradient, move) in enumerate(
        zip(gradients, steps_of_adam(config, [[g] for g in gradients]), strict=True)
    ):
        first = momentum * first + (1 - momentum) * gradient
        second = 0.999 * second + 0.001 * gradient**2
        mean, scale = first / (1 - momentum ** (t + 1)), second / (1 - 0.999 ** (t + 1))
        np.testing.assert_allclose(move, 0.1 * mean / (np.sqrt(scale) + 1e-5), rtol=1e-4)


def test_gradients_are_clipped_by_their_norm():
    """Two huge gradients of one direction leave the same trace in Adam if both are cut to the same
    norm."""
    config = PPO(decay=STAYS, gradient_clip=0.5, learning_rate=1.0)
    huge, large, cut = (
        steps_of_adam(config, [gradient, [0.1, 0.0]])
        for gradient in ([3e6, 4e6], [3e3, 4e3], [0.3, 0.4])
    )
    np.testing.assert_allclose(huge, cut, rtol=1e-5)
    np.testing.assert_allclose(large, cut, rtol=1e-5)


# --- reward scale ---


@given(seed=SEEDS, padding=st.booleans())
@settings(max_examples=20)
def test_rewards_are_divided_by_the_deviation_of_their_running_discounted_sum(seed, padding):
    rng = np.random.default_rng(seed)
    config, seen, sums = PPO(gamma=0.7), init_normalizer(2), []
    for _ in range(3):
        trajectory = plain.random_trajectory(rng, padding=padding)
        reward = (rng.standard_normal((*trajectory.action.shape, 2)) * [1.0, 50.0]).astype(
            np.float32
        )
        scaled, seen = scale_rewards(config, seen, reward, trajectory.counted)
        total = np.zeros(reward.shape[1:])
        for t in range(len(reward)):
            total = 0.7 * total + reward[t]
            sums.append(total[trajectory.counted[t]].reshape(-1, 2))
        data = np.concatenate(sums).astype(np.float64)
        # As the observations' normaliser, it starts from variance 1 with the weight of 1e-4
        # observations.
        count = len(data) + 1e-4
        variance = ((data**2).sum(0) + 1e-4) / count - (data.sum(0) / count) ** 2
        np.testing.assert_allclose(scaled, reward / np.sqrt(variance), rtol=2e-3)


scale_rewards = jax.jit(ppo.scale_rewards, static_argnums=0)


# --- probes: environments whose answers are known ---


def advanced(env, settings, seed=0):
    """The state and the metrics after an iteration of plain reinforcement learning."""
    setup, rows = Setup(env.spec, Plan(), capacity=1), settings.updates
    trainer = make_trainer(collector(env), Method(), settings, Measure(), setup, rows)
    policy = plain.random_policy(
        np.random.default_rng(0), env.spec.obs_size, env.spec.action_space.n
    )
    references = plain.references([policy], [0.0], 1, kept=0)
    keys = jax.random.key(seed)[None]
    state, metrics = trainer.advance(trainer.init(keys), references, keys, rows)
    alone = dataclasses.replace(
        state, policy=member(state.policy, 0), returns=member(state.returns, 0)
    )
    return alone, jax.tree.map(lambda column: column[:, 0], metrics)


def trained(env, settings):
    return advanced(env, settings)[0].policy


SMALL = PPO(batch=256, updates=60, learning_rate=1e-2, hidden=16, layers=1, entropy_coefficient=0.0)


@pytest.mark.slow
def test_a_bandit_is_solved():
    policy = trained(Bandit((0.0, 0.5, 3.0, 1.5)), SMALL)
    one = jnp.ones((1, 1))
    assert float(jnp.exp(policy(one).log_probs)[0, 2]) > 0.95
    np.testing.assert_allclose(policy.values(one), 3.0, atol=0.2)


@pytest.mark.slow
def test_the_entropy_bonus_alone_gives_the_uniform_policy():
    policy = trained(Bandit((1.0, 1.0, 1.0)), dataclasses.replace(SMALL, entropy_coefficient=1.0))
    np.testing.assert_allclose(jnp.exp(policy(jnp.ones((1, 1))).log_probs), 1 / 3, atol=0.01)


LONGER = dataclasses.replace(SMALL, updates=150, padding="drop", gamma=0.8, learning_rate=3e-2)


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [2, 8])
def test_an_endless_reward_is_worth_its_geometric_series_however_early_it_is_cut_off(horizon):
    """Truncation is not an end: V = 1 + gamma V, so V = 1 / (1 - gamma)."""
    policy = trained(Steady(horizon), LONGER)
    np.testing.assert_allclose(policy.values(jnp.ones((1, 1))), 1 / (1 - 0.8), rtol=0.05)


@pytest.mark.slow
def test_a_horizon_that_ends_the_game_is_an_end():
    """One step, and nothing after it: V = 1. Of two, which look the same, the first is worth 1 +
    gamma V."""
    policy = trained(Steady(1), dataclasses.replace(LONGER, horizon="end"))
    np.testing.assert_allclose(policy.values(jnp.ones((1, 1))), 1.0, rtol=0.05)
    policy = trained(Steady(2), dataclasses.replace(LONGER, horizon="end", gae_lambda=0.0))
    np.testing.assert_allclose(policy.values(jnp.ones((1, 1))), 1 / (1 - 0.8 / 2), rtol=0.05)


@pytest.mark.slow
def test_termination_is_an_end():
    """Each step is the last with probability 1/2: V = 1 + gamma V / 2."""
    policy = trained(Steady(8, stop=0.5), LONGER)
    np.testing.assert_allclose(policy.values(jnp.ones((1, 1))), 1 / (1 - 0.8 / 2), rtol=0.05)


# --- what training carries along ---

CARRY = PPO(batch=40, updates=3, epochs=1, hidden=8, layers=1, learning_rate=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["count", "drop"])
def test_the_normaliser_sees_every_counted_observation_after_the_update(padding):
    """After: the ratios of a first pass are then exactly 1, and the divergence is 0."""
    settings = dataclasses.replace(CARRY, normalize_obs=True, padding=padding)
    state, metrics = advanced(Clock(), settings)
    seen = state.policy.normalizer
    steps = 40 * 3 if padding == "count" else float(metrics["length"].sum()) * 40 / 5
    np.testing.assert_allclose(seen.count, 2 * steps, rtol=1e-5)  # two agents
    np.testing.assert_allclose(seen.mean[2], 0.5, rtol=1e-5)  # agents 0 and 1
    np.testing.assert_allclose(seen.variance[2], 0.25, rtol=1e-5)
    np.testing.assert_allclose(metrics["approx_kl"], 0.0, atol=1e-6)


@pytest.mark.slow
def test_reward_normalisation_makes_the_scale_of_rewards_irrelevant():
    settings = dataclasses.replace(CARRY, normalize_reward=True)
    (small, _), (large, _) = (
        advanced(Bandit((0.0, scale, 3 * scale)), settings) for scale in (1.0, 1024.0)
    )
    np.testing.assert_allclose(small.returns.count, 120, rtol=1e-5)
    np.testing.assert_allclose(
        large.returns.variance / small.returns.variance, 1024.0**2, rtol=1e-3
    )
    assert_close(small.policy, large.policy)


@pytest.mark.slow
def test_every_update_draws_its_own_episodes():
    """With a learning rate of 0 nothing but the draw can change from one update to the next."""
    settings = dataclasses.replace(CARRY, learning_rate=0.0, updates=5)
    _, metrics = advanced(Bandit((0.0, 1.0)), settings)
    assert len(set(metrics["return"].tolist())) > 1
