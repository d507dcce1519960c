"""MuJoCo's own pictures, where the machine can make them: its offscreen renderer through EGL or
OSMesa.

It runs in a separate process. MuJoCo chooses its OpenGL library once, on first import, and a
broken library may crash the process instead of raising.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from rspo.envs.robots.linkage import Array, Model, mujoco_module
from rspo.errors import InputError, NoRendererError

BACKENDS = ("egl", "osmesa")
SECONDS = 120  # time limit, plus one per picture, for a slow software renderer


def render(model: Model, qpos: Array, width: int = 320, height: int = 240) -> Array:
    """Pictures [K, height, width, 3] of a robot at positions [K, nq], by the model's first camera,
    which follows it."""
    widest, highest = model.vis.global_.offwidth, model.vis.global_.offheight
    if not (0 < width <= widest and 0 < height <= highest):
        raise InputError(
            f"A picture cannot be {width} x {height}; this model allows at most {widest} x "
            f"{highest}."
        )
    if np.ndim(qpos) != 2 or np.shape(qpos)[1] != model.nq:
        raise InputError(
            f"The positions have shape {list(np.shape(qpos))}; expected [pictures, {model.nq}]."
        )
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        mujoco_module().mj_saveModel(model, str(Path(folder, "model.mjb")), None)
        np.save(Path(folder, "qpos.npy"), np.asarray(qpos, np.float64))
        for backend in [asked] if asked else BACKENDS:
            if not (failure := _attempt(folder, backend, width, height, SECONDS + len(qpos))):
                return np.asarray(np.load(Path(folder, "pictures.npy"), allow_pickle=False))
            failures.append(f"{backend}: {failure}")
    raise NoRendererError(
        f"MuJoCo cannot render on this machine ({'; '.join(failures)}). Install EGL or OSMesa (on "
        "Debian: libegl1 or libosmesa6), or use the drawing of rspo.envs.robots.gait_drawing, "
        "which needs no OpenGL."
    )


def _attempt(folder: str, backend: str, width: int, height: int, seconds: int) -> str:
    """Render with one OpenGL library; the reason if it did not work."""
    environment = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    environment |= {
        "MUJOCO_GL": backend,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "rspo.envs.robots.offscreen",
        folder,
        str(width),
        str(height),
    ]
    try:
        done = subprocess.run(  # in the folder, because MuJoCo leaves a log there on failure
            command,
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no picture within {seconds} s"
    if done.returncode == 0:
        return ""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return next(
        (line for line in reversed(said) if "Error" in line),
        f"the process ended with {done.returncode}",
    )


def main(folder: str, width: str, height: str) -> None:
    """The entry point of the other process: from files to a file."""
    mujoco = mujoco_module()
    model = mujoco.MjModel.from_binary_path(str(Path(folder, "model.mjb")))
    data = mujoco.MjData(model)
    pictures = []
    with mujoco.Renderer(model, int(height), int(width)) as renderer:
        for qpos in np.load(Path(folder, "qpos.npy"), allow_pickle=False):
            data.qpos[:] = qpos
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera=0 if model.ncam else -1)
            pictures.append(renderer.render())
    np.save(Path(folder, "pictures.npy"), np.stack(pictures))


if __name__ == "__main__":
    main(*sys.argv[1:])
