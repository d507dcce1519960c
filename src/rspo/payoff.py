"""Cross-play: what every strategy earns with every other one as its partner, in environments of two agents.

The strategy of a row is agent 0 and that of a column agent 1, for every pair, so that both assignments of a pair to the
two roles are played; and all pairs play the same chances (starts, coins, sampling), so that rows and columns compare.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.archive import Strategy
from rspo.distributions import Categorical
from rspo.env import Env
from rspo.rollout import collect

STREAM = 2**31 + 1  # of the run's seed: neither that of an iteration nor that of the first weights


@dataclass(frozen=True, eq=False)
class CrossPlay:
    """The result, S strategies by S strategies. A return is the undiscounted sum, averaged over episodes."""

    strategies: tuple[str, ...]
    """Number and name of each, such as "2 Corner"."""
    episodes: int
    """Played by each pair in each assignment of roles; actions are sampled."""
    roles: np.ndarray
    """[row, column, agent]: the return of each agent; agent 0 plays the row's strategy, agent 1 the column's."""

    @property
    def payoff(self) -> np.ndarray:
        """[own, partner]: what a strategy earns with this partner, averaged over the two roles it can have."""
        return (self.roles[..., 0] + self.roles[..., 1].T) / 2

    @property
    def mean(self) -> np.ndarray:
        """[one, other]: the return of a pair, averaged over agents and over roles; symmetric."""
        return (self.payoff + self.payoff.T) / 2


def cross_play(env: Env, strategies: Sequence[Strategy], episodes: int, seed: int) -> CrossPlay:
    """Play every strategy with every one."""
    policies = jax.tree.map(lambda *leaves: np.stack(leaves), *(strategy.policy for strategy in strategies))
    key = jax.random.fold_in(jax.random.key(seed), STREAM)
    roles = np.asarray(make_cross_play(env, episodes)(policies, key), np.float64)
    return CrossPlay(tuple(name_of(strategy) for strategy in strategies), episodes, roles)


def make_cross_play(env: Env, episodes: int) -> Callable[[Any, Array], Array]:
    """`returns(policies, key)` of policies with leaves [S, ...]: [S, S, 2], in one jitted program."""

    @jax.jit
    def returns(policies: Any, key: Array) -> Array:
        count = jax.tree.leaves(policies)[0].shape[0]

        def pair(index: Array) -> Array:
            row, column = jnp.divmod(index, count)
            one, two = (jax.tree.map(lambda leaf, i=i: leaf[i], policies) for i in (row, column))
            trajectory = collect(env, _side_by_side(one, two), episodes, key)
            return trajectory.reward.sum(0).mean(0)

        # One pair after the other: the episodes of one are enough to keep the cores busy, and fit their caches.
        return jax.lax.map(pair, jnp.arange(count * count)).reshape(count, count, 2)

    return returns


def _side_by_side(one: Any, two: Any) -> Callable[[Array], Categorical]:
    """The policy of both agents: agent 0 plays `one`, agent 1 plays `two`."""

    def act(obs: Array) -> Categorical:
        both = one(obs[..., :1, :]), two(obs[..., 1:, :])
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=-2), *both)

    return act


def name_of(strategy: Strategy) -> str:
    return f"{strategy.index} {strategy.descriptor or strategy.status}"
