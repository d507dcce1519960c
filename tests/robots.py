"""Gymnasium's robots, scripted recordings of them whose gait is known beforehand, and one that real
physics makes."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from rspo.envs.robots.linkage import Linkage, linkage

FILES = {
    "half-cheetah": "half_cheetah",
    "hopper": "hopper",
    "walker2d": "walker2d_v5",
    "humanoid": "humanoid",
}
HEIGHT = {"half-cheetah": 1, "hopper": 1, "walker2d": 1, "humanoid": 2}  # the index of z in qpos
DT, MOMENTS, FREQUENCY = 0.02, 400, 2.0
SECONDS = np.arange(MOMENTS) * DT
SWING = np.sin(2 * np.pi * FREQUENCY * SECONDS)
HOP = 0.1 * np.clip(SWING, 0, None)  # above the ground for half of each stride


@cache
def model(robot: str) -> Any:
    (package,) = find_spec("gymnasium").submodule_search_locations
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(
        lambda text: None
    )  # without this a deprecated word in a model leaves a log behind
    try:
        return mujoco.MjModel.from_xml_path(
            str(Path(package, "envs/mujoco/assets", f"{FILES[robot]}.xml"))
        )
    finally:
        mujoco.set_mju_user_warning(before)


def recording(
    robot: str, joints: dict[int, Any], speed: float = 1.0, lift: Any = 0.0, dt: float = DT
) -> Linkage:
    return linkage(model(robot), positions(robot, joints, speed, lift, dt), dt)


def positions(
    robot: str, joints: dict[int, Any], speed: float = 1.0, lift: Any = 0.0, dt: float = DT
) -> np.ndarray:
    """The starting pose with some positions set, put on the ground by its lowest point and then
    lifted."""
    qpos = np.tile(model(robot).qpos0, (MOMENTS, 1))
    qpos[:, 0] = speed * SECONDS * dt / DT
    for index, values in joints.items():
        qpos[:, index] = values
    qpos[:, HEIGHT[robot]] += lift - linkage(model(robot), qpos, dt).clearance.min(1)
    return qpos


def driven_cheetah(frequency: float, steps: int = 240) -> Linkage:
    """Half-Cheetah pushed by sine waves, simulated: it walks, and its stride must have the
    frequency of the drive."""
    physics, skip = model("half-cheetah"), 5
    data, dt = mujoco.MjData(physics), physics.opt.timestep * skip
    strength = np.array([0.6, 0.9, 0.0, 0.7, 0.7, 0.0])
    phase = np.array([0.5, 0.8, 0.1, 0.0, 0.1, 0.7])
    offset = np.array([-0.5, 0.1, -0.2, -0.1, -0.4, 0.1])
    states = []
    for step in range(steps):
        data.ctrl[:] = strength * np.sin(2 * np.pi * (frequency * step * dt + phase)) + offset
        mujoco.mj_step(physics, data, skip)
        states.append(data.qpos.copy())
    return linkage(physics, np.array(states), dt)
