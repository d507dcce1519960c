"""The gait of many episodes: what most of them show, from first episodes alone, and numbers that
tell gaits apart."""

import json
import math
from collections.abc import Callable

import jax
import numpy as np
import pytest

from robots import DT, FREQUENCY, HOP, MOMENTS, SWING, positions, recording
from rspo.core.types import Trajectory
from rspo.envs.robots.gait import describe
from rspo.envs.robots.gait_descriptor import Episode, describe_gaits, numbers
from rspo.envs.robots.linkage import Linkage
from rspo.envs.robots.mujoco import Mujoco, State


def hop(speed: float = 1.0, knee: float = -0.3) -> Linkage:
    return recording("hopper", {3: knee + 0.2 * SWING}, speed=speed, lift=HOP)


def kneel() -> Linkage:
    return recording("hopper", {4: -math.pi / 2, 3: 0.1 * SWING}, speed=0.5)


def cheetah(pitch: float) -> Linkage:
    return recording(
        "half-cheetah", {2: pitch, 6: -0.6 + 0.3 * SWING, 7: 0.3 * SWING}, speed=2, lift=HOP
    )


def standing(robot: Linkage) -> Episode:
    return Episode(robot, fell=False)


@pytest.mark.parametrize(
    ("hops", "label", "clear"), [(10, "hopping", True), (6, "hopping", True), (5, "mixed", False)]
)
def test_the_name_is_what_most_episodes_show(hops: int, label: str, clear: bool) -> None:
    found = describe_gaits([standing(hop())] * hops + [standing(kneel())] * (10 - hops))
    assert (found.label, found.clear) == (label, clear)
    assert found.stats["P(hopping)"] == hops / 10
    assert found.stats.get("P(kneeling)", 0.0) == 1 - hops / 10


def test_the_length_of_strides_alone_does_not_divide_episodes() -> None:
    """At 2 Hz a stride of 0.375 m is small: some are a little longer, some a little shorter."""
    found = describe_gaits([standing(hop(0.6))] * 5 + [standing(hop(0.9))] * 4)
    assert (found.label, found.clear) == ("small-step hopping", True)
    found = describe_gaits([standing(hop(0.6))] * 4 + [standing(hop(0.9))] * 5)
    assert (found.label, found.clear) == ("hopping", True)
    assert found.stats["speed"] == pytest.approx((4 * 0.6 + 5 * 0.9) / 9)


def test_a_fall_is_a_number_and_not_another_gait() -> None:
    found = describe_gaits(
        [Episode(hop(), True), Episode(hop().between(0, MOMENTS // 2), True), standing(hop())]
    )
    assert (found.label, found.clear) == ("hopping", True)
    assert found.stats["falls"] == pytest.approx(2 / 3)
    assert found.stats["seconds"] == pytest.approx((MOMENTS * 2.5 - 3) * DT / 3)


@pytest.mark.parametrize("moments", [2, 3, 10, round(1 / DT)])
def test_who_falls_at_once_shows_no_gait(moments: int) -> None:
    found = describe_gaits([Episode(hop().between(0, moments), True)] * 3)
    assert (found.label, found.clear) == ("falling", False)
    assert found.stats == pytest.approx(
        {"P(falling)": 1.0, "falls": 1.0, "seconds": (moments - 1) * DT}
    )


def test_numbers_are_those_of_the_episodes_that_show_a_gait() -> None:
    gait = describe(hop())
    found = describe_gaits([standing(hop()), Episode(hop().between(0, 5), True), standing(hop())])
    for name, value in numbers(gait).items():
        assert found.stats[name] == pytest.approx(value), name


def test_the_numbers_of_the_issue_are_there() -> None:
    stats = describe_gaits([standing(hop())]).stats
    assert stats["stride_frequency"] == pytest.approx(FREQUENCY, rel=0.01)
    assert (
        stats["duty(foot)"]
        == pytest.approx(stats["on(foot)"])
        == pytest.approx(1 - stats["on(none)"])
    )
    assert stats["speed"] == pytest.approx(1.0)
    assert stats["height"] == pytest.approx(describe(hop()).height)
    assert stats["inverted"] == 0
    assert json.loads(json.dumps(stats)) == stats


def test_what_is_absent_in_some_episodes() -> None:
    """A share of time that is not given is 0; a stride that is not there has no frequency."""
    still = recording("hopper", {}, speed=0)
    stats = describe_gaits([standing(hop()), standing(still)]).stats
    assert stats["on(foot)"] == pytest.approx((describe(hop()).feet[0].duty + 1) / 2)
    assert stats["on(none)"] == pytest.approx((1 - describe(hop()).feet[0].duty) / 2)
    assert stats["stride_frequency"] == pytest.approx(FREQUENCY, rel=0.01)


def test_means_of_angles_come_round() -> None:
    """A little this side and a little that side of upside down is upside down."""
    stats = describe_gaits(
        [standing(cheetah(math.pi - 0.1)), standing(cheetah(math.pi + 0.1))]
    ).stats
    assert abs(stats["pitch"]) == pytest.approx(180, abs=0.1)
    assert stats["inverted"] == 1
    assert stats["tilt"] == pytest.approx(180 - math.degrees(0.1))


@pytest.mark.parametrize(
    ("one", "other", "number", "apart"),
    [
        (lambda: cheetah(0.0), lambda: cheetah(math.pi), "inverted", 0.9),
        (lambda: cheetah(0.0), lambda: cheetah(1.2), "pitch", 60),
        (hop, kneel, "height", 0.2),
        (hop, kneel, "shin", 50),
        (hop, lambda: hop(4.5), "speed", 3.4),
        (hop, lambda: recording("hopper", {}, speed=1), "duty(foot)", 0.4),
    ],
)
def test_gaits_differ_in_numbers(
    one: Callable[[], Linkage], other: Callable[[], Linkage], number: str, apart: float
) -> None:
    first, second = (describe_gaits([standing(make())]) for make in (one, other))
    assert abs(first.stats[number] - second.stats[number]) > apart
    assert first.label != second.label


def trajectory(qpos: np.ndarray, terminated: np.ndarray) -> Trajectory:
    blank = np.zeros(terminated.shape)
    state = State(qpos, qpos)
    start = jax.tree.map(lambda leaf: leaf[0], state)
    truncated = np.zeros_like(terminated)
    return Trajectory(
        blank,
        blank,
        blank,
        blank,
        terminated,
        ~terminated,
        ~terminated,
        blank,
        state,
        start,
        truncated=truncated,
    )


@pytest.mark.parametrize("padding", ["restart", "count"])
def test_only_first_episodes_are_described(padding: str) -> None:
    """One hops to the end, one hops for half of the time, falls, and then kneels (or stands still);
    both hop."""
    hopping = positions("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP)
    qpos = np.stack([hopping, hopping], 1)
    half = MOMENTS // 2
    qpos[half:, 1] = qpos[half - 1, 1]
    qpos[half:, 1, 4] = -math.pi / 2
    terminated = np.zeros((MOMENTS, 2), bool)
    terminated[half - 1 : half if padding == "restart" else None, 1] = True
    env = Mujoco("hopper")
    whole, short = env.episodes(trajectory(qpos, terminated))
    assert (len(whole.robot.ends), whole.fell) == (MOMENTS + 1, False)
    assert (len(short.robot.ends), short.fell) == (half + 1, True)
    np.testing.assert_array_equal(short.robot.ends, whole.robot.ends[: half + 1])
    found = env.describe(trajectory(qpos, terminated))
    assert found.label.endswith("hopping")
    assert (found.clear, found.stats["falls"]) == (True, 0.5)
