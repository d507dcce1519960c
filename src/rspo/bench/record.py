"""What is kept from a finished run."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # reading records should not load JAX
    from rspo.config import Config

Record = dict[str, Any]
"""Its job, settings, strategies, and the measures of its domain."""


def steps_of_each(config: "Config") -> int:
    """Environment steps of each policy."""
    return config.steps // config.iterations
