"""The only place that knows which kind an environment is of: it chooses the collector."""

from rspo.envs.base import AnyEnv, HostEnv
from rspo.rollout.base import Collector
from rspo.rollout.compiled import JaxCollector


def collector(env: AnyEnv) -> Collector:
    """The collector of an environment of either kind; built once, for all that is played in it."""
    if isinstance(env, HostEnv):
        from rspo.rollout.host import HostCollector  # games in JAX need no code for the host

        return HostCollector(env)
    return JaxCollector(env)
