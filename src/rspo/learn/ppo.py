"""Proximal policy optimization (Schulman et al., 2017) over several reward channels: one pure
update."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.devices import share, sum_over_samples
from rspo.core.distributions import Distribution
from rspo.core.learning import PPO
from rspo.core.members import each_member
from rspo.core.policies import Normalizer, Policy
from rspo.core.sequences import time_first
from rspo.core.types import Samples, Trajectory, View
from rspo.learn.gae import gae
from rspo.methods.base import Score, Stream

SQUARES, EPSILON = 0.999, 1e-5  # Adam's second decay rate and epsilon
MOST_NUMBERING = 18  # bits of 32 for the sample's number, which leaves enough for shuffling


class Lesson(NamedTuple):
    """What the loss needs from a trajectory; the axes [T, N, A], or one axis of samples, precede
    those given. For a policy with memory these are sequences: time comes right after
    (`rspo.core.sequences`)."""

    view: View
    action: Array  # [] or [D]
    log_prob: Array  # []
    advantage: Array  # []
    target: Array  # [C]
    counted: Array  # [] 0 or 1
    learned: Array  # [C] 0 or 1: which targets the value heads learn
    starts: Array | None = None  # [] of sequences
    carry: Any = ()  # memories of actor and critic before the first step of each sequence


class Values(NamedTuple):
    """The critic's values."""

    value: Array  # [T, N, A, C]
    last: Array  # [N, A, C] after the last action


def make_optimizer(config: PPO) -> optax.GradientTransformation:
    adam = optax.adam(partial(learning_rate, config), b1=config.momentum, b2=SQUARES, eps=EPSILON)
    optimizer = optax.chain(optax.clip_by_global_norm(config.gradient_clip), adam)
    # One vector instead of many arrays: in small steps the overhead per array matters.
    return optimizer if config.minibatches == 1 else optax.flatten(optimizer)


def learning_rate(config: PPO, step: Array) -> Array:
    """The learning rate after this many steps of an iteration."""
    steps = config.updates * config.epochs * config.minibatches
    return config.learning_rate * remaining(config.decay, step / steps)


def remaining(span: tuple[float, float], progress: Array) -> Array:
    """The remaining fraction of a coefficient that falls linearly to 0 over `span`, after
    `progress` (0 to 1) of an iteration."""
    start, end = span
    return jnp.clip((end - progress) / max(end - start, 1e-9), 0.0, 1.0)


def scale_rewards(
    config: PPO, seen: Normalizer, reward: Array, counted: Array
) -> tuple[Array, Normalizer]:
    """Rewards [T, N, A, C] divided by the running standard deviation of each channel's discounted
    sum, and the updated statistics; `counted` is [T, N, A]."""

    def forwards(total: Array, reward: Array) -> tuple[Array, Array]:
        total = config.gamma * total + reward
        return total, total

    sums = jax.lax.scan(forwards, jnp.zeros_like(reward[0]), reward)[1]
    seen = seen.update(sums, counted.astype(reward.dtype))
    return reward / seen.deviation, seen


def advantages(
    config: PPO, values: Values, trajectory: Trajectory, score: Score, channels: tuple[Stream, ...]
) -> tuple[Array, Array]:
    """The weighted sum of the channels' normalised advantages [T, N, A], and the value targets [T,
    N, A, C]."""
    over_at = (
        trajectory.terminated.at[-1].set(True) if config.horizon == "end" else trajectory.terminated
    )
    terminated = over_at[..., None].astype(values.value.dtype)
    truncated = (
        None
        if trajectory.truncated is None
        else trajectory.truncated[..., None].astype(values.value.dtype)
    )
    if set(channels) == {"episodic"}:
        over, per_channel = terminated, None
    else:
        # A settled stream does not bootstrap past its end, even if truncated: that would count
        # rewards twice. An endless stream has no end.
        ends = trajectory.ended.at[-1].set(True)[..., None, None]
        kind = lambda name: jnp.asarray([stream == name for stream in channels])
        over = jnp.where(kind("settled") & ends, 1.0, terminated[..., None])
        over, per_channel = jnp.where(kind("endless"), 0.0, over), -1
    one_channel = lambda r, v, last, over: gae(
        r, v, last, over, config.gamma, config.gae_lambda, truncated
    )
    advantage = jax.vmap(one_channel, (-1, -1, -1, per_channel), -1)(
        score.reward, values.value, values.last, over
    )
    normalized = normalize(advantage, trajectory.counted[..., None])
    return (score.weight * normalized).sum(-1), advantage + values.value


def normalize(advantage: Array, counted: Array) -> Array:
    """Zero mean and unit standard deviation over the counted steps, per channel."""
    counted = jnp.broadcast_to(counted, advantage.shape).astype(advantage.dtype)
    axes = tuple(range(advantage.ndim - 1))
    count = jnp.maximum(counted.sum(axes), 1.0)
    mean = (advantage * counted).sum(axes) / count
    deviation = jnp.sqrt((jnp.square(advantage - mean) * counted).sum(axes) / count)
    return (advantage - mean) / (deviation + 1e-8)


def entropy_coefficient(config: PPO, update: Array) -> Array:
    """The entropy coefficient at the given update of an iteration."""
    return config.entropy_coefficient * remaining(config.entropy_decay, update / config.updates)


def loss(
    config: PPO, policy: Policy, lesson: Lesson, bonus: Array, count: Array
) -> tuple[Array, dict[str, Array]]:
    """PPO's clipped surrogate, the value heads' squared error, and `bonus` times the entropy.

    All are sums over the counted samples divided by `count`, so that the losses of a batch's
    pieces add up to the batch's loss.
    """
    distribution, value = _predicted(policy, lesson)
    average = lambda x: (x * lesson.counted).sum() / count
    log_ratio = distribution.log_prob(lesson.action) - lesson.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = average(jnp.minimum(ratio * lesson.advantage, clipped * lesson.advantage))
    value_error = average((jnp.square(value - lesson.target) * lesson.learned).sum(-1))
    entropy = average(distribution.entropy())
    total = -surrogate + config.value_coefficient * value_error - bonus * entropy
    metrics = {
        "value_loss": value_error,
        "entropy": entropy,
        "approx_kl": average(ratio - 1 - log_ratio),
    }
    return total, metrics | {"loss": total}


def _predicted(policy: Policy, lesson: Lesson) -> tuple[Distribution, Array]:
    """Action distributions and values at each sample [B], or at each step of sequences [B, L]."""
    if not policy.recurrent:
        return policy(lesson.view), policy.values(lesson.view)
    played, value = policy.learn(lesson.carry, *time_first((lesson.view, lesson.starts)))
    back = lambda leaf: jnp.moveaxis(leaf, 0, 1) if leaf.ndim > 2 else leaf
    return jax.tree.map(back, played), back(value)


class Joint(NamedTuple):
    """A joint loss of all members, and the samples that its minibatches are taken from."""

    loss: Callable[[Policy, Samples, Array], Array]
    samples: Samples  # [P, T, N, A, ...], or of whole episodes [P, 1, N, A, T, ...]
    key: Array
    # whether they are whole episodes, which are not split into minibatches
    whole: bool = False


def update(
    config: PPO,
    policies: Policy,
    opt_states: Any,
    lessons: Lesson,
    bonus: Array,
    joint: Joint | None,
    keys: Array,
) -> tuple[Policy, Any, dict[str, Array]]:
    """`epochs` passes over each member's batch, all leaves [P, ...]; returns the metrics of the
    last step. Normalisers are not updated here."""
    optimizer, sequences = make_optimizer(config), policies.recurrent
    assemble = lambda nets, rest: dataclasses.replace(rest, actor=nets[0], critic=nets[1])
    rest = dataclasses.replace(policies, actor=None, critic=None)  # type: ignore[arg-type]
    # Inputs are normalised once, not in every step and network.
    lessons = each_member(
        lambda own, one: one._replace(view=own.normalized(one.view)), policies, lessons
    )
    bare = dataclasses.replace(rest, normalizer=None, state_normalizer=None)

    def part_gradient(
        piece: Lesson, given: tuple[Any, Any, Array, Array]
    ) -> tuple[Any, dict[str, Array]]:
        nets, bare, bonus, count = given
        return jax.grad(
            lambda nets: loss(config, assemble(nets, bare), piece, bonus, count), has_aux=True
        )(nets)

    def own_gradient(
        nets: Any, bare: Policy, part: Lesson, count: Array
    ) -> tuple[Any, dict[str, Array]]:
        return sum_over_samples(part_gradient, part, (nets, bare, bonus, count))

    def one_step(
        carry: tuple[Any, Any], now: tuple[Lesson, Array, Any, Any]
    ) -> tuple[tuple[Any, Any], dict[str, Array]]:
        (nets, opt_states), (part, counts, samples, key) = carry, now
        gradient, metrics = each_member(own_gradient, nets, bare, part, counts)
        if joint is not None:
            samples = jax.tree.map(_flat, joint.samples if joint.whole else samples)
            extra, slope = jax.value_and_grad(
                lambda nets: joint.loss(assemble(nets, rest), samples, key)
            )(nets)
            gradient = jax.tree.map(jnp.add, gradient, slope)
            metrics["loss"] += extra
        updates, opt_states = each_member(optimizer.update, gradient, opt_states)
        return (optax.apply_updates(nets, updates), opt_states), metrics

    def one_epoch(
        carry: tuple[Any, Any], now: tuple[Array, Any]
    ) -> tuple[tuple[Any, Any], dict[str, Array]]:
        order, draws = now
        samples = None if joint is None or joint.whole else joint.samples
        if config.minibatches == 1:
            counts = each_member(lambda one: jnp.maximum(one.counted.sum(), 1.0), lessons)
            key = None if draws is None else draws[0]
            return one_step(carry, (lessons, counts, samples, key))
        parts = _minibatches(config, (lessons, samples), order)
        # All counts at once: otherwise every step would need one more barrier of all devices.
        counts = jnp.maximum(parts[0].counted.reshape(*parts[0].counted.shape[:2], -1).sum(-1), 1.0)
        carry, metrics = jax.lax.scan(one_step, carry, (parts[0], counts, parts[1], draws))
        return carry, jax.tree.map(lambda x: x[-1], metrics)

    size = lessons.counted[0].size // (lessons.counted.shape[-1] if sequences else 1)
    order = each_member(lambda key: orders(config, size, key), keys).swapaxes(0, 1)
    steps = (config.epochs, config.minibatches)
    draws = None if joint is None else jax.random.split(joint.key, steps)
    carry = ((policies.actor, policies.critic), opt_states)
    (nets, opt_states), metrics = jax.lax.scan(one_epoch, carry, (order, draws))
    return assemble(nets, policies), opt_states, jax.tree.map(lambda x: x[-1], metrics)


def _flat(leaf: Array) -> Array:
    """[P, T, N, A, ...] -> [P, B, ...]."""
    return leaf.reshape(leaf.shape[0], -1, *leaf.shape[4:])


def _minibatches(config: PPO, batch: Any, order: Array) -> Any:
    """Leaves [P, T, N, A, ...] in each member's order [P, B]: [parts, P, 1, B / parts, 1, ...]."""
    shuffle = lambda leaf, order: _shuffled(leaf, config.minibatches, order)
    shuffled = each_member(
        lambda batch, order: jax.tree.map(lambda leaf: shuffle(leaf, order), batch), batch, order
    )
    return jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), shuffled)


def orders(config: PPO, samples: int, key: Array) -> Array:
    """The order in which each epoch takes the samples: [epochs, samples], or [epochs, 0] where it
    does not matter.

    Random bits whose low bits are the sample's own number are sorted: sorting plain integers is
    several times faster than an argsort or `jax.random.permutation`. Samples with equal random
    bits keep their order, which is rare: 4096 samples leave 20 random bits.
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
