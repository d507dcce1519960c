"""Discriminators that guess the latent from a policy's behaviour: q(z | s) from single states
(DIAYN, Eysenbach et al., 2019), or q(z | tau) from the episode so far."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.policies import MLP, Normalizer, init_mlp, init_normalizer
from rspo.core.spaces import ActionSpace
from rspo.core.types import Spec, Trajectory
from rspo.methods.episodes import running_sum


class Discriminator(eqx.Module):
    """Logits of the latents from an agent's observations, and its actions if `space` is given."""

    net: MLP
    normalizer: Normalizer
    space: ActionSpace | None = eqx.field(static=True)

    @property
    def latents(self) -> int:
        return int(self.net.biases[-1].shape[0])

    def logits(self, data: Trajectory) -> Array:
        """[T, N, A, Z]"""
        return self.net(self.normalizer(_inputs(self.space, data)))


Guess = Callable[[Discriminator, Trajectory], Array]
"""log q of every latent at every step: [T, N, A, Z]."""


def from_states(discriminator: Discriminator, data: Trajectory) -> Array:
    """log q(z | s_t)."""
    return jax.nn.log_softmax(discriminator.logits(data))


def from_episodes(discriminator: Discriminator, data: Trajectory) -> Array:
    """log q(z | tau up to t): the logits of all steps of all agents so far are summed."""
    logits = jnp.where(data.counted[..., None], discriminator.logits(data), 0.0)
    shown = running_sum(data, logits.sum(2, keepdims=True))
    return jnp.broadcast_to(jax.nn.log_softmax(shown), logits.shape)


def of_own(log_q: Array, data: Trajectory) -> Array:
    """log q of each episode's own latent: [T, N, A]."""
    return (log_q * data.view.latent).sum(-1)


class Guessing(eqx.Module):
    """A discriminator in training, with its optimiser state."""

    model: Discriminator
    opt_state: Any


def init_guessing(
    spec: Spec, latents: int, hidden: int, learning_rate: float, key: Array, actions: bool = False
) -> Guessing:
    space = spec.action_space if actions else None
    size = spec.obs_size + (spec.action_space.n if actions else 0)
    net = init_mlp((size, hidden, hidden, latents), 0.01, key)
    model = Discriminator(net, init_normalizer(size), space)
    return Guessing(model, optax.adam(learning_rate).init(net))


def fit(
    guessing: Guessing, guess: Guess, data: Trajectory, steps: int, learning_rate: float
) -> Guessing:
    """Maximise the mean log q of the given latents over the counted steps by `steps` full-batch
    steps of Adam; inputs are normalised by running statistics."""
    model, optimizer = guessing.model, optax.adam(learning_rate)
    seen = model.normalizer.update(_inputs(model.space, data), data.counted)
    model = eqx.tree_at(lambda model: model.normalizer, model, seen)
    count = jnp.maximum(data.counted.sum(), 1)

    def loss(net: MLP) -> Array:
        own = of_own(guess(eqx.tree_at(lambda model: model.net, model, net), data), data)
        return -(own * data.counted).sum() / count

    def step(carry: tuple[MLP, Any], _: None) -> tuple[tuple[MLP, Any], None]:
        net, opt_state = carry
        updates, opt_state = optimizer.update(jax.grad(loss)(net), opt_state)
        return (optax.apply_updates(net, updates), opt_state), None

    (net, opt_state), _ = jax.lax.scan(step, (model.net, guessing.opt_state), length=steps)
    return Guessing(eqx.tree_at(lambda model: model.net, model, net), opt_state)


def evenly(latents: int, key: Array, episodes: int) -> Array:
    """A latent for each episode, one-hot, as evenly distributed as possible: [episodes,
    latents]."""
    first = jax.random.randint(key, (), 0, latents)
    return jax.nn.one_hot((first + jnp.arange(episodes)) % latents, latents)


def _inputs(space: ActionSpace | None, data: Trajectory) -> Array:
    if space is None:
        return data.view.obs
    return jnp.concatenate([data.view.obs, space.encode(data.action)], axis=-1)
