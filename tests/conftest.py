"""Shared by all tests: compiled programs are kept between runs, so that tests start fast."""

import os
import signal
from pathlib import Path

import jax
from hypothesis import settings

from rspo.parallel import use_cores

_HOME = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
jax.config.update("jax_compilation_cache_dir", str(Path(_HOME) / "rspo" / "xla-tests"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

use_cores()  # as the commands do, whichever test comes first; a run goes on as it began only with as many devices

# A shell starts what runs in its background with interrupts ignored, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: the first example of a property compiles, the others do not.
settings.register_profile("rspo", deadline=None, max_examples=50)
settings.load_profile("rspo")
