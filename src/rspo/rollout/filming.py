"""Pictures of recorded episodes, by the environment's own renderer."""

from collections.abc import Collection

import numpy as np

from rspo.core.types import Trajectory
from rspo.envs.base import AnyEnv, Camera


def film(
    env: AnyEnv, camera: Camera, played: Trajectory, n: int, moments: Collection[int]
) -> list[np.ndarray]:
    """Replay episode n of a recorded trajectory (NumPy) from its seed and actions: what the camera
    sees after the numbers of actions in `moments`. It ends with the episode, perhaps earlier if
    the environment does not follow its seed."""
    alone, pictures = np.zeros(1, np.int64), []
    camera.instances.reset(alone, played.seeds[n : n + 1])
    to_env = env.spec.action_space.to_env
    for t in range(max(moments) + 1):
        if t in moments:
            pictures.append(_checked(camera.look()))
        if t == max(moments):
            break
        step = camera.instances.step(alone, np.array(to_env(np.asarray(played.action)[t, n]))[None])
        if (step.terminated | step.truncated).any() and t + 1 < max(moments):
            pictures.append(_checked(camera.look()))
            break
    return pictures


def _checked(picture: object) -> np.ndarray:
    found = np.asarray(picture)
    if found.ndim != 3 or found.shape[2] != 3 or found.dtype != np.uint8 or not found.size:
        kind = f"an array of {found.dtype} {found.shape}" if found.ndim else type(picture).__name__
        raise TypeError(f"render gives {kind}, but it must be colours [height, width, 3] of uint8")
    return found.copy()  # the renderer may reuse its buffer
