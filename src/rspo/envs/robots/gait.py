"""What a gait is, in numbers: posture, contacts, duty factors, stride frequency, height and speed
from recorded states.

Definitions and thresholds: docs/gaits.md. The name that a person reads is built from these numbers
in `gait_name.py`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rspo.envs.robots.linkage import Linkage
from rspo.errors import InputError

Array = np.ndarray

TOUCH = 0.005
"""A part touches the ground when its lowest point is within this many metres of it."""
STILL = math.radians(2)
"""Joints that stray less from their mean (root mean square) do not make strides."""
PERIODIC = 0.4
"""Minimum autocorrelation at a lag of one stride, or the motion has no stride."""
START_UP = 0.25
"""The first fraction of a recording, in which a robot gets going."""
FINER = 16
"""Lags of the autocorrelation between two moments."""
EQUAL_PEAK = 0.9
"""The stride is the shortest lag whose peak reaches this share of the highest, since multiples of
a stride correlate as well."""


@dataclass(frozen=True)
class Foot:
    """How one foot is used."""

    name: str
    duty: float  # the share of time on the ground
    touchdowns: float  # per second
    # When it lands after the first foot, as a share of a stride in [0, 1); None without strides.
    phase: float | None


@dataclass(frozen=True)
class Gait:
    """One recording of a robot. Angles in degrees, lengths in metres, times in seconds."""

    seconds: float
    speed: float  # mean velocity along x; below 0 is backward
    height: float  # the torso's, mean
    bounce: float  # from the 5th to the 95th percentile of the torso's height
    standing: float  # the torso's height in the model's starting pose, to compare with
    tilt: float  # between the torso's upward axis and the vertical, mean; 180 is upside down
    inverted: float  # the share of time in which that axis points down
    pitch: float  # mean forward lean of the torso; below 0 is backward
    shin: float | None  # mean lean of the shin that leans least, 90 is level; None without shins
    turns: float  # whole turns about the lateral axis, in total; below 0 is backward
    stride_frequency: float | None  # strides per second; None when the motion does not repeat
    periodicity: float  # how well one stride repeats the last, at most 1
    feet: tuple[Foot, ...]
    # The feet in front, for a robot whose feet stand before and behind each other.
    fore: tuple[str, ...]
    flight: float  # the share of time in which no part touches the ground
    # The share of time on each set of feet, "none" for no foot; sums to 1.
    support: dict[str, float]
    # The share of time in which a part touches the ground, parts that do.
    touching: dict[str, float]
    trunk: tuple[str, ...]  # the parts that belong to no limb
    trunk_touching: float  # the share of time in which any of them does
    leg_touching: float  # the same for the legs above the feet

    @property
    def stride_length(self) -> float | None:
        return self.speed / self.stride_frequency if self.stride_frequency else None


def describe(robot: Linkage, skip: float = START_UP) -> Gait:
    """Measure the gait of a recording, without its first fraction `skip`."""
    if not 0 <= skip < 1:
        raise InputError(
            f"skip is {skip}; give the share of the recording to leave out, from 0 to below 1."
        )
    robot = robot.between(int(len(robot.ends) * skip), len(robot.ends))
    if len(robot.ends) < 2:
        raise InputError(
            "The recording is too short; a gait needs at least two moments after the part left out."
        )
    touches = robot.clearance <= TOUCH
    seconds = (len(robot.ends) - 1) * robot.dt
    angle = np.unwrap(np.arctan2(robot.up[:, 0], robot.up[:, 2]))
    stride = find_stride(robot.joints, robot.dt)
    soles = np.stack([_touching(robot, touches, name) for name in robot.feet], 1)
    low, high = np.percentile(robot.torso[:, 2], [5, 95])
    mean_up = robot.up.mean(0)
    return Gait(
        seconds=seconds,
        speed=float(robot.torso[-1, 0] - robot.torso[0, 0]) / seconds,
        height=float(robot.torso[:, 2].mean()),
        bounce=float(high - low),
        standing=robot.standing,
        tilt=float(np.degrees(np.arccos(np.clip(robot.up[:, 2], -1, 1))).mean()),
        inverted=float((robot.up[:, 2] < 0).mean()),
        pitch=math.degrees(math.atan2(mean_up[0], mean_up[2])),
        shin=_shin(robot),
        turns=float(angle[-1] - angle[0]) / math.tau,
        stride_frequency=stride.frequency,
        periodicity=stride.periodicity,
        feet=_feet(robot.feet, soles, robot.dt, stride.frequency),
        fore=robot.fore,
        trunk=tuple(part for part, limb in zip(robot.parts, robot.limbs, strict=True) if not limb),
        flight=float(1 - touches.any(1).mean()),
        support=_support(robot.feet, soles),
        touching={
            part: float(share)
            for part in dict.fromkeys(robot.parts)
            if (share := _touching(robot, touches, part).mean()) > 0
        },
        trunk_touching=float(touches[:, [not limb for limb in robot.limbs]].any(1).mean()),
        leg_touching=float(touches[:, _legs_above_feet(robot)].any(1).mean()),
    )


class Stride(NamedTuple):
    """How a motion repeats."""

    frequency: float | None  # per second
    periodicity: float  # the autocorrelation one stride apart


def find_stride(joints: Array, dt: float) -> Stride:
    """The repetition of joint angles [T, J], by the first high peak of their common
    autocorrelation.

    Lags reach half the recording, so two strides must be in it.
    """
    moving = joints - joints.mean(0)
    if joints.size == 0 or np.sqrt(np.square(moving).mean(0)).max() < STILL:
        return Stride(None, 0.0)
    correlation = _autocorrelation(moving)
    inner = correlation[1:-1]
    # Over one stride the autocorrelations sum to 0, so the first peak comes after a negative
    # value.
    left_the_start = np.logical_or.accumulate(inner < 0)
    is_peak = left_the_start & (inner > 0) & (inner > correlation[:-2]) & (inner >= correlation[2:])
    peaks = 1 + np.flatnonzero(is_peak)
    if len(peaks) == 0:
        return Stride(None, 0.0)
    peak = int(peaks[correlation[peaks] >= EQUAL_PEAK * correlation[peaks].max()][0])
    periodicity = float(np.clip(correlation[peak], 0.0, 1.0))
    return Stride(
        FINER / (_refined(correlation, peak) * dt) if periodicity >= PERIODIC else None, periodicity
    )


def _refined(correlation: Array, lag: float) -> float:
    """The lag of one stride, refined by the peaks at two, three ... strides, as far as they are
    clear."""
    for strides in range(2, int(len(correlation) / lag)):
        low, high = round((strides - 0.25) * lag), round((strides + 0.25) * lag)
        peak = low + int(correlation[low:high].argmax())
        if correlation[peak] < PERIODIC:
            break
        lag = peak / strides
    return lag


def _autocorrelation(moving: Array) -> Array:
    """The autocorrelation of joint angles [T, J] about their means, at lags of 0, 1 / FINER, 2 /
    FINER ... moments up to T / 2.

    A fast gait has few moments per stride, and the peak lies between two of them. Zero-padding the
    power spectrum interpolates the values there.
    """
    moments = len(moving)
    power = np.square(np.abs(np.fft.rfft(moving, 2 * moments, axis=0))).sum(1)
    overlapping = np.fft.irfft(power, 2 * moments * FINER)[: moments // 2 * FINER + 1]
    share = 1 - np.arange(len(overlapping)) / (moments * FINER)
    return np.asarray(overlapping / (overlapping[0] * share))


def landing_phase(first: Array, other: Array, dt: float, frequency: float) -> float | None:
    """How long after `first` a foot is on the ground, as a share of a stride in [0, 1): the angle
    between both contact signals [T] at the stride's frequency. None for a foot that does not follow
    the stride (always or never down)."""
    turning = np.exp(-1j * math.tau * frequency * dt * np.arange(len(first)))
    angles = [
        np.dot(foot - foot.mean(), turning) for foot in (first.astype(float), other.astype(float))
    ]
    if min(map(abs, angles)) < 1e-9 * len(first):
        return None
    return float(-np.angle(angles[1] * np.conj(angles[0])) / math.tau % 1.0)


def _shin(robot: Linkage) -> float | None:
    leans = []
    for capsule, knee in robot.shins:
        axis = robot.ends[:, capsule, knee] - robot.ends[:, capsule, 1 - knee]
        upward = axis[:, 2] / np.maximum(np.linalg.norm(axis, axis=1), 1e-9)
        leans.append(float(np.degrees(np.arccos(np.clip(upward, -1, 1))).mean()))
    return min(leans, default=None)


def _feet(names: list[str], soles: Array, dt: float, frequency: float | None) -> tuple[Foot, ...]:
    seconds = len(soles) * dt
    return tuple(
        Foot(
            name,
            duty=float(soles[:, i].mean()),
            touchdowns=float((soles[1:, i] & ~soles[:-1, i]).sum() / seconds),
            phase=landing_phase(soles[:, 0], soles[:, i], dt, frequency) if frequency else None,
        )
        for i, name in enumerate(names)
    )


def _support(names: list[str], soles: Array) -> dict[str, float]:
    sets, counts = np.unique(soles, axis=0, return_counts=True)
    key = lambda row: (
        " + ".join(name for name, down in zip(names, row, strict=True) if down) or "none"
    )
    return {key(row): float(count / len(soles)) for row, count in zip(sets, counts, strict=True)}


def _touching(robot: Linkage, touches: Array, part: str) -> Array:
    """[T]: whether any capsule of that name is on the ground."""
    return np.asarray(touches[:, [name == part for name in robot.parts]].any(1))


def _legs_above_feet(robot: Linkage) -> list[bool]:
    legs = {limb for limb, foot in zip(robot.limbs, robot.is_foot, strict=True) if foot}
    return [
        bool(limb) and limb in legs and not foot
        for limb, foot in zip(robot.limbs, robot.is_foot, strict=True)
    ]
