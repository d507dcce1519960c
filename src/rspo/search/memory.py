"""Whether a run's settings fit into this machine's memory, before anything is allocated.

A run's memory is estimated from the shapes of its arrays. A run that would need more than there
is, even if the estimate is twice too high, is refused; one that needs more than is free causes a
warning.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from rspo.config import Config
from rspo.core.devices import PIECE, player_count
from rspo.envs.base import AnyEnv
from rspo.errors import InputError

FLOAT = 4  # bytes
PROGRAM = 500e6  # bytes of Python with JAX while it compiles, in this process
PLAYER = 150e6  # and in each worker of a host environment
DOUBT = 2.0  # factor by which the estimate may be too high


class Memory(NamedTuple):
    """In bytes; infinite where unknown."""

    total: float
    free: float


def machine(root: Path = Path("/")) -> Memory:
    """The memory that this process may use: the machine's or the container's, whichever is
    less."""
    known = [Memory(np.inf, np.inf), *_system(root), *_groups(root)]
    return Memory(min(one.total for one in known), min(one.free for one in known))


def _system(root: Path) -> Iterator[Memory]:
    lines = dict(
        line.split(":", 1) for line in _text(root / "proc/meminfo").splitlines() if ":" in line
    )
    kilobytes = {
        name: float(rest.split()[0]) * 1024 for name, rest in lines.items() if rest.split()
    }
    if "MemTotal" in kilobytes:
        swap = kilobytes.get("SwapTotal", 0.0), kilobytes.get("SwapFree", 0.0)
        yield Memory(
            kilobytes["MemTotal"] + swap[0], kilobytes.get("MemAvailable", np.inf) + swap[1]
        )
    elif root == Path("/"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            yield Memory(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), np.inf)


def _groups(root: Path) -> Iterator[Memory]:
    """Linux's control groups that this process belongs to, of either version, from its own to the
    outermost."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if controllers
            else ("memory.max", "memory.current")
        )
        own = mount / group.lstrip("/")
        for folder in (own, *own.parents):
            limit, used = (_text(folder / name).strip() for name in names)
            if limit.isdigit():
                # The page cache counts as used, but the system can reclaim it.
                cached = [
                    row.split()[1]
                    for row in _text(folder / "memory.stat").splitlines()
                    if "inactive_file" in row
                ]
                taken = float(used or 0) - float(max(cached, default="0", key=float))
                yield Memory(float(limit), float(limit) - taken)


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def check(env: AnyEnv, config: Config, say: Callable[[str], None], learning: bool = True) -> None:
    """Refuse, in one sentence, a run that cannot fit; `say` if it needs more than is free. Without
    learning, policies are only evaluated."""
    if jax.default_backend() != "cpu":
        return  # arrays are in the accelerator's memory
    memory, estimate = machine(), Estimate(env, config, learning)
    takes, free = estimate.bytes(config), min(memory)
    sizes = f"would take about {_gigabytes(takes)} of memory, but"
    if takes > DOUBT * memory.total:
        advice = estimate.advice(free)
        raise InputError(f"This run {sizes} there is only {_gigabytes(memory.total)}. {advice}")
    if takes > free:
        say(f"this run {sizes} only {_gigabytes(free)} is free. {estimate.advice(free)}")


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


class Estimate:
    """The peak memory of a run with these settings, or others for the same environment and
    method."""

    def __init__(self, env: AnyEnv, config: Config, learning: bool = True) -> None:
        self.learning, self.host, self.spec, self.config = (
            learning,
            not env.compiled,
            env.spec,
            config,
        )
        self.state = env.state_numbers
        key = jax.random.key(0)
        self.remembered = _floats(jax.eval_shape(lambda: config.method.memory(env.spec, key)))

    def bytes(self, config: Config) -> float:
        players = PLAYER * player_count() if self.host else 0
        playing = max(self.evaluation(config), self.training(config) if self.learning else 0)
        return PROGRAM + players + FLOAT * (self._kept(config) + playing)

    def _kept(self, config: Config) -> float:
        """Weights, a gradient and Adam's two moments, on every device; the policies found so far,
        on the host and among the references on the devices."""
        hidden, layers, devices = config.ppo.hidden, config.ppo.layers, jax.device_count()
        outputs = self.spec.action_space.n + len(config.method.channels(config.iterations))
        body = self.spec.obs_size * hidden + (layers - 1) * hidden**2 + layers * hidden
        body += (config.ppo.memory == "gru") * 6 * hidden * (hidden + 1)
        weights = 2 * body + (hidden + 1) * outputs
        found = config.iterations * (weights + self.remembered) * (2 + devices)
        return 4 * weights * devices * config.plan.members + found

    def training(self, config: Config) -> float:
        """Floats of one update, on all devices: what is played, scored and learned from."""
        ppo, spec, devices = config.ppo, self.spec, jax.device_count()
        samples, references = ppo.batch * spec.agents, config.iterations
        channels = len(config.method.channels(references))
        scored = references * (1 + (self.remembered > 0)) + 3 * channels
        row = (2 + ppo.normalize_obs) * spec.obs_size + self._action + 10 + scored
        on_each = _share(samples, config.episodes(spec)) * row
        if ppo.minibatches > 1:  # every device has the whole batch, plus a shuffled copy
            on_each += samples * (
                2 * (spec.obs_size + self._action + 3 + 2 * channels) + ppo.epochs
            )
        on_each *= config.plan.members  # all of them play before any learns
        part = samples // ppo.minibatches
        # Both networks' activations for one piece of the batch, and their gradients.
        on_each += _piece(_share(part, part)) * 3 * ppo.layers * ppo.hidden
        floats = devices * on_each + ppo.batch * (
            spec.step_noise + (ppo.padding == "restart") * spec.reset_noise
        )
        if self.host:  # shares, their concatenation, and a copy for every device
            floats += samples * (spec.obs_size + self._action + 2) * (2 + devices)
        return floats

    def evaluation(self, config: Config) -> float:
        """Floats of the evaluation episodes: as many sampled as greedy ones, with their states."""
        spec, episodes = self.spec, config.judge.episodes
        steps = episodes * spec.horizon
        row = 2 * (spec.obs_size + self._action + 2) + config.iterations
        activations = (
            _piece(_share(steps * spec.agents, episodes))
            * 2
            * config.ppo.hidden
            * jax.device_count()
        )
        return 1.5 * steps * (spec.agents * row + 2 * self.state) + activations

    @property
    def _action(self) -> int:
        return max(1, len(self.spec.action_space.shape) and self.spec.action_space.n)

    def advice(self, fits: float) -> str:
        """The setting that helps most, and a value of it that fits."""
        best = min(self._smaller(), key=lambda options: self.bytes(options[-1][2]), default=None)
        for name, value, config in best or ():
            if self.bytes(config) <= fits:
                return f"Try {name} {value}."
        names = ", ".join(options[0][0] for options in self._smaller())
        return f"Lower {names or 'the horizon'}."

    def _smaller(self) -> list[list[tuple[str, int, Config]]]:
        """For each setting that may be lowered, the values to try, from high to low: name, value,
        all settings."""
        config, spec = self.config, self.spec
        unit = spec.horizon * config.ppo.minibatches  # every allowed batch is a multiple of this
        every: dict[str, tuple[int, int, Callable[[int], Config]]] = {
            "ppo.batch": (config.ppo.batch, unit, lambda n: _with(config, "ppo", batch=n)),
            "judge.episodes": (
                config.judge.episodes,
                1,
                lambda n: _with(config, "judge", episodes=n),
            ),
            "ppo.hidden": (config.ppo.hidden, 1, lambda n: _with(config, "ppo", hidden=n)),
            "iterations": (
                config.iterations,
                1,
                lambda n: dataclasses.replace(config, iterations=n),
            ),
        }
        settings = every if self.learning else {"judge.episodes": every["judge.episodes"]}
        # Powers of two divide evenly among devices and into pieces.
        return [
            [(name, n, changed(n)) for n in (unit << k for k in range(64, -1, -1)) if n < current]
            for name, (current, unit, changed) in settings.items()
            if unit < current
        ]


def _with(config: Config, group: str, **values: int) -> Config:
    return dataclasses.replace(
        config, **{group: dataclasses.replace(getattr(config, group), **values)}
    )


def _share(samples: int, episodes: int) -> int:
    """How many of them a device has: its share, if episodes divide evenly."""
    return samples // jax.device_count() if episodes % jax.device_count() == 0 else samples


def _piece(samples: int) -> int:
    """How many of them go through a network at once."""
    return PIECE if samples % PIECE == 0 else samples


def _floats(tree: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))
