"""A robot as capsules: MuJoCo's forward kinematics of recorded joint positions, as plain arrays.

Gaits are measured on it, and pictures are drawn from it. Everything comes from the compiled model
and `qpos`; nothing is simulated. Spheres are capsules whose two ends are one point.
"""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from rspo.errors import InputError

Array = np.ndarray
FORE_AFT = 0.2  # metres between a quadruped's feet; less is how a biped stands
Model = Any  # mujoco.MjModel, only available with the extra `mujoco`


@dataclass(frozen=True)
class Linkage:
    """T moments of a robot of G capsules. Lengths in metres, the floor at height 0, x is forward,
    z is up."""

    dt: float  # seconds between two moments
    parts: tuple[str, ...]  # [G] a readable name of each capsule
    limbs: tuple[str, ...]  # [G] the limb that it belongs to, "" for the trunk
    is_foot: tuple[bool, ...]  # [G]
    radius: Array  # [G]
    ends: Array  # [T, G, 2, 3] the two ends of each capsule's axis
    torso: Array  # [T, 3] the position of the torso's frame
    up: Array  # [T, 3] the direction of the torso's upward axis
    qpos: Array  # [T, nq] the positions that it was made from
    joints: Array  # [T, J] the joints below the torso, in radians (metres for sliding ones)
    standing: float  # the torso's height in the model's own starting pose
    # The capsule of each shin, and which of its ends is the knee.
    shins: tuple[tuple[int, int], ...]
    # The feet in front in that pose; none where feet do not stand before and behind each other.
    fore: tuple[str, ...]

    @property
    def clearance(self) -> Array:
        """[T, G]: the height of each capsule's lowest point above the floor."""
        return self.ends[..., 2].min(-1) - self.radius

    @property
    def feet(self) -> list[str]:
        return list(
            dict.fromkeys(part for part, foot in zip(self.parts, self.is_foot, strict=True) if foot)
        )

    def between(self, start: int, stop: int) -> "Linkage":
        """A slice of the time."""
        cut = {
            name: getattr(self, name)[start:stop]
            for name in ("ends", "torso", "up", "qpos", "joints")
        }
        return replace(self, **cut)


def far_to_near(linkage: Linkage) -> Array:
    """[G]: the capsules by depth for an eye at negative y; among equals the trunk is nearest, then
    the first limb."""
    limbs = list(dict.fromkeys(reversed(linkage.limbs)))
    depth = linkage.ends[..., 1].mean((0, 2)).round(2)
    return np.lexsort(([limbs.index(limb) for limb in linkage.limbs], -depth))


def mujoco_module() -> ModuleType:
    try:
        import mujoco
    except ImportError:
        raise InputError(
            "Robots need the package mujoco; install it with: pip install 'rspo[mujoco]'"
        ) from None
    except (AttributeError, RuntimeError) as error:  # from a wrong MUJOCO_GL
        chosen = os.environ.get("MUJOCO_GL", "")
        raise InputError(
            f"MuJoCo does not start with MUJOCO_GL='{chosen}' ({error}); unset it."
        ) from error
    return mujoco


def linkage(model: Model, qpos: Array, dt: float, feet: Sequence[str] | None = None) -> Linkage:
    """The robot of a compiled `model` at recorded positions [T, nq], `dt` seconds apart.

    `feet` are names of bodies; by default those with "foot" in their name, or else each limb's last
    body.
    """
    mujoco = mujoco_module()
    qpos = np.asarray(qpos, np.float64)
    _check(model, qpos, dt)
    data = mujoco.MjData(model)
    root = _root(model)
    geoms = [g for g in range(model.ngeom) if model.body_rootid[model.geom_bodyid[g]] == root]
    half = _half_lengths(mujoco, model, geoms)
    floor = _floor(mujoco, model)
    moments = [
        _pose(mujoco, model, data, each, root, geoms, half, floor) for each in (model.qpos0, *qpos)
    ]
    ends, torso, up = (np.stack(arrays) for arrays in zip(*moments, strict=True))
    bodies = [int(model.geom_bodyid[g]) for g in geoms]
    limb_of, soles = _limbs(model, root), _feet(model, root, feet)
    below = [j for j in range(model.njnt) if model.jnt_bodyid[j] != root]
    return Linkage(
        dt=dt,
        parts=tuple(_part(model, g) for g in geoms),
        limbs=tuple(limb_of[body] for body in bodies),
        is_foot=tuple(body in soles for body in bodies),
        radius=model.geom_size[geoms, 0].copy(),
        ends=ends[1:],
        torso=torso[1:],
        up=up[1:],
        qpos=qpos,
        joints=qpos[:, [model.jnt_qposadr[j] for j in below]],
        standing=float(torso[0, 2]),
        shins=_shins(
            ends[0], [limb_of[body] for body in bodies], [body in soles for body in bodies]
        ),
        fore=_fore(
            {_part(model, g): ends[0, i].mean(0) for i, g in enumerate(geoms) if bodies[i] in soles}
        ),
    )


def _check(model: Model, qpos: Array, dt: float) -> None:
    if qpos.ndim != 2 or qpos.shape[1] != model.nq or len(qpos) == 0:
        raise InputError(
            f"The positions have shape {list(qpos.shape)}; expected [moments, {model.nq}] for this "
            "robot."
        )
    if not np.isfinite(qpos).all():
        raise InputError(
            "The positions hold a number that is not finite; record only the steps before the "
            "failure."
        )
    if not (math.isfinite(dt) and dt > 0):
        raise InputError(
            f"dt is {dt}; give the seconds between two positions: the model's timestep times "
            "frame_skip."
        )


def _root(model: Model) -> int:
    """The torso: the first moving child of the world body."""
    for body in range(1, model.nbody):
        if model.body_parentid[body] == 0 and model.body_jntnum[body] > 0:
            return body
    raise InputError("The model has no moving body; a gait needs a robot.")


def _half_lengths(mujoco: ModuleType, model: Model, geoms: list[int]) -> Array:
    """[G]: from the middle of a capsule's axis to its end."""
    kinds = mujoco.mjtGeom
    capsule, sphere = int(kinds.mjGEOM_CAPSULE), int(kinds.mjGEOM_SPHERE)
    for g in geoms:
        if model.geom_type[g] not in (capsule, sphere):
            kind = kinds(model.geom_type[g]).name.removeprefix("mjGEOM_").lower()
            raise InputError(
                f"Part '{_part(model, g)}' of the robot is a {kind}; only capsules and spheres are "
                "known."
            )
    return np.where(model.geom_type[geoms] == capsule, model.geom_size[geoms, 1], 0.0)


def _floor(mujoco: ModuleType, model: Model) -> float:
    planes = [
        g for g in range(model.ngeom) if model.geom_type[g] == int(mujoco.mjtGeom.mjGEOM_PLANE)
    ]
    return float(model.geom_pos[planes[0], 2]) if planes else 0.0


def _pose(
    mujoco: ModuleType,
    model: Model,
    data: Any,
    qpos: Array,
    root: int,
    geoms: list[int],
    half: Array,
    floor: float,
) -> tuple[Array, Array, Array]:
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    axis = data.geom_xmat[geoms].reshape(-1, 3, 3)[:, :, 2] * half[:, None]
    ends = data.geom_xpos[geoms][:, None] + np.stack([-axis, axis], 1)
    lowered = np.array([0.0, 0.0, floor])
    return ends - lowered, data.xpos[root] - lowered, data.xmat[root].reshape(3, 3)[:, 2].copy()


def _limbs(model: Model, root: int) -> dict[int, str]:
    """Each body's limb. The trunk is the torso and every body at which the robot branches; limbs
    are the chains."""
    inside = [b for b in range(model.nbody) if model.body_rootid[b] == root]
    children = {b: [c for c in inside if model.body_parentid[c] == b and c != b] for b in inside}
    branches: dict[int, bool] = {}
    for b in reversed(inside):  # a parent's number is below its children's
        branches[b] = b == root or len(children[b]) > 1 or any(branches[c] for c in children[b])
    limb: dict[int, str] = {}
    for b in inside:
        limb[b] = "" if branches[b] else limb[int(model.body_parentid[b])] or model.body(b).name
    return limb


def _feet(model: Model, root: int, names: Sequence[str] | None) -> set[int]:
    inside = {model.body(b).name: b for b in range(model.nbody) if model.body_rootid[b] == root}
    if names is not None:
        if unknown := sorted(set(names) - set(inside)):
            raise InputError(
                f"The robot has no body '{unknown[0]}' to be a foot. Bodies: "
                f"{', '.join(sorted(inside))}."
            )
        return {inside[name] for name in names}
    named = {b for name, b in inside.items() if "foot" in name}
    parents = {int(model.body_parentid[b]) for b in inside.values()}
    return named or {b for b in inside.values() if b not in parents and b != root}


def _part(model: Model, geom: int) -> str:
    """The geom's name without suffixes that only make names unique: "torso1" and "torso_geom" are
    the torso."""
    name = model.geom(geom).name or model.body(int(model.geom_bodyid[geom])).name or f"part{geom}"
    return re.sub(r"_geom$|\d+$", "", name) or name


def _shins(ends: Array, limbs: list[str], is_foot: list[bool]) -> tuple[tuple[int, int], ...]:
    """A leg is a limb of three parts or more with a foot; its second part is the shin, whose higher
    end in the starting pose `ends` [G, 2, 3] is the knee."""
    legs = {limb: [g for g, own in enumerate(limbs) if own == limb] for limb in limbs if limb}
    shins = [
        parts[1] for parts in legs.values() if len(parts) > 2 and any(is_foot[g] for g in parts)
    ]
    return tuple((g, int(ends[g, :, 2].argmax())) for g in shins)


def _fore(feet: dict[str, Array]) -> tuple[str, ...]:
    """The feet ahead of their midpoint, given names and positions, if they are further apart along
    x than across it."""
    places = np.stack(list(feet.values()))
    spread, middle = np.ptp(places, axis=0), places[:, 0].mean()
    apart = spread[0] > spread[1] and spread[0] > FORE_AFT
    return tuple(name for name, place in feet.items() if apart and place[0] > middle)
