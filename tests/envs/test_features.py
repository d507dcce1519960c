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
from rspo.envs.skirmish.maps import MAPS
from rspo.errors import InputError
from rspo.registry import ENVIRONMENTS
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


@pytest.mark.parametrize("name", [*GAMES, *MAPS])
def test_every_agent_has_features_of_its_own(name):
    """By shapes alone: [A, F], whether or not a reward is the same for all."""
    env = rspo.make(name)
    spec, noise = env.spec, lambda size: np.zeros(size, np.float32)
    state, _ = jax.eval_shape(env.reset, noise(spec.reset_noise))
    action = np.zeros((spec.agents, *spec.action_space.shape), np.int32)
    _, step = jax.eval_shape(env.step, state, action, noise(spec.step_noise))
    assert step.features.shape == (spec.agents, spec.features)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_a_skirmishs_reward_is_its_features_times_its_weights(name):
    """Random play shows damage; it does not win."""
    env = rspo.make(name)
    played = collect(env, uniform_policy(env.spec.action_space), 64, jax.random.key(0))
    assert played.features.shape == (*played.reward.shape, 3)
    np.testing.assert_allclose(played.reward, played.features @ env.weights, rtol=1e-5)
    assert (played.features[..., 0] > 0).any()
    assert not played.features[~played.live].any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS.summaries())
def test_every_built_in_environment_passes_the_public_check(name):
    assert rspo.check_env(name) == rspo.make(name).spec


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
