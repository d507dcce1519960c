"""Flattens observations of other libraries' environments: choices one-hot, and the parts of a Dict
or Tuple concatenated."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rspo.core.spaces import one_hot
from rspo.envs import given
from rspo.errors import InputError

NESTED = ("Dict", "Tuple")
ALLOWED = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")


class Part(NamedTuple):
    """A leaf space, and the keys that lead to it."""

    keys: tuple[Any, ...]
    space: Any

    @property
    def kind(self) -> str:
        return kind_of(self.space)

    @property
    def sizes(self) -> list[int]:
        """The number of options of each choice."""
        return [
            int(n) for n in np.ravel(self.space.n if self.kind == "Discrete" else self.space.nvec)
        ]

    @property
    def chosen(self) -> bool:
        """Whether it consists of choices, which are one-hot encoded."""
        return self.kind in ("Discrete", "MultiDiscrete")

    @property
    def size(self) -> int:
        return sum(self.sizes) if self.chosen else max(int(np.prod(self.space.shape)), 1)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        if self.kind != "Box":
            return np.zeros(self.size, np.float32), np.ones(self.size, np.float32)
        low, high = (
            np.asarray(side, np.float32).reshape(-1) for side in (self.space.low, self.space.high)
        )
        return low, high

    @property
    def names(self) -> list[str]:
        """Names of its numbers; none for a plain Box."""
        name = " ".join(str(key) for key in self.keys)
        if self.chosen:
            several = self.kind == "MultiDiscrete"
            each = [f"{name} {i}".strip() if several else name for i in range(len(self.sizes))]
            starts = np.ravel(self.space.start).tolist()
            choices = zip(each, starts, self.sizes, strict=True)
            return [f"{one} = {k}".strip() for one, k0, n in choices for k in range(k0, k0 + n)]
        return [name] if self.size == 1 else [f"{name} {i}" for i in range(self.size)]

    def numbers(self, values: Any, verb: str) -> np.ndarray:
        """The numbers of K environments: [K, size]."""
        if not self.chosen:
            shape = tuple(self.space.shape)
            return given.observations(values, shape, verb).reshape(len(values), self.size)
        start = np.ravel(self.space.start)
        choices = np.stack([given.chosen(value, self.space, verb) for value in values])
        columns = (choices.reshape(len(values), -1) - start).T
        pairs = zip(columns, self.sizes, strict=True)
        return np.concatenate([one_hot(column, size) for column, size in pairs], axis=-1)


class Observed:
    """How an observation of this space becomes numbers."""

    def __init__(self, space: Any, whose: str) -> None:
        self.parts = list(_parts(space, (), whose))
        self.size = sum(part.size for part in self.parts)
        self.plain = self.parts[0] if self.parts and not self.parts[0].keys else None

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of its numbers."""
        low, high = zip(*(part.bounds for part in self.parts), strict=True)
        return np.concatenate(low), np.concatenate(high)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its numbers, where the space has some."""
        if self.plain is not None and self.plain.kind in ("Box", "MultiBinary"):
            return ()
        return tuple(name for part in self.parts for name in part.names)

    def rows(self, seen: Sequence[Any], verb: str) -> np.ndarray:
        """From the observations of K environments, as a list: [K, size]."""
        if self.plain is not None:
            return self.plain.numbers(seen, verb)
        picked = [[_at(one, part.keys, verb) for one in seen] for part in self.parts]
        return self._joined(picked, verb)

    def lanes(self, seen: Any, count: int, verb: str) -> np.ndarray:
        """From the observations of a vector environment, in one structure: [count, size]."""
        picked = [_at(seen, part.keys, verb) for part in self.parts]
        for values in picked:
            given.check_lanes(values, count, verb)
        return self._joined(picked, verb)

    def _joined(self, picked: Sequence[Any], verb: str) -> np.ndarray:
        pairs = zip(self.parts, picked, strict=True)
        return np.concatenate([part.numbers(values, verb) for part, values in pairs], axis=-1)


def _parts(space: Any, keys: tuple[Any, ...], whose: str) -> Any:
    kind = kind_of(space)
    if kind in NESTED:
        inner = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
        for key, part in inner:
            yield from _parts(part, (*keys, key), whose)
    elif kind in ALLOWED:
        yield Part(keys, space)
    else:
        where = f" in '{' '.join(map(str, keys))}'" if keys else ""
        raise InputError(
            f"{whose} observes a space of kind {kind}{where}, but rspo needs {', '.join(ALLOWED)}, "
            "or a Dict or Tuple of these: from Python, pass it in a wrapper that leaves it out or "
            "turns it into numbers, such as gymnasium.wrappers.FilterObservation."
        )


def _at(seen: Any, keys: tuple[Any, ...], verb: str) -> Any:
    for key in keys:
        inside = (
            isinstance(seen, Mapping) if isinstance(key, str) else isinstance(seen, tuple | list)
        )
        if not inside or (key not in seen if isinstance(key, str) else key >= len(seen)):
            raise given.Unfit(f"its {verb} gives an observation without its part '{key}'")
        seen = seen[key]
    return seen


def kind_of(space: Any) -> str:
    """By class name, so that no import is needed."""
    return type(space).__name__
