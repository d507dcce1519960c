"""Asking a policy for actions on the host, step after step."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.distributions import Categorical, Distribution, Gaussian, Noise
from rspo.core.policies import CLIP_OBS, LOG_STD, GaussianMLP, Policy

ACTIONS = 1  # tells what is drawn for an episode's actions from what its environment draws from the same seed
Act = Callable[[int, np.ndarray], np.ndarray]
"""The actions [B, ...] at step t of all agents in the episodes that are played, for their observations [B, O]."""


def actor(policy: Callable[[Array], Distribution], device: Any, greedy: bool, noise: np.ndarray) -> Act:
    """Of noise [T, n, A, ...]. A policy that is not one of ours is compiled, and asked on this device."""
    if isinstance(policy, Policy):
        return plain(policy).actor(greedy, noise)
    leaves, act = _placed(policy, device), _compiled(_form(policy), greedy)
    rows, agents = noise.shape[1] * noise.shape[2], noise.shape[1:3]

    def ask(t: int, obs: np.ndarray) -> np.ndarray:
        action = np.asarray(act(leaves, obs.reshape(*agents, -1), noise[t]))
        return action.reshape(rows, *action.shape[2:])

    return ask


class Plain(NamedTuple):
    """A policy in plain NumPy: for a handful of instances a compiled program takes longer to call than to run."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    log_std: np.ndarray | None  # of a Gaussian
    mean: np.ndarray | None  # of observations, where they are normalised
    deviation: np.ndarray | None

    def actor(self, greedy: bool, noise: np.ndarray) -> Act:
        """`Distribution.mode` or `.sample` of what the policy says, step by step."""
        noise = noise.reshape(len(noise), -1, *noise.shape[3:])
        features, (weight, bias) = self._features(noise.shape[1]), (self.weights[-1], self.biases[-1])
        if self.log_std is None:
            choose = lambda logits, t: logits.mode() if greedy else logits.sample(noise[t])  # noqa: E731
            return lambda t, obs: choose(Categorical(features(obs).dot(weight) + bias), t)
        added = bias + (0 if greedy else np.exp(self.log_std)) * noise  # known before the first step
        return lambda t, obs: features(obs).dot(weight) + added[t]

    def _features(self, rows: int) -> Callable[[np.ndarray], np.ndarray]:
        """The last hidden layer for as many observations at a time. Numbers stand once for each of them: NumPy takes as
        long to broadcast a row over a handful as to add it."""
        tile = lambda row: np.tile(np.asarray(row, np.float32), (rows, 1))  # noqa: E731
        layers = [(weight, tile(bias)) for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True)]
        seen = None if self.mean is None else (tile(self.mean), tile(self.deviation))
        low, high = np.array(-CLIP_OBS, np.float32), np.array(CLIP_OBS, np.float32)

        def features(x: np.ndarray) -> np.ndarray:
            if seen is not None:
                x = np.minimum(np.maximum((x - seen[0]) / seen[1], low), high)
            for weight, bias in layers:
                x = np.tanh(x.dot(weight) + bias)
            return x

        return features


def plain(policy: Policy) -> Plain:
    actor, normalizer = jax.tree.map(np.asarray, (policy.actor, policy.normalizer))
    log_std = np.clip(actor.log_std, *LOG_STD) if isinstance(actor, GaussianMLP) else None
    seen = (None, None) if normalizer is None else (normalizer.mean, normalizer.deviation)
    return Plain(actor.weights, actor.biases, log_std, *seen)


def noise_of(policy: Callable[[Array], Distribution], obs: tuple[int, ...]) -> Noise:
    """What the policy's distribution needs in order to sample, for observations [A, O] of one episode."""
    if isinstance(policy, Policy):  # in a tenth of the time
        outputs = np.zeros((*obs[:-1], *policy.actor.biases[-1].shape))
        return (Gaussian(outputs, None) if isinstance(policy.actor, GaussianMLP) else Categorical(outputs)).noise
    leaves = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(_arrays(policy)))
    return _noise(_form(policy), leaves, obs)


def draw(noise: Noise, steps: int, seeds: np.ndarray, lanes: int) -> np.ndarray:
    """The noise for every step of the episodes of these seeds: [T, lanes, A, ...], zeros in lanes without an episode.
    Whoever plays an episode draws its own, which depends on its seed alone."""
    rows = np.zeros((steps, lanes, *noise.shape), np.float32)
    for lane, seed in enumerate(seeds.tolist()):
        rng = np.random.default_rng((seed, ACTIONS))
        kind = rng.random if noise.kind == "uniform" else rng.standard_normal
        rows[:, lane] = kind((steps, *noise.shape), np.float32)
    return rows


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
