"""4-Goals: physics against an independent implementation, and the rules of the paper's three
modes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpe2 import simple_v3

from rspo.core.policies import uniform_policy
from rspo.core.spaces import Discrete
from rspo.core.types import Trajectory
from rspo.envs.four_goals import NOWHERE, FourGoals
from rspo.registry import make
from worlds import collect

STAY, RIGHT, LEFT, UP, DOWN = range(5)
MODES = ("easy", "medium", "hard")
SIZES = {"easy": [0.04] * 4, "medium": [0.04] * 4, "hard": [0.08, 0.04, 0.02, 0.01]}
REWARDS = {"easy": [1.0] * 4, "medium": [1.0] * 4, "hard": [1.0, 1.1, 1.2, 1.3]}
NOTHING = jnp.zeros(0)
FAR = np.full((4, 2), 9.0, np.float32)

EVERY_MODE = pytest.mark.parametrize("mode", MODES)
ACTIONS = st.lists(st.integers(0, 4), min_size=1, max_size=16)
steps = {mode: jax.jit(FourGoals(mode).step) for mode in MODES}


def start(mode="medium", goals=FAR):
    """The state at the start, with the landmarks where the test wants them."""
    env = FourGoals(mode)
    state, _ = env.reset(jnp.zeros(env.spec.reset_noise))
    return state._replace(goals=jnp.asarray(goals, jnp.float32))


def walk(mode, state, actions):
    """The states and steps that a list of actions gives, to the end of the episode."""
    seen = []
    for action in actions:
        state, step = steps[mode](state, jnp.asarray([action]), NOTHING)
        seen.append((state, step))
        if step.terminated:
            break
    return seen


# --- physics ---

# The package numbers its actions nothing, left, right, down, up.
THEIR_ACTION = {STAY: 0, RIGHT: 2, LEFT: 1, UP: 4, DOWN: 3}


def particle(actions):
    """Positions and velocities of mpe2's agent from rest at the origin, before the first step and
    after each."""
    env = simple_v3.parallel_env(max_cycles=1000)
    env.reset(seed=0)
    agent = env.unwrapped.world.agents[0]
    agent.state.p_pos, agent.state.p_vel = np.zeros(2), np.zeros(2)
    seen = [(np.zeros(2), np.zeros(2))]
    for action in actions:
        env.step({"agent_0": THEIR_ACTION[action]})
        seen.append((agent.state.p_pos.copy(), agent.state.p_vel.copy()))
    env.close()
    return zip(*seen, strict=True)


@settings(max_examples=25)
@given(actions=ACTIONS)
def test_the_particle_moves_as_in_the_public_package(actions):
    """mpe2 moves the position by the old velocity and then changes the velocity; OpenAI's original,
    like ours, changes the velocity first. So velocities agree step by step, and our position is
    theirs one step later."""
    positions, velocities = particle([*actions, STAY])
    ours = [state for state, _ in walk("medium", start(), actions)]
    assert len(ours) == len(actions)
    for t, state in enumerate(ours):
        np.testing.assert_allclose(state.velocity, velocities[t + 1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state.position, positions[t + 2], rtol=1e-5, atol=1e-6)


def test_the_first_step_by_hand():
    """Force 5, mass 1, time step 0.1: velocity 0.5, position 0.05."""
    for action, direction in zip(
        (RIGHT, LEFT, UP, DOWN), ([1, 0], [-1, 0], [0, 1], [0, -1]), strict=True
    ):
        (state, _), (after, _) = walk("medium", start(), [action, STAY])
        np.testing.assert_allclose(state.velocity, 0.5 * np.array(direction), rtol=1e-6)
        np.testing.assert_allclose(state.position, 0.05 * np.array(direction), rtol=1e-6)
        np.testing.assert_allclose(
            after.velocity, 0.375 * np.array(direction), rtol=1e-6
        )  # damping 0.25


# --- the start ---


@EVERY_MODE
def test_spec(mode):
    spec = make(f"four-goals-{mode}").spec
    assert spec.horizon == 16
    assert spec.action_space == Discrete(5)
    assert spec.agents == 1
    assert (spec.obs_size, FourGoals(mode, velocity=False).spec.obs_size) == (10, 8)


@EVERY_MODE
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_spawns(mode, seed):
    env = FourGoals(mode)
    noise = np.random.default_rng(seed).random(env.spec.reset_noise, dtype=np.float32)
    state, _ = env.reset(jnp.asarray(noise))
    assert not state.position.any()
    assert not state.velocity.any()
    assert state.touched == NOWHERE
    if mode == "easy":
        np.testing.assert_array_equal(state.goals, [(0, 0.5), (0.5, 0), (0, -0.5), (-0.5, 0)])
    else:
        np.testing.assert_allclose(state.goals, noise.reshape(4, 2) * 2 - 1, atol=1e-6)
        assert (np.abs(state.goals) <= 1).all()


@pytest.mark.parametrize("mode", ["medium", "hard"])
def test_landmarks_are_spread_evenly_over_the_square(mode):
    starts = jax.vmap(FourGoals(mode).reset)(jax.random.uniform(jax.random.key(0), (4000, 8)))[
        0
    ].goals
    flat = np.asarray(starts).reshape(4000, 8)
    np.testing.assert_allclose(flat.mean(0), 0, atol=4 * np.sqrt(1 / 3 / 4000))
    np.testing.assert_allclose(flat.std(0), np.sqrt(1 / 3), atol=0.03)
    assert np.abs(np.corrcoef(flat.T) - np.eye(8)).max() < 4 / np.sqrt(4000)


# --- what the agent sees ---


@EVERY_MODE
@pytest.mark.parametrize("velocity", [True, False])
def test_the_observation_is_the_landmarks_relative_to_the_agent_and_its_velocity(mode, velocity):
    env = FourGoals(mode, velocity)
    noise = jnp.asarray(np.random.default_rng(0).random(env.spec.reset_noise), jnp.float32)
    state, obs = env.reset(noise)
    assert obs.shape == (1, env.spec.obs_size)
    np.testing.assert_allclose(obs[0, :8], np.ravel(state.goals), atol=1e-6)
    for action in (UP, UP, RIGHT, STAY):
        state, step = env.step(state, jnp.asarray([action]), NOTHING)
        relative = np.asarray(state.goals) - np.asarray(state.position)
        wanted = (
            np.concatenate([relative.ravel(), state.velocity]) if velocity else relative.ravel()
        )
        np.testing.assert_allclose(step.obs[0], wanted, atol=1e-6)


# --- contact, reward, end ---


@EVERY_MODE
@given(goal=st.integers(0, 3), angle=st.floats(0, 2 * np.pi), gap=st.sampled_from([-0.001, 0.001]))
def test_contact_is_a_distance_below_the_sum_of_the_radii(mode, goal, angle, gap):
    """A landmark just within reach of the agent, resting at the origin, or just beyond."""
    reach = 0.02 + SIZES[mode][goal] + gap
    goals = FAR.copy()
    goals[goal] = reach * np.cos(angle), reach * np.sin(angle)
    ((state, step),) = walk(mode, start(mode, goals), [STAY])
    touches = gap < 0
    assert bool(step.terminated) == touches
    np.testing.assert_allclose(step.reward, [REWARDS[mode][goal] if touches else 0.0], rtol=1e-6)
    assert state.touched == (goal if touches else NOWHERE)


@pytest.mark.parametrize(("action", "goal"), [(UP, 0), (RIGHT, 1), (DOWN, 2), (LEFT, 3)])
def test_walking_straight_reaches_each_easy_landmark(action, goal):
    env = FourGoals("easy")
    episode = walk("easy", env.reset(NOTHING)[0], [action] * 16)
    state, step = episode[-1]
    assert step.terminated
    assert state.touched == goal
    assert step.reward.tolist() == [1.0]
    assert all(not earlier.terminated and earlier.reward[0] == 0 for _, earlier in episode[:-1])
    assert len(episode) < 16


@EVERY_MODE
def test_of_overlapping_landmarks_the_nearest_is_touched(mode):
    for nearest in range(4):
        goals = np.full((4, 2), [0.0, 0.025], np.float32)
        goals[nearest] = [0.0, 0.005]
        ((state, step),) = walk(mode, start(mode, goals), [STAY])
        assert state.touched == nearest
        np.testing.assert_allclose(step.reward, [REWARDS[mode][nearest]], rtol=1e-6)


def test_a_nearer_landmark_that_is_out_of_its_own_reach_does_not_count():
    """The smallest one's centre is nearer, but only the largest one touches."""
    goals = FAR.copy()
    goals[0], goals[3] = [0.0, 0.09], [0.05, 0.0]
    ((state, _),) = walk("hard", start("hard", goals), [STAY])
    assert state.touched == 0


@EVERY_MODE
@given(actions=ACTIONS, seed=st.integers(0, 2**32 - 1))
def test_reward_comes_once_and_only_with_the_end(mode, actions, seed):
    env = FourGoals(mode)
    noise = np.random.default_rng(seed).random(env.spec.reset_noise, dtype=np.float32)
    episode = walk(mode, env.reset(jnp.asarray(noise))[0], actions)
    for state, step in episode:
        assert bool(step.terminated) == (int(state.touched) != NOWHERE) == bool(step.reward[0] > 0)
        distance = np.linalg.norm(np.asarray(state.goals) - np.asarray(state.position), axis=-1)
        edge = np.abs(distance - SIZES[mode] - 0.02).min() < 1e-5
        assert edge or bool(step.terminated) == bool(
            (distance < np.array(SIZES[mode]) + 0.02).any()
        )


# --- names ---


def played(mode, touched):
    """Episodes that ended as told."""
    state = start(mode)._replace(touched=np.stack([np.full(len(touched), NOWHERE), touched]))
    return Trajectory(*[None] * 8, state=state)


@EVERY_MODE
def test_describe_names_the_landmark_of_four_fifths_of_the_episodes(mode):
    env = FourGoals(mode)
    for goal, name in enumerate(env.names):
        found = env.describe(played(mode, [goal] * 8 + [NOWHERE] * 2))
        assert (found.label, found.clear) == (name, True)
        assert found.stats[name] == pytest.approx(0.8)
        assert sum(found.stats.values()) == pytest.approx(0.8)


@EVERY_MODE
@pytest.mark.parametrize("touched", [[0] * 7 + [1] * 3, [NOWHERE] * 10, [0, 1, 2, 3, NOWHERE]])
def test_describe_gives_no_clear_name_to_mixed_outcomes(mode, touched):
    found = FourGoals(mode).describe(played(mode, touched))
    assert found.label == "mixed"
    assert not found.clear


def test_names_are_different():
    for mode in MODES:
        assert len(set(FourGoals(mode).names)) == 4


@EVERY_MODE
def test_random_play_agrees_with_its_own_description(mode):
    env = FourGoals(mode)
    trajectory = jax.device_get(
        collect(env, uniform_policy(5), 256, jax.random.key(0), record=True)
    )
    touched = trajectory.state.touched[-1]
    returns = trajectory.reward.sum((0, 2))
    wanted = np.where(touched == NOWHERE, 0.0, np.array(REWARDS[mode])[touched])
    np.testing.assert_allclose(returns, wanted, rtol=1e-6)
    np.testing.assert_array_equal(trajectory.terminated[-1], touched != NOWHERE)
    share = env.describe(trajectory).stats
    np.testing.assert_allclose(
        list(share.values()), [(touched == goal).mean() for goal in range(4)]
    )


@EVERY_MODE
def test_the_scene_shows_the_landmarks_and_the_agent_where_they_are(mode):
    env = FourGoals(mode)
    state = jax.device_get(walk(mode, start(mode, FAR * [[0.01, 0.02]]), [RIGHT])[-1][0])
    *goals, agent = env.scene(state)
    assert agent.role == "agent"
    np.testing.assert_allclose((agent.x, agent.y, agent.size), (*state.position, 0.02))
    assert [goal.label for goal in goals] == list(env.names)
    np.testing.assert_allclose([(goal.x, goal.y) for goal in goals], state.goals)
    np.testing.assert_allclose([goal.size for goal in goals], SIZES[mode], rtol=1e-6)
