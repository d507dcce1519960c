"""Observations that are choices, or several things at once, as numbers in a row; actions that are
several choices."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import rspo
from rspo.core.policies import uniform_policy
from rspo.core.spaces import Discrete, MultiDiscrete
from rspo.core.types import Spec
from rspo.envs.adapters.gymnasium import GymEnv, from_id
from rspo.envs.adapters.observations import Observed
from rspo.envs.adapters.spaces import action_space, native_action
from rspo.envs.given import Unfit
from rspo.errors import InputError
from rspo.rollout.adapt import adapt
from rspo.rollout.host import episode_seeds
from worlds import collect

KEY = jax.random.key(3)
ROOM = spaces.Dict(
    {
        "door": spaces.Discrete(3, start=1),
        "lamps": spaces.MultiBinary(2),
        "place": spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(2)]),
        "tools": spaces.MultiDiscrete([2, 3]),
    }
)


@st.composite
def any_space(draw, depth=2):
    kinds = ["box", "discrete", "binary", "multi"] + (["dict", "tuple"] if depth else [])
    kind, size = draw(st.sampled_from(kinds)), draw(st.integers(1, 4))
    inner = lambda: [draw(any_space(depth - 1)) for _ in range(size)]
    match kind:
        case "box":
            return spaces.Box(-2, 2, draw(st.sampled_from([(), (size,), (2, size)])))
        case "discrete":
            return spaces.Discrete(size, start=draw(st.integers(-3, 3)))
        case "binary":
            return spaces.MultiBinary(size)
        case "multi":
            return spaces.MultiDiscrete(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
        case "dict":
            return spaces.Dict({f"part{i}": part for i, part in enumerate(inner())})
    return spaces.Tuple(inner())


@given(space=any_space(), seed=st.integers(0, 2**31 - 1))
def test_any_observation_is_laid_out_as_gymnasium_flattens_it(space, seed):
    space.seed(seed)
    seen, observed = [space.sample() for _ in range(3)], Observed(space, "it")
    rows = observed.rows(seen, "reset")
    assert rows.shape == (3, observed.size)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, [spaces.flatten(space, one) for one in seen])
    low, high = observed.bounds
    assert (low <= rows).all()
    assert (rows <= high).all()
    assert len(observed.names) in (0, observed.size)


@given(
    space=st.one_of(
        st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete),
        st.integers(1, 4).map(spaces.MultiBinary),
        st.just(spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 2], [0, 7]])),
    ),
    data=st.data(),
)
def test_every_action_of_several_choices_is_one_of_the_environments(space, data):
    own = action_space(space, "it")
    action = np.array([data.draw(st.integers(0, n - 1)) for n in own.sizes], np.int32)
    assert space.contains(native_action(space, action))


class Rooms(gymnasium.Env):
    """Tells its time in four ways, and pays for the tool that was taken."""

    observation_space = ROOM
    action_space = spaces.MultiDiscrete([3, 2], start=[1, 0])

    def __init__(self, broken=None):
        self.broken = broken

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        return self._obs(), float(action[0] + 10 * action[1]), self.time >= 5, False, {}

    def _obs(self):
        seen = {
            "door": 1 + self.time % 3,
            "lamps": np.array([self.time % 2, 1], np.int8),
            "place": (np.array([0.5, -0.5], np.float32), self.time % 2),
            "tools": np.array([1, self.time % 3]),
        }
        if self.broken == "door":
            seen["door"] = 4
        elif self.broken is not None:
            del seen[self.broken]
        return seen


NAMES = (
    *("door = 1", "door = 2", "door = 3", "lamps 0", "lamps 1"),
    *("place 0 0", "place 0 1", "place 1 = 0", "place 1 = 1"),
    *("tools 0 = 0", "tools 0 = 1", "tools 1 = 0", "tools 1 = 1", "tools 1 = 2"),
)
LAID_OUT = [
    [1, 0, 0, 0, 1, 0.5, -0.5, 1, 0, 0, 1, 1, 0, 0],
    [0, 1, 0, 1, 1, 0.5, -0.5, 0, 1, 0, 1, 0, 1, 0],
]


@pytest.mark.parametrize(
    "env",
    [
        Rooms,
        lambda: SyncVectorEnv([Rooms] * 2),
        lambda: SyncVectorEnv([Rooms] * 3, autoreset_mode=AutoresetMode.SAME_STEP),
    ],
    ids=["one", "vector", "same step"],
)
def test_episodes_of_several_things_at_once(env):
    world = adapt(env, horizon=8)
    assert rspo.check_env(world) == Spec(14, MultiDiscrete((3, 2)), 8)
    played = collect(world, uniform_policy(world.spec.action_space), 4, KEY)
    np.testing.assert_array_equal(played.obs[:2, 0, 0], LAID_OUT)
    paid = 1 + played.action[:5, :, 0, 0] + 10 * played.action[:5, :, 0, 1]
    np.testing.assert_array_equal(played.reward[:5, :, 0], paid)
    np.testing.assert_array_equal(played.reward[5:], 0)
    assert tuple(world.obs_names) == NAMES


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            "door",
            r"its reset gives 4 \(int\) as an observation, which is not in Discrete\(3, start=1",
        ),
        ("tools", "its reset gives an observation without its part 'tools'"),
    ],
)
def test_an_observation_that_is_not_in_its_space_is_said(broken, words):
    with pytest.raises(InputError, match=words):
        rspo.check_env(GymEnv(lambda: Rooms(broken), horizon=8))


def test_what_no_number_can_be_made_of_is_refused():
    class Talking(Rooms):
        observation_space = spaces.Dict({"said": spaces.Text(9), "door": spaces.Discrete(3)})

    with pytest.raises(InputError, match="observes a space of kind Text in 'said', but rspo needs"):
        GymEnv(Talking, horizon=8)

    class Seeing(Rooms):
        observation_space = spaces.Dict({"eye": spaces.Box(0, 255, (64, 64, 3), np.uint8)})

    with pytest.raises(InputError, match="observes 12288 numbers, as an image has"):
        rspo.check_env(GymEnv(Seeing, horizon=8))


def test_a_tuple_of_choices_without_a_time_limit():
    """Blackjack's: the sum, the dealer's card, and whether there is a usable ace."""
    env = from_id("Blackjack-v1", 20)
    assert rspo.check_env(env) == Spec(45, Discrete(2), 20)
    played = collect(env, uniform_policy(2), 5, KEY)
    other = gymnasium.make("Blackjack-v1")
    for n, seed in enumerate(episode_seeds(KEY, 5).tolist()):
        (total, card, ace), _ = other.reset(seed=seed)
        wanted = np.concatenate([np.eye(32)[total], np.eye(11)[card], np.eye(2)[ace]])
        np.testing.assert_array_equal(played.obs[0, n, 0], wanted)


def test_names_are_the_users_the_environments_or_the_spaces():
    class Named(Rooms):
        observation_space = spaces.Box(0, 1, (2,))
        action_names = ("go", "stay")

    assert tuple(GymEnv(Named, horizon=8).action_names) == ("go", "stay")
    assert tuple(GymEnv(Named, horizon=8).obs_names) == ()
    assert tuple(GymEnv(Named, horizon=8, obs_names=["x", "y"]).obs_names) == ("x", "y")


def test_a_choice_that_is_no_whole_number_is_said():
    with pytest.raises(Unfit, match="not in Discrete"):
        Observed(spaces.Discrete(3), "it").rows([1.5], "step")
