"""Point: physics against MuJoCo and plain formulas, the published returns by scripted players, the
names, and that PPO escapes the trap."""

from functools import partial

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rspo
from rspo.core.distributions import Gaussian
from rspo.core.policies import uniform_policy
from rspo.envs.point import ACCELERATION, RADIUS, WALLS, Point, State
from rspo.presets import TASKS, preset
from rspo.registry import make
from worlds import collect

NOTHING = jnp.zeros(0)
ENVS = {wall: Point(wall=wall) for wall in (True, False)}
LENGTH = 50
NUMBERS = st.floats(-1, 1, width=32)
PUSHES = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=LENGTH)


def at(x=0.0, y=0.0, vx=0.0, vy=0.0):
    return State(jnp.asarray([x, y, 0.0]), jnp.asarray([vx, vy, 0.0]))


@partial(jax.jit, static_argnums=2)
def roll(state, actions, wall):
    def step(state, action):
        state, step = ENVS[wall].step(state, action, NOTHING)
        return state, (state, step)

    return jax.lax.scan(step, state, actions)[1]


def pushed(state, actions, wall=True):
    """The states and steps that a list of actions gives, all of one length for one program."""
    padded = np.zeros((LENGTH, 1, 2), np.float32)
    padded[: len(actions), 0] = actions
    seen = jax.device_get(roll(state, padded, wall))
    return [jax.tree.map(lambda leaf, t=t: leaf[t], seen) for t in range(len(actions))]


# --- physics ---

MODEL = f"""
<mujoco>
  <option timestep="0.02" integrator="RK4" gravity="0 0 0"/>
  <worldbody>
    <body>
      <geom type="sphere" size="{RADIUS}" mass="56.36" condim="1"/>
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint axis="0 0 1"/>
    </body>
    {"".join(f'<geom type="box" pos="{(a + c) / 2} {(b + d) / 2} 0" size="{(c - a) / 2} {(d - b) / 2} 2" condim="1"/>' for (a, b), (c, d) in WALLS)}
  </worldbody>

</mujoco>
"""


def in_mujoco(actions):
    """Position and velocity after each step of two physics steps, by MuJoCo's own engine."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    data, seen = mujoco.MjData(model), []
    for action in actions:
        data.qfrc_applied[:2] = 2000 * np.asarray(action)
        mujoco.mj_step(model, data, nstep=2)
        seen.append((data.qpos.copy(), data.qvel.copy()))
    return seen


@given(actions=PUSHES)
@settings(max_examples=20)
def test_where_no_wall_is_near_it_moves_as_in_mujoco(actions):
    kept_off = [(-abs(x), y) for x, y in actions]
    for (position, velocity), (state, _) in zip(
        in_mujoco(kept_off), pushed(at(), kept_off), strict=True
    ):
        np.testing.assert_allclose(state.position, position, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(state.velocity, velocity, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("slope", [0.0, 0.05, 0.1])
def test_in_the_trap_it_comes_to_rest_where_mujoco_says(slope):
    """Contacts of MuJoCo are a little soft, ours are hard: the ends agree, not the blows."""
    actions = [(1.0, slope)] * 50
    position, velocity = in_mujoco(actions)[-1]
    state, _ = pushed(at(), actions)[-1]
    np.testing.assert_allclose(state.position, position, atol=0.06)
    np.testing.assert_allclose(velocity, 0, atol=0.05)
    np.testing.assert_allclose(state.velocity, 0, atol=0.5 * slope + 1e-3)


@given(actions=PUSHES)
@settings(max_examples=20)
def test_free_motion_is_that_of_constant_acceleration(actions):
    position = velocity = np.zeros(2)
    for action, (state, step) in zip(actions, pushed(at(), actions, wall=False), strict=True):
        push = ACCELERATION * np.asarray(action)
        position, velocity = position + 0.04 * velocity + 0.0008 * push, velocity + 0.04 * push
        np.testing.assert_allclose(state.position[:2], position, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(step.reward, -np.hypot(25 - position[0], position[1]), rtol=1e-4)
        assert not step.terminated


@given(
    x=st.floats(9, 17), y=st.floats(-5, 5), vx=st.floats(-60, 60), vy=st.floats(-60, 60),
    actions=PUSHES,
)  # fmt: skip
@settings(max_examples=30)
def test_no_wall_is_ever_inside_the_disc_and_contact_never_adds_speed(x, y, vx, vy, actions):
    """From anywhere outside the walls, however fast."""
    gap = min(np.hypot(*(np.array([x, y]) - np.clip([x, y], low, high))) for low, high in WALLS)
    if gap < RADIUS:
        return
    before = at(x, y, vx, vy)
    for action, (state, _) in zip(actions[:8], pushed(before, actions[:8]), strict=True):
        place, speed = np.asarray(state.position[:2], float), np.asarray(state.velocity[:2], float)
        for low, high in WALLS:
            assert np.hypot(*(place - np.clip(place, low, high))) > RADIUS - 1e-3
        pushed_by = 0.04 * ACCELERATION * np.hypot(*action)
        assert np.hypot(*speed) <= np.hypot(*np.asarray(before.velocity[:2])) + pushed_by + 1e-3
        before = state


def test_along_a_wall_it_slides_without_friction():
    (state, _), *_ = pushed(at(x=13.2 - 1e-4, vy=2.0), [(1.0, 0.0)])
    np.testing.assert_allclose(state.position[:2], [13.2, 0.08], atol=1e-3)
    np.testing.assert_allclose(state.velocity[:2], [0.0, 2.0], atol=1e-3)


def test_actions_are_clipped_and_the_start_is_near_the_origin():
    one, more = (pushed(at(), [(push, -push)])[0][0] for push in (1.0, 7.0))
    np.testing.assert_array_equal(one.position, more.position)
    states, obs = jax.vmap(Point().reset)(jax.random.uniform(jax.random.key(0), (4096, 6)))
    assert np.abs(states.position).max() <= 0.1
    np.testing.assert_allclose(states.position.std(0), 0.1 / 3**0.5, rtol=0.05)
    np.testing.assert_allclose(states.velocity.std(0), 0.1, rtol=0.05)
    np.testing.assert_array_equal(obs[:, 0], np.hstack([states.position, states.velocity]))


# --- the published returns and the names ---


def braking(place, speed, target):
    """Full force towards the target, and back in time to stop there."""
    stopping = speed * jnp.abs(speed) / (2 * ACCELERATION)
    return jnp.clip(3 * (target - place - stopping), -1, 1)


def towards(height):
    """To the goal, past the wall at the given height."""
    return lambda obs: jnp.stack(
        [
            braking(obs[..., 0], obs[..., 3], 25.0),
            braking(obs[..., 1], obs[..., 4], jnp.where(obs[..., 0] < 14.5, height, 0.0)),
        ],
        -1,
    )


def still(obs):
    return jnp.zeros((*obs.shape[:-1], 2))


@pytest.mark.parametrize(
    ("player", "wall", "published", "name"),
    [
        (still, True, -1254, "other"),
        (towards(0.0), True, -777, "caught"),
        (towards(3.2), True, -534, "above"),
        (towards(-3.2), True, -534, "below"),
        (towards(0.0), False, -525, "other"),
    ],
)
def test_scripted_players_earn_what_is_published(player, wall, published, name):
    """Measured in the original's physics without its floor; 3 % for the scripts."""
    policy = lambda obs: Gaussian(player(obs), jnp.full(2, -20.0))
    played = jax.device_get(collect(ENVS[wall], policy, 64, jax.random.key(0), record=True))
    np.testing.assert_allclose(played.returns.mean(), published, rtol=0.03)
    found = ENVS[wall].describe(played)
    assert (found.label, found.clear, found.stats[name]) == (name, True, 1.0)


@pytest.mark.slow
def test_random_play_earns_little_and_the_published_episode_is_one_of_its_kind():
    """-1148 was published; single episodes differ by 130."""
    returns = collect(
        Point(), uniform_policy(Point().spec.action_space), 1024, jax.random.key(0)
    ).returns
    assert -1290 < returns.mean() < -1230
    assert abs(-1148 - returns.mean()) < 1.5 * returns.std()


def test_episodes_of_several_kinds_have_no_one_name():
    """The way round is that of the spin, which nothing changes."""
    policy = lambda obs: Gaussian(towards(jnp.sign(obs[..., 5]) * 3.2)(obs), jnp.full(2, -20.0))
    played = jax.device_get(collect(Point(), policy, 64, jax.random.key(0), record=True))
    found = Point().describe(played)
    assert (found.label, found.clear) == ("mixed", False)
    assert found.stats["above"] + found.stats["below"] == 1


# --- drawing, preset, learning ---


def test_the_drawing_shows_disc_goal_and_walls_inside_the_picture():
    env = Point()
    state, _ = env.reset(jnp.zeros(6))
    shapes = [*env.scene(jax.device_get(state)), *env.backdrop()]
    assert [shape.role for shape in shapes] == ["goal", "agent", "line", *["line"] * 3]
    for shape in shapes:
        assert max(map(abs, (shape.x, shape.y, *(shape.end or ())))) < 1
    assert Point(wall=False).backdrop() == []
    # The U is open to the left: both arms begin left of what closes it.
    arms, back = shapes[3:5], shapes[5]
    assert all(arm.x < back.x and arm.end[0] < back.x + back.size for arm in arms)
    assert {np.sign(arm.y) for arm in arms} == {-1, 1}


def test_the_preset_has_the_steps_of_the_authors_configuration():
    config = preset("point")
    assert isinstance(make("point"), Point)
    assert config.ppo.batch % 50 == 0
    assert config.ppo.updates * config.ppo.batch == pytest.approx(1.02e6, rel=0.01)
    assert (config.measure.alpha, TASKS["point"].domain) == (1.1, "point")


@pytest.mark.slow
def test_plain_ppo_escapes_the_trap(tmp_path):
    """As the paper says: better than the best that is caught, which earns -769. One policy may yet
    go a long way round (of twelve in results/point.md eleven earn -538 to -583, one -850), so two
    are trained."""
    archive = rspo.discover("point", method="pg", iterations=2, out=tmp_path / "run", quiet=True)
    around = [one.evaluation for one in archive if one.evaluation.descriptor in ("above", "below")]
    assert max(one.greedy_return_mean for one in around) > -769
