"""Diversity optimization maintaining near optimality (DOMiNO, Zahavy et al., ICLR 2023): beyond the
paper.

    A_i   = sigma(mu_i) A_task + (1 - sigma(mu_i)) A_d        r_d = phi(s) . (psi_i - psi_j)
    psi_i = E_{pi_i} phi(s),   j the nearest other one
    mu_i descends on sigma(mu_i) (v_i - v_0 + (1 - optimality) |v_0|)

Features phi are standardised observations. The first member learns only the task; the others move
away from the member with the most similar states, while they earn nearly as much.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.members import count, each_member, member
from rspo.core.policies import Normalizer, init_normalizer
from rspo.core.settings import Positive, Share
from rspo.core.types import Trajectory
from rspo.methods.base import Kind, Method, Plan, Score, Settings, Setup, Stream
from rspo.methods.episodes import for_everyone
from rspo.methods.references import References

MOST = 15.0  # a multiplier beyond this would saturate for good


class Learners(eqx.Module):
    """A member's own multiplier, and the statistics of all members."""

    own: Array  # [] which member it is
    multiplier: Array  # [] mu_i
    opt_state: Any
    normalizer: Normalizer  # of observations
    features: Array  # [P, O] psi, running means
    values: Array  # [P] v, running mean returns
    done: Array  # [] updates


@dataclass(frozen=True)
class DOMiNO(Method):
    """Settings of DOMiNO."""

    optimality: Share = 0.9
    """Fraction of the first member's mean return that the others must earn; below a negative one,
    the same margin."""
    learning_rate: Positive = 0.05
    """Learning rate of the multipliers; the paper has 0.001 with many more updates."""
    value_memory: Share = 0.9
    """Decay of the running mean returns per update."""
    feature_memory: Share = 0.99
    """Decay of the running mean features per update."""

    kind: ClassVar[Kind] = "population"
    # Without normalised rewards the loss of the values, of diversities far larger than what a
    # landmark pays, outweighs the policy's.
    tuned: ClassVar[Mapping[str, Settings]] = {
        "four-goals": {"method": {"learning_rate": 0.2}, "ppo": {"normalize_reward": True}}
    }

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        return ("episodic", "episodic")

    def init(self, setup: Setup, key: Array) -> Learners:
        members, size, mu = setup.plan.members, setup.spec.obs_size, jnp.zeros(())
        opt_state = optax.adam(self.learning_rate).init(mu)
        features, values = jnp.zeros((members, size)), jnp.zeros(members)
        normalizer, none = init_normalizer(size), jnp.asarray(0)
        return Learners(none, mu, opt_state, normalizer, features, values, none)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        apart, distance = away(state)
        diversity = state.normalizer(data.view.obs) @ apart
        task = jnp.where(state.own == 0, 1.0, jax.nn.sigmoid(state.multiplier))
        weight = jnp.stack([task, 1 - task])
        reward = jnp.stack([data.reward, diversity], -1)
        metrics = {"task_weight": task, "nearest": distance}
        return Score(reward, jnp.broadcast_to(weight, reward.shape), metrics)

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        members, shared, data = count(states), member(states, 0), for_everyone(data)
        normalizer = shared.normalizer.update(data.view.obs, data.counted)
        visited = each_member(lambda played: _mean(normalizer, played), data)
        earned = each_member(lambda played: played.returns.mean(), data)
        mean = lambda old, new, memory: (
            old + (new - old) * jnp.maximum(1 - memory, 1 / (shared.done + 1))
        )
        features = mean(shared.features, visited, self.feature_memory)
        values = mean(shared.values, earned, self.value_memory)
        enough = values[0] - (1 - self.optimality) * jnp.abs(values[0])

        def one(own: Array, state: Learners) -> Learners:
            mu, opt_state = self._stepped(state, values[own] - enough)
            return Learners(own, mu, opt_state, normalizer, features, values, state.done + 1)

        return each_member(one, jnp.arange(members), states)

    def _stepped(self, state: Learners, slack: Array) -> tuple[Array, Any]:
        """The multiplier after one step of gradient descent: less weight on the task while there
        is slack."""
        slope = jax.grad(lambda mu: jax.nn.sigmoid(mu) * slack)(state.multiplier)
        step, opt_state = optax.adam(self.learning_rate).update(slope, state.opt_state)
        return jnp.clip(state.multiplier + step, -MOST, MOST), opt_state


def away(state: Learners) -> tuple[Array, Array]:
    """The vector from the nearest other member's features to its own [O], and its length."""
    apart = state.features[state.own] - state.features  # [P, O]
    others = jnp.arange(apart.shape[0]) != state.own
    distance = jnp.where(others, jnp.linalg.norm(apart, axis=-1), jnp.inf)
    nearest = distance.argmin()
    alone = apart.shape[0] == 1
    return apart[nearest], jnp.zeros(()) if alone else distance[nearest]


def _mean(normalizer: Normalizer, played: Trajectory) -> Array:
    """The mean features of the visited states: [O]."""
    counted = played.counted[..., None].astype(played.view.obs.dtype)
    total = (normalizer(played.view.obs) * counted).sum((0, 1, 2))
    return total / jnp.maximum(counted.sum(), 1)
