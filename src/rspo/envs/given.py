"""Checks of what an environment's code returns, and the error messages when it raises.

Everything here runs at every step, so whole batches are checked at once, and single values only
for a message.
"""

import contextlib
import os
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rspo.core.types import as_view
from rspo.errors import EnvironmentFailure, EnvironmentRefused, InputError, RspoError, RspoWarning
from rspo.text import printable

if TYPE_CHECKING:
    from rspo.envs.base import HostEnv, HostStep

STEP = ("observation", "reward", "terminated", "truncated", "info")
METHODS = ("batch", "reset", "state", "step")  # of an environment or its batch that may fail
AROUND = ("rspo", "contextlib", "jax", "equinox")
OLD = ", as Gym's steps were before version 0.26"
_WARNED: "weakref.WeakSet[HostEnv]" = weakref.WeakSet()


class Unfit(Exception):
    """An environment returned something unusable; the message follows its name."""


# ---- what Gymnasium's and PettingZoo's environments return


def started(result: Any) -> Any:
    """The first part of what a reset returned: the observation, or a dictionary of them."""
    _check_parts(result, ("observation", "info"), "reset")
    return result[0]


def stepped(result: Any) -> Sequence[Any]:
    """The five values that a step returned."""
    _check_parts(result, STEP, "step")
    return result


def _check_parts(result: Any, names: Sequence[str], verb: str) -> None:
    if not isinstance(result, tuple | list) or len(result) != len(names):
        count = f"{len(result)} values" if isinstance(result, tuple | list) else _shown(result)
        old = OLD if verb == "step" and count == "4 values" else ""
        raise Unfit(
            f"its {verb} gives {count}{old}, but it must give {len(names)}: {', '.join(names)}"
        )
    if not isinstance(result[-1], Mapping):
        raise Unfit(f"its {verb} gives {_shown(result[-1])} as info, but that must be a dictionary")


def steps(results: Sequence[Any]) -> tuple[Sequence[Any], np.ndarray, np.ndarray, np.ndarray]:
    """Steps of K environments: raw observations, and rewards, terminated and truncated [K]."""
    for result in results:
        if type(result) is not tuple or len(result) != 5 or type(result[4]) is not dict:
            stepped(result)
    obs, reward, terminated, truncated, _ = zip(*results, strict=True)
    return obs, rewards(reward), flags(terminated, "terminated"), flags(truncated, "truncated")


def observations(rows: Sequence[Any] | np.ndarray, shape: tuple[int, ...], verb: str) -> np.ndarray:
    """Observations of K environments as numbers [K, ...], each of the shape of their space."""
    array = _stacked(rows)
    if array is None or array.shape[1:] != shape or array.dtype.kind not in "fiub":
        for row in rows:
            found = _stacked(row)
            if found is None or found.dtype.kind not in "fiub":
                raise Unfit(
                    f"its {verb} gives {_shown(row)} as an observation, which must be an array of "
                    "numbers"
                )
            if found.shape != shape:
                raise Unfit(
                    f"its {verb} gives an observation of shape {found.shape}, but its observation "
                    f"space says {shape}"
                )
        raise Unfit(f"its {verb} gives observations of different kinds")
    return array.astype(np.float32, copy=False)


def chosen(value: Any, space: Any, verb: str) -> np.ndarray:
    """One or several observed choices, within the bounds of their space."""
    array = _stacked(value)
    if array is None or array.dtype.kind not in "iub" or not space.contains(_own(array, space)):
        raise Unfit(f"its {verb} gives {_shown(value)} as an observation, which is not in {space}")
    return np.asarray(array, np.int64)


def _own(array: np.ndarray, space: Any) -> Any:
    """Converted to the space's type, which a vector environment need not respect."""
    return array.astype(space.dtype) if array.ndim else int(array)


def rewards(values: Sequence[Any] | np.ndarray, agents: Sequence[str] = ()) -> np.ndarray:
    """[K], one number each, for K environments or the agents of one."""
    array = _stacked(values)
    if array is None or array.ndim != 1 or array.dtype.kind not in "fiub":
        for i, value in enumerate(values):
            found = _stacked(value)
            if found is None or found.ndim or found.dtype.kind not in "fiub":
                whose = f" of '{agents[i]}'" if agents else ""
                raise Unfit(
                    f"its step gives {_shown(value)} as the reward{whose}, which must be one number"
                )
        raise Unfit("its step gives rewards of different kinds")
    return array


def flags(values: Sequence[Any] | np.ndarray, name: str, agents: Sequence[str] = ()) -> np.ndarray:
    """[K], true or false each."""
    array = _stacked(values)
    if array is None or array.ndim != 1 or array.dtype.kind != "b":
        for i, value in enumerate(values):
            found = _stacked(value)
            if found is None or found.ndim or found.dtype.kind != "b":
                whose = f" of '{agents[i]}'" if agents else ""
                raise Unfit(
                    f"its step gives {_shown(value)} as {name}{whose}, which must be True or False"
                )
    return np.asarray(array, bool)


def check_lanes(obs: Any, count: int, verb: str) -> None:
    """Check that there are observations of this many environments."""
    if not hasattr(obs, "__len__") or isinstance(obs, Mapping) or len(obs) != count:
        raise Unfit(
            f"its {verb} gives {_shown(obs)} as observations, which must be an array of {count}, "
            "one per environment"
        )


def lanes(values: Any, count: int, name: str) -> np.ndarray:
    """The reward, terminated or truncated of a vector environment of this size: [N]."""
    array, kinds = _stacked(values), "fiub" if name == "reward" else "b"
    if array is None or array.shape != (count,) or array.dtype.kind not in kinds:
        each = "numbers" if name == "reward" else "booleans"
        raise Unfit(
            f"its step gives {_shown(values)} as {name}, which must be an array of {count} {each}"
        )
    return array


def of_agents(values: Any, agents: Sequence[str], name: str, verb: str) -> list[Any]:
    """What a dictionary holds for each of these agents."""
    if not isinstance(values, Mapping):
        raise Unfit(
            f"its {verb} gives {_shown(values)} as {name}, which must be a dictionary by agent"
        )
    for agent in agents:
        if agent not in values:
            raise Unfit(f"its {verb} gives no {name} for agent '{agent}'")
    return [values[agent] for agent in agents]


def _stacked(values: Any) -> np.ndarray | None:
    try:
        return np.asarray(values)
    except (ValueError, TypeError):  # different shapes, or not convertible to an array
        return None


def _shown(value: Any) -> str:
    """Short, with its type: `{} (dict)`."""
    text = printable(" ".join(repr(value).split()))
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"


# ---- what a batch of an rspo.HostEnv returns


def whole(step: "HostStep", shape: tuple[int, ...]) -> "HostStep":
    """The step of a batch, if it fits observations of this shape [K, A, O]; assignment would
    silently broadcast."""
    try:
        if (
            as_view(step.obs).obs.shape == shape
            and step.reward.shape == shape[:2]
            and step.terminated.shape == step.truncated.shape == shape[:1]
            and step.terminated.dtype == step.truncated.dtype == bool
        ):
            return step
    except AttributeError:
        pass  # not a HostStep, or not arrays
    raise Unfit("; ".join(step_problems(step, shape)))


def step_problems(step: Any, shape: tuple[int, ...]) -> list[str]:
    """Everything that is wrong with a batch's step, in words."""
    shapes = {"obs": shape, "reward": shape[:2], "terminated": shape[:1], "truncated": shape[:1]}
    if not all(hasattr(step, name) for name in shapes):
        return [
            f"its step gives {_shown(step)}, which must be a rspo.envs.base.HostStep of "
            f"{', '.join(shapes)}"
        ]
    problems = []
    for name, wanted in shapes.items():
        value = as_view(step.obs).obs if name == "obs" else getattr(step, name)
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            problems.append(
                f"its step gives {_shown(value)} as {name}, which must be a NumPy array"
            )
        elif value.shape != wanted:
            problems.append(
                f"its step gives {name} of shape {value.shape}, but it must be {wanted}"
            )
        elif name in ("terminated", "truncated") and value.dtype != bool:
            problems.append(f"its {name} is of type {value.dtype}, but it must be bool")
        elif value.dtype.kind not in "fiub":
            problems.append(f"its step gives {name} of type {value.dtype}, but it must be numbers")
    return problems or [f"its step gives {_shown(step)}, which must be a rspo.envs.base.HostStep"]


def first(obs: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What a batch's reset gives, if it has this shape [K, A, O]."""
    array = _stacked(obs)
    if array is None or array.shape != shape or array.dtype.kind not in "fiub":
        found = (
            _shown(obs)
            if array is None or array.dtype.kind not in "fiub"
            else f"observations of shape {array.shape}"
        )
        raise Unfit(f"its reset gives {found}, but it must be {shape}: instances, agents, numbers")
    return array


def warn_outside(env: "HostEnv", obs: np.ndarray) -> None:
    """Warn once per environment, if observations [..., A, O] lie outside its declared bounds."""
    if env.bounds is None or env in _WARNED:
        return
    rows = obs.reshape(-1, obs.shape[-2] * obs.shape[-1])
    low, high = (np.broadcast_to(bound, obs.shape[-2:]).ravel() for bound in env.bounds)
    for extreme, outside in ((rows.min(0), np.less), (rows.max(0), np.greater)):
        beyond = outside(extreme, low if outside is np.less else high)
        if beyond.any():
            i = int(beyond.argmax())
            number = f"number {i % obs.shape[-1] + 1} of {obs.shape[-1]}"
            warnings.warn(
                f"{env.title} gave an observation of {extreme[i]:g} ({number}), outside its "
                f"observation space, which says {low[i]:g} to {high[i]:g} there. Training "
                "continues; check the bounds of the space.",
                RspoWarning,
                stacklevel=2,
            )
            _WARNED.add(env)
            return


# ---- when an environment's code raises


@contextlib.contextmanager
def own_code(
    whose: str,
    what: str | None = None,
    cannot: str = "played",
    passing: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Wraps calls of an environment's own code. `what` is named in the message; by default the
    method in the traceback. Errors in `passing` are re-raised unchanged."""
    try:
        yield
    except Unfit as error:
        raise InputError(f"{whose} cannot be {cannot}: {error}.") from None
    except RspoError:
        raise
    except passing:
        raise
    except (Exception, SystemExit) as error:
        if _is_ours(error):
            raise
        raise failure(whose, what or _method(error), cannot, error) from None


def failure(whose: str, what: str, cannot: str, error: BaseException) -> RspoError:
    """One sentence, followed by the environment's own part of the traceback."""
    kind = EnvironmentRefused if cannot == "trained in" else EnvironmentFailure
    own = _own_frames(error)
    trace = "".join(
        traceback.format_exception(type(error), error, own or error.__traceback__)
    ).rstrip()
    return kind(f"{whose} cannot be {cannot}: {what} failed ({in_short(error)}).\n{trace}")


def in_short(error: BaseException) -> str:
    """Type and message of an error, in one line."""
    words = printable(" ".join(str(error).split()))
    hint = ""
    if isinstance(error, ValueError) and "values to unpack (expected 5" in words:
        hint = f"; a step must give 5 values: {', '.join(STEP)}"
    return f"{type(error).__name__}: {words if len(words) <= 200 else words[:197] + '...'}{hint}"


def place_of(error: BaseException) -> str:
    """Where the environment's code raised, such as `maze.py, line 12`."""
    frames = traceback.extract_tb(_own_frames(error) or error.__traceback__)
    if not frames:
        return "unknown"
    return f"{printable(os.path.basename(frames[-1].filename))}, line {frames[-1].lineno}"


def _own_frames(error: BaseException) -> Any:
    """The traceback without the frames of rspo and of the libraries in between."""
    trace = error.__traceback__
    while (
        trace is not None
        and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in AROUND
    ):
        trace = trace.tb_next
    return trace


def _is_ours(error: BaseException) -> bool:
    """Whether the policy raised, or the rollout was stopped."""
    frames = traceback.walk_tb(error.__traceback__)
    ours = ("_act", "each_step")
    return any(
        f.f_code.co_name in ours and f.f_globals.get("__name__", "").startswith("rspo.")
        for f, _ in frames
    )


def _method(error: BaseException) -> str:
    own = _own_frames(error)
    name = own.tb_frame.f_code.co_name if own is not None else ""
    return f"its {name}" if name in METHODS else "playing it"


def tried(whose: str, what: str, call: Callable[[], Any]) -> Any:
    """The result of an environment's own code before training; if it raises, which part and
    how."""
    with own_code(whose, what, "trained in"):
        return call()
