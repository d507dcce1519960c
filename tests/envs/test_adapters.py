"""Environments that nobody here wrote, Gymnasium's and PettingZoo's, and those that have something
wrong."""

import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pettingzoo
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

import rspo
from product import assert_refused, here
from rspo.core.distributions import Categorical
from rspo.core.policies import uniform_policy
from rspo.core.spaces import Box, Discrete
from rspo.core.types import Spec, Step
from rspo.envs.adapters.gymnasium import GymEnv, GymVector
from rspo.envs.adapters.pettingzoo import ParallelWorld
from rspo.envs.base import Env
from rspo.errors import EnvironmentFailure, InputError
from rspo.rollout.host import episode_seeds
from rspo.search.check import adapt
from worlds import collect

KEY = jax.random.key(3)
TINY = {
    "iterations": 2,
    "ppo": {"updates": 2, "epochs": 2, "minibatches": 2},
    "judge": {"episodes": 4},
    "quiet": True,
}


def left(obs):
    return Categorical(jnp.broadcast_to(jnp.asarray([0.0, -1e9]), (*obs.shape[:-1], 2)))


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("gym:CartPole-v1", Spec(4, Discrete(2), 500)),
        ("gym:MountainCarContinuous-v0", Spec(2, Box((-1.0,), (1.0,)), 999)),
        ("gym:Pendulum-v1", Spec(3, Box((-2.0,), (2.0,)), 200)),
        ("gym:FrozenLake-v1", Spec(16, Discrete(4), 100)),
        ("gym:Taxi-v4", Spec(500, Discrete(6), 200)),
        ("pettingzoo:mpe2.simple_spread_v3", Spec(18, Discrete(5), 25, agents=3)),
        ("half-cheetah", Spec(17, Box((-1.0,) * 6, (1.0,) * 6), 512)),
        ("four-goals-easy", Spec(10, Discrete(5), 16, features=4)),
    ],
)
def test_worlds_of_others_are_sound(name, spec):
    assert rspo.check_env(name) == spec


def test_gymnasium_warns_once_however_many_are_made():
    with pytest.warns(UserWarning, match="latest versioned environment `Acrobot-v1`") as warned:
        batches = [adapt("gym:Acrobot").batch(3) for _ in range(2)]
    assert len(batches) == 2
    assert len(warned) == 1


def test_gymnasiums_episodes_are_collected_as_they_are():
    """Every observation, reward and end, against an environment that the test steps itself."""
    played = collect(adapt("gym:CartPole-v1"), left, 5, KEY)
    env = gymnasium.make("CartPole-v1")
    for n, seed in enumerate(episode_seeds(KEY, 5)):
        obs, _ = env.reset(seed=int(seed))
        for t in range(20):
            np.testing.assert_array_equal(played.obs[t, n, 0], obs)
            assert played.live[t, n]
            obs, reward, terminated, _, _ = env.step(0)
            assert played.reward[t, n, 0] == reward
            assert played.terminated[t, n] == terminated
            if terminated:
                break
        assert terminated
        assert not played.live[t + 1 :, n].any()
        np.testing.assert_array_equal(played.last.obs[n, 0], obs)


class Counter(gymnasium.Env):
    """Counts to `end`; choices are 5 and 6, and the observation is a square of numbers."""

    observation_space = gymnasium.spaces.Box(0, 99, (2, 2))
    action_space = gymnasium.spaces.Discrete(2, start=5)

    def __init__(self, end=3, broken=None):
        self.end, self.broken = end, broken

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._obs(), {}

    def step(self, action):
        assert action in (5, 6)
        if self.broken == "step":
            raise OSError("unplugged")
        self.time += 1
        return self._obs(), float(action), self.time >= self.end, False, {}

    def _obs(self):
        return np.full((2, 2), np.nan if self.broken == "nan" else self.time, np.float32)


def counter(**settings):
    return TimeLimit(Counter(**settings), 4)


@pytest.mark.parametrize(
    "given",
    [
        counter,
        counter(),
        lambda: SyncVectorEnv([counter] * 2),
        lambda: SyncVectorEnv([counter] * 3, autoreset_mode=AutoresetMode.SAME_STEP),
        lambda: SyncVectorEnv([counter] * 7, autoreset_mode=AutoresetMode.DISABLED),
        SyncVectorEnv([counter] * 5),
        lambda: GymEnv(Counter, horizon=4),
    ],
    ids=["function", "object", "vector", "same step", "no autoreset", "vector object", "adapter"],
)
def test_however_it_is_passed(given):
    world = adapt(given)
    rspo.check_env(world)
    played = collect(world, left, 5, KEY)
    for n in range(5):
        np.testing.assert_array_equal(played.obs[:, n, 0], [[0] * 4, [1] * 4, [2] * 4, [3] * 4])
        np.testing.assert_array_equal(played.reward[:, n, 0], [5, 5, 5, 0])
        np.testing.assert_array_equal(played.terminated[:, n], [0, 0, 1, 1])
    if world.can_restart:
        np.testing.assert_array_equal(
            collect(world, left, 5, KEY, padding="restart").obs[:, 0, 0, 0], [0, 1, 2, 0]
        )
    else:
        with pytest.raises(InputError, match="DISABLED"):
            collect(world, left, 5, KEY, padding="restart")


class Zoo(pettingzoo.ParallelEnv):
    """Two agents; the second leaves after a step, the first after `end`. Observed: the time and
    oneself."""

    metadata = {"name": "zoo"}
    possible_agents = ["one", "two"]
    max_cycles = 4

    def __init__(self, end=3, odd=False, mean=False):
        self.end, self.odd, self.mean = end, odd, mean

    def observation_space(self, agent):
        return gymnasium.spaces.Box(-9, 9, (3 if self.odd and agent == "two" else 2,))

    def action_space(self, agent):
        return gymnasium.spaces.Box(-2, 2, (1,))

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        return self._obs(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.time += 1
        present, obs = self.agents, self._obs()
        ends = {agent: self.time >= (self.end if agent == "one" else 1) for agent in present}
        cuts = dict.fromkeys(present, self.time >= 4)
        self.agents = [agent for agent in present if not ends[agent] and not cuts[agent]]
        reward = {} if self.mean else {agent: float(actions[agent][0]) for agent in present}
        return obs, reward, ends, cuts, {agent: {} for agent in present}

    def _obs(self):
        return {agent: np.array([self.time, agent == "two"], np.float32) for agent in self.agents}


@pytest.mark.parametrize("end", [3, 9])
def test_agents_may_leave_one_by_one(end):
    played = collect(ParallelWorld(lambda: Zoo(end)), uniform_policy(Box((-1.0,), (1.0,))), 3, KEY)
    np.testing.assert_array_equal(played.obs[:, 0, 0, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(played.obs[:, 0, 1, 0], [0, 1, 1, 1])
    np.testing.assert_array_equal(played.obs[:, 0, :, 1], [[0, 1]] * 4)
    paid = np.array([[1, 1], [1, 0], [1, 0], [end > 3, 0]])
    np.testing.assert_allclose(played.reward[:, 0], 2 * played.action[:, 0, :, 0] * paid, rtol=1e-6)
    np.testing.assert_array_equal(played.terminated[:, 0], [0, 0, end == 3, end == 3])
    np.testing.assert_array_equal(played.truncated[:, 0], [0, 0, 0, end == 9])


class Shaped(gymnasium.Env):
    """Never played: its spaces alone are told."""

    def __init__(self, shape, choices):
        self.observation_space = gymnasium.spaces.Box(0, 1, shape)
        self.action_space = gymnasium.spaces.Discrete(choices)


class Wrong(Env):
    """A JAX environment whose reward lacks the agent axis."""

    @property
    def spec(self):
        return Spec(1, Discrete(2), 3)

    def reset(self, noise):
        return (), jnp.ones((1, 1))

    def step(self, state, action, noise):
        return (), Step(jnp.ones((1, 1)), jnp.ones(()), jnp.asarray(0.0))


def once_only():
    made = []

    def environment():
        if made:
            raise OSError("only one at a time")
        made.append(counter())
        return made[0]

    return environment


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("gym:Nothing-v0", "Gymnasium cannot make 'Nothing-v0'"),
        ("gym:Blackjack-v1", "Blackjack-v1 has no time limit: give the length .* --horizon 200"),
        ("gym:os:Thing-v0", "'os' is not in an installed package that builds on gymnasium"),
        ("pettingzoo:this", "'this' is not in an installed package that builds on pettingzoo"),
        ("pettingzoo:mpe2", "no parallel_env"),
        ("pettingzoo:mpe2.nothing", "Cannot import 'mpe2.nothing'"),
        ("pettingzoo:mpe2.simple_tag_v3", "adversary_0 observes 16 numbers, agent_0 14"),
        (lambda: Zoo(odd=True), "one observes 2 numbers, two 3"),
        (Counter(), "has no time limit"),
        (lambda: counter(broken="nan"), "an observation that is not a finite number"),
        (
            lambda: counter(broken="step"),
            r"Counter cannot be trained in: its step failed \(OSError: unplugged\)",
        ),
        (
            lambda: 1 / 0,
            r"environment cannot be trained in: making it failed \(ZeroDivisionError: division by "
            r"zero\)",
        ),
        (
            once_only(),
            "environment cannot be trained in: making it failed \\(OSError: only one at a time\\)",
        ),
        (lambda: Zoo(mean=True), "its step gives no reward for agent 'one'"),
        (
            lambda: TimeLimit(Shaped((210, 160, 3), 2), 4),
            "Shaped cannot be .* observes 100800 numbers, as an image has",
        ),
        (
            lambda: TimeLimit(Shaped((2,), 1), 4),
            "it has 1 actions to choose from, which must be .* from 2",
        ),
        (Wrong(), r"reward of shape \(\), but it must be \(1,\); terminated is of type float32"),
        (3, "3 is not an environment"),
        (lambda: 3, "made 3"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(env, words):
    with pytest.raises(InputError, match=words):
        rspo.check_env(env)
    assert "this" not in sys.modules


def test_a_registered_environment_that_cannot_be_made_is_said():
    def broken():
        raise OSError("unplugged")

    gymnasium.register("Broken-v0", broken, max_episode_steps=4)
    with pytest.raises(
        EnvironmentFailure,
        match=r"^gym:Broken-v0 cannot be played: making it failed \(OSError: unplug",
    ):
        rspo.make("gym:Broken-v0")


def test_an_environment_that_ignores_its_seed_is_warned_about():
    class Moody(Counter):
        def _obs(self):
            return np.random.default_rng().random((2, 2), np.float32)

    with pytest.warns(UserWarning, match="begins differently from the same seed"):
        rspo.check_env(lambda: TimeLimit(Moody(), 4))


@pytest.mark.slow
@pytest.mark.parametrize("env", [counter, lambda: SyncVectorEnv([counter] * 2), Zoo])
def test_a_whole_run_in_them(env, tmp_path):
    settings = TINY | {"ppo": TINY["ppo"] | {"batch": 16}, "out": tmp_path / "run"}
    archive = rspo.discover(env, **settings)
    assert len(archive) == 2
    again = rspo.evaluate(tmp_path / "run", env=env)
    assert [s.evaluation for s in again] == [s.evaluation for s in archive]


@pytest.mark.slow
def test_the_command_line_takes_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, folder = (
        "pettingzoo:mpe2.simple_spread_v3",
        "runs/pettingzoo-mpe2.simple_spread_v3-rspo-seed0",
    )
    flags = (
        "--iterations",
        "1",
        "--ppo.updates",
        "1",
        "--ppo.batch",
        "200",
        "--judge.episodes",
        "2",
    )
    done = here("discover", name, *flags)
    assert done.code == 0
    assert folder in done.out
    assert f"rspo play {folder} 0 --gif strategy-0.gif" in done.out
    assert (
        here("evaluate", folder, "--json").out == (tmp_path / folder / "summary.json").read_text()
    )
    assert_refused(here("play", folder, "0"), "use --gif")
    assert_refused(here("discover", "gym:Nothing-v0"), "Nothing-v0")


def test_numbers_without_bounds_keep_their_units():
    space = Box((-np.inf, -2.0, 0.0), (np.inf, 4.0, np.inf))
    np.testing.assert_array_equal(
        space.to_env(np.array([[-7.0, 0.5, -3.0]], np.float32)), [[-7.0, 2.5, 0.0]]
    )


def test_a_missing_extra_is_named(monkeypatch):
    for module in ("gymnasium", "pettingzoo", "mujoco"):
        monkeypatch.setitem(sys.modules, module, None)
    for name, extra in (
        ("gym:CartPole-v1", "gym"),
        ("pettingzoo:mpe2.x", "pettingzoo"),
        ("hopper", "mujoco"),
    ):
        with pytest.raises(InputError, match=rf"pip install 'rspo\[{extra}\]'"):
            rspo.make(name)


def test_a_vector_environment_has_as_many_lanes_as_it_has():
    assert GymVector(SyncVectorEnv([counter] * 3)).most_lanes == 3
