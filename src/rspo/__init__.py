"""Discover many different good strategies for one task: Reward-Switching Policy Optimization and
its kin."""

from typing import TYPE_CHECKING

__all__ = [
    "Archive",
    "Config",
    "Env",
    "HostEnv",
    "Method",
    "Strategy",
    "Update",
    "check_env",
    "check_method",
    "crossplay",
    "discover",
    "evaluate",
    "load",
    "make",
    "resume",
]

if TYPE_CHECKING:  # what editors and type checkers read
    from rspo.api import crossplay as crossplay
    from rspo.api import discover as discover
    from rspo.api import evaluate as evaluate
    from rspo.api import load as load
    from rspo.api import resume as resume
    from rspo.config import Config as Config
    from rspo.envs.base import Env as Env
    from rspo.envs.base import HostEnv as HostEnv
    from rspo.methods.base import Method as Method
    from rspo.registry import make as make
    from rspo.search.archive import Archive as Archive
    from rspo.search.archive import Strategy as Strategy
    from rspo.search.callbacks import Update as Update
    from rspo.search.check import check_env as check_env
    from rspo.search.check_method import check_method as check_method

    __version__: str
else:
    _HOMES = {
        "Archive": "rspo.search.archive",
        "Config": "rspo.config",
        "Env": "rspo.envs.base",
        "HostEnv": "rspo.envs.base",
        "Method": "rspo.methods.base",
        "Strategy": "rspo.search.archive",
        "Update": "rspo.search.callbacks",
        "check_env": "rspo.search.check",
        "check_method": "rspo.search.check_method",
        "crossplay": "rspo.api",
        "discover": "rspo.api",
        "evaluate": "rspo.api",
        "load": "rspo.api",
        "make": "rspo.registry",
        "resume": "rspo.api",
    }

    def __getattr__(name):
        """Import on first use: `import rspo` is instant and touches no device."""
        if name == "__version__":
            import importlib.metadata

            return importlib.metadata.version("rspo")
        if name not in _HOMES:
            raise AttributeError(f"module 'rspo' has no attribute '{name}'")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)

    def __dir__():
        return sorted([*__all__, "__version__"])
