"""PPO's steps in compiled code are those of `rspo.ppo.update`, however many threads take them; who learns by them."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import product
import rspo
from product import same
from rspo import compiled_ppo, native, ppo
from rspo.archive import Archive
from rspo.envs.mujoco import Mujoco
from rspo.objectives.rspo import RSPO
from rspo.policy import MLP, init_policy
from rspo.presets import preset
from rspo.search import Tools
from rspo.train import make_trainer
from rspo.types import Box, Spec

KEY = jax.random.key(5)


@pytest.fixture(autouse=True)
def compiled_code():
    if why := compiled_ppo.why_not():
        product.lacking(why)
    product.newly_built("ppo_steps")


class Case(NamedTuple):
    """Sizes that are no multiples of any others, more than one tile of 32 samples or less; and what is bounded."""

    obs: int = 17
    actions: int = 6
    channels: int = 2
    hidden: int = 64
    layers: int = 2
    samples: tuple[int, int, int] = (64, 8, 1)
    epochs: int = 2
    minibatches: int = 4
    gradient_clip: float = 0.5
    counted: float = 0.9
    beyond: tuple[float, ...] = (2.5,)  # log-deviations of the last actions, more or less than what is used

    @property
    def config(self):
        return ppo.PPO(
            epochs=self.epochs,
            minibatches=self.minibatches,
            updates=10,
            gradient_clip=self.gradient_clip,
            momentum=0.8,
            value_coefficient=0.7,
            learning_rate=1e-3,
            decay=(0.1, 0.6),
        )


CASES = [
    Case(),
    Case(gradient_clip=100.0),
    Case(obs=1, actions=1, channels=1, hidden=5, layers=1, samples=(7, 3, 2), epochs=3, minibatches=2, beyond=()),
    Case(obs=30, actions=9, channels=3, hidden=13, layers=3, samples=(6, 7, 5), minibatches=3),
    Case(obs=9, actions=3, hidden=16, samples=(4, 8, 1), minibatches=16, epochs=1, counted=0.4),  # of some none counts
    Case(epochs=1, minibatches=2, beyond=(-5.5, 2.1)),
]


def given(case):
    """A policy in the midst of training, and a batch with ratios on both sides of PPO's bounds."""
    rng, np32 = np.random.default_rng(5), partial(np.asarray, dtype=np.float32)
    spec = Spec(case.obs, Box((-1.0,) * case.actions, (1.0,) * case.actions), 8)
    policy = init_policy(spec, case.channels, case.hidden, case.layers, True, KEY)
    policy = jax.tree.map(np.asarray, policy)
    shaken = jax.tree.map(lambda leaf: np32(leaf + 0.1 * rng.normal(size=leaf.shape)), (policy.actor, policy.critic))
    policy = eqx.tree_at(lambda p: (p.actor, p.critic), policy, shaken)
    log_std = np.linspace(-0.7, 0.5, case.actions)
    log_std[case.actions - len(case.beyond) :] = case.beyond
    policy = eqx.tree_at(lambda p: p.actor.log_std, policy, np32(log_std))
    normal = lambda *shape: np32(rng.normal(size=(*case.samples, *shape)))  # noqa: E731
    some = lambda share, *shape: np32(rng.random((*case.samples, *shape)) < share)  # noqa: E731
    obs = 2 * normal(case.obs)
    action = np32(policy(obs).sample(normal(case.actions)))
    batch = ppo.Batch(
        obs=obs,
        action=action,
        log_prob=np32(policy(obs).log_prob(action) + 0.3 * normal()),
        advantage=normal(),
        target=3 * normal(case.channels),
        counted=some(case.counted),
        learned=some(0.8, case.channels),
    )
    opt_state = ppo.make_optimizer(case.config).init((policy.actor, policy.critic))
    return policy, opt_state, batch


BONUS = jnp.float32(0.02)


@partial(jax.jit, static_argnums=0)
def xla(config, policy, opt_state, batch):
    return ppo.update(config, ppo.make_optimizer(config), policy, opt_state, batch, BONUS, lambda _: 0.0, KEY)


def by_xla(case, policy, opt_state, batch):
    policy, opt_state, metrics = xla(case.config, policy, opt_state, batch)
    return (policy.actor, policy.critic), opt_state, metrics


lesson = jax.jit(compiled_ppo.lesson, static_argnums=0)


def by_us(case, policy, opt_state, batch, number=0):
    steps = lesson(case.config, policy, batch, BONUS, number, KEY)
    return compiled_ppo.update(case.config, (policy.actor, policy.critic), opt_state, steps)


def assert_close(one, other, rtol=1e-4, atol=1e-5):
    for mine, its in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (mine.shape, mine.dtype) == (its.shape, its.dtype)
        np.testing.assert_allclose(mine, its, rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", CASES)
def test_an_update_is_that_of_xla(case, monkeypatch):
    """And the next one: Adam's moments and the learning rate go on from where they were."""
    policy, opt_state, batch = given(case)
    first = by_xla(case, policy, opt_state, batch)
    learned = eqx.tree_at(lambda p: (p.actor, p.critic), policy, first[0])
    second = by_xla(case, learned, first[1], batch)
    for threads in (1, 2, 3):
        monkeypatch.setattr(compiled_ppo, "thread_count", lambda size, threads=threads: threads)
        found = by_us(case, policy, opt_state, batch)
        assert_close(found, first)
        assert_close(by_us(case, learned, first[1], batch, number=1), second)
    assert np.abs(found[0][0].weights[0] - policy.actor.weights[0]).max() > 1e-3  # something was learned
    assert same(
        found[0][0].log_std[case.actions - len(case.beyond) :], np.float32(case.beyond)
    )  # nothing depends on them


def test_in_the_first_step_all_gradients_are_those_of_xla():
    """By Adam's moments, which no learning rate hides; relative to the largest of each array."""
    case = Case(epochs=1, minibatches=2, gradient_clip=100.0)._replace(samples=(32, 8, 1))
    policy, opt_state, batch = given(case)
    mine, its = (jax.tree.leaves(by(case, policy, opt_state, batch)[1]) for by in (by_us, by_xla))
    for one, other in zip(mine[1:3], its[1:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max(), rtol=2e-6)


def test_its_hyperbolic_tangent_is_the_right_one():
    """A critic of one hidden unit that gives its tangent, and should have given 0: its error is the square."""
    case = Case(obs=1, actions=1, channels=1, hidden=1, layers=1, samples=(2, 1, 1), epochs=1, minibatches=2)
    policy, opt_state, batch = given(case._replace(beyond=()))
    critic = MLP((np.ones((1, 1), np.float32),) * 2, (np.zeros(1, np.float32),) * 2)
    steps = jax.device_get(lesson(case.config, policy, batch, BONUS, 0, KEY))._replace(rates=np.zeros(2, np.float32))
    one = np.ones(2, np.float32)
    for x in (*np.geomspace(1e-9, 30, 200), *np.linspace(-12, 12, 200)):
        rows = steps.batch._replace(obs=x * one[:, None], target=0 * one[:, None], counted=one, learned=one[:, None])
        found = compiled_ppo.update(case.config, (policy.actor, critic), opt_state, steps._replace(batch=rows))[2]
        np.testing.assert_allclose(np.sqrt(found["value_loss"]), abs(np.tanh(np.float32(x))), rtol=6e-7, atol=1e-18)


def test_the_number_of_threads_alone_changes_bits(monkeypatch):
    case = CASES[0]
    everything, found = given(case), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(compiled_ppo, "thread_count", lambda size, threads=threads: threads)
        found.append(by_us(case, *everything))
        assert all(same(found[-1], by_us(case, *everything)) for _ in range(10))
    assert not same(found[0], found[1])


def test_nothing_that_is_given_changes():
    case = CASES[0]
    everything = jax.tree.map(np.array, given(case))
    before = jax.tree.map(np.copy, everything)
    nets, opt_state, _ = by_us(case, *everything)
    kept = jax.tree.map(np.copy, (nets, opt_state))
    policy = eqx.tree_at(lambda p: (p.actor, p.critic), everything[0], nets)
    by_us(case, policy, opt_state, everything[2], number=1)
    assert same(everything, before)
    assert same((nets, opt_state), kept)


@pytest.mark.parametrize("field", ["advantage", "target", "log_prob"])
def test_numbers_that_are_not_finite_are_not_hidden(field):
    """Whoever trains looks at the policy."""
    policy, opt_state, batch = given(CASES[0])
    rows = getattr(batch, field).copy()
    rows[3, 2] = np.nan
    nets = by_us(CASES[0], policy, opt_state, batch._replace(counted=np.ones_like(batch.counted), **{field: rows}))[0]
    assert not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(nets))


def test_lessons_at_once_wait_for_each_other(monkeypatch):
    monkeypatch.setattr(compiled_ppo, "thread_count", lambda size: 3)
    case, everything = CASES[0], given(CASES[0])
    wanted = by_us(case, *everything)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: by_us(case, *everything), range(12)))
    assert all(same(one, wanted) for one in found)


def test_nobody_waits_for_who_will_never_come(monkeypatch):
    """Ctrl-C between the calls of two threads."""
    called, pool = [], ThreadPoolExecutor(2)

    class Interrupted:
        def submit(self, *arguments):
            if called:
                raise KeyboardInterrupt
            called.append(pool.submit(*arguments))
            return called[0]

    case, everything = CASES[0], given(CASES[0])
    wanted = by_us(case, *everything)
    with monkeypatch.context() as patch:
        patch.setattr(compiled_ppo, "thread_count", lambda size: 3)
        patch.setattr(compiled_ppo, "_helpers", lambda count: Interrupted())
        with pytest.raises(KeyboardInterrupt):
            by_us(case, *everything)
    began = time.monotonic()
    called[0].result(10)
    assert time.monotonic() - began < 5
    assert same(by_us(case, *everything), wanted)
    pool.shutdown()


def test_small_steps_have_few_threads():
    assert compiled_ppo.thread_count(100) == 1
    assert compiled_ppo.thread_count(10**6) == jax.device_count()


class Shy(RSPO):
    def loss(self, state, policy, trajectory):
        return jnp.zeros(())


def test_who_learns_by_it(monkeypatch):
    hopper = Mujoco("hopper")
    config = preset("hopper")
    assert compiled_ppo.learns(hopper, config)
    assert compiled_ppo.learns(Mujoco("humanoid"), preset("humanoid"))
    whole = dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, minibatches=1))
    wide = dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, hidden=256))
    other_loss = dataclasses.replace(config, method=Shy())
    for env, settings in (
        (hopper, whole),
        (hopper, wide),
        (hopper, other_loss),
        (rspo.make("gym:CartPole-v1"), config),
        (rspo.make("four-goals-easy"), config),
    ):
        assert not compiled_ppo.learns(env, settings)
        assert compiled_ppo.missing_for(env, settings) is None
    native.use(False)
    assert not compiled_ppo.learns(hopper, config)
    native.use(True)
    monkeypatch.setattr(compiled_ppo, "why_not", lambda: "no")
    assert not compiled_ppo.learns(hopper, config)
    assert compiled_ppo.missing_for(hopper, config) == "no"


def test_a_whole_update_of_a_robots_is_that_of_xla(monkeypatch):
    """From the same play."""
    env = Mujoco("hopper")
    config = preset("hopper")
    config = dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, batch=2048, updates=5))
    assert compiled_ppo.thread_count(2048 // config.ppo.minibatches) == jax.device_count() > 1
    found = []
    for why in (None, "not this time"):
        monkeypatch.setattr(compiled_ppo, "why_not", lambda why=why: why)
        tools = Tools(env, config)
        trainer = make_trainer(env, config, 10)
        found.append(trainer.advance(trainer.init(KEY), tools.references(Archive(config)), KEY, 1))
    (mine, my_rows), (its, its_rows) = found
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(mine))
    assert list(my_rows) == list(its_rows)
    assert_close(mine, its, atol=2e-5)
    assert_close(my_rows, its_rows, atol=2e-5)
