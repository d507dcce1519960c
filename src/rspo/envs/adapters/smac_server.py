"""One game of SMAC in its own process and interpreter; arrays go over a pipe.

This file is run by path, by an interpreter that need not have rspo and may be as old as Python 3.7,
which SMAC was written for: it imports only the standard library, NumPy and SMAC. A message is a
line of JSON, in which "arrays" has the names, types and shapes of the arrays whose bytes follow.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

MODULES = ("smac.env", "smacv2.env")


def send(stream: Any, told: dict[str, Any], **arrays: Any) -> None:
    """A message. Without arrays it needs no NumPy, which an interpreter without SMAC may lack."""
    told["arrays"] = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    stream.write(json.dumps(told).encode() + b"\n")
    for array in arrays.values():
        stream.write(array.tobytes())
    stream.flush()


def short(error: Exception) -> str:
    """Its type and the first line of its message."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def made(map_name: str, seed: int, modules: Sequence[str]) -> tuple[Any, Any]:
    """The game, or a pair of what is missing and why."""
    found, why = None, []
    for name in modules:
        try:
            found = importlib.import_module(name).StarCraft2Env
            break
        except Exception as error:  # SMAC's old dependencies fail in more ways than ImportError
            why.append(f"{name}: {short(error)}")
    if found is None:
        return None, ("package", "; ".join(why))
    # By default neither SMAC nor SMACv2 tells a battle that ran out of time from a lost one.
    more: dict[str, Any] = {"continuing_episode": True}
    if found.__module__.startswith("smacv2"):
        more["capability_config"] = {}
    try:
        return found(map_name=map_name, seed=seed, **more), None
    except Exception as error:
        return None, ("map", short(error))


def seen(env: Any) -> dict[str, Any]:
    """The current observations, as arrays."""
    import numpy as np

    mask = np.array(env.get_avail_actions(), bool)
    obs = np.array(env.get_obs(), np.float32)
    return {"obs": obs, "mask": mask, "state": np.array(env.get_state(), np.float32)}


def build(env: Any) -> int:
    """The build of StarCraft II; 0 if the game does not say."""
    try:
        return int(env._controller.ping().base_build)
    except Exception:
        return 0


def serve(env: Any, lines: Iterable[str], out: Any) -> None:
    for line in lines:
        asked = json.loads(line)
        if asked["do"] == "info":
            told = env.get_env_info()
            names = ("n_agents", "n_actions", "obs_shape", "state_shape", "episode_limit")
            send(out, {name: int(told[name]) for name in names})
        elif asked["do"] == "reset":
            try:
                env.reset()
            except Exception as error:
                send(out, {"missing": "game", "why": short(error)})
                return
            send(out, {"build": build(env)}, **seen(env))
        elif asked["do"] == "step":
            reward, terminated, told = env.step(asked["actions"])
            # After a protocol error SMAC has relaunched the game and reports no battle result.
            known = {k: int(v) for k, v in told.items() if isinstance(v, (bool, int))}
            send(
                out, {"reward": float(reward), "over": bool(terminated), "info": known}, **seen(env)
            )


def forget_own_folder() -> None:
    """Python puts a script's folder first in its path; the smac.py in it would be taken for SMAC.
    The flag -P prevents that only from Python 3.11 on."""
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder) != here]


def main() -> None:
    forget_own_folder()
    # The game's own output must not mix with the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    map_name, seed, *modules = sys.argv[1:]
    env, missing = made(map_name, int(seed), modules or MODULES)
    if env is None:
        send(out, {"missing": missing[0], "why": missing[1]})
        return
    send(out, {"ready": True})
    try:
        serve(env, sys.stdin, out)
    finally:
        env.close()


if __name__ == "__main__":
    main()
