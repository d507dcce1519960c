"""What the numbers were measured on. No names and no paths."""

import importlib.metadata
import os
import platform
from pathlib import Path

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


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
