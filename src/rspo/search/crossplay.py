"""Cross-play: what every strategy earns with every other one as its partner, in environments of two
agents.

The strategy of a row is agent 0 and that of a column agent 1, for every pair, so that both
assignments of a pair to the two roles are played; all pairs share the same random numbers (starts,
coins, sampling), so that rows and columns are comparable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array

from rspo.core import interrupt, members
from rspo.core.distributions import Distribution
from rspo.core.types import View
from rspo.rollout.base import Collector
from rspo.search.archive import Strategy

STREAM = 2**31 + 1  # random stream, unlike those of iterations and first weights
# Approximate total, and minimum per pair: host environments are slow.
HOST_STEPS, HOST_EPISODES = 200_000, 4


@dataclass(frozen=True, eq=False)
class CrossPlay:
    """The result, S strategies by S strategies. A return is the undiscounted sum, averaged over
    episodes."""

    strategies: tuple[str, ...]
    """Number and name of each, such as "2 Corner"."""
    episodes: int
    """Episodes per pair and assignment of roles; actions are sampled."""
    roles: np.ndarray
    """[row, column, agent]: the return of each agent; agent 0 plays the row's strategy, agent 1 the
    column's."""

    @property
    def payoff(self) -> np.ndarray:
        """[own, partner]: what a strategy earns with this partner, averaged over the two roles it
        can have."""
        return (self.roles[..., 0] + self.roles[..., 1].T) / 2

    @property
    def mean(self) -> np.ndarray:
        """[one, other]: the return of a pair, averaged over agents and over roles; symmetric."""
        return (self.payoff + self.payoff.T) / 2


def usual_episodes(collect: Collector, strategies: int, judged: int) -> int:
    """How many episodes a pair plays: as in an evaluation, but fewer if steps are expensive and
    strategies many."""
    if collect.compiled:
        return judged
    return min(judged, max(HOST_STEPS // (strategies**2 * collect.spec.horizon), HOST_EPISODES))


def cross_play(
    collect: Collector, strategies: Sequence[Strategy], episodes: int, seed: int
) -> CrossPlay:
    """Play every strategy with every strategy."""
    policies = jax.tree.map(
        lambda *leaves: np.stack(leaves), *(strategy.policy for strategy in strategies)
    )
    key = jax.random.fold_in(jax.random.key(seed), STREAM)
    roles = np.asarray(make_cross_play(collect, episodes)(policies, key), np.float64)
    return CrossPlay(tuple(name_of(strategy) for strategy in strategies), episodes, roles)


def make_cross_play(collect: Collector, episodes: int) -> Callable[[Any, Array], np.ndarray]:
    """`returns(policies, key)` of policies with leaves [S, ...]: [S, S, 2]; one jitted program per
    row in a JAX environment."""

    @collect.program
    def row_returns(policies: Any, row: Any, key: Array) -> Any:
        def pair(column: Any) -> Any:
            both = SideBySide(members.member(policies, row), members.member(policies, column))
            return collect(both, episodes, key).reward.sum(0).mean(0)

        return collect.each(pair, members.count(policies))

    def returns(policies: Any, key: Array) -> np.ndarray:
        rows = []
        for row in range(members.count(policies)):
            interrupt.check()
            rows.append(np.asarray(row_returns(policies, row, key)))
        return np.stack(rows)

    return returns


class SideBySide(eqx.Module):
    """The policy of both agents: agent 0 plays `one`, agent 1 plays `two`."""

    one: Any
    two: Any

    @property
    def recurrent(self) -> bool:
        return self.one.recurrent

    def initial(self, *batch: int) -> Any:
        alone = (*batch[:-1], 1)
        return self.one.initial(*alone), self.two.initial(*alone)

    def step(self, carry: Any, view: View) -> tuple[Any, Distribution]:
        first, second = (
            jax.tree.map(lambda leaf, a=a: leaf[..., a : a + 1, :], view) for a in (0, 1)
        )
        (own, one), (other, two) = self.one.step(carry[0], first), self.two.step(carry[1], second)
        agents = (*view.obs.shape[:-2], 1)
        xp = view.obs.__array_namespace__()
        # A Gaussian's log_std has no agent axis.
        whole = lambda leaf: (
            leaf if leaf.ndim > len(agents) else xp.broadcast_to(leaf, (*agents, leaf.shape[-1]))
        )
        return (own, other), jax.tree.map(
            lambda *leaves: xp.concat([whole(leaf) for leaf in leaves], axis=len(agents) - 1),
            one,
            two,
        )


def name_of(strategy: Strategy) -> str:
    return f"{strategy.index} {strategy.descriptor or strategy.status}"
