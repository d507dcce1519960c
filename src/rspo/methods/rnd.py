"""Random network distillation (RND; Burda et al., 2019), a baseline of the paper: PPO that is also
paid for rarely seen states.

    r_int(s) = | f(s) - g(s) |^2 / 2 / sigma

f is a random network that never learns, g learns to predict it where the policy goes, and sigma is
the running standard deviation of the discounted sum of these rewards. The stream of intrinsic
rewards is endless, with its own value head: novelty after an episode counts too. It ignores the
kept policies: k policies are k restarts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.devices import map_samples, sum_over_samples
from rspo.core.members import each_member
from rspo.core.policies import MLP, Normalizer, init_mlp, init_normalizer
from rspo.core.settings import Count, Positive, Share
from rspo.core.types import Trajectory
from rspo.methods.base import Method, Score, Settings, Setup, Stream
from rspo.methods.references import References

FEATURES = 32  # numbers of a state that are predicted


class Novelty(eqx.Module):
    """The two networks, and their running statistics."""

    target: MLP
    predictor: MLP
    opt_state: Any
    states: Normalizer
    sums: Normalizer
    """Of the discounted sum of errors: their scale."""


class Visited(eqx.Module):
    """The states that a batch has reached by its actions."""

    state: Array  # [T, N, A, O]
    counted: Array  # [T, N, A] 0 or 1


@dataclass(frozen=True)
class RND(Method):
    """Settings of RND."""

    coefficient: float = 1.0
    """Weight of the intrinsic stream's normalised advantage relative to the task's."""
    hidden: Count = 64
    """Units of the one hidden layer of either network."""
    learning_rate: Positive = 1e-3
    """Learning rate of the predictor (Adam)."""
    steps: Count = 4
    """Gradient steps of the predictor per update."""
    discount: Share = 0.99
    """Discount of the sum of errors whose standard deviation is the scale."""

    # With 1, novelty outweighs rewards that are rare: most policies never arrive, or never meet.
    tuned: ClassVar[Mapping[str, Settings]] = {
        "four-goals": {"method": {"coefficient": 0.3}},
        "monster-hunt": {"method": {"coefficient": 0.3}},
        "escalation": {"method": {"coefficient": 0.1}},
    }

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        return ("episodic", "endless")

    def init(self, setup: Setup, key: Array) -> Novelty:
        size = setup.spec.obs_size
        target, predictor = (
            init_mlp((size, self.hidden, FEATURES), 1.0, own) for own in jax.random.split(key)
        )
        opt_state = optax.adam(self.learning_rate).init(predictor)
        return Novelty(target, predictor, opt_state, init_normalizer(size), init_normalizer(1))

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        error, seen = self.error(state, data)
        intrinsic = error / seen.sums.deviation
        reward = jnp.stack([data.reward, intrinsic], axis=-1)
        weight = jnp.broadcast_to(jnp.asarray([1.0, self.coefficient]), reward.shape)
        return Score(reward, weight, {"novelty": error.mean(), "intrinsic": intrinsic.mean()})

    def error(self, state: Novelty, data: Trajectory) -> tuple[Array, Novelty]:
        """|f(s) - g(s)|^2 / 2 of the state after each step, [T, N, A], 0 after an early end; and
        the updated statistics."""
        reached = visited(data)
        state = eqx.tree_at(
            lambda own: own.states, state, state.states.update(reached.state, reached.counted)
        )
        error = map_samples(lambda part, nets: _error(part, *nets), reached, _nets(state))

        def forwards(total: Array, error: Array) -> tuple[Array, Array]:
            total = self.discount * total + error
            return total, total

        sums = jax.lax.scan(forwards, jnp.zeros_like(error[0]), error)[1]
        seen = state.sums.update(sums[..., None], reached.counted)
        return error, eqx.tree_at(lambda own: own.sums, state, seen)

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        return each_member(
            lambda own, played: self._learned(self.error(own, played)[1], played), states, data
        )

    def _learned(self, state: Novelty, data: Trajectory) -> Novelty:
        """The predictor after some full-batch steps."""
        optimizer, reached = optax.adam(self.learning_rate), visited(data)
        count = jnp.maximum(reached.counted.sum(), 1.0)

        def gradient(part: Visited, nets: tuple[MLP, MLP, Normalizer]) -> MLP:
            predictor, target, normalizer = nets
            total = lambda predictor: _error(part, predictor, target, normalizer).sum()
            return jax.grad(total)(predictor)

        def step(carry: tuple[MLP, Any], _: None) -> tuple[tuple[MLP, Any], None]:
            predictor, opt_state = carry
            slope = sum_over_samples(gradient, reached, (predictor, state.target, state.states))
            slope = jax.tree.map(lambda leaf: leaf / count, slope)
            updates, opt_state = optimizer.update(slope, opt_state)
            return (optax.apply_updates(predictor, updates), opt_state), None

        begin = (state.predictor, state.opt_state)
        (predictor, opt_state), _ = jax.lax.scan(step, begin, length=self.steps)
        return eqx.tree_at(
            lambda own: (own.predictor, own.opt_state), state, (predictor, opt_state)
        )


def visited(data: Trajectory) -> Visited:
    """Where an episode is followed by another, the state after its last step is the next one's
    first."""
    state = jnp.concatenate([data.view.obs[1:], data.last.obs[None]])
    return Visited(state, (data.counted & data.live[..., None]).astype(state.dtype))


def _nets(state: Novelty) -> tuple[MLP, MLP, Normalizer]:
    return state.predictor, state.target, state.states


def _error(part: Visited, predictor: MLP, target: MLP, normalizer: Normalizer) -> Array:
    """[B]"""
    state = normalizer(part.state)
    difference = jax.lax.stop_gradient(target(state)) - predictor(state)
    return jnp.square(difference).sum(-1) / 2 * part.counted
