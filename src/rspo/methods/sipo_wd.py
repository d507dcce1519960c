"""SIPO with the Wasserstein distance, by one critic per kept policy.

    f_j = argmax_f  E_{s' of pi_j} f(s') - E_{s of pi} f(s)           weights within +-0.01
    w_t = E_{s' of pi_j} f_j(s') - f_j(s_t)          r_j(t) = w_t - w_{t-1}       w_{-1} = 0
    r   = r_task + 5 sum_j l_j r_j

Summed over an episode, r_j is the w of its last state. Rewards are added in one stream, as in its
authors' code; for the multipliers l_j see `rspo.methods.state_distance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.members import each_member
from rspo.core.policies import MLP
from rspo.core.settings import Count, Positive
from rspo.core.types import Samples, Trajectory
from rspo.methods.base import Score, Settings, Setup
from rspo.methods.references import References
from rspo.methods.state_distance import (
    Bounds,
    Duals,
    StateDistance,
    drawn_states,
    no_bounds,
    on_one_scale,
    with_memory,
)


class Critics(eqx.Module):
    """One per slot for a kept policy, leaves [R, ...]."""

    duals: Duals
    bounds: Bounds
    critic: MLP
    opt_state: Any


@dataclass(frozen=True)
class SIPOWD(StateDistance):
    """Settings of SIPO-WD."""

    delta: float = 3e-3
    """How far from every kept policy a policy must be: the Wasserstein distance per step of an
    episode, by the critic."""
    rate: Positive = 0.1
    """Step size of the multipliers per update."""
    scale: Positive = 5.0
    """Scale of r_j when added to the task's reward."""
    hidden: Count = 256
    """Units of a critic's hidden layer."""
    learning_rate: Positive = 4e-4
    """Learning rate of the critics (RMSprop)."""
    clip: Positive = 0.01
    """Upper bound of a critic's weights, which makes it a measure of distance."""
    critic_steps: Count = 10
    """Gradient steps of the critics per update, each on as many states as are kept."""

    # Where landmarks move, observations differ in most numbers whatever a policy does, so that no
    # policy is far from another.
    tuned: ClassVar[Mapping[str, Settings]] = {
        "four-goals": {"method": {"delta": 1e-3}},
        "four-goals-easy": {"method": {"delta": 0.02}},
    }

    def init(self, setup: Setup, key: Array) -> Critics:
        size, places, hidden = setup.spec.obs_size, setup.capacity, self.hidden
        # Within the clipping bounds.
        weights = tuple(
            jax.random.uniform(own, shape, minval=-self.clip, maxval=self.clip)
            for own, shape in zip(
                jax.random.split(key), ((places, size, hidden), (places, hidden, 1)), strict=True
            )
        )
        critic = MLP(weights, (jnp.zeros((places, hidden)), jnp.zeros((places, 1))))
        opt_state = jax.vmap(self._optimizer.init)(critic)
        return Critics(self.init_duals(setup), no_bounds(size), critic, opt_state)

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.rmsprop(self.learning_rate)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        intrinsic, _ = self.intrinsic(state, data, rivals)
        multiplier = jnp.where(rivals.mask, state.duals.multiplier, 0.0)
        reward = data.reward + self.scale * (multiplier * intrinsic).sum(-1)
        metrics = {"distance_to": per_episode(intrinsic, data), "multiplier_of": multiplier}
        return Score(reward[..., None], jnp.ones((*reward.shape, 1)), metrics)

    def intrinsic(
        self, state: Critics, data: Trajectory, rivals: References
    ) -> tuple[Array, Bounds]:
        """r_j of every step, [T, N, A, R], 0 in empty slots; and the bounds of states."""
        scaled, kept, bounds = on_one_scale(state.bounds, data, rivals)
        level = jax.vmap(lambda critic, states: critic(states).mean())(state.critic, kept)

        def potential(policy: Any, own: tuple[MLP, Array], samples: Samples) -> Array:
            critic, level = own
            return level - critic(samples.view.obs)[..., 0]

        judged = with_memory(rivals, (state.critic, level))
        now = judged.each(potential, scaled, rivals.mask)
        goes_on = ~data.starts[1:, :, None, None]
        before = jnp.concatenate([jnp.zeros_like(now[:1]), now[:-1] * goes_on])
        return jnp.where(data.counted[..., None], now - before, 0.0), bounds

    def update(self, states: Any, data: Trajectory, rivals: References, key: Array) -> Any:
        def one(state: Critics, data: Trajectory, rivals: References) -> Critics:
            intrinsic, bounds = self.intrinsic(state, data, rivals)
            steps = data.reward.shape[0]
            gap = self.delta * steps - per_episode(intrinsic, data)
            duals = self.raised(state.duals, gap, rivals.mask)
            kept = bounds.scaled(rivals.memory)
            critic, opt_state = self._learned(state, bounds, data, kept, key)
            return Critics(duals, bounds, critic, opt_state)

        return each_member(one, states, data, rivals)

    def _learned(
        self, state: Critics, bounds: Bounds, data: Trajectory, kept: Array, key: Array
    ) -> tuple[MLP, Any]:
        """The critics after some steps, and their optimiser states."""

        def widened(critic: MLP, kept: Array, own: Array) -> Array:
            return critic(own).mean() - critic(kept).mean()  # minus the distance

        def moved(critic: MLP, opt_state: Any, kept: Array, own: Array) -> tuple[MLP, Any]:
            slope = jax.grad(widened)(critic, kept, own)
            updates, opt_state = self._optimizer.update(slope, opt_state)
            critic = optax.apply_updates(critic, updates)
            return jax.tree.map(
                lambda leaf: jnp.clip(leaf, -self.clip, self.clip), critic
            ), opt_state

        def step(carry: tuple[MLP, Any], key: Array) -> tuple[tuple[MLP, Any], None]:
            own = bounds.scaled(drawn_states(data, self.states, key))
            return jax.vmap(moved, (0, 0, 0, None))(*carry, kept, own), None

        keys = jax.random.split(key, self.critic_steps)
        return jax.lax.scan(step, (state.critic, state.opt_state), keys)[0]


def per_episode(numbers: Array, data: Trajectory) -> Array:
    """The mean over episodes, of which a column may hold several, of their sums of numbers [T, N,
    A, R]: [R]."""
    return (numbers.sum(0) / data.starts.sum(0)[:, None, None]).mean((0, 1))
