"""The reward predictor f(s, a; psi_j) behind the reward-driven intrinsic reward |f(s, a; psi_j) -
r|^2."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.devices import sum_over_samples
from rspo.core.policies import MLP, init_mlp
from rspo.core.spaces import ActionSpace
from rspo.core.types import Samples, Spec, Trajectory


class RewardModel(eqx.Module):
    """Predicts the task's reward from a state and an action: one tanh network per kept policy."""

    net: MLP
    space: ActionSpace = eqx.field(static=True)

    def __call__(self, obs: Array, action: Array) -> Array:
        return self.net(jnp.concatenate([obs, self.space.encode(action)], axis=-1))[..., 0]

    def error(self, samples: Samples) -> Array:
        """|f(s_t, a_t) - r_t|^2 of every step; 0 on steps that do not count: the samples' own
        axes."""
        error = jnp.square(self(samples.view.obs, samples.action) - samples.reward)
        return jnp.where(samples.counted, error, 0.0)


def init_reward_model(spec: Spec, hidden: int, key: Array) -> RewardModel:
    net = init_mlp((spec.obs_size + spec.action_space.n, hidden, hidden, 1), 1.0, key)
    return RewardModel(net, spec.action_space)


class Predictor(eqx.Module):
    """A reward model in training, with its optimiser state."""

    model: RewardModel
    opt_state: Any


def init_predictor(spec: Spec, hidden: int, learning_rate: float, key: Array) -> Predictor:
    model = init_reward_model(spec, hidden, key)
    return Predictor(model, optax.adam(learning_rate).init(model))


@partial(jax.jit, static_argnames=("steps", "learning_rate"))
def fit(
    predictor: Predictor, episodes: Sequence[Trajectory], steps: int, learning_rate: float
) -> Predictor:
    """Minimise the mean squared error over all episodes by `steps` full-batch steps of Adam."""
    optimizer = optax.adam(learning_rate)
    samples = jax.tree.map(
        lambda *leaves: jnp.concatenate(leaves, axis=1), *(played.samples for played in episodes)
    )
    count = samples.counted.sum()

    def gradient(piece: Samples, rest: tuple[RewardModel, Array]) -> RewardModel:
        model, count = rest
        return jax.grad(lambda model: model.error(piece).sum() / count)(model)

    def step(predictor: Predictor, _: None) -> tuple[Predictor, None]:
        slope = sum_over_samples(gradient, samples, (predictor.model, count))
        updates, opt_state = optimizer.update(slope, predictor.opt_state)
        return Predictor(optax.apply_updates(predictor.model, updates), opt_state), None

    return jax.lax.scan(step, predictor, length=steps)[0]
