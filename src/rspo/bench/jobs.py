"""One run of a bench: what to train, in which folder, and the record that is kept of it.

A job is a plain function of a configuration and a folder. It is done once the folder holds
`bench.json`, so running it again is harmless.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rspo.bench.record import Record
from rspo.errors import InputError
from rspo.runs import manifest, store
from rspo.text import counted

if TYPE_CHECKING:  # imported on use: reading records should not load JAX
    from rspo.config import Config

RECORD = "bench.json"


@dataclass(frozen=True)
class Job:
    """One run, by what distinguishes it from all others."""

    env: str
    method: str
    seed: int
    variant: str = ""
    """A short description of its changed settings; empty for the preset."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Changes to the preset, as keywords of `rspo.discover`."""
    paper: bool = False
    """Whether the preset is the paper's settings, or those tuned for this library."""
    steps: int | None = None
    """Requested environment steps per policy, instead of the preset's."""
    usual: int | None = None
    """The bench's default steps, where not the preset's."""
    quick: bool = False
    domain: str = ""
    """The file of records that it belongs to; benches of one domain share runs."""

    @property
    def name(self) -> str:
        parts = (
            self.env,
            self.method,
            self.variant.replace(" ", "-"),
            "paper" * self.paper,
            f"steps{self.steps}" if self.steps else "",
            "quick" * self.quick,
            f"seed{self.seed}",
        )
        return "-".join(filter(None, parts))

    @cached_property
    def configuration(self) -> "Config":
        """Everything that determines its result."""
        from rspo.config import merge, validate
        from rspo.presets import preset

        config: Config = merge(
            preset(self.env, self.method, paper=self.paper),
            {"seed": self.seed, **self.settings},
            self.name,
        )
        if steps := self.steps or self.usual:
            updates = max(round(steps / config.ppo.batch), 1)
            config = dataclasses.replace(
                config, ppo=dataclasses.replace(config.ppo, updates=updates)
            )
        validate(config, _spec(self.env))
        return config

    def config(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        from rspo.config import to_dict

        return to_dict(self.configuration)

    def described(self) -> Record:
        """The part of its record that is known before it runs."""
        names = ("env", "method", "variant", "paper", "quick", "seed")
        own = {name: getattr(self, name) for name in names}
        return {"job": self.name, **own, "asked_steps": self.steps}


@cache
def _spec(env: str) -> Any:
    from rspo.registry import make

    return make(env).spec


def task(job: Job, home: Path) -> dict[str, Any]:
    """Everything that a process needs to run a job, as plain JSON values."""
    return {
        "name": job.name,
        "config": job.config(),
        "folder": str(home / job.name),
        "domain": job.domain,
        "record": job.described(),
    }


def finished(folder: Path) -> Record | None:
    """The record that a finished run left in its folder."""
    path = folder / RECORD
    return manifest.readable(store.read_json, path) if store.exists(path) else None


def found(record: Record) -> str:
    """In words."""
    return counted(record["distinct"], "distinct strategy", "distinct strategies")


def carry_out(task: Mapping[str, Any]) -> Record | None:
    """Run or resume the job, and save its record; None if it was interrupted."""
    from rspo import api
    from rspo.bench.measures import measured
    from rspo.config import from_dict

    folder, config = Path(task["folder"]), from_dict(task["config"], task["name"])
    begun = check_same(folder, task["config"]) if manifest.is_run(folder) else None
    record = finished(folder)
    if record is not None and len(record["strategies"]) >= config.iterations:
        return record
    if begun is not None:
        more = config.iterations if config.iterations > begun["iterations"] else None
        archive = api.resume(folder, iterations=more)
    else:
        archive = api.discover(config.env, config=config, out=folder)
    if archive.interrupted:
        return None
    record = {**task["record"], **measured(folder, archive, task["domain"])}
    store.write(folder / RECORD, store.pack_json(record))
    return finished(folder)


def check_same(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse a run that was started with different settings."""
    begun: Mapping[str, Any] = manifest.read_manifest(folder)["config"]
    other = difference(begun, config)
    if other is not None:
        raise InputError(
            f"{folder} holds a run with other settings ({other}): move it away, or choose another "
            "folder with --runs."
        )
    return begun


def difference(one: Mapping[str, Any], two: Mapping[str, Any]) -> str | None:
    """The first common setting in which two configurations differ, except the number of
    iterations, because a run can be extended."""
    plain, other = dict(_flat(one)), dict(_flat(two))
    for name in plain.keys() & other.keys() - {"iterations"}:
        if plain[name] != other[name]:
            return f"{name} is {plain[name]} instead of {other[name]}"
    return None


def _flat(group: Mapping[str, Any], prefix: str = "") -> Any:
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value
