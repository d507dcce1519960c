"""The machine that the numbers were measured on. No names and no paths."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

OURS = ("rspo", "jax", "jaxlib", "equinox", "optax", "numpy")
PEERS = ("stable-baselines3", "gymnasium", "torch")


def describe(packages: tuple[str, ...] = OURS + PEERS) -> dict[str, object]:
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in packages},
    }


def sentence(machine: dict[str, Any]) -> str:
    """What `describe` gave, for the head of a page."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['cores']} cores of {machine['cpu']}, load {machine['load_before']} before the start; {versions}."


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
