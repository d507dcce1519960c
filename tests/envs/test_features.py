"""Rewards as weighted sums of features: those of the built-in games, and what `check_env` says of
others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rspo
from rspo.core.policies import uniform_policy
from rspo.core.spaces import Discrete
from rspo.core.types import Spec, Step
from rspo.envs.base import Env
from rspo.errors import InputError
from worlds import collect

GAMES = {
    "four-goals-easy": 4,
    "four-goals-hard": 4,
    "monster-hunt": 3,
    "escalation": 2,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), GAMES.items())
def test_a_games_reward_is_its_features_times_its_weights(name, count):
    env = rspo.make(name)
    played = collect(env, uniform_policy(5), 2048, jax.random.key(0))
    assert env.spec.features == count
    assert played.features.shape == (*played.reward.shape, count)
    np.testing.assert_allclose(played.reward, played.features @ env.weights, rtol=1e-5)
    assert (played.features != 0).any((0, 1, 2)).all()  # random play shows them all
    assert not played.features[~played.live].any()


class Shop(Env):
    """Two agents, each with a choice between two goods."""

    worth: tuple[float, ...] = eqx.field(static=True, default=(1.0, 3.0))
    count: int = eqx.field(static=True, default=2)

    @property
    def spec(self):
        return Spec(1, Discrete(2), horizon=3, agents=2, features=2)

    @property
    def weights(self):
        return np.array(self.worth, np.float32)

    def reset(self, noise):
        return (), jnp.ones((2, 1))

    def step(self, state, action, noise):
        features = jax.nn.one_hot(action, self.count)
        reward = jnp.array([1.0, 3.0])[action]
        return (), Step(jnp.ones((2, 1)), reward, jnp.zeros((), bool), features=features)


class Bare(Shop):
    def step(self, state, action, noise):
        after, step = super().step(state, action, noise)
        return after, step._replace(features=None)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Shop(worth=(1.0, 2.0)), "its reward is not the sum of its features times its weights"),
        (Shop(worth=(1.0,)), "its weights are of shape (1,), but its spec says 2 features"),
        (Shop(count=3), "must be (2, 2), but its step gives some of shape (2, 3)"),
        (Bare(), "must be (2, 2), but its step gives no array of them"),
    ],
)
def test_what_is_no_weighted_sum_is_refused(env, words):
    with pytest.raises(InputError) as refused:
        rspo.check_env(env)
    assert words in str(refused.value)


def test_what_is_one_passes():
    assert rspo.check_env(Shop()) == Shop().spec
