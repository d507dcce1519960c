"""The robots: step by step what gymnasium's v5 environments give, and what falling means."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import rspo
import rspo.envs.robots.mujoco as robots
from rspo.core.spaces import Box
from rspo.envs.robots.mujoco import ROBOTS, Mujoco, _assets
from rspo.errors import InputError

THEIRS = {
    "half-cheetah": "HalfCheetah-v5",
    "hopper": "Hopper-v5",
    "walker2d": "Walker2d-v5",
    "humanoid": "Humanoid-v5",
}
SEEDS = np.array([3, 2**31 - 2, 12345])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo keeps a log of its complaints about gymnasium's files where it is started."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("fall", ["end", "continue"])
def test_every_step_is_gymnasiums(name, fall):
    """Exactly: the same engine gets the same numbers in the same order."""
    settings = {} if name == "half-cheetah" else {"terminate_when_unhealthy": fall == "end"}
    theirs = [gymnasium.make(THEIRS[name], **settings).unwrapped for _ in SEEDS]
    env = Mujoco(name, fall)
    ours, (low, high) = env.batch(4), env.spec.action_space
    everyone, rng = np.array([0, 2, 3]), np.random.default_rng(0)
    first = np.stack(
        [env.reset(seed=int(seed))[0] for env, seed in zip(theirs, SEEDS, strict=True)]
    )
    np.testing.assert_array_equal(ours.reset(everyone, SEEDS)[:, 0], first)
    ended = np.zeros(3, bool)
    for _ in range(150):
        action = rng.uniform(low, high, (3, 1, len(low))).astype(np.float32)
        step = ours.step(everyone, action)
        for i, env in enumerate(theirs):
            obs, reward, terminated, truncated, _ = env.step(action[i, 0])
            np.testing.assert_array_equal(step.obs[i, 0], obs)
            assert step.reward[i, 0] == reward
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
        ended |= step.terminated
    assert ended.all() == (fall == "end" and name != "half-cheetah")


@pytest.mark.parametrize("name", ROBOTS)
def test_what_the_engine_leaves_out_changes_nothing(name):
    """In random poses on the ground, where parts of a body touch in many ways at once; contacts in
    the same order."""
    env, rng = Mujoco(name), np.random.default_rng(0)
    whole = env.mujoco.MjModel.from_xml_path(str(_assets() / env.robot.xml))
    models = env.model, whole
    assert models[0].opt.disableflags != whole.opt.disableflags
    both, hinges = (
        [env.mujoco.MjData(model) for model in models],
        whole.nq - (7 if env.robot.whole_body else 3),
    )
    most = 0
    for _ in range(3000):
        qpos = whole.qpos0.copy()
        qpos[-hinges:] = rng.uniform(*whole.jnt_range[-hinges:].T)
        height = 2 if env.robot.whole_body else 1
        qpos[height] += rng.uniform(-1, 0)
        velocity = rng.normal(size=whole.nv)
        for model, data in zip(models, both, strict=True):
            env.mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = qpos, velocity
            env.mujoco.mj_forward(model, data)
        np.testing.assert_array_equal(both[0].contact.geom, both[1].contact.geom)
        np.testing.assert_array_equal(both[0].qacc, both[1].qacc)
        most = max(most, both[0].ncon)
    assert most > 4


def test_the_engine_does_not_look_at_the_clock_unless_somebody_set_one():
    env = Mujoco("hopper")
    mujoco, data, step = env.mujoco, env.mujoco.MjData(env.model), env.mujoco.mjtTimer.mjTIMER_STEP
    mujoco.mj_step(env.model, data)
    assert (data.timer[step].number, data.timer[step].duration) == (1, 0)
    theirs = ctypes.pythonapi.PyFloat_GetMax
    mujoco.set_mjcb_time(theirs)
    try:
        Mujoco("hopper")
        assert mujoco.get_mjcb_time() is theirs
    finally:
        mujoco.set_mjcb_time(None)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_second_episode_remembers_nothing_of_the_first(name):
    env = Mujoco(name)
    ours, fresh, one = env.batch(2), env.batch(1), np.ones(1, int)
    action = np.full((1, 1, env.spec.action_space.n), 0.3, np.float32)
    ours.reset(np.arange(2), np.arange(2))
    for _ in range(30):
        ours.step(one, action)
    np.testing.assert_array_equal(ours.reset(one, one), fresh.reset(one * 0, one))
    for _ in range(3):
        again, first = ours.step(one, action), fresh.step(one * 0, action)
        np.testing.assert_array_equal(again.obs, first.obs)
        np.testing.assert_array_equal(again.reward, first.reward)


@pytest.mark.parametrize("name", ROBOTS)
def test_the_spaces_are_gymnasiums(name):
    env, spec = gymnasium.make(THEIRS[name]), Mujoco(name).spec
    assert (spec.obs_size,) == env.observation_space.shape
    assert spec.action_space == Box(
        tuple(env.action_space.low.tolist()), tuple(env.action_space.high.tolist())
    )
    assert (spec.horizon, spec.agents) == (512, 1)


def test_instances_that_are_not_stepped_stand_still():
    ours = Mujoco("hopper").batch(2)
    both = np.arange(2)
    ours.reset(both, np.array([1, 1]))
    ours.step(both[:1], np.ones((1, 1, 3), np.float32))
    state = ours.state()
    assert not np.array_equal(state.qpos[0], state.qpos[1])
    ours.reset(both[:1], np.array([1]))
    np.testing.assert_array_equal(*ours.state().qpos)


@pytest.mark.parametrize(
    ("arguments", "words"), [(("hoper",), "hopper"), (("hopper", "fly"), "continue")]
)
def test_what_there_is_not_is_said(arguments, words):
    with pytest.raises(InputError, match=words):
        Mujoco(*arguments)


def test_loading_a_robot_says_nothing(capfd):
    Mujoco("half-cheetah")
    assert capfd.readouterr() == ("", "")
    assert not Path("MUJOCO_LOG.TXT").exists()


def test_a_simulation_that_blows_up_is_said_once_and_leaves_no_log(capfd, monkeypatch):
    """In the collector's threads too, which step while the GIL is released."""
    monkeypatch.setattr(robots, "_SAID", set())
    batches = [Mujoco("hopper").batch(2) for _ in range(4)]

    def blow_up(ours):
        ours.reset(np.arange(2), np.arange(2))
        ours.qvel[:] = 1e12
        return ours.step(np.arange(2), np.zeros((2, 1, 3), np.float32))

    with ThreadPoolExecutor(4) as pool:
        steps = list(pool.map(blow_up, batches))
    assert all(np.isfinite(step.obs).all() for step in steps)
    assert capfd.readouterr().err.count("MuJoCo warns: Nan, Inf or huge value in QVEL") == 1
    assert not Path("MUJOCO_LOG.TXT").exists()


@pytest.mark.slow
def test_a_run_with_falls_is_played_anew_to_the_same_numbers(tmp_path):
    """Hoppers fall many times within 512 steps; returns are those until the first fall."""
    settings = {
        "iterations": 2,
        "ppo": {"updates": 1, "batch": 1024, "epochs": 1},
        "judge": {"episodes": 3},
    }
    archive = rspo.discover("hopper", out=tmp_path / "run", quiet=True, **settings)
    assert all(0 < s.evaluation.return_mean < 100 for s in archive)
    again = rspo.evaluate(tmp_path / "run")
    assert [s.evaluation for s in again] == [s.evaluation for s in archive]
    assert archive[1].evaluation.distance[0] > 1000  # over 512 steps, however short the lives
