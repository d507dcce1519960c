"""The strategies found so far: a list-like container, and the references for the next
iteration."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import jax
import numpy as np

from rspo.config import Config
from rspo.core.policies import Policy
from rspo.core.typed import quoted
from rspo.core.types import View
from rspo.errors import InputError, suggestion
from rspo.methods.references import References
from rspo.search.evaluation import Evaluation
from rspo.text import NAME, counted, printable

Status = Literal["novel", "duplicate", "weak", "failed"]
LEAST_PLACES = 8


@dataclass(frozen=True)
class Strategy:
    """One finished policy with everything known about it. Arrays are NumPy's."""

    index: int
    status: Status
    evaluation: Evaluation
    policy: Policy
    threshold: float
    """delta of this policy as a reference: how far from it a trajectory must be to be accepted."""
    memory: Any
    """What the method remembers of it, such as its reward predictor."""
    attempt: int
    """How many attempts the iteration took, from 1."""
    round: int = 0
    """The round of training that produced it."""
    member: int = 0
    """Its index in that round's population."""
    latent: int = 0
    """The index of the policy's latent that it plays."""
    reason: str = ""
    """Why it has its status, in a few words."""

    @property
    def descriptor(self) -> str | None:
        """The strategy's name, where the environment has names."""
        return self.evaluation.descriptor

    def __repr__(self) -> str:
        name = f" '{printable(self.descriptor, NAME)}'" if self.descriptor else ""
        earns = self.evaluation.return_mean
        return f"<Strategy {self.index}{name}, {self.status}, return {earns:.3f}>"

    def act(
        self,
        obs: np.typing.ArrayLike,
        rng: int | np.random.Generator | None = None,
        greedy: bool = False,
        *,
        mask: np.typing.ArrayLike | None = None,
        state: Any = None,
    ) -> Any:
        """Actions for observations [..., O], NumPy in and out, any batch shape. A generator as
        `rng` makes sampling reproducible; a seed gives the same draws at every call. `mask` [...,
        n] marks the allowed choices.

        A policy with memory takes its memory as `state` and returns the new one with the actions:
        pass None at the start of an episode, then the state from the last call.
        """
        seen = _observed(obs, self.observed)
        view = View(seen, None if mask is None else np.asarray(mask, bool))
        carry = self.policy.initial(*seen.shape[:-1]) if state is None else state
        carry, distribution = self.policy.step(carry, view)
        if greedy:
            action = distribution.mode()
        else:
            draw = _generator(rng)
            kind, shape = distribution.noise
            action = distribution.sample(
                (draw.random if kind == "uniform" else draw.standard_normal)(shape, np.float32)
            )
        action = np.asarray(self.policy.to_env(action))
        return (action, carry) if self.policy.recurrent else action

    @property
    def observed(self) -> int:
        """Size of an observation."""
        return self.policy.inputs - (
            0 if self.policy.context is None else self.policy.context.shape[0]
        )


def _observed(obs: np.typing.ArrayLike, size: int) -> np.ndarray:
    """Observations as a policy takes them, or one sentence on what is wrong with them: NaN would
    silently become some action."""
    try:
        given = np.asarray(obs)
    except ValueError as error:
        raise ValueError(
            f"obs must be an array of numbers, but its parts differ in shape ({error})."
        ) from error
    if given.dtype.kind not in "biuf":
        raise ValueError(f"obs has numbers of type {given.dtype}, but they must be real.")
    if given.ndim == 0 or given.shape[-1] != size:
        raise ValueError(
            f"obs has shape {given.shape}, but its last axis must be the {size} observed numbers."
        )
    with np.errstate(over="ignore"):
        numbers = given.astype(np.float32)
    if not np.isfinite(numbers).all():
        place = tuple(np.argwhere(~np.isfinite(numbers))[0].tolist())
        raise ValueError(
            f"obs{list(place)} is {given[place]}, but every observed number must be finite."
        )
    return numbers


def _generator(rng: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"rng is {quoted(rng)}, but it must be a seed (a whole number, 0 or more), a NumPy "
            "generator, or None."
        ) from error


class Origin(Protocol):
    """Where an archive comes from, and how to save and show it."""

    def save(self, archive: "Archive", path: Path) -> Path: ...

    def report(self, archive: "Archive", path: Path | None) -> Path: ...

    def play(self, strategies: Sequence[Strategy], path: Path | None, **how: Any) -> None: ...


class Archive(Sequence[Strategy]):
    """The strategies of one run, in the order they were found."""

    def __init__(self, config: Config, strategies: Sequence[Strategy] = ()) -> None:
        self.config = config
        self.interrupted = False
        """True if the run was stopped before its last iteration."""
        self.origin: Origin | None = None
        self._strategies = list(strategies)

    def __len__(self) -> int:
        return len(self._strategies)

    @overload
    def __getitem__(self, index: int) -> Strategy: ...

    @overload
    def __getitem__(self, index: slice) -> list[Strategy]: ...

    def __getitem__(self, index: int | slice) -> Strategy | list[Strategy]:
        return self._strategies[index]

    def __iter__(self) -> Iterator[Strategy]:
        return iter(self._strategies)

    def __repr__(self) -> str:
        found = counted(len(self), "strategy", "strategies")
        return f"<Archive of {found} for {self.config.env}, {self.distinct} distinct>"

    def save(self, path: str | Path) -> Path:
        """Save the run in a new folder, as `out` of `rspo.discover` does; returns its path."""
        return self._origin.save(self, Path(path))

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page that shows the strategies, by default `report.html` in the run folder;
        returns its path."""
        return self._origin.report(self, None if path is None else Path(path))

    def play(
        self,
        strategy: int | str | None = None,
        path: str | Path | None = None,
        *,
        episodes: int = 1,
        seed: int = 0,
        greedy: bool = True,
        speed: float | None = None,
        env: Any = None,
    ) -> None:
        """Watch a strategy, given by its number or name, or all of them in turn; in the terminal,
        or as a file whose name ends with .svg, .gif or .mp4. `seed` selects the episodes, `greedy`
        takes the most likely actions instead of sampling, `speed` is in steps per second. `env` is
        needed if the run was loaded from a folder and made with your own object."""
        chosen = list(self) if strategy is None else [self.find(strategy)]
        how = {"episodes": episodes, "seed": seed, "greedy": greedy, "speed": speed, "env": env}
        self._origin.play(chosen, None if path is None else Path(path), **how)

    def find(self, which: int | str) -> Strategy:
        """The strategy with this number or name (case-insensitive); of several with one name, the
        first novel one. A number may be given as text."""
        named = [
            one for one in self if (one.descriptor or "").casefold() == str(which).casefold() != ""
        ]
        if isinstance(which, int) or (which.lstrip("-").isdecimal() and not named):
            which = int(which)
            if not 0 <= which < len(self):
                raise InputError(f"There is no strategy {which}: {self._numbers()}.")
            return self[which]
        if not named:
            names = {one.descriptor for one in self if one.descriptor}
            instead = (
                f"{suggestion(which, names)} Or give a number."
                if names
                else f"These have no names, give a number: {self._numbers()}."
            )
            raise InputError(f"There is no strategy '{which}'. {instead}")
        return next((one for one in named if one.status == "novel"), named[0])

    def _numbers(self) -> str:
        return f"there are 0 to {len(self) - 1}" if len(self) else "there are none yet"

    @property
    def _origin(self) -> Origin:
        if self.origin is None:
            raise InputError(
                "This archive was built by hand: only those that rspo.discover, resume, load and "
                "evaluate return can be saved, shown and played."
            )
        return self.origin

    def add(self, strategy: Strategy) -> Status:
        """Append a judged strategy; returns its status."""
        self._strategies.append(strategy)
        return strategy.status

    def replace(self, strategy: Strategy) -> None:
        """Replace the strategy with the same index."""
        self._strategies[strategy.index] = strategy

    @property
    def distinct(self) -> int:
        """The number of distinct strategies: those judged novel."""
        return sum(strategy.status == "novel" for strategy in self)

    def references(self, policy: Policy, memory: Any) -> References:
        """The policies that the next ones must differ from. `policy` and `memory` give the shapes
        of an empty slot."""
        chosen = self.kept
        places = capacity(len(chosen))
        stack = lambda template, rows: jax.tree.map(
            lambda *leaves: _padded(leaves, places), template, *rows
        )
        threshold, returns = np.zeros((2, places), np.float32)
        threshold[: len(chosen)] = [strategy.threshold for strategy in chosen]
        returns[: len(chosen)] = [strategy.evaluation.return_mean for strategy in chosen]
        return References(
            policies=stack(policy, [strategy.policy for strategy in chosen]),
            threshold=threshold,  # type: ignore[arg-type]
            returns=returns,  # type: ignore[arg-type]
            memory=stack(memory, [strategy.memory for strategy in chosen]),
            mask=np.arange(places) < len(chosen),  # type: ignore[arg-type]
            measure=self.config.measure,
        )

    @property
    def kept(self) -> list[Strategy]:
        """Those that later policies must differ from (`judge.references`)."""
        judge = self.config.judge
        distant = lambda s: all(share >= judge.accept for share in s.evaluation.accepted_by)
        match judge.references:
            case "all":
                return list(self)
            case "distant":
                return [s for s in self if s.status != "failed" and distant(s)]
            case "novel":
                return [s for s in self if s.status == "novel"]


def capacity(kept: int) -> int:
    """Slots for this many kept policies: 8, 16, 32 ..., so that growing rarely recompiles, and the
    result of an iteration does not depend on how many will follow it."""
    places = LEAST_PLACES
    while places < kept:
        places *= 2
    return places


def _padded(leaves: Sequence[Any], places: int) -> np.ndarray:
    """The template leaf first, then one per kept policy: stack these and pad with zeros."""
    template, *kept = leaves
    stacked = np.zeros((places, *template.shape), template.dtype)
    if kept:
        stacked[: len(kept)] = kept
    return stacked
