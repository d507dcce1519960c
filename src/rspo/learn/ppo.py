"""Proximal policy optimization (Schulman et al., 2017) over several reward channels: one pure update."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.devices import map_samples, share, sum_over_samples
from rspo.core.policies import Normalizer, Policy
from rspo.core.types import Padding, Trajectory
from rspo.learn.gae import gae
from rspo.methods.base import Score

Span = tuple[float, float]
SQUARES, EPSILON = 0.999, 1e-5  # Adam's second decay rate, and what keeps it from dividing by zero
MOST_NUMBERING = 18  # bits of 32 that may number the samples of a batch, so that enough are left to shuffle them


@dataclass(frozen=True)
class PPO:
    """Settings of the learner that every method shares. Defaults are the paper's for 4-Goals."""

    batch: int = 8192
    """Environment steps in one update: batch / horizon whole episodes side by side."""
    updates: int = 200
    """Updates in one iteration."""
    epochs: int = 4
    """Passes over a batch."""
    minibatches: int = 1
    """Parts a batch is shuffled into, in each pass."""
    learning_rate: float = 3e-4
    decay: Span = (0.0, 1.0)
    """Part of an iteration over which the learning rate falls to 0; `1 1`: it stays."""
    momentum: float = 0.9
    """Adam's first decay rate. Where rewards are rare, Adam scales up what is mostly noise; a longer mean calms it."""
    gamma: float = 0.99
    """Discount of the return."""
    gae_lambda: float = 0.95
    clip: float = 0.2
    """PPO's clipping range of the probability ratio."""
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.05
    entropy_decay: Span = (1.0, 1.0)
    """Part of an iteration over which the entropy coefficient falls to 0, so policies end sharp; `1 1`: it stays."""
    gradient_clip: float = 0.5
    """Upper bound of the gradient's norm."""
    hidden: int = 64
    """Units of a hidden layer; actor and critic are separate networks."""
    layers: int = 2
    """Hidden layers. The paper says one; its authors' code has two, and 4-Goals medium needs two."""
    normalize_obs: bool = False
    """Scale observations by their running mean and deviation."""
    normalize_reward: bool = False
    """Divide each stream's reward by the running deviation of its discounted sum."""
    padding: Padding = "count"
    """Steps after an early end of the episode: they repeat its last moment and count in likelihoods and losses, or are
    left out of both; or a new episode begins at once, and returns are those of the first."""
    init: Literal["fresh", "same"] = "fresh"
    """Weights at the start of an iteration: drawn anew, or the same for every iteration of a run."""


class Batch(NamedTuple):
    """What the loss needs of a trajectory; the axes [T, N, A] stand before those given, or one axis of samples does."""

    obs: Array  # [O]
    action: Array  # [] or [D]
    log_prob: Array  # []
    advantage: Array  # []
    target: Array  # [C]
    counted: Array  # [] 0 or 1
    learned: Array  # [C] 0 or 1: which targets the value heads learn


def make_optimizer(config: PPO) -> optax.GradientTransformation:
    adam = optax.adam(partial(learning_rate, config), b1=config.momentum, b2=SQUARES, eps=EPSILON)
    optimizer = optax.chain(optax.clip_by_global_norm(config.gradient_clip), adam)
    # In steps of few samples it counts that a network has many arrays: as one vector they are one array.
    return optimizer if config.minibatches == 1 else optax.flatten(optimizer)


def learning_rate(config: PPO, step: Array) -> Array:
    """After so many steps of an iteration."""
    steps = config.updates * config.epochs * config.minibatches
    return config.learning_rate * remaining(config.decay, step / steps)


def remaining(span: Span, progress: Array) -> Array:
    """What is left of a coefficient that falls linearly to 0 over `span`, after `progress` (0 to 1) of an iteration."""
    start, end = span
    return jnp.clip((end - progress) / max(end - start, 1e-9), 0.0, 1.0)


def scale_rewards(config: PPO, seen: Normalizer, reward: Array, counted: Array) -> tuple[Array, Normalizer]:
    """Rewards [T, N, A, C] over the deviation of each channel's discounted sum so far, and what was seen by now."""

    def forwards(total: Array, reward: Array) -> tuple[Array, Array]:
        total = config.gamma * total + reward
        return total, total

    sums = jax.lax.scan(forwards, jnp.zeros_like(reward[0]), reward)[1]
    seen = seen.update(sums, jnp.broadcast_to(counted[..., None], reward.shape[:-1]).astype(reward.dtype))
    return reward / seen.deviation, seen


def advantages(config: PPO, policy: Policy, trajectory: Trajectory, score: Score) -> tuple[Array, Array]:
    """The weighted sum of the channels' normalised advantages [T, N, A], and the value targets [T, N, A, C]."""
    value = map_samples(lambda obs, policy: policy.values(obs), trajectory.obs, policy)
    last_value = policy.values(trajectory.last_obs)
    terminated = trajectory.terminated[..., None].astype(value.dtype)
    truncated = None if trajectory.truncated is None else trajectory.truncated[..., None].astype(value.dtype)
    if score.settled is None:
        over, per_channel = terminated, None
    else:  # to bootstrap from the value after the end would count what was paid there once more
        ends = trajectory.ended.at[-1].set(True)[..., None, None]
        over, per_channel = jnp.where(score.settled & ends, 1.0, terminated[..., None]), -1
    one_channel = lambda r, v, last, over: gae(r, v, last, over, config.gamma, config.gae_lambda, truncated)  # noqa: E731
    advantage = jax.vmap(one_channel, (-1, -1, -1, per_channel), -1)(score.reward, value, last_value, over)
    normalized = normalize(advantage, trajectory.counted[..., None, None])
    return (score.weight * normalized).sum(-1), advantage + value


def normalize(advantage: Array, counted: Array) -> Array:
    """Zero mean and unit deviation over the counted steps, each channel on its own."""
    counted = jnp.broadcast_to(counted, advantage.shape).astype(advantage.dtype)
    axes = tuple(range(advantage.ndim - 1))
    count = jnp.maximum(counted.sum(axes), 1.0)
    mean = (advantage * counted).sum(axes) / count
    deviation = jnp.sqrt((jnp.square(advantage - mean) * counted).sum(axes) / count)
    return (advantage - mean) / (deviation + 1e-8)


def entropy_coefficient(config: PPO, update: Array) -> Array:
    """At the given update of an iteration."""
    return config.entropy_coefficient * remaining(config.entropy_decay, update / config.updates)


def loss(config: PPO, policy: Policy, batch: Batch, bonus: Array, count: Array) -> tuple[Array, dict[str, Array]]:
    """PPO's clipped surrogate, the value heads' squared error, and `bonus` times the entropy.

    All are sums over the counted samples divided by `count`, so that those of a batch's pieces add up to the batch's.
    """
    distribution = policy(batch.obs)
    average = lambda x: (x * batch.counted).sum() / count  # noqa: E731
    log_ratio = distribution.log_prob(batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = average(jnp.minimum(ratio * batch.advantage, clipped * batch.advantage))
    value_error = average((jnp.square(policy.values(batch.obs) - batch.target) * batch.learned).sum(-1))
    entropy = average(distribution.entropy())
    total = -surrogate + config.value_coefficient * value_error - bonus * entropy
    metrics = {"value_loss": value_error, "entropy": entropy, "approx_kl": average(ratio - 1 - log_ratio)}
    return total, metrics | {"loss": total}


def update(
    config: PPO,
    optimizer: optax.GradientTransformation,
    policy: Policy,
    opt_state: Any,
    batch: Batch,
    bonus: Array,
    auxiliary: Callable[[Policy], Array],
    key: Array,
) -> tuple[Policy, Any, dict[str, Array]]:
    """`epochs` passes over the batch; gives the metrics of the last step. The normaliser is not learned here."""
    assemble = lambda nets, normalizer: Policy(nets[0], nets[1], normalizer)  # noqa: E731
    batch = batch._replace(obs=policy.normalized(batch.obs))  # once, not for either network in every step

    def part_gradient(piece: Batch, rest: tuple[Any, Array, Array]) -> tuple[Any, dict[str, Array]]:
        nets, bonus, count = rest
        return jax.grad(lambda nets: loss(config, assemble(nets, None), piece, bonus, count), has_aux=True)(nets)

    def one_step(carry: tuple[Any, Any], counted_part: tuple[Batch, Array]) -> tuple[tuple[Any, Any], dict[str, Array]]:
        (nets, opt_state), (part, count) = carry, counted_part
        gradient, metrics = sum_over_samples(part_gradient, part, (nets, bonus, count))
        extra, slope = jax.value_and_grad(lambda nets: auxiliary(assemble(nets, policy.normalizer)))(nets)
        gradient = jax.tree.map(jnp.add, gradient, slope)
        metrics["loss"] += extra
        updates, opt_state = optimizer.update(gradient, opt_state)
        return (optax.apply_updates(nets, updates), opt_state), metrics

    def one_epoch(carry: tuple[Any, Any], order: Array) -> tuple[tuple[Any, Any], dict[str, Array]]:
        if config.minibatches == 1:
            return one_step(carry, (batch, jnp.maximum(batch.counted.sum(), 1.0)))
        parts = jax.tree.map(lambda leaf: _shuffled(leaf, config.minibatches, order), batch)
        # All counts at once: in every step devices would meet once more, for a number each.
        counts = jnp.maximum(parts.counted.reshape(config.minibatches, -1).sum(1), 1.0)
        carry, metrics = jax.lax.scan(one_step, carry, (parts, counts))
        return carry, jax.tree.map(lambda x: x[-1], metrics)

    carry = ((policy.actor, policy.critic), opt_state)
    (nets, opt_state), metrics = jax.lax.scan(one_epoch, carry, orders(config, batch.counted.size, key))
    return assemble(nets, policy.normalizer), opt_state, jax.tree.map(lambda x: x[-1], metrics)


def orders(config: PPO, samples: int, key: Array) -> Array:
    """The order in which each epoch takes the samples: [epochs, samples], or [epochs, 0] where it does not matter.

    It is sorted by random bits, of which the low ones are the sample's own number: to sort single numbers takes a sixth
    of the time of an argsort, a ninth of that of `jax.random.permutation`. Samples whose other bits are the same stay
    in order, which is rare: 4096 samples leave 20 bits to chance.
    """
    if config.minibatches == 1:
        return jnp.zeros((config.epochs, 0), jnp.uint32)
    draws, numbering = jax.random.bits(key, (config.epochs, samples)), (samples - 1).bit_length()
    if numbering > MOST_NUMBERING:
        return jnp.argsort(share(draws, axis=0))
    low = jnp.uint32((1 << numbering) - 1)
    return jnp.sort(share(draws & ~low | jnp.arange(samples, dtype=jnp.uint32), axis=0)) & low


def _shuffled(leaf: Array, parts: int, order: Array) -> Array:
    """The samples of [T, N, A, ...] in the given order: [parts, 1, B / parts, 1, ...]."""
    flat = leaf.reshape(-1, *leaf.shape[3:])
    return flat[order].reshape(parts, 1, -1, 1, *leaf.shape[3:])
