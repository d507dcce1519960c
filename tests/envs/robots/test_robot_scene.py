"""Robots as limbs: every capsule is where MuJoCo has it, seen from a camera that goes along."""

import jax
import mujoco
import numpy as np
import pytest

import rspo
from rspo.core.policies import uniform_policy
from rspo.envs.robots.mujoco import Mujoco
from rspo.envs.robots.robot_scene import GROUND, MARK, METRE
from rspo.screen.draw import EXTENT
from rspo.search.recording import UNIT, record
from worlds import collect

ROBOTS = ("half-cheetah", "hopper", "walker2d", "humanoid")


@pytest.fixture(scope="module", params=ROBOTS)
def env(request: pytest.FixtureRequest) -> Mujoco:
    made = rspo.make(request.param)
    assert isinstance(made, Mujoco)
    return made


def state(env: Mujoco, x: float = 0.0, seed: int = 0) -> object:
    batch = env.batch(1)
    batch.reset(np.zeros(1, int), np.array([seed]))
    qpos = batch.state().qpos[0].copy()
    qpos[0] += x
    return batch.state()._replace(qpos=qpos)


def test_every_capsule_is_where_it_is(env: Mujoco) -> None:
    shown = state(env, x=3.3)
    data = mujoco.MjData(env.model)
    data.qpos[:] = shown.qpos  # type: ignore[attr-defined]
    mujoco.mj_forward(env.model, data)
    bodies = [
        g for g in range(env.model.ngeom) if env.model.geom_type[g] != mujoco.mjtGeom.mjGEOM_PLANE
    ]
    wanted = sorted(
        ((data.geom_xpos[g][0] - data.xpos[1][0]) * METRE, GROUND + data.geom_xpos[g][2] * METRE)
        for g in bodies
    )
    limbs = [shape for shape in env.scene(shown) if shape.role == "limb"]
    middles = sorted(((limb.x + limb.end[0]) / 2, (limb.y + limb.end[1]) / 2) for limb in limbs)  # type: ignore[index]
    np.testing.assert_allclose(middles, wanted, atol=1e-9)


def test_the_whole_robot_is_in_the_picture(env: Mujoco) -> None:
    for shape in env.scene(state(env)):
        assert abs(shape.x) <= EXTENT
        assert abs(shape.y) <= EXTENT


def test_limbs_keep_their_places_and_marks_stay_on_the_ground(env: Mujoco) -> None:
    """A small step forward moves every mark back by the same distance, except one that leaves the
    picture."""
    one, two = env.scene(state(env)), env.scene(state(env, x=0.1))
    assert [(s.role, s.label, s.size) for s in one] == [(s.role, s.label, s.size) for s in two]
    moved = np.array([b.x - a.x for a, b in zip(one, two, strict=True) if a.role == "line"])
    assert (
        np.isclose(moved, -0.1 * METRE) | np.isclose(moved, (len(moved) * MARK - 0.1) * METRE)
    ).all()
    assert np.isclose(moved, -0.1 * METRE).sum() >= len(moved) - 1


def test_a_recording_begins_before_the_first_action() -> None:
    env = Mujoco("hopper")
    policy = uniform_policy(env.spec.action_space)
    played = jax.device_get(collect(env, policy, 3, jax.random.key(0), record=True))
    for n in range(3):
        # The observation is the positions without x, then the velocities.
        np.testing.assert_allclose(played.start.qpos[n, 1:], played.obs[0, n, 0, :5], atol=1e-6)
    place = record(env, played, played).arrays["0.place"]
    first = env.scene(jax.tree.map(lambda leaf: leaf[0], played.start))
    np.testing.assert_allclose(place[0] / UNIT, [(s.x, s.y) for s in first], atol=0.5 / UNIT)
