"""Half-Cheetah, Hopper, Walker2d and Humanoid: MuJoCo's engine, gymnasium's models and its v5
rewards, 512 steps.

The engine steps a whole batch in one call and releases the GIL meanwhile; everything else is
vectorised over the batch too.
"""

import abc
import ctypes
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rspo.core.spaces import Box
from rspo.core.types import Descriptor, Played, Shape, Spec, Trajectory
from rspo.envs.base import HostEnv, HostStep, Instances
from rspo.envs.robots.gait_descriptor import Episode, describe_gaits
from rspo.envs.robots.gait_drawing import strip
from rspo.envs.robots.gait_pictures import Portrait, photographs, portrait
from rspo.envs.robots.linkage import Linkage, far_to_near, linkage
from rspo.envs.robots.robot_scene import ground, robot_scene
from rspo.errors import InputError, suggestion

HORIZON = 512
FREE = (-np.inf, np.inf)
IMPACT_COST, MOST_IMPACT_COST = 5e-7, 10.0
Rows = np.ndarray | slice  # some of the instances, or all of them
EVERYONE = slice(None)  # a view: no copies are gathered


@dataclass(frozen=True)
class Robot:
    """The constants of Gymnasium's v5 class of a robot."""

    xml: str
    frame_skip: int
    ctrl_cost: float
    reset_noise: float
    forward: float = 1.0
    healthy_reward: float = 0.0
    healthy_z: tuple[float, float] = FREE
    healthy_angle: tuple[float, float] = FREE
    healthy_state: tuple[float, float] = FREE
    clip_velocity: float = np.inf
    normal_velocity: bool = False
    """Initial velocities are normal instead of uniform."""
    whole_body: bool = False
    """It moves in 3D, not in a plane."""

    @property
    def can_fall(self) -> bool:
        return self.healthy_z != FREE


ROBOTS = {
    "half-cheetah": Robot("half_cheetah.xml", 5, 0.1, 0.1, normal_velocity=True),
    "hopper": Robot(
        "hopper.xml",
        4,
        1e-3,
        5e-3,
        1.0,
        1.0,
        (0.7, np.inf),
        (-0.2, 0.2),
        (-100.0, 100.0),
        clip_velocity=10.0,
    ),
    "walker2d": Robot(
        "walker2d_v5.xml", 4, 1e-3, 5e-3, 1.0, 1.0, (0.8, 2.0), (-1.0, 1.0), clip_velocity=10.0
    ),
    "humanoid": Robot("humanoid.xml", 5, 0.1, 1e-2, 1.25, 5.0, (1.0, 2.0), whole_body=True),
}


class State(NamedTuple):
    """What is recorded of an instance after each step."""

    # [..., nq] joint positions; a planar robot's first three are x, z and the pitch of its torso.
    qpos: np.ndarray
    qvel: np.ndarray  # [..., nv]


class Mujoco(HostEnv):
    """One of the robots by name. With `fall="end"` an unhealthy robot ends its episode, as in
    Gymnasium; with "continue" the episode goes on to the horizon, without the reward for being
    healthy."""

    def __init__(self, name: str, fall: Literal["end", "continue"] = "end") -> None:
        if name not in ROBOTS:
            raise InputError(f"There is no robot '{name}'. {suggestion(name, ROBOTS)}")
        if fall not in ("end", "continue"):
            raise InputError(f"fall is '{fall}', but it must be 'end' or 'continue'.")
        self.robot, self.fall = ROBOTS[name], fall
        # Other processes can make only this variant.
        self.name = name if type(self) is Mujoco and fall == "end" else None
        self.mujoco = _engine()
        self.model = _load(self.mujoco, _assets() / self.robot.xml)
        self.model.opt.disableflags |= _superfluous(self.mujoco.mjtDisableBit, self.robot)
        low, high = self.model.actuator_ctrlrange.astype(np.float32).T.tolist()
        obs = self.batch(1).reset(np.zeros(1, int), np.zeros(1, int))
        self._spec = Spec(obs.shape[-1], Box(tuple(low), tuple(high)), HORIZON)

    @property
    def spec(self) -> Spec:
        return self._spec

    def batch(self, size: int) -> "Simulations":
        return (WholeBody if self.robot.whole_body else Planar)(self, size)

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The gait that most episodes show, up to their end: docs/gaits.md."""
        return describe_gaits(list(self.episodes(trajectory)))

    def behaviour(self, trajectory: Trajectory) -> Any:
        """The mean pitch of the torso (for Humanoid its height) within the healthy range."""
        robot, first = self.robot, trajectory.first
        column, (low, high) = (0, robot.healthy_z) if robot.whole_body else (1, robot.healthy_angle)
        if not np.isfinite(low):
            low, high = -np.pi, np.pi
        mean = (trajectory.obs[:, :, 0, column] * first).sum(0) / first.sum(0)
        return ((mean - low) / (high - low)).clip(0.0, 1.0)

    def episodes(self, trajectory: Trajectory) -> Iterator[Episode]:
        """The first episode of each column, including the state before its first action."""
        qpos = np.concatenate([trajectory.start.qpos[None], trajectory.state.qpos])
        for n, steps in enumerate(trajectory.first.sum(0).tolist()):
            yield Episode(
                self._linkage(qpos[: steps + 1, n]), fell=bool(trajectory.terminated[steps - 1, n])
            )

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """Each strategy's gait as a strip of frames."""
        return {
            f"{number:03d}-gait.svg": strip(*one)
            for number, one in enumerate(self._portraits(strategies))
        }

    def photographs(self, strategies: Mapping[str, Played]) -> Mapping[str, bytes]:
        """The frames of the strips, by MuJoCo."""
        taken = photographs(self.model, [one.robot for one in self._portraits(strategies)])
        return {f"{number:03d}-gait.png": picture for number, picture in enumerate(taken)}

    def _portraits(self, strategies: Mapping[str, Played]) -> list[Portrait]:
        return [
            portrait(name, one.label, self.episodes(one.episodes()))
            for name, one in strategies.items()
        ]

    def scene(self, state: Any) -> Sequence[Shape]:
        return robot_scene(self._linkage(state.qpos[None]), self._order)

    def backdrop(self) -> Sequence[Shape]:
        return ground()

    def _linkage(self, qpos: np.ndarray) -> Linkage:
        """Of positions [T, nq]."""
        return linkage(self.model, qpos, self.model.opt.timestep * self.robot.frame_skip)

    @cached_property
    def _order(self) -> np.ndarray:
        """Capsules from far to near in the starting pose; the order is fixed, so that each keeps
        its place."""
        return far_to_near(self._linkage(self.model.qpos0[None]))


class Seen(NamedTuple):
    """Some of the robots at one moment."""

    x: np.ndarray  # [K] positions along the track
    healthy: np.ndarray  # [K]
    obs: np.ndarray  # [K, O]


class Simulations(Instances):
    """A simulation for each instance."""

    def __init__(self, env: Mujoco, size: int) -> None:
        self.robot, self.fall = env.robot, env.fall
        # On the calling thread: the collector has one per batch. Where more than the state is
        # read, the data is persistent, or values that a call does not compute would come from
        # another simulation.
        self.engine = env.mujoco.batch.Batch(
            env.model, size, nthread=1, persistent=self.robot.whole_body
        )
        self.start = self.engine.state[0].copy()
        self.qpos, self.qvel, self.ctrl = (
            self.engine.bind(name) for name in ("qpos", "qvel", "ctrl")
        )
        # NumPy is slower with a Python number.
        self.dt = np.array(env.model.opt.timestep * self.robot.frame_skip)
        self.x = np.zeros(size)  # position of each after its last step
        self.never, self.always = np.zeros(size, bool), np.ones(size, bool)
        self.never.flags.writeable = self.always.flags.writeable = (
            False  # every step gives the same ones
        )

    @abc.abstractmethod
    def look(self, which: Rows) -> Seen: ...

    @abc.abstractmethod
    def costs(self, which: Rows, action: np.ndarray) -> np.ndarray: ...

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        scale, (nq, nv) = self.robot.reset_noise, (self.qpos.shape[1], self.qvel.shape[1])
        self.engine.state[which] = self.start  # as the engine's own reset, but faster
        for i, seed in zip(which.tolist(), seeds.tolist(), strict=True):
            rng = np.random.default_rng(seed)
            self.qpos[i] += rng.uniform(-scale, scale, nq)
            normal = self.robot.normal_velocity
            self.qvel[i] += (
                scale * rng.standard_normal(nv) if normal else rng.uniform(-scale, scale, nv)
            )
        self.engine.forward(which)
        seen = self.look(which)
        self.x[which] = seen.x
        return seen.obs[:, None]

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        action = action[:, 0]
        rows = EVERYONE if len(which) == len(self.x) else which
        self.simulate(rows, action)
        seen, never = self.look(rows), self.never[: len(which)]
        reward = self.reward(seen.x - self.x[rows], seen.healthy, self.costs(rows, action))
        self.x[rows] = seen.x
        fell = ~seen.healthy if self.robot.can_fall and self.fall == "end" else never
        return HostStep(seen.obs[:, None], reward[:, None], fell, never)

    def reward(self, way: np.ndarray, healthy: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """The reward for a step's displacement along the track, of any shape."""
        # On so few numbers the overhead of every operation counts: no unnecessary ones.
        reward = way / self.dt
        if self.robot.forward != 1:
            reward *= self.robot.forward
        if self.robot.can_fall:
            reward += self.robot.healthy_reward * healthy
        reward -= cost
        return reward

    def simulate(self, which: Rows, action: np.ndarray) -> None:
        self.ctrl[which] = action
        self.engine.step(None if isinstance(which, slice) else which, nstep=self.robot.frame_skip)

    def state(self) -> State:
        return State(self.qpos.copy(), self.qvel.copy())


class Planar(Simulations):
    """A robot whose first joints are x, z and pitch."""

    def __init__(self, env: Mujoco, size: int) -> None:
        super().__init__(env, size)
        robot, nq, nv = self.robot, self.qpos.shape[1], self.qvel.shape[1]
        # Of all but x, repeated per instance: NumPy takes longer to broadcast than to compare.
        healthy = [robot.healthy_z, *[robot.healthy_state] * (nq - 2 + nv)]
        if robot.healthy_angle != FREE:
            healthy[1] = robot.healthy_angle
        shown = [FREE] * (nq - 1) + [(-robot.clip_velocity, robot.clip_velocity)] * nv
        self.healthy, self.shown = (
            np.tile(np.transpose(bounds)[:, None], (1, size, 1)) for bounds in (healthy, shown)
        )

    def look(self, which: Rows) -> Seen:
        x, state = self.qpos[which, 0], np.concatenate([self.qpos[which, 1:], self.qvel[which]], 1)
        healthy = self.always[: len(x)]
        if self.robot.can_fall:
            inside = _within(state, self.healthy[:, : len(x)])
            if np.count_nonzero(inside) < inside.size:
                healthy = np.logical_and.reduce(inside, axis=1)
        if self.robot.clip_velocity < np.inf:
            low, high = self.shown[:, : len(x)]
            state = np.minimum(np.maximum(state, low), high)
        return Seen(x, healthy, state)

    def costs(self, which: Rows, action: np.ndarray) -> np.ndarray:
        return self.robot.ctrl_cost * np.add.reduce(np.square(action), -1)


class WholeBody(Simulations):
    """A 3D robot: its position is that of its centre of mass, and it observes inertias, velocities
    and forces of all its parts."""

    def __init__(self, env: Mujoco, size: int) -> None:
        super().__init__(env, size)
        self.mujoco, self.model = env.mujoco, env.model
        names = ("xipos", "cinert", "cvel", "qfrc_actuator")
        self.xipos, self.cinert, self.cvel, self.qfrc_actuator = map(self.engine.bind, names)
        self.one = env.mujoco.MjData(env.model)
        self.cfrc_ext = np.zeros((size, *self.one.cfrc_ext.shape))

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        self.cfrc_ext[which] = 0
        return super().reset(which, seeds)

    def simulate(self, which: Rows, action: np.ndarray) -> None:
        super().simulate(which, action)
        for i in range(len(self.x)) if isinstance(which, slice) else which.tolist():
            self.engine.get_data(i, self.one)  # a step does not compute the external forces
            self.mujoco.mj_rnePostConstraint(self.model, self.one)
            self.cfrc_ext[i] = self.one.cfrc_ext

    def look(self, which: Rows) -> Seen:
        mass = self.model.body_mass[:, None]
        x = ((mass * self.xipos[which]).sum(1) / mass.sum())[:, 0]
        flat = lambda parts: parts[which, 1:].reshape(len(x), -1)
        parts = (
            flat(self.cinert),
            flat(self.cvel),
            self.qfrc_actuator[which, 6:],
            flat(self.cfrc_ext),
        )
        obs = np.concatenate([self.qpos[which, 2:], self.qvel[which], *parts], 1)
        return Seen(x, _within(self.qpos[which, 2], self.robot.healthy_z), obs)

    def costs(self, which: Rows, action: np.ndarray) -> np.ndarray:
        effort = self.robot.ctrl_cost * np.square(self.ctrl[which]).sum(1)
        impact = IMPACT_COST * np.square(self.cfrc_ext[which]).sum((1, 2))
        return effort + np.minimum(impact, MOST_IMPACT_COST)


def _within(x: np.ndarray, bounds: Sequence[Any] | np.ndarray) -> np.ndarray:
    return (bounds[0] < x) & (x < bounds[1])


def _engine() -> Any:
    try:
        import mujoco.batch
    except ImportError as error:
        why = " ".join(str(error).split())
        raise InputError(f"The robots need MuJoCo ({why}): pip install 'rspo[mujoco]'.") from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_say)
    if mujoco.get_mjcb_time() is None:
        # The engine times each of its stages with the system's clock, an eighth of a step. A C
        # function that returns a constant stands in for the clock; the numbers stay the same.
        mujoco.set_mjcb_time(ctypes.pythonapi.PyFloat_GetMin)
    return mujoco


_SAID: set[str] = set()


def _say(text: str) -> None:
    """Show a warning of the engine, such as of a simulation that blew up, once per process.
    Otherwise it would go to a log file in the current folder."""
    warning = text.partition(" Time =")[0]
    if warning not in _SAID:
        _SAID.add(warning)
        print(f"MuJoCo warns: {warning}", file=sys.stderr)


def _load(mujoco: Any, path: Path) -> Any:
    """Suppress the engine's warnings about Gymnasium's old files."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    finally:
        mujoco.set_mju_user_warning(before)


def _superfluous(bits: Any, robot: Robot) -> int:
    """Engine features that can be disabled without changing any number, which makes steps faster.
    There is one robot and a plane, so its contacts are one island. Where no two bodies with
    several geoms each can touch, a bounding volume hierarchy saves no comparisons, and contacts
    are found in the same order without it."""
    return int(bits.mjDSBL_ISLAND) | (0 if robot.whole_body else int(bits.mjDSBL_MIDPHASE))


def _assets() -> Path:
    """Gymnasium's folder of models, found without importing Gymnasium, which would take longer
    than loading a robot."""
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise InputError("The robots need gymnasium's models: pip install 'rspo[mujoco]'.")
    return Path(found.origin).parent / "envs" / "mujoco" / "assets"
