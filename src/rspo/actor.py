"""Asking a policy for actions on the host, step after step."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.distributions import Categorical, Distribution, Gaussian, Noise
from rspo.policy import CLIP_OBS, LOG_STD, GaussianMLP, Policy

Act = Callable[[np.ndarray, np.ndarray], np.ndarray]


def actor(policy: Callable[[Array], Distribution], device: Any, greedy: bool) -> Act:
    """`act(obs, noise)` -> actions; of a policy that is not one of ours, compiled and on this device."""
    if isinstance(policy, Policy):
        return plain(policy).actor(greedy)
    leaves, act = _placed(policy, device), _compiled(_form(policy), greedy)
    return lambda obs, noise: np.asarray(act(leaves, obs, noise))


class Plain(NamedTuple):
    """A policy in plain NumPy: for a handful of instances a compiled program takes longer to call than to run."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    log_std: np.ndarray | None  # of a Gaussian
    mean: np.ndarray | None  # of observations, where they are normalised
    deviation: np.ndarray | None

    def __call__(self, obs: np.ndarray) -> Distribution:
        x = obs.reshape(-1, obs.shape[-1])
        if self.mean is not None:
            x = np.minimum(np.maximum((x - self.mean) / self.deviation, -CLIP_OBS), CLIP_OBS)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.tanh(x @ weight + bias)
        numbers = (x @ self.weights[-1] + self.biases[-1]).reshape(*obs.shape[:-1], -1)
        return Categorical(numbers) if self.log_std is None else Gaussian(numbers, self.log_std)

    def actor(self, greedy: bool) -> Act:
        return lambda obs, noise: self(obs).mode() if greedy else self(obs).sample(noise)


def plain(policy: Policy) -> Plain:
    actor, normalizer = jax.tree.map(np.asarray, (policy.actor, policy.normalizer))
    log_std = np.clip(actor.log_std, *LOG_STD) if isinstance(actor, GaussianMLP) else None
    seen = (None, None) if normalizer is None else (normalizer.mean, normalizer.deviation)
    return Plain(actor.weights, actor.biases, log_std, *seen)


def action_noise(policy: Callable[[Array], Distribution], obs: tuple[int, ...], steps: int, key: Array) -> np.ndarray:
    """What the policy's distribution needs in order to sample, for every step of all episodes: [T, N, A, ...]; `key` is
    that of the collection."""
    leaves = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(_arrays(policy)))
    return np.asarray(_draw(key, steps, _noise(_form(policy), leaves, obs)))


@partial(jax.jit, static_argnums=(1, 2))
def _draw(key: Array, steps: int, noise: Noise) -> Array:
    draw = jax.random.uniform if noise.kind == "uniform" else jax.random.normal
    return draw(jax.random.split(key, 3)[2], (steps, *noise.shape))


def log_prob(policy: Callable[[Array], Distribution], obs: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Of actions [T, N, A, ...] that were taken."""
    return np.asarray(_log_prob(_form(policy))(_placed(policy, jax.devices()[0]), obs, action))


Form = tuple[Any, Any]  # all of a policy but its arrays; hashable


def _form(policy: Any) -> Form:
    arrays, rest = eqx.partition(policy, eqx.is_array)
    return jax.tree.structure(arrays), rest


def _arrays(policy: Any) -> Any:
    return eqx.filter(policy, eqx.is_array)


def _placed(policy: Any, device: Any) -> list[Array]:
    """The leaves as a plain list: taking a policy apart in every step would cost more than asking it."""
    return jax.tree.leaves(jax.device_put(_arrays(policy), device))


def _assembled(form: Form, leaves: Any) -> Callable[[Array], Distribution]:
    structure, rest = form
    return eqx.combine(jax.tree.unflatten(structure, leaves), rest)


@lru_cache(maxsize=64)
def _noise(form: Form, leaves: tuple[Any, ...], obs: tuple[int, ...]) -> Noise:
    """Known by tracing the policy, which takes its time: once for policies of one shape."""
    ask = lambda leaves, obs: _assembled(form, leaves)(obs)  # noqa: E731
    return jax.eval_shape(ask, leaves, jax.ShapeDtypeStruct(obs, jnp.float32)).noise


@lru_cache(maxsize=64)
def _compiled(form: Form, greedy: bool) -> Callable[..., Array]:
    @jax.jit
    def act(leaves: list[Array], obs: Array, noise: Array) -> Array:
        distribution = _assembled(form, leaves)(obs)
        return distribution.mode() if greedy else distribution.sample(noise)

    return act


@lru_cache(maxsize=64)
def _log_prob(form: Form) -> Callable[..., Array]:
    return jax.jit(lambda leaves, obs, action: _assembled(form, leaves)(obs).log_prob(action))
