"""Shared by all tests: compiled programs, kept between runs so that tests start fast, and some runs
of the product."""

import json
import os
import signal
from pathlib import Path

import jax
import pytest
from hypothesis import settings

import product
import rspo
from rspo.core.devices import use_cores

_HOME = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
jax.config.update("jax_compilation_cache_dir", str(Path(_HOME) / "rspo" / "xla-tests"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

# Programs that set no level of their own, as the large ones do, are compiled without LLVM's
# optimisation: most tests run them once.
# XLA reads this once, when JAX is first used.
_LEVEL = "--xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{_LEVEL} {os.environ.get('XLA_FLAGS', '')}".strip()

# as the commands do, whichever test comes first; resuming requires the same number of devices
use_cores()

# A shell starts background jobs with interrupts ignored, nohup ignores hang-ups, and every process
# of a test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadline: the first example of a property compiles, the others do not.
settings.register_profile("rspo", deadline=None, max_examples=50)
settings.load_profile("rspo")


# Runs that a file of tests has made for it, each of which takes longer than its tests.
RUNS = {"hunt", "made", "whole"}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if RUNS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """Those of a file of tests: kept to the end, they would take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run, made in its own process; copy it before changing it."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    outcome = product.rspo(*product.DISCOVER, "--out", folder)
    assert outcome.code == 0, outcome
    folder.with_suffix(".json").write_text(json.dumps(outcome))  # what it said
    return folder


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, killed in its third iteration between two checkpoints; copy it before changing
    it."""
    folder = tmp_path_factory.mktemp("runs") / "stopped"
    moment = 2 * 5 + 1  # a checkpoint is two changes, an iteration two checkpoints: after the fifth
    outcome = product.rigged(
        "KILL", moment, folder / ".checkpoint", *product.DISCOVER, "--out", folder
    )
    assert outcome.code == -signal.SIGKILL, outcome
    assert (folder / "checkpoint.safetensors").exists()
    assert sorted(p.name for p in (folder / "strategies").iterdir()) == ["000", "001"]
    return folder


@pytest.fixture(scope="session")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two agents, Monster-Hunt's; copy it before changing it."""
    folder = tmp_path_factory.mktemp("runs") / "hunt"
    rspo.discover("monster-hunt", seed=1, out=folder, quiet=True, **product.HUNT)
    return folder
