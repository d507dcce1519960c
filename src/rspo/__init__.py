"""Discover many different good strategies for one task: Reward-Switching Policy Optimization and
its kin."""

from typing import Any

__all__ = [
    "Archive",
    "Config",
    "Env",
    "HostEnv",
    "Method",
    "Strategy",
    "check_env",
    "crossplay",
    "discover",
    "evaluate",
    "load",
    "make",
    "resume",
]

_HOMES = {
    "Archive": "rspo.search.archive",
    "Config": "rspo.config",
    "Env": "rspo.envs.base",
    "HostEnv": "rspo.envs.base",
    "Method": "rspo.methods.base",
    "Strategy": "rspo.search.archive",
    "check_env": "rspo.search.check",
    "crossplay": "rspo.api",
    "discover": "rspo.api",
    "evaluate": "rspo.api",
    "load": "rspo.api",
    "make": "rspo.registry",
    "resume": "rspo.api",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import rspo` is instant and touches no device."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rspo' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
