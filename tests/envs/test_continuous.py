"""Continuous actions from the space to the reward model, and two optima that RSPO must tell apart
by densities."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rspo
from product import results
from rspo.core.distributions import Gaussian
from rspo.core.learning import PPO
from rspo.core.policies import init_policy
from rspo.core.policies.policy import LOG_STD
from rspo.core.spaces import Box
from rspo.core.types import Descriptor, Samples, Spec, View
from rspo.envs.base import HostEnv, HostStep, Instances
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Method, Plan, Setup
from rspo.methods.references import Measure, step_nll
from rspo.methods.reward_model import init_reward_model
from rspo.rollout.collector import collector
from rspo.runs.run import Run
from worlds import Slope

SPACE = Box((-0.4, 0.0, -np.inf), (0.4, 10.0, 3.0))
SPEC = Spec(4, SPACE, horizon=3)


@pytest.mark.parametrize("backend", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_a_box_is_reached_from_its_middle_and_never_left(backend):
    found = SPACE.to_env(
        backend(np.array([[0, 0, 0], [-1, -1, -7], [1, 1, 7], [0.5, 9, 2]], np.float32))
    )
    np.testing.assert_allclose(
        found, [[0, 5, 0], [-0.4, 0, -7], [0.4, 10, 3], [0.2, 10, 2]], rtol=1e-6
    )
    assert SPACE.n == 3


def test_a_fresh_policy_is_centred_with_a_deviation_of_one():
    policy = init_policy(SPEC, 1, 16, 2, True, jax.random.key(0))
    found = policy(jax.random.normal(jax.random.key(1), (50, 4)))
    assert isinstance(found, Gaussian)
    assert np.abs(found.mean).max() < 0.1
    np.testing.assert_array_equal(found.log_std, 0)
    own = jax.device_get(policy)(np.zeros((5, 4), np.float32))
    assert isinstance(own.mean, np.ndarray)


@pytest.mark.parametrize(("learned", "used"), [(-99.0, LOG_STD[0]), (99.0, LOG_STD[1]), (0.3, 0.3)])
def test_deviations_stay_between_bounds(learned, used):
    policy = init_policy(SPEC, 1, 4, 1, False, jax.random.key(0))
    policy = eqx.tree_at(lambda p: p.actor.log_std, policy, jnp.full(3, learned))
    np.testing.assert_allclose(policy(jnp.zeros((2, 4))).log_std, used, rtol=1e-6)


@pytest.mark.parametrize("gaussian", ["density", "distance"])
@pytest.mark.parametrize("cap", [None, 3.0])
def test_the_nll_of_a_step_is_the_density_or_the_distance_capped(gaussian, cap):
    rng = np.random.default_rng(0)
    policy = init_policy(SPEC, 1, 4, 1, False, jax.random.key(0))
    policy = eqx.tree_at(lambda p: p.actor.log_std, policy, jnp.asarray([0.5, -1.0, 0.0]))
    obs, action = (
        rng.standard_normal((9, 4), np.float32),
        2 * rng.standard_normal((9, 3), np.float32),
    )
    counted = np.arange(9) < 7
    samples = Samples(View(obs), action, np.zeros(9), counted, np.ones(9, bool))
    nll = step_nll(policy, samples, Measure(gaussian=gaussian, cap=cap))
    mean, std = np.asarray(policy(obs).mean, np.float64), np.exp([0.5, -1.0, 0.0])
    density = (((action - mean) / std) ** 2 / 2 + np.log(std) + 0.5 * np.log(2 * np.pi)).sum(-1)
    wanted = density if gaussian == "density" else ((action - mean) ** 2 / 2).sum(-1)
    wanted = np.where(counted, wanted if cap is None else np.minimum(wanted, cap), 0.0)
    np.testing.assert_allclose(nll, wanted, rtol=1e-4, atol=1e-5)


def test_the_reward_model_takes_the_action_as_it_is():
    model = init_reward_model(SPEC, 8, jax.random.key(0))
    obs, action = (
        np.ones((5, 4), np.float32),
        np.random.default_rng(0).standard_normal((5, 3), np.float32),
    )
    np.testing.assert_allclose(
        model(obs, action), model.net(jnp.concatenate([obs, action], -1))[..., 0], rtol=1e-6
    )
    assert model.net.weights[0].shape == (7, 8)


@pytest.mark.slow
def test_jax_environments_may_have_continuous_actions_too():
    archive = rspo.discover(
        Slope(), iterations=1, ppo={"batch": 256, "updates": 30, "learning_rate": 0.01}, quiet=True
    )
    assert archive[0].evaluation.greedy_return_mean > 17  # of 20; 10 at first
    assert archive[0].act(np.ones(1), greedy=True) > 8


class TwoPeaks(HostEnv):
    """Three steps that each pay most at -0.6 and at 0.6."""

    @property
    def spec(self):
        return Spec(1, Box((-2.0,), (2.0,)), horizon=3)

    def batch(self, size):
        return Peaks()

    def describe(self, trajectory):
        right = float((np.asarray(trajectory.action) > 0).mean())
        return Descriptor(
            "right" if right > 0.5 else "left", {"right": right}, clear=abs(right - 0.5) > 0.3
        )


class Peaks(Instances):
    def reset(self, which, seeds):
        return np.ones((len(which), 1, 1), np.float32)

    def step(self, which, action):
        reward = np.exp(-4 * (np.abs(action[..., 0] / 2) - 0.6) ** 2)
        never = np.zeros(len(which), bool)
        return HostStep(self.reset(which, None), reward, never, never)


# The robots' method: in one stream the intrinsic reward, a density with no upper bound, drowns the
# task's once a policy is sharp. And time to leave the middle: after 60 updates five of twelve
# seeds' first policies had not. With both, 16 seeds of 16 find two peaks.
SETTINGS = {
    "ppo": {
        "batch": 384,
        "updates": 100,
        "learning_rate": 0.02,
        "epochs": 4,
        "minibatches": 1,
        "padding": "count",
    },
    "measure": {"alpha": 0.5},
    "method": {"lambda_b": 1.0, "streams": "grouped"},
    "judge": {"episodes": 32},
}


@pytest.mark.slow
def test_the_ratios_of_a_first_pass_are_one_on_a_host_too():
    """Its workers return no log-probabilities: the learner computes them with the policy that
    acted, before it changes."""
    settings = PPO(batch=96, updates=3, epochs=1, hidden=8, learning_rate=0.1, normalize_obs=True)
    setup = Setup(TwoPeaks().spec, Plan(), 0)
    keys = jax.random.split(jax.random.key(0), 2)
    with collector(TwoPeaks()) as play:
        trainer = make_trainer(play, Method(), settings, Measure(), setup, 3)
        _, metrics = trainer.advance(trainer.init(keys[:1]), None, keys[1:], 3)
    assert metrics["approx_kl"].shape == (3, 1)
    np.testing.assert_allclose(metrics["approx_kl"], 0.0, atol=1e-6)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peaks") / "run"
    rspo.discover(TwoPeaks(), iterations=2, out=folder, quiet=True, **SETTINGS)
    return folder


def test_both_peaks_are_found(finished):
    archive = rspo.load(finished)
    assert {strategy.descriptor for strategy in archive} == {"left", "right"}
    assert archive.distinct == 2
    for strategy in archive:
        assert strategy.evaluation.greedy_return_mean > 2.7  # of 3
        assert strategy.policy.actor.log_std.shape == (1,)


def test_a_kept_policy_acts_in_the_environments_units(finished):
    for strategy in rspo.load(finished):
        action = strategy.act(np.ones((7, 5, 1)), greedy=True)
        assert action.shape == (7, 5, 1)
        np.testing.assert_allclose(np.abs(action), 1.2, atol=0.5)
        drawn = strategy.act(np.ones((999, 1)), rng=np.random.default_rng(0))
        np.testing.assert_array_equal(
            drawn, strategy.act(np.ones((999, 1)), rng=np.random.default_rng(0))
        )
        assert np.abs(drawn).max() <= 2
        assert drawn.std() > 0.05


def test_the_space_survives_the_folder(finished):
    assert Run.open(finished).spec == TwoPeaks().spec
    assert json.loads((finished / "run.json").read_text())["spec"]["action_space"] == [
        [-2.0],
        [2.0],
    ]


def test_playing_anew_gives_the_same_numbers(finished):
    again = rspo.evaluate(finished, env=TwoPeaks())
    for strategy, other in zip(rspo.load(finished), again, strict=True):
        assert strategy.evaluation == other.evaluation


class Interrupted(TwoPeaks):
    """Raises Ctrl-C in its n-th batch of episodes."""

    def __init__(self, moment):
        self.left = moment

    def batch(self, size):
        return Watched(self)


class Watched(Peaks):
    def __init__(self, env):
        self.env = env

    def reset(self, which, seeds):
        if seeds is not None:
            self.env.left -= 1
            if self.env.left == 0:
                raise KeyboardInterrupt
        return super().reset(which, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [30, 200])  # in the first and in the second iteration
def test_an_interrupted_run_goes_on_to_the_same_bytes(finished, tmp_path, moment):
    folder = tmp_path / "run"
    archive = rspo.discover(Interrupted(moment), iterations=2, out=folder, quiet=True, **SETTINGS)
    assert archive.interrupted
    rspo.resume(folder, env=TwoPeaks(), quiet=True)
    assert results(folder).keys() == results(finished).keys()
    # The environment's name is in run.json, whose checksum is in every part.
    for mine, other in zip(rspo.load(folder), rspo.load(finished), strict=True):
        leaves = zip(jax.tree.leaves(mine.policy), jax.tree.leaves(other.policy), strict=True)
        assert all(a.tobytes() == b.tobytes() for a, b in leaves)
        assert dataclasses.asdict(mine.evaluation) == dataclasses.asdict(other.evaluation)
