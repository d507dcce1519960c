"""Members trained together are members trained alone, each with its own data and optimiser."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import plain
from rspo.core.learning import PPO
from rspo.core.members import alone, count, each_member, member
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Method, Plan, Setup
from rspo.methods.references import Measure
from rspo.rollout.collector import collector
from worlds import Clock

MEMBERS, UPDATES = 3, 4
SETTINGS = {
    "minibatches": PPO(minibatches=4, padding="drop", normalize_reward=True),
    "memory": PPO(memory="gru", chunk=2, padding="restart", normalize_obs=True),
}
SMALL = {
    "batch": 40,
    "updates": UPDATES,
    "epochs": 2,
    "hidden": 8,
    "layers": 1,
    "learning_rate": 1e-2,
}


def trainer_of(settings, members):
    """`train(keys)`: as many members as there are keys, and the table of their metrics. Compiled
    once."""
    env = Clock()
    setup = Setup(env.spec, Plan(members=members), capacity=members)
    trainer = make_trainer(collector(env), Method(), settings, Measure(), setup, rows=UPDATES)
    kept = plain.references(
        [plain.random_policy(np.random.default_rng(0), actions=3)], [0.0], 1, kept=0
    )
    return lambda keys: trainer.advance(trainer.init(keys), kept, keys, UPDATES)


def learned(trained, i):
    """All that one member has learned, and the metrics of its updates."""
    state, table = trained
    own = member((state.policy, state.opt_state, state.returns), i)
    return own, {name: column[:, i] for name, column in table.items()}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_member_does_not_know_whom_it_is_trained_with(settings):
    """The same to the last bit with other members and at another index; and up to rounding when
    trained alone, which is a different program."""
    settings, keys = dataclasses.replace(settings, **SMALL), jax.random.split(jax.random.key(0), 5)
    together, single = trainer_of(settings, MEMBERS), trainer_of(settings, 1)
    first, second = together(keys[:3]), together(keys[jnp.asarray([3, 0, 4])])
    jax.tree.map(np.testing.assert_array_equal, learned(first, 0), learned(second, 1))
    close = lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    for i in range(MEMBERS):
        jax.tree.map(close, learned(first, i), learned(single(keys[i : i + 1]), 0))
    for one, other in itertools.combinations(
        range(MEMBERS), 2
    ):  # it would show: weights and data are each one's own
        (policy, *_), metrics = learned(first, one)
        (rival, *_), rivals = learned(first, other)
        assert abs(jax.tree.leaves(policy.actor)[0] - jax.tree.leaves(rival.actor)[0]).max() > 0.1
        assert (metrics["return"] != rivals["return"]).any()


def test_members_can_be_taken_one_by_one():
    tree = (jnp.arange(6.0).reshape(3, 2), jnp.arange(3))
    assert count(tree) == 3
    found = each_member(lambda pair, number: pair.sum() * number, *tree)
    np.testing.assert_array_equal(found, [0.0, 5.0, 18.0])
    np.testing.assert_array_equal(member(tree, 1)[0], [2.0, 3.0])
    single = alone(member(tree, 2))
    np.testing.assert_array_equal(
        each_member(lambda pair, number: pair + number, *single), [[6.0, 7.0]]
    )
