"""Gaits: signals with known answers, MuJoCo's own contacts, scripted poses, and a robot driven at a
known frequency."""

import math
import sys
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robots import DT, FREQUENCY, HOP, MOMENTS, SECONDS, SWING, driven_cheetah, model, recording
from rspo.envs.robots.gait import describe, find_stride, landing_phase
from rspo.envs.robots.gait_name import name
from rspo.envs.robots.linkage import linkage
from rspo.errors import InputError


@given(
    st.floats(0.8, 4.0), st.floats(0, 1), st.floats(0, 0.8), st.sampled_from([0.008, 0.015, 0.05])
)
def test_the_stride_of_waves_with_harmonics(
    frequency: float, phase: float, harmonic: float, dt: float
) -> None:
    """Two legs in turn, each with a second harmonic, that repeat at `frequency` and not at twice
    that."""
    turn = 2 * np.pi * (frequency * dt * np.arange(round(8 / dt)) + phase)
    legs = [np.sin(turn + lag) + harmonic * np.sin(2 * turn + 2 * lag + 1) for lag in (0, np.pi)]
    stride = find_stride(0.5 * np.stack(legs, 1), dt)
    assert stride.frequency == pytest.approx(frequency, rel=0.01)
    assert stride.periodicity > 0.9


def test_noise_lowers_the_periodicity_and_not_the_frequency() -> None:
    rng = np.random.default_rng(0)
    wave = np.sin(2 * np.pi * 2.3 * DT * np.arange(MOMENTS))[:, None] * [1.0, 0.7]
    noisy = find_stride(wave + 0.3 * rng.normal(size=wave.shape), DT)
    assert noisy.frequency == pytest.approx(2.3, rel=0.01)
    assert 0.5 < noisy.periodicity < find_stride(wave, DT).periodicity


@pytest.mark.parametrize(
    "joints",
    [
        np.random.default_rng(0).normal(size=(400, 6)),  # noise
        np.linspace(0, 1, 400)[:, None],  # a drift
        0.02 * SWING[:, None],  # trembling by a degree
        np.zeros((400, 3)),
        np.zeros((400, 0)),
        np.sin(np.linspace(0, 2 * np.pi, 400))[:, None],  # one stride in all: not seen to repeat
    ],
)
def test_what_does_not_repeat_has_no_stride(joints: np.ndarray) -> None:
    assert find_stride(joints, DT).frequency is None


@given(st.integers(0, 10_000), st.integers(3, 60), st.sampled_from([0.0, 0.9, 1.0]))
def test_any_motion_has_a_stride_or_none(seed: int, moments: int, drift: float) -> None:
    """Short, jerky or drifting ones too, whose correlations can all be below 0."""
    joints = np.random.default_rng(seed).standard_normal((moments, 2))
    for t in range(1, moments):
        joints[t] += drift * joints[t - 1]
    stride = find_stride(joints, 0.05)
    assert 0 <= stride.periodicity <= 1
    assert stride.frequency is None or 0 < stride.frequency <= 10


@given(st.floats(0, 0.99), st.floats(0.2, 0.8), st.floats(0.2, 0.8))
def test_the_phase_of_a_foot(lag: float, duty: float, other_duty: float) -> None:
    """The middle of the other's contact comes `lag` strides after the middle of the first's,
    whatever their lengths."""
    turn = FREQUENCY * 0.001 * np.arange(8000)
    first, other = (
        (turn - middle + share / 2) % 1 < share
        for middle, share in ((0.3, duty), (0.3 + lag, other_duty))
    )
    found = landing_phase(first, other, 0.001, FREQUENCY)
    assert found is not None
    assert abs((found - lag + 0.5) % 1 - 0.5) < 0.01


def test_a_foot_that_is_always_down_has_no_phase() -> None:
    assert landing_phase(SWING > 0, np.ones(MOMENTS, bool), DT, FREQUENCY) is None


@pytest.mark.parametrize("robot", ["half-cheetah", "hopper", "walker2d", "humanoid"])
def test_clearances_are_mujocos_contact_distances(robot: str) -> None:
    physics, rng = model(robot), np.random.default_rng(0)
    data, floor = mujoco.MjData(physics), physics.geom("floor").id
    geoms = [g for g in range(physics.ngeom) if g != floor]
    deep = 0
    for _ in range(200):
        qpos = physics.qpos0 + rng.normal(size=physics.nq) * 0.7
        data.qpos[:] = qpos
        mujoco.mj_forward(physics, data)
        touching: dict[int, float] = {}
        for contact in data.contact:
            if floor in contact.geom:
                (geom,) = set(contact.geom.tolist()) - {floor}
                touching[geom] = min(contact.dist, touching.get(geom, math.inf))
        clearance = linkage(physics, qpos[None], DT).clearance[0]
        for geom, height in zip(geoms, clearance, strict=True):
            if geom in touching:
                assert height == pytest.approx(touching[geom], abs=1e-9)
                deep += 1
            else:
                assert height > 0
    assert deep > 50  # the poses did reach into the ground


def cheetah(pitch: float, **more: Any) -> Any:
    return recording(
        "half-cheetah", {2: pitch, 6: -0.6 + 0.3 * SWING, 7: 0.3 * SWING}, speed=2, **more
    )


def walker(right: np.ndarray, left: np.ndarray, lift: Any = 0.0, **more: Any) -> Any:
    """Legs that swing by `right` and `left`, knees bent while a leg swings forward."""
    knees = {4: -0.5 + 0.4 * np.roll(right, -6) / 0.4, 7: -0.5 + 0.4 * np.roll(left, -6) / 0.4}
    return recording("walker2d", {3: right, 6: left, **knees}, lift=lift, **more)


SCRIPTED = {
    "handstand running": lambda: cheetah(1.2, lift=HOP),
    "fore-foot walking": lambda: cheetah(0.4),
    "rearing running": lambda: recording(
        "half-cheetah", {2: -1.2, 3: 0.3 * SWING}, speed=2, lift=HOP
    ),
    "upside-down bouncing": lambda: cheetah(math.pi, lift=HOP),
    "upside-down lying": lambda: recording("half-cheetah", {2: math.pi}, speed=0),
    "somersaulting bouncing": lambda: recording(
        "half-cheetah", {2: 3 * SECONDS}, speed=2, lift=0.2 + HOP
    ),
    "head-dragging sliding": lambda: recording("half-cheetah", {2: 0.9, 6: 0.7, 7: 0.87}, speed=1),
    "kneeling": lambda: recording("hopper", {4: -math.pi / 2, 3: 0.1 * SWING}, speed=0.5),
    "hopping": lambda: recording(
        "hopper", {3: -0.3 + 0.2 * SWING, 4: -0.3 + 0.2 * SWING}, lift=HOP
    ),
    "small-step hopping": lambda: recording("hopper", {3: -0.3 + 0.2 * SWING}, speed=0.5, lift=HOP),
    "backward hopping": lambda: recording("hopper", {3: -0.3 + 0.2 * SWING}, speed=-1, lift=HOP),
    "hopping on the spot": lambda: recording("hopper", {3: -0.3 + 0.2 * SWING}, speed=0, lift=HOP),
    "standing": lambda: recording("hopper", {}, speed=0),
    "two-foot hopping": lambda: walker(0.4 * SWING, 0.4 * SWING, HOP),
    "walking": lambda: walker(0.4 * SWING, -0.4 * SWING),
    "running": lambda: walker(
        0.4 * SWING, -0.4 * SWING, 0.1 * np.clip(-np.cos(4 * np.pi * FREQUENCY * SECONDS), 0, 1)
    ),
    "one-foot hopping": lambda: recording("walker2d", {7: -1.5, 3: 0.2 * SWING}, lift=HOP),
    "forward-leaning hopping": lambda: recording(
        "hopper", {2: 0.4, 4: -0.3 + 0.2 * SWING}, lift=HOP
    ),
    "kneeling bouncing": lambda: recording(
        "humanoid", {13: -1.9 + 0.1 * SWING, 17: -1.9 + 0.1 * SWING}, lift=HOP
    ),
    "upside-down sliding": lambda: recording("humanoid", {3: 0.0, 4: 1.0}, speed=1),
    "prone sliding": lambda: recording("humanoid", {3: math.sqrt(0.5), 5: math.sqrt(0.5)}, speed=1),
    "supine lying": lambda: recording("humanoid", {3: math.sqrt(0.5), 5: -math.sqrt(0.5)}, speed=0),
    "sideways lying": lambda: recording(
        "humanoid", {3: math.sqrt(0.5), 4: math.sqrt(0.5)}, speed=0
    ),
}


@pytest.mark.parametrize("wanted", SCRIPTED)
def test_scripted_poses_get_their_name(wanted: str) -> None:
    gait = describe(SCRIPTED[wanted]())
    assert name(gait) == wanted, gait


def test_the_numbers_of_a_scripted_hop() -> None:
    robot = recording("hopper", {2: 0.2, 3: -0.3 + 0.2 * SWING}, speed=1.5, lift=HOP)
    gait = describe(robot, skip=0.25)
    (foot,) = gait.feet
    assert gait.seconds == pytest.approx(0.75 * MOMENTS * DT, abs=DT)
    assert gait.speed == pytest.approx(1.5)
    assert gait.stride_frequency == pytest.approx(FREQUENCY, rel=0.01)
    assert gait.stride_length == pytest.approx(1.5 / FREQUENCY, rel=0.01)
    down = (HOP <= 0.005)[MOMENTS // 4 :]  # by construction the lowest point is as high as the lift
    assert foot.duty == pytest.approx(down.mean())
    assert gait.flight == pytest.approx(1 - down.mean())
    assert foot.touchdowns == pytest.approx(FREQUENCY, rel=0.1)
    assert gait.pitch == pytest.approx(math.degrees(0.2))
    assert gait.tilt == pytest.approx(math.degrees(0.2))
    assert gait.support == {"none": pytest.approx(gait.flight), "foot": pytest.approx(foot.duty)}
    assert gait.touching == {"foot": foot.duty}
    assert gait.height == pytest.approx(robot.torso[MOMENTS // 4 :, 2].mean())
    assert gait.standing == pytest.approx(1.25)


def test_turns_are_counted_with_their_sign() -> None:
    for turns in (2.0, -3.0):
        robot = recording("half-cheetah", {2: np.linspace(0, turns * math.tau, MOMENTS)}, lift=0.3)
        assert describe(robot, skip=0).turns == pytest.approx(turns)


def test_alternating_feet_are_half_a_stride_apart() -> None:
    gait = describe(walker(0.4 * SWING, -0.4 * SWING))
    assert gait.feet[1].phase == pytest.approx(0.5, abs=0.03)
    assert gait.stride_frequency == pytest.approx(
        FREQUENCY, rel=0.01
    )  # not the two steps a stride of the torso
    assert sum(gait.support.values()) == pytest.approx(1)


@pytest.mark.parametrize("frequency", [2.5, 3.0, 3.5, 4.0])
def test_a_driven_robot_strides_as_it_is_driven(frequency: float) -> None:
    """Real physics with few moments a stride: at 4 Hz a stride is five of Half-Cheetah's steps."""
    robot = driven_cheetah(frequency)
    gait = describe(robot)
    assert gait.stride_frequency == pytest.approx(frequency, rel=0.01)
    assert name(gait) in ("walking", "running")
    assert gait.speed > 1
    assert gait.tilt < 15


def test_handstand_and_upright_differ_in_numbers() -> None:
    upright, handstand = describe(driven_cheetah(3.0)), describe(cheetah(1.2, lift=HOP))
    assert handstand.pitch > 60 > 15 > abs(upright.pitch)
    assert [foot.duty > 0.05 for foot in upright.feet] == [True, True]
    assert [foot.duty > 0.05 for foot in handstand.feet] == [False, True]


def test_a_gait_is_called_the_same_whether_its_strides_are_regular_or_not() -> None:
    gait = describe(SCRIPTED["hopping"]())
    assert name(replace(gait, stride_frequency=None, periodicity=0.39)) == name(gait) == "hopping"


def test_a_fall_is_part_of_the_name() -> None:
    assert name(describe(recording("hopper", {}, speed=0)), fell=True) == "standing, then a fall"


def test_the_floor_and_the_sampling_do_not_matter() -> None:
    """The same motion in slow motion has the same pattern at another frequency."""
    fast, slow = (
        describe(recording("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP, dt=dt))
        for dt in (DT, 2 * DT)
    )
    assert slow.stride_frequency == pytest.approx(fast.stride_frequency / 2)
    assert replace(slow.feet[0], touchdowns=0) == replace(fast.feet[0], touchdowns=0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(InputError, match=r"pip install 'rspo\[mujoco\]'"):
        linkage(model("hopper"), np.zeros((5, 6)), DT)


CRATE = '<geom name="crate" type="box" size="1 1 1"/>'
BOX = f'<mujoco><worldbody><body name="b"><freejoint/>{CRATE}</body></worldbody></mujoco>'


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linkage(model("hopper"), np.zeros((5, 3)), DT), r"\[5, 3\].*\[moments, 6\]"),
        (lambda: linkage(model("hopper"), np.full((5, 6), np.nan), DT), "not finite"),
        (lambda: linkage(model("hopper"), np.zeros((5, 6)), 0), "dt is 0"),
        (
            lambda: linkage(model("hopper"), np.zeros((5, 6)), DT, feet=["paw"]),
            "no body 'paw'.*foot",
        ),
        (
            lambda: linkage(mujoco.MjModel.from_xml_string(BOX), np.zeros((5, 7)), DT),
            "'crate'.*box",
        ),
        (
            lambda: linkage(mujoco.MjModel.from_xml_string("<mujoco/>"), np.zeros((5, 0)), DT),
            "no moving body",
        ),
        (lambda: describe(recording("hopper", {}), skip=1), "skip is 1"),
        (lambda: describe(recording("hopper", {}).between(0, 1)), "too short"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
