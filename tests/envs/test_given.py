"""What an environment's own code gives: taken as it is if it fits, and refused in a sentence where
it comes in."""

import time
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pettingzoo
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

import rspo
from rspo.core.distributions import Categorical
from rspo.core.spaces import Discrete
from rspo.core.types import Spec, Step
from rspo.envs import given
from rspo.envs.adapters.gymnasium import GymEnv, GymVector
from rspo.envs.adapters.observations import Observed
from rspo.envs.adapters.pettingzoo import ParallelWorld
from rspo.envs.base import Env, HostEnv, HostStep, Instances
from rspo.errors import EnvironmentFailure, InputError, RspoWarning
from worlds import collect

KEY = jax.random.key(3)
LATE = 100  # steps: after all that `check_env` looks at


def some(obs):
    return Categorical(jnp.zeros((*obs.shape[:-1], 2)))


def play(env):
    return collect(env, some, 3, KEY)


class Walk(gymnasium.Env):
    """Pays 1 a step; `spoil` changes what a step returns after `late` of them, `spoil_reset` what a
    reset does."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, spoil=lambda step: step, spoil_reset=lambda start: start, late=0):
        self.spoil, self.spoil_reset, self.late = spoil, spoil_reset, late

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self.spoil_reset((np.zeros(2, np.float32), {}))

    def step(self, action):
        self.time += 1
        step = np.full(2, 0.5, np.float32), 1.0, False, False, {}
        return self.spoil(step) if self.time > self.late else step


def put(place, value):
    """Instead of one of the values that are returned."""
    return lambda values: (*values[:place], value, *values[place + 1 :])


BAD_STEPS = [
    (
        lambda step: (step[0], step[1], step[2], step[4]),
        "its step gives 4 values, as Gym's steps were before",
    ),
    (
        lambda step: step[:3],
        "its step gives 3 values, but it must give 5: observation, reward, terminated, trunc",
    ),
    (lambda step: None, r"its step gives None \(NoneType\), but it must give 5"),
    (put(3, {}), r"its step gives \{\} \(dict\) as truncated, which must be True or False"),
    (put(2, 0), r"its step gives 0 \(int\) as terminated, which must be True or False"),
    (put(2, np.array([True])), r"array\(\[ True\]\) \(ndarray\) as terminated"),
    (put(4, None), r"its step gives None \(NoneType\) as info, but that must be a dictionary"),
    (put(1, None), r"its step gives None \(NoneType\) as the reward, which must be one number"),
    (put(1, "3.0"), r"its step gives '3.0' \(str\) as the reward"),
    (put(1, np.ones(1)), r"its step gives array\(\[1.\]\) \(ndarray\) as the reward"),
    (
        put(0, np.zeros(1)),
        r"its step gives an observation of shape \(1,\), but its observation space says \(2,\)",
    ),
    (
        put(0, np.zeros((1, 2))),
        r"an observation of shape \(1, 2\), but its observation space says \(2,\)",
    ),
    (
        put(0, {"eyes": 3}),
        r"its step gives \{'eyes': 3\} \(dict\) as an observation, which must be an array of num",
    ),
    (put(0, [0.0, [1.0]]), r"its step gives \[0.0, \[1.0\]\] \(list\) as an observation"),
    (put(0, np.array(["a", "b"])), r"as an observation, which must be an array of numbers"),
    (put(0, np.zeros(2, complex)), r"as an observation, which must be an array of numbers"),
]
BAD_RESETS = [
    (
        lambda start: start[0],
        r"its reset gives array\(\[0., 0.\], dtype=float32\) \(ndarray\), but it must give 2",
    ),
    (
        lambda start: (start[0], 1.0),
        r"its reset gives 1.0 \(float\) as info, but that must be a dictionary",
    ),
    (
        put(0, np.zeros(3)),
        r"its reset gives an observation of shape \(3,\), but its observation space says \(2,\)",
    ),
    (put(0, None), r"its reset gives None \(NoneType\) as an observation"),
]


def one(spoil, spoil_reset, late=0):
    return GymEnv(lambda: Walk(spoil, spoil_reset, late), horizon=150)


def vector(spoil, spoil_reset, late=0):
    return GymVector(Lanes(spoil, spoil_reset, late), horizon=150)


def zoo(spoil, spoil_reset, late=0):
    return ParallelWorld(lambda: Herd(spoil, spoil_reset, late))


@pytest.mark.parametrize(("spoil", "words"), BAD_STEPS)
def test_a_bad_step_is_refused_before_training_and_in_it(spoil, words):
    with pytest.raises(InputError, match=rf"^Walk cannot be trained in: .*{words}") as refused:
        rspo.check_env(one(spoil, lambda start: start))
    assert "\n" not in str(refused.value)
    late = one(spoil, lambda start: start, LATE)
    rspo.check_env(late)
    with pytest.raises(InputError, match=rf"^Walk cannot be played: .*{words}"):
        play(late)


@pytest.mark.parametrize(("spoil_reset", "words"), BAD_RESETS)
def test_so_is_a_bad_reset(spoil_reset, words):
    env = one(lambda step: step, spoil_reset)
    with pytest.raises(InputError, match=rf"^Walk cannot be trained in: .*{words}"):
        rspo.check_env(env)
    with pytest.raises(InputError, match=rf"^Walk cannot be played: .*{words}"):
        play(env)


def test_a_wrapper_that_cannot_take_four_values_is_explained():
    env = lambda: TimeLimit(Walk(BAD_STEPS[0][0]), 9)
    with pytest.raises(
        InputError,
        match=r"expected 5, got 4\); a step must give 5 values: observation, reward, termin",
    ):
        rspo.check_env(env)


def test_the_reward_that_four_values_cost():
    """Ten steps that pay 1 were taken for an episode that was cut short after the first."""
    env = GymEnv(lambda: Walk(), horizon=10)
    assert (collect(env, some, 3, KEY).returns == 10).all()
    with pytest.raises(InputError, match="4 values"):
        collect(GymEnv(lambda: Walk(BAD_STEPS[0][0]), horizon=10), some, 3, KEY)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        put(1, np.float32(1)),
        put(1, 1),
        put(1, True),
        put(1, np.array(1.0)),
        put(2, np.bool_(False)),
        put(3, np.array(False)),
        put(0, [0.5, 0.5]),
        put(0, np.full(2, 0.5)),
        put(0, jnp.full(2, 0.5)),
        list,
    ],
)
def test_other_kinds_of_the_same_numbers_are_taken(spoil):
    usual, other = (
        collect(one(s, lambda start: start), some, 3, KEY) for s in (lambda step: step, spoil)
    )
    for mine, its in zip(jax.tree.leaves(usual), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(mine, its)


# ---- vector environments


class Lanes(VectorEnv):
    """Three that walk."""

    num_envs = 3
    metadata = {"autoreset_mode": AutoresetMode.DISABLED}
    single_observation_space, single_action_space = Walk.observation_space, Walk.action_space

    def __init__(self, spoil=lambda step: step, spoil_reset=lambda start: start, late=0):
        self.spoil, self.spoil_reset, self.late = spoil, spoil_reset, late

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self.spoil_reset((np.zeros((3, 2), np.float32), {}))

    def step(self, actions):
        self.time += 1
        step = (
            np.full((3, 2), 0.5, np.float32),
            np.ones(3),
            np.zeros(3, bool),
            np.zeros(3, bool),
            {},
        )
        return self.spoil(step) if self.time > self.late else step


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda step: (step[0], step[1], step[2], step[4]),
            "its step gives 4 values, as Gym's steps were before",
        ),
        (
            put(3, {}),
            r"its step gives \{\} \(dict\) as truncated, which must be an array of 3 booleans",
        ),
        (put(2, np.zeros(3)), r"as terminated, which must be an array of 3 booleans"),
        (put(1, np.ones((3, 1))), r"as reward, which must be an array of 3 numbers"),
        (
            put(0, np.zeros((2, 2))),
            r"as observations, which must be an array of 3, one per environment",
        ),
        (
            put(0, np.zeros((3, 1))),
            r"an observation of shape \(1,\), but its observation space says \(2,\)",
        ),
        (put(0, {"eyes": 3}), r"as observations, which must be an array of 3"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
def test_vector_environments_are_looked_at_too(spoil, words):
    with pytest.raises(InputError, match=rf"cannot be trained in: .*{words}"):
        rspo.check_env(vector(spoil, lambda start: start))
    late = vector(spoil, lambda start: start, LATE)
    rspo.check_env(late)
    with pytest.raises(InputError, match=rf"cannot be played: .*{words}"):
        play(late)


def test_one_that_resets_itself_must_tell_the_last_observation():
    env = SyncVectorEnv([lambda: TimeLimit(Walk(), 4)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    env.step = lambda actions, step=env.step: (*step(actions)[:4], {})
    with pytest.raises(
        InputError, match="its step gives no final_obs in info where an episode ended"
    ):
        rspo.check_env(env)


# ---- several agents


class Herd(pettingzoo.ParallelEnv):
    """Two that walk, for 150 steps."""

    metadata = {"name": "herd"}
    possible_agents = ["one", "two"]
    max_cycles = 150

    def __init__(self, spoil=lambda step: step, spoil_reset=lambda start: start, late=0):
        self.spoil, self.spoil_reset, self.late = spoil, spoil_reset, late

    def observation_space(self, agent):
        return Walk.observation_space

    def action_space(self, agent):
        return Walk.action_space

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        return self.spoil_reset((self._each(np.zeros(2, np.float32)), self._each({})))

    def step(self, actions):
        self.time += 1
        step = tuple(map(self._each, (np.full(2, 0.5, np.float32), 1.0, False, False, {})))
        return self.spoil(step) if self.time > self.late else step

    def _each(self, value):
        return dict.fromkeys(self.agents, value)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda step: (step[0], step[1], step[2], step[4]),
            "its step gives 4 values, as Gym's steps were before",
        ),
        (
            put(2, False),
            r"its step gives False \(bool\) as terminated, which must be a dictionary by agent",
        ),
        (put(3, {"one": False}), "its step gives no truncated for agent 'two'"),
        (
            put(3, {"one": False, "two": {}}),
            r"its step gives \{\} \(dict\) as truncated of 'two', which must be True",
        ),
        (put(1, {"one": 1.0}), "its step gives no reward for agent 'two'"),
        (
            put(1, {"one": 1.0, "two": None}),
            r"its step gives None \(NoneType\) as the reward of 'two'",
        ),
        (put(0, {"one": np.zeros(2)}), "its step gives no observation for agent 'two'"),
        (
            put(0, {"one": np.zeros(2), "two": np.zeros(1)}),
            r"an observation of shape \(1,\), but its .* says \(2,\)",
        ),
    ],
)
def test_worlds_of_several_agents_are_looked_at_too(spoil, words):
    with pytest.raises(InputError, match=rf"^herd cannot be trained in: .*{words}"):
        rspo.check_env(zoo(spoil, lambda start: start))
    late = zoo(spoil, lambda start: start, LATE)
    rspo.check_env(late)
    with pytest.raises(InputError, match=rf"^herd cannot be played: .*{words}"):
        play(late)
    with pytest.raises(InputError, match="its reset gives no observation for agent 'two'"):
        rspo.check_env(zoo(lambda step: step, put(0, {"one": np.zeros(2)})))


# ---- environments written for rspo


class Host(HostEnv):
    def __init__(self, spoil=lambda step: step, start=(1, 2), late=0):
        self.spoil, self.start, self.late = spoil, start, late

    @property
    def spec(self):
        return Spec(2, Discrete(2), horizon=150)

    def batch(self, size):
        return HostBatch(self)


class HostBatch(Instances):
    def __init__(self, env):
        self.env = env

    def reset(self, which, seeds):
        self.time = 0
        return np.zeros((len(which), *self.env.start))

    def step(self, which, action):
        self.time += 1
        many, never = len(which), np.zeros(len(which), bool)
        step = HostStep(np.zeros((many, 1, 2)), np.ones((many, 1)), never, never)
        return self.env.spoil(step) if self.time > self.env.late else step


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            tuple,
            r"its step gives \(array.* \(tuple\), which must be a rspo.envs.base.HostStep of obs, "
            r"reward, terminated",
        ),
        (
            lambda step: step._replace(obs=step.obs[:, :, :1]),
            r"its step gives obs of shape \(2, 1, 1\), but it must",
        ),
        (
            lambda step: step._replace(reward=np.ones(())),
            r"its step gives reward of shape \(\), but it must be \(2, 1",
        ),
        (
            lambda step: step._replace(reward=1.0),
            r"its step gives 1.0 \(float\) as reward, which must be a NumPy array",
        ),
        (
            lambda step: step._replace(truncated={}),
            r"its step gives \{\} \(dict\) as truncated, which must be a NumPy",
        ),
        (
            lambda step: step._replace(terminated=np.zeros(len(step.obs))),
            "its terminated is of type float64, but it m",
        ),
    ],
)
def test_host_environments_are_looked_at_too(spoil, words):
    with pytest.raises(InputError, match=rf"^Host cannot be trained in: .*{words}"):
        rspo.check_env(Host(spoil))
    late = Host(spoil, late=LATE)
    with pytest.raises(InputError, match=rf"^Host cannot be played: .*{words}"):
        collect(late, some, 2 * jax.device_count(), KEY)
    with pytest.raises(
        InputError,
        match=r"its reset gives observations of shape \(2, 1\), but it must be \(2, 1, 2\)",
    ):
        rspo.check_env(Host(start=(1,)))


# ---- environments written in JAX


class Jaxen(Env):
    """`start` is what its reset gives, `step_` what its step does."""

    start: object = ((), jnp.ones((1, 1)))
    done: object = ((), Step(jnp.ones((1, 1)), jnp.ones(1), jnp.asarray(False)))

    @property
    def spec(self):
        return Spec(1, Discrete(2), 3)

    def reset(self, noise):
        return self.start

    def step(self, state, action, noise):
        if isinstance(self.done, str):
            return jnp.ones(3) @ jnp.ones(4)
        return self.done


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (
            Jaxen(done=((), (jnp.ones((1, 1)), jnp.ones(1), jnp.asarray(False)))),
            "its step must give the state and a r",
        ),
        (
            Jaxen(done=((), Step(jnp.ones((1, 2)), jnp.ones(1), jnp.asarray(False)))),
            r"obs of shape \(1, 2\), but it m",
        ),
        (
            Jaxen(done=(jnp.ones(3), Step(jnp.ones((1, 1)), jnp.ones(1), jnp.asarray(False)))),
            "the state after a step",
        ),
        (
            Jaxen(done=((), Step(jnp.ones((1, 1), jnp.int32), jnp.ones(1), jnp.asarray(False)))),
            "reset gives obs of type float32 and step of int32, but both must be float32",
        ),
        (
            Jaxen(start=jnp.ones((1, 1))),
            "its reset gives .*, but it must give state and observation",
        ),
        (
            Jaxen(done="raises"),
            r"tracing its step by JAX failed \(TypeError: .*(?s:.*)test_given.py",
        ),
        (
            Jaxen(done=((), Step(jnp.ones((1, 1)), jnp.full(1, jnp.nan), jnp.asarray(False)))),
            "a reward that is not a f",
        ),
    ],
)
def test_environments_in_jax_are_looked_at_before_a_run(env, words, tmp_path):
    for look in (rspo.check_env, lambda env: rspo.discover(env, out=tmp_path / "run", quiet=True)):
        with pytest.raises(InputError, match=rf"^Jaxen cannot be trained in: .*{words}"):
            look(env)
    assert not (tmp_path / "run").exists()


# ---- observations outside of their space


@pytest.mark.parametrize(
    "make",
    [
        lambda spoil, late: one(spoil, lambda start: start, late),
        lambda spoil, late: vector(
            lambda s: put(0, np.stack([spoil(s)[0]] * 3))(s), lambda start: start, late
        ),
        lambda spoil, late: zoo(
            lambda s: put(0, dict.fromkeys(s[0], spoil(s)[0]))(s), lambda start: start, late
        ),
    ],
    ids=["one", "vector", "zoo"],
)
@pytest.mark.parametrize(("number", "late"), [(7.5, 0), (-3.0, LATE)])
def test_an_observation_outside_of_its_space_is_warned_of_once(make, number, late):
    env = make(put(0, np.array([0.5, number], np.float32)), late)
    words = rf"gave an observation of {number:g} \(number 2 of 2\), outside its observation space, which says -1 to 1"
    with pytest.warns(RspoWarning, match=words) as warned:
        [look(env) for look in (rspo.check_env, play, play)]
    assert len([w for w in warned if issubclass(w.category, RspoWarning)]) == 1


def test_bounds_themselves_are_inside():
    with warnings.catch_warnings(action="error"):
        rspo.check_env(one(put(0, np.array([1.0, -1.0])), lambda start: start))


# ---- code that raises


def test_an_environments_error_is_a_sentence_and_its_own_traceback_once():
    def unplug(step):
        raise OSError("the robot is\nunplugged")

    env = one(unplug, lambda start: start, LATE)
    rspo.check_env(env)
    with pytest.raises(EnvironmentFailure) as failed:
        play(env)
    head, *trace = str(failed.value).splitlines()
    assert head == "Walk cannot be played: its step failed (OSError: the robot is unplugged)."
    assert trace[0] == "Traceback (most recent call last):"
    assert "test_given.py" in trace[1]
    assert "rspo/" not in "\n".join(trace).replace(__file__, "")
    assert str(failed.value).count("raise OSError") == 1
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__


def test_a_policys_own_error_is_not_the_environments():
    def broken(obs):
        if obs.any():
            raise ArithmeticError("no policy")
        return some(obs)

    with pytest.raises(ArithmeticError, match=r"^no policy$"):
        collect(one(lambda step: step, lambda start: start), broken, 3, KEY)


# ---- what looking costs


def test_looking_takes_a_small_part_of_a_step():
    """With 64 of the cheapest environments: less than a tenth, even if this machine is busy."""
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    results = [env.step(0) for _ in range(8)] * 8

    def seconds(call):
        def once():
            begun = time.perf_counter()
            for _ in range(20):
                call()
            return time.perf_counter() - begun

        return min(once() for _ in range(20))

    def plain():
        obs, reward, terminated, truncated, _ = zip(*results, strict=True)
        np.stack([np.asarray(o, np.float32).reshape(1, -1) for o in obs])
        np.array([[float(r)] for r in reward])
        np.array(terminated, bool)
        np.array(truncated, bool)

    fresh = gymnasium.make("CartPole-v1")

    def step():
        fresh.reset(seed=0)
        for _ in range(8):
            fresh.step(0)

    observed = Observed(env.observation_space, "it")

    def look():
        observed.rows(given.steps(results)[0], "step")

    more = seconds(look) - seconds(plain)
    assert more < 0.1 * 8 * seconds(step)
