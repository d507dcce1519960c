"""The cost of a population, per policy and step: against policies trained one after the other, and
DvD and TrajDiv against PBT-CE.

    python benchmarks/population_speed.py --out results/population-speed.json

Needs nothing beyond the package and MuJoCo. All are measured in one process, interleaved and
repeated, and compared as ratios of the medians; the machine should be idle. `--quick` only shows
that it works.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import machine
from output import command, say

from rspo.core.devices import use_cores
from rspo.methods.base import Method, Plan
from rspo.presets import preset
from rspo.registry import METHODS, make
from rspo.rollout.base import Collector
from rspo.rollout.collector import collector
from rspo.search.archive import Archive
from rspo.search.loop import Tools

ENVIRONMENTS = ("four-goals-easy", "hopper")
METHOD_NAMES = ("pg", "side-by-side", "pbt-ce", "dvd", "trajdiv")


@dataclass(frozen=True)
class SideBySide(Method):
    """The objective of `pg`, trained as a population."""

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    members: int = 7
    updates: int = 5
    repetitions: int = 5


QUICK = Settings(members=2, updates=1, repetitions=1)


def main() -> None:
    what = "Measure what a population costs."
    command(what, "results/population-speed.json", measure, markdown)


def measure(quick: bool) -> dict[str, Any]:
    settings = QUICK if quick else Settings()
    METHODS.register("side-by-side", SideBySide, "pg as a population")
    use_cores()
    data: dict[str, Any] = {"machine": machine.describe(machine.OURS), "settings": asdict(settings)}
    data["seconds"] = {}
    for env in ENVIRONMENTS:
        with collector(make(env)) as collect:
            data["seconds"][env] = in_turns(env, collect, settings)
    return data


def in_turns(env: str, collect: Collector, settings: Settings) -> dict[str, list[float]]:
    """Seconds per policy and update, of every method, in every repetition."""
    turns = {}
    for name in METHOD_NAMES:
        say(f"{env}: compiling {name}")
        turns[name] = training(env, name, collect, settings)
        turns[name]()
    seconds: dict[str, list[float]] = {name: [] for name in METHOD_NAMES}
    for repetition in range(settings.repetitions):
        say(f"{env}: repetition {repetition + 1} of {settings.repetitions}")
        for name in METHOD_NAMES if repetition % 2 else reversed(METHOD_NAMES):
            seconds[name].append(turns[name]())
    return seconds


def training(env: str, name: str, collect: Collector, settings: Settings) -> Callable[[], float]:
    """A function that trains a few updates from the start; returns seconds per policy and
    update."""
    config = dataclasses.replace(preset(env, name), iterations=settings.members)
    tools, archive = Tools(collect, config), Archive(config)
    start, members = tools.begin(archive, 0, attempt=1), config.plan.members
    references = jax.device_put(tools.references(archive))
    keys = jax.random.split(jax.random.key(0), members)
    advance = tools.trainer_for(archive).advance

    def turn() -> float:
        began = time.perf_counter()
        jax.block_until_ready(advance(start.state, references, keys, settings.updates))
        return (time.perf_counter() - began) / members / settings.updates

    return turn


def markdown(data: dict[str, Any]) -> str:
    """A table for each environment: milliseconds and the ratios that matter."""
    members = data["settings"]["members"]
    lines = [
        "# What a population costs",
        "",
        f"By `python benchmarks/population_speed.py`: {members} members, medians of "
        f"{data['settings']['repetitions']} repetitions in turns. "
        + machine.sentence(data["machine"]),
        "",
        "| | method | ms per policy and update | / pg | / pbt-ce |",
        "|---|---|---|---|---|",
    ]
    for env, seconds in data["seconds"].items():
        median = {name: statistics.median(times) for name, times in seconds.items()}
        for name, time_taken in median.items():
            ratios = [time_taken / median[other] for other in ("pg", "pbt-ce")]
            cells = [f"{1000 * time_taken:.1f}", *(f"{ratio:.2f}" for ratio in ratios)]
            lines.append(f"| {env} | {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "`pg` trains one policy at a time, `side-by-side` the same as a population of "
        f"{members}; DvD and TrajDiv should stay within twice PBT-CE.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
