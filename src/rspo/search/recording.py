"""A few episodes of a finished policy, packed small, so that a report can show them without playing
anything.

`episodes.safetensors` of a strategy holds, for the episode with number n,

    n.place   int16 [F, S, 2]   where each of S shapes is in each of F moments
    n.end     int16 [F, S, 2]   where the limbs among them end, if there are any
    n.size    int16 [F or 1, S]  half their width
    n.kind    uint16 [F or 1, S] which of the episode's kinds (role, label) each is, from 1; 0: none
    n.total   float32 [F]       the reward so far, averaged over agents
    n.obs     float32 [F, A, O]  observations, where the environment has no drawing; NaN where
                                another episode follows at once, and the end was not kept
    n.action  [F - 1, A, ...]    and the actions taken next
    n.film    uint8 [B]         a PNG file, where the environment renders: pictures of some of the
                                moments, stacked vertically
    actions   float32           shares of each action in all evaluation episodes, or histograms
    states    float32 [S, O]    some observations of sampled episodes, on which to compare policies
    map.0     float32 [y, x]    a heat map of all greedy evaluation episodes

and its metadata the rest as JSON. Lengths are in units of 1/4096, so that 16 bits reach from -8 to
8.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rspo.core.spaces import ActionSpace, Box, MultiDiscrete
from rspo.core.types import Shape, Trajectory
from rspo.envs import decoration
from rspo.envs.base import AnyEnv, at
from rspo.search.films import films

UNIT = 4096
EPISODES = 4  # greedy ones, and the same number of sampled ones
FRAMES = 256  # per episode; of longer ones every second, third, ... moment is kept
OBSERVED = 16  # numbers of an observation that are kept where there is no drawing
STATES = 64
BINS = 20  # of the histogram of a continuous action, which is from -1 to 1


@dataclass(frozen=True, eq=False)
class Recording:
    """What `episodes.safetensors` holds."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]


def record(env: AnyEnv, greedy: Trajectory, sampled: Trajectory) -> Recording:
    """The first episodes of an evaluation (NumPy), and what its episodes show together."""
    heatmaps = decoration.heatmaps(env, greedy)
    arrays = {f"map.{i}": grid for i, grid in enumerate(heatmaps.values())}
    arrays["actions"] = histogram(env.spec.action_space, sampled)
    arrays["states"] = visited(sampled)
    episodes: list[dict[str, Any]] = []
    # All or none: a scene that fails in one episode cannot be trusted in the others.
    draw = lambda: [_drawings(env, trajectory) for trajectory in (greedy, sampled)]
    nothing: list[list[Drawing | None]] = [[None] * EPISODES] * 2
    drawings = decoration.decorated(env, "scene", draw, nothing)
    moments = [
        [_moments(played, n)[2] for n in range(min(EPISODES, played.live.shape[1]))]
        for played in (greedy, sampled)
    ]
    shown = films(env, (greedy, sampled), moments)
    for trajectory, mode, drawn, filmed in zip(
        (greedy, sampled), ("greedy", "sampled"), drawings, shown, strict=True
    ):
        seen: set[tuple[bytes, ...]] = set()
        # If some episodes have rendered frames, episodes without them would be confusing.
        count = sum(film is not None for film in filmed) or len(filmed)
        for n in range(count):
            packed, facts = _episode(trajectory, n, drawn[n])
            if (film := filmed[n]) is not None:
                packed["film"], facts["film"] = film
            # In a deterministic environment all greedy episodes are the same.
            if (content := tuple(packed[name].tobytes() for name in sorted(packed))) not in seen:
                arrays |= {f"{len(episodes)}.{name}": array for name, array in packed.items()}
                episodes.append({"mode": mode, **facts})
            seen.add(content)
    backdrop = decoration.backdrop(env)
    facts = {"unit": UNIT, "episodes": episodes, "backdrop": backdrop, "maps": list(heatmaps)}
    return Recording(arrays, facts | {"names": names_of(env)})


def names_of(env: AnyEnv) -> dict[str, list[str]]:
    """The names of observed numbers, of continuous actions and of choices; none where the
    environment has none."""
    space = env.spec.action_space
    names = decoration.names(env)
    choices = [] if isinstance(space, Box) else names["actions"]
    if isinstance(space, MultiDiscrete) and not choices:
        choices = [f"a{i} = {k}" for i, size in enumerate(space.sizes) for k in range(size)]
    acted = names["actions"] if isinstance(space, Box) else []
    return {"obs": names["obs"][:OBSERVED], "actions": acted, "choices": choices}


Drawing = tuple[dict[str, np.ndarray], list[tuple[str, str]]]


def _drawings(env: AnyEnv, trajectory: Trajectory) -> list[Drawing | None]:
    """The scenes of each of the first episodes, packed; None where there is no drawing."""
    drawn: list[Drawing | None] = []
    for n in range(min(EPISODES, trajectory.live.shape[1])):
        scenes = [env.scene(_state(trajectory, t, n)) for t in _moments(trajectory, n)[2]]
        drawn.append(pack_scenes(scenes) if any(scenes) else None)
    return drawn


def _moments(trajectory: Trajectory, n: int) -> tuple[int, int, list[int]]:
    """The number of steps of an episode, the stride at which they are kept, and the kept ones."""
    # Of the first episode, where others follow.
    steps = int((trajectory.live & trajectory.first)[:, n].sum())
    stride = -(-steps // (FRAMES - 1))
    return steps, stride, sorted({*range(0, steps, stride), steps})


def _episode(
    trajectory: Trajectory, n: int, drawing: Drawing | None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    steps, stride, moments = _moments(trajectory, n)
    total = np.concatenate([[0.0], trajectory.reward[:, n].mean(-1).cumsum()])
    arrays = {"total": total[moments].astype(np.float32)}
    facts: dict[str, Any] = {"return": float(total[steps]), "steps": steps, "stride": stride}
    if drawing is not None:
        shapes, facts["kinds"] = drawing
        return arrays | shapes, facts
    obs = np.concatenate([trajectory.obs[:, n], trajectory.last.obs[None, n]])[moments].astype(
        np.float32
    )
    if steps < len(trajectory.live) and trajectory.live[steps, n]:
        obs[-1] = np.nan  # the next episode has begun here: what this one ended with was not kept
    arrays["obs"] = obs[..., :OBSERVED]
    arrays["action"] = np.asarray(trajectory.action)[moments[:-1], n]
    return arrays, facts | {"observed": int(obs.shape[-1])}


def _state(trajectory: Trajectory, t: int, n: int) -> Any:
    """The state before the t-th action."""
    return at(trajectory.start, n) if t == 0 else at(trajectory.state, t - 1, n)


def pack_scenes(
    scenes: Sequence[Sequence[Shape]],
) -> tuple[dict[str, np.ndarray], list[tuple[str, str]]]:
    """Scenes as arrays, and the kinds of shapes that occur in them."""
    kinds: dict[tuple[str, str], int] = {}
    moments, most = len(scenes), max(len(scene) for scene in scenes)
    place, end = np.zeros((2, moments, most, 2))
    size, kind = np.zeros((moments, most)), np.zeros((moments, most), np.uint16)
    for t, scene in enumerate(scenes):
        for s, shape in enumerate(scene):
            if not (np.isfinite(shape.x) and np.isfinite(shape.y)):
                continue  # nowhere
            place[t, s] = shape.x, shape.y
            end[t, s] = shape.end or (np.nan, np.nan)
            size[t, s] = shape.size
            kind[t, s] = kinds.setdefault((str(shape.role), str(shape.label)), len(kinds) + 1)
    arrays = {"place": _fixed(place), "size": _once(_fixed(size)), "kind": _once(kind)}
    if np.isfinite(end).any():
        # A limb without length is a disc.
        arrays["end"] = _fixed(np.where(np.isnan(end), place, end))
    return arrays, list(kinds)


def _fixed(lengths: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(np.nan_to_num(lengths), -8.0, 8.0 - 1 / UNIT) * UNIT).astype(np.int16)


def _once(array: np.ndarray) -> np.ndarray:
    """Only the first moment of what never changes."""
    return array[:1] if (array == array[:1]).all() else array


def visited(trajectory: Trajectory) -> np.ndarray:
    """Equally spaced observations [S, O] among all that were acted on."""
    seen = np.asarray(trajectory.obs)[trajectory.live].reshape(-1, trajectory.obs.shape[-1])
    chosen = np.linspace(0, len(seen) - 1, min(STATES, len(seen))).round().astype(int)
    return seen[chosen].astype(np.float32)


def histogram(space: ActionSpace, trajectory: Trajectory) -> np.ndarray:
    """How often each action is taken: shares [n], concatenated for several choices at once; for
    continuous ones [dimension, bin]."""
    taken = np.asarray(trajectory.action)[trajectory.live]
    if not isinstance(space, Box):
        steps = max(math.prod(taken.shape[:2]), 1)  # of every agent
        return (space.encode(taken).sum((0, 1)) / steps).astype(np.float32)
    columns = np.clip(taken.reshape(-1, taken.shape[-1]), -1.0, 1.0).T
    counts = [
        np.histogram(column, BINS, (-1.0, 1.0))[0] / max(len(column), 1) for column in columns
    ]
    return np.asarray(counts, np.float32)
