"""The policy: an actor, a critic with one value head a reward channel, and the observation normaliser they share."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.distributions import Categorical, Distribution, Gaussian, Uniform
from rspo.core.types import Box, Spec

CLIP_OBS = 10.0  # normalised observations are clipped to within this
LOG_STD = (-5.0, 2.0)  # bounds of a Gaussian's log-deviation: densities stay finite, however sharp a policy gets


class MLP(eqx.Module):
    """Tanh layers and a linear one; any batch shape, NumPy or JAX weights."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def __call__(self, x: Any) -> Any:
        tanh = x.__array_namespace__().tanh
        # Features first, samples last: a training update takes a sixth less time than with samples first.
        *batch, size = x.shape
        columns = x.reshape(math.prod(batch), size).T
        if isinstance(columns, Array):
            # Else XLA multiplies by the transposed rows as they lie, which takes a pass over a batch a sixth longer.
            columns = jax.lax.optimization_barrier(columns)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            columns = tanh(weight.T @ columns + bias[:, None])
        columns = self.weights[-1].T @ columns + self.biases[-1][:, None]
        return columns.T.reshape(*batch, columns.shape[0])


def init_mlp(sizes: tuple[int, ...], last_gain: float, key: Array) -> MLP:
    """Orthogonal weights, gain sqrt(2) for tanh layers and `last_gain` for the output; zero biases."""
    gains = (2**0.5,) * (len(sizes) - 2) + (last_gain,)
    keys = jax.random.split(key, len(gains))
    weights = tuple(
        jax.nn.initializers.orthogonal(gain)(k, shape, jnp.float32)
        for k, gain, shape in zip(keys, gains, itertools.pairwise(sizes), strict=True)
    )
    return MLP(weights, tuple(jnp.zeros(n) for n in sizes[1:]))


class GaussianMLP(MLP):
    """An actor that gives means; the deviations are learned too, and are the same in every state."""

    log_std: Array
    space: Box = eqx.field(static=True)

    def distribution(self, mean: Any) -> Gaussian:
        return Gaussian(mean, self.log_std.__array_namespace__().clip(self.log_std, *LOG_STD))


class Normalizer(eqx.Module):
    """Running mean and variance of everything seen in training; frozen outside it."""

    mean: Array
    variance: Array
    count: Array

    @property
    def deviation(self) -> Any:
        return self.variance.__array_namespace__().sqrt(self.variance + 1e-8)

    def __call__(self, x: Any) -> Any:
        return x.__array_namespace__().clip((x - self.mean) / self.deviation, -CLIP_OBS, CLIP_OBS)

    def update(self, x: Array, weight: Array) -> "Normalizer":
        """Merge a batch: x [..., O], weight [...] 0 or 1 (parallel variance, Chan et al.)."""
        axes = tuple(range(x.ndim - 1))
        weight = weight[..., None]
        n = weight.sum()
        mean = (x * weight).sum(axes) / jnp.maximum(n, 1.0)
        variance = (jnp.square(x - mean) * weight).sum(axes) / jnp.maximum(n, 1.0)
        total = self.count + n
        delta = mean - self.mean
        merged = self.variance * self.count + variance * n + jnp.square(delta) * self.count * n / total
        return Normalizer(self.mean + delta * n / total, merged / total, total)


def init_normalizer(size: int) -> Normalizer:
    # A tiny count, not zero: the first batch then replaces the identity, and nothing is ever divided by zero.
    return Normalizer(jnp.zeros(size), jnp.ones(size), jnp.asarray(1e-4, jnp.float32))


class Policy(eqx.Module):
    """pi(a | s) and V_c(s). Homogeneous agents share it; the agent axis is one more batch axis."""

    actor: MLP
    critic: MLP
    normalizer: Normalizer | None

    def __call__(self, obs: Any) -> Categorical | Gaussian:
        numbers = self.actor(self.normalized(obs))
        return self.actor.distribution(numbers) if isinstance(self.actor, GaussianMLP) else Categorical(numbers)

    def to_env(self, action: Any) -> Any:
        """What the environment gets for an action of this policy's."""
        return self.actor.space.to_env(action) if isinstance(self.actor, GaussianMLP) else action

    def values(self, obs: Any) -> Any:
        """One value a channel: [..., O] -> [..., C]."""
        return self.critic(self.normalized(obs))

    def normalized(self, obs: Any) -> Any:
        return obs if self.normalizer is None else self.normalizer(obs)


def init_policy(spec: Spec, channels: int, hidden: int, layers: int, normalize: bool, key: Array) -> Policy:
    actor_key, critic_key = jax.random.split(key)
    body = (spec.obs_size, *(hidden,) * layers)
    actor = init_mlp((*body, spec.action_space.n), 0.01, actor_key)  # nearly uniform at first, or centred
    if isinstance(spec.action_space, Box):
        actor = GaussianMLP(actor.weights, actor.biases, jnp.zeros(spec.action_space.n), spec.action_space)
    return Policy(
        actor=actor,
        critic=init_mlp((*body, channels), 1.0, critic_key),
        normalizer=init_normalizer(spec.obs_size) if normalize else None,
    )


class UniformPolicy(eqx.Module):
    """The fully random policy of the paper's automatic threshold: every choice, or every number in [-1, 1], alike."""

    actions: int = eqx.field(static=True)
    continuous: bool = eqx.field(static=True)

    def __call__(self, obs: Array) -> Distribution:
        zeros = jnp.zeros((*obs.shape[:-1], self.actions))
        return Uniform(zeros) if self.continuous else Categorical(zeros)


def uniform_policy(actions: int, continuous: bool = False) -> UniformPolicy:
    return UniformPolicy(actions, continuous)
