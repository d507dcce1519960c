"""The optional additions of an environment: names, drawings, heat maps, pictures. A trained run is
worth keeping without them, so one that fails is reported in one line and left out."""

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from rspo.core.types import Trajectory
from rspo.envs.base import AnyEnv
from rspo.envs.given import in_short, place_of
from rspo.errors import NoRendererError, RspoWarning

T = TypeVar("T")


class LeftOut(RspoWarning):
    """One of these failed."""

    def __init__(self, text: str, method: str) -> None:
        super().__init__(text)
        self.method = method


def decorated(
    env: AnyEnv, method: str, make: Callable[[], T], otherwise: T, so: str = "it is left out"
) -> T:
    """The result of `make`, which calls this method of the environment; if that raises, a warning,
    and `otherwise`."""
    try:
        return make()
    except NoRendererError:
        raise
    except Exception as error:
        text = f"{env.title}: {method} failed ({in_short(error)}; {place_of(error)}): {so}."
        warnings.warn(LeftOut(text, method), stacklevel=2)
        return otherwise


def described(env: AnyEnv, sampled: Trajectory, greedy: Trajectory) -> dict[str, Any]:
    """The name of what episodes show, as fields of an `Evaluation`; none where an environment has
    no names."""

    def describe() -> dict[str, Any]:
        names = [_descriptor(env.describe(trajectory)) for trajectory in (greedy, sampled)]
        if names[0] is None or names[1] is None:
            return {}
        return names[0] | {"sampled_descriptor": names[1]["descriptor"]}

    return decorated(env, "describe", describe, {}, "the strategy is kept without a name")


def _descriptor(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    if not isinstance(getattr(found, "label", None), str):
        raise TypeError(
            f"it must give a rspo.core.types.Descriptor with a label, or None, not {found!r}"
        )
    # JSON does not accept NumPy's numbers.
    stats = {
        _text(name): value if type(value) is int else float(value)
        for name, value in dict(found.stats).items()
    }
    return {"descriptor": found.label, "clear": bool(found.clear), "stats": stats}


def heatmaps(env: AnyEnv, trajectory: Trajectory) -> dict[str, np.ndarray]:
    def grids() -> dict[str, np.ndarray]:
        found = {
            _text(name): np.asarray(grid, np.float32)
            for name, grid in env.heatmaps(trajectory).items()
        }
        for name, grid in found.items():
            if grid.ndim != 2 or not grid.size:
                raise ValueError(f"'{name}' has shape {grid.shape}, but a grid is [y, x]")
        return found

    return decorated(env, "heatmaps", grids, {})


def names(env: AnyEnv) -> dict[str, list[str]]:
    """Names of observations and of actions: one for each number or choice, or none at all."""

    def found() -> dict[str, list[str]]:
        spec = env.spec
        kinds = (
            ("obs", env.obs_names, spec.obs_size),
            ("actions", env.action_names, spec.action_space.n),
        )
        for kind, given, count in kinds:
            if len(given) not in (0, count):
                raise ValueError(f"there are {len(given)} names of {kind}, but {count} are needed")
        return {kind: [_text(name) for name in given] for kind, given, _ in kinds}

    return decorated(env, "obs_names", found, {"obs": [], "actions": []}, "reports use numbers")


def backdrop(env: AnyEnv) -> list[list[Any]]:
    def shapes() -> list[list[Any]]:
        found: list[list[Any]] = [list(shape) for shape in env.backdrop()]
        for shape in found:
            _, x, y, size, _, end = shape
            numbers = [x, y, size, *(end or ())]
            if not np.isfinite(numbers).all():
                raise ValueError("a shape of it has a number that is not finite")
        json.dumps(found)
        return found

    return decorated(env, "backdrop", shapes, [])


def files(
    env: AnyEnv, method: str, make: Callable[[], Mapping[str, Any]], suffix: str
) -> dict[str, Any]:
    """Pictures by file name, for a run folder."""

    def drawn() -> dict[str, Any]:
        found, kind = dict(make()), str if suffix == ".svg" else bytes
        for name, picture in found.items():
            if (
                not _text(name).endswith(suffix)
                or name.startswith(".")
                or not name.isprintable()
                or set(name) & {*"/\\"}
            ):
                raise ValueError(f"{name!r} is not a file name that ends in {suffix}")
            if not isinstance(picture, kind):
                raise TypeError(f"'{name}' must be {kind.__name__}, not {type(picture).__name__}")
            if isinstance(picture, str):
                picture.encode()
        return found

    return decorated(env, method, drawn, {})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name must be text, not {value!r}")
    return value
