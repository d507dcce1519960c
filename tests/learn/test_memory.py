"""Policies with memory: a task that needs one, and that what they learn from is what they did."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import plain
import rspo
from rspo.config import Config, validate
from rspo.core.learning import PPO
from rspo.core.members import member
from rspo.core.spaces import Discrete
from rspo.core.types import Spec, Step
from rspo.envs.base import Env
from rspo.errors import InputError
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Method, Plan, Setup
from rspo.methods.references import Measure
from rspo.rollout.collector import collector
from worlds import Clock


class Recall(Env):
    """One of two cues is shown at first, and only then; to repeat it at the last step pays 1. The
    time is seen."""

    horizon: int = eqx.field(static=True, default=5)

    @property
    def spec(self) -> Spec:
        return Spec(2 + self.horizon, Discrete(2), horizon=self.horizon, reset_noise=1)

    def reset(self, noise):
        state = (jnp.floor(2 * noise[0]).astype(jnp.int32), jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, state, action, noise):
        cue, time = state
        paid = (time == self.horizon - 1) & (action[0] == cue)
        state = (cue, time + 1)
        return state, Step(self._observe(state), paid.astype(jnp.float32)[None], jnp.asarray(False))

    def _observe(self, state):
        cue, time = state
        shown = jnp.where(time == 0, jax.nn.one_hot(cue, 2), 0.0)
        return jnp.concatenate([shown, jax.nn.one_hot(time, self.horizon)])[None]


LEARNER = {
    "batch": 640,
    "updates": 60,
    "learning_rate": 1e-2,
    "hidden": 16,
    "layers": 1,
    "entropy_coefficient": 0.01,
}


def returned(memory, **learner):
    archive = rspo.discover(
        Recall(),
        method="pg",
        iterations=1,
        ppo=LEARNER | {"memory": memory} | learner,
        judge={"episodes": 512},
        quiet=True,
    )
    return archive[0]


@pytest.mark.slow
def test_what_must_be_remembered_is_learned_with_memory_and_not_without():
    strategy = returned("gru")
    assert strategy.evaluation.return_mean > 0.9
    assert strategy.evaluation.greedy_return_mean > 0.99
    without = returned("none").evaluation
    assert (
        abs(without.return_mean - 0.5) < 0.1
    )  # chance; five deviations of the mean of 512 coin throws
    assert abs(without.greedy_return_mean - 0.5) < 0.1
    assert_recalls(strategy)


def assert_recalls(strategy):
    """Step by step, handing its memory from call to call as a user would."""
    env = Recall()
    for cue in (0, 1):
        state, obs = env.reset(jnp.asarray([0.25 + cue / 2]))
        memory = None
        for _ in range(env.horizon):
            action, memory = strategy.act(np.asarray(obs), greedy=True, state=memory)
            state, step = env.step(state, jnp.asarray(action), None)
            obs = step.obs
        assert float(step.reward[0]) == 1.0


@pytest.mark.slow
def test_a_memory_of_chunks_shorter_than_the_wait_still_learns():
    """The gradient ends with a chunk, but what was remembered before it does not."""
    assert returned("gru", chunk=2, minibatches=2).evaluation.return_mean > 0.9


# --- what is learned from is what was done ---

SMALL = PPO(
    batch=40,
    updates=3,
    epochs=1,
    hidden=8,
    layers=1,
    learning_rate=1e-2,
    memory="gru",
    normalize_obs=True,
)


def sharpened(state):
    """A fresh policy is nearly uniform whatever it remembers; this one is not."""
    head = state.policy.actor.net.head
    return eqx.tree_at(
        lambda s: s.policy.actor.net.head.weights, state, tuple(300 * w for w in head.weights)
    )


def advanced(settings):
    """The divergences of the first step of three updates, and what the first one was played
    with."""
    env = Clock()
    setup, keys = Setup(env.spec, Plan(), capacity=1), jax.random.key(0)[None]
    play = collector(env)
    trainer = make_trainer(play, Method(), settings, Measure(), setup, rows=settings.updates)
    references = plain.references(
        [plain.random_policy(np.random.default_rng(0), actions=3)], [0.0], 1, kept=0
    )
    state = sharpened(trainer.init(keys))
    _, metrics = trainer.advance(state, references, keys, settings.updates)
    policy = member(state.policy, 0)
    return (
        metrics["approx_kl"][:, 0],
        policy,
        jax.jit(lambda p: play(p, 32, keys[0], padding=settings.padding))(policy),
    )


def divergence(policy, played, starts):
    """Of what the policy does when its memory begins anew at `starts`, from what it did."""
    starts = jnp.broadcast_to(starts[..., None], played.reward.shape)
    log_ratio = policy.replay(played.view, starts).log_prob(played.action) - played.log_prob
    return float(jnp.where(played.counted, jnp.exp(log_ratio) - 1 - log_ratio, 0.0).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("padding", "chunk"), [("drop", 2), ("count", 10), ("restart", 10)])
def test_ratios_are_one_before_anything_is_learned(padding, chunk):
    """Episodes of 1 to 5 steps, in chunks that do not divide the horizon, or of which there is one
    a batch."""
    found, policy, played = advanced(dataclasses.replace(SMALL, padding=padding, chunk=chunk))
    np.testing.assert_allclose(found, 0.0, atol=1e-5)
    # The test can fail: resetting the memory at other steps gives a different policy.
    assert divergence(policy, played, played.starts) == pytest.approx(0.0, abs=1e-5)
    assert divergence(policy, played, jnp.ones_like(played.starts)) > 0.01
    if padding == "restart":
        assert divergence(policy, played, jnp.zeros_like(played.starts)) > 0.01


@pytest.mark.slow
def test_later_passes_have_other_ratios():
    """So the divergence is not 0 by construction."""
    found, *_ = advanced(dataclasses.replace(SMALL, epochs=3, minibatches=4, chunk=3))
    assert (found > 1e-4).all()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"chunk": 0}, r"ppo\.chunk"),
        ({"minibatches": 5}, r"ppo\.minibatches is 5, .* 16 sequences"),
    ],
)
def test_chunks_that_cannot_be_are_refused_in_a_sentence(change, name):
    """8 episodes of 5 steps and 2 agents are 16 sequences in chunks of 10, 48 in chunks of 2, and
    80 samples."""
    config = Config("clock", ppo=dataclasses.replace(SMALL, **change))
    with pytest.raises(InputError, match=name):
        validate(config, Clock().spec)
    validate(Config("clock", ppo=dataclasses.replace(SMALL, chunk=2, minibatches=3)), Clock().spec)


@pytest.mark.slow
@pytest.mark.parametrize(("asks", "share"), [(False, 4), (True, 1)])
def test_a_joint_loss_replays_no_more_episodes_than_a_minibatch_has(asks, share):
    """Of 4 minibatches; a method that asks for all episodes gets them."""
    seen = []

    class Looking(Method):
        whole_episodes = asks

        def loss(self, states, policies, minibatch, rivals, key):
            seen.append(minibatch.reward.shape)
            return jnp.zeros(())

    settings = dataclasses.replace(SMALL, updates=1, epochs=2, minibatches=4, chunk=5)
    env, keys = Clock(), jax.random.key(0)[None]
    setup = Setup(env.spec, Plan(), capacity=1)
    trainer = make_trainer(collector(env), Looking(), settings, Measure(), setup, rows=1)
    policy = plain.random_policy(np.random.default_rng(0), actions=3)
    nothing = plain.references([policy], [0.0], 1, kept=0)
    trainer.advance(trainer.init(keys), nothing, keys, 1)
    steps, agents = env.spec.horizon, env.spec.agents
    assert set(seen) == {(1, settings.batch // steps * agents // share, steps)}
