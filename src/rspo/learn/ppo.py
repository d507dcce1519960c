"""Proximal policy optimization (Schulman et al., 2017) over several reward channels: one pure
update."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.devices import share, sum_over_samples
from rspo.core.distributions import Distribution
from rspo.core.members import each_member
from rspo.core.policies import Normalizer, Policy
from rspo.core.policies.policy import Memory
from rspo.core.sequences import time_first
from rspo.core.types import Padding, Samples, Trajectory, View
from rspo.learn.gae import gae
from rspo.methods.base import Score, Stream

Span = tuple[float, float]
SQUARES, EPSILON = 0.999, 1e-5  # Adam's second decay rate, and what keeps it from dividing by zero
MOST_NUMBERING = (
    18  # bits of 32 that may number the samples of a batch, so that enough are left to shuffle them
)


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
    """Adam's first decay rate. Where rewards are rare, Adam scales up what is mostly noise; a
    longer mean calms it."""
    gamma: float = 0.99
    """Discount of the return."""
    gae_lambda: float = 0.95
    clip: float = 0.2
    """PPO's clipping range of the probability ratio."""
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.05
    entropy_decay: Span = (1.0, 1.0)
    """Part of an iteration over which the entropy coefficient falls to 0, so policies end sharp; `1
    1`: it stays."""
    gradient_clip: float = 0.5
    """Upper bound of the gradient's norm."""
    hidden: int = 64
    """Units of a hidden layer; actor and critic are separate networks."""
    layers: int = 2
    """Hidden layers. The paper says one; its authors' code has two, and 4-Goals medium needs
    two."""
    normalize_obs: bool = False
    """Scale observations by their running mean and deviation."""
    normalize_reward: bool = False
    """Divide each stream's reward by the running deviation of its discounted sum."""
    padding: Padding = "count"
    """Steps after an early end of the episode: they repeat its last moment and count in likelihoods
    and losses, or are left out of both; or a new episode begins at once, and returns are those of
    the first."""
    horizon: Literal["cut", "end"] = "cut"
    """What the horizon is to an episode that reaches it: a cut through what would go on, so that
    its return continues with the value of the last state; or the end of the game, after which
    nothing is earned."""
    memory: Memory = "none"
    """What a policy remembers of an episode: nothing, or what a gated recurrent unit (GRU) does;
    actor and critic."""
    chunk: int = 10
    """Steps of a sequence that a policy with memory learns from."""
    init: Literal["fresh", "same"] = "fresh"
    """Weights at the start of an iteration: drawn anew, or the same for every iteration of a
    run."""


class Lesson(NamedTuple):
    """What the loss needs of a trajectory; the axes [T, N, A] stand before those given, or one axis
    of samples does. For a policy with memory these are sequences: time comes right after
    (`rspo.core.sequences`)."""

    view: View
    action: Array  # [] or [D]
    log_prob: Array  # []
    advantage: Array  # []
    target: Array  # [C]
    counted: Array  # [] 0 or 1
    learned: Array  # [C] 0 or 1: which targets the value heads learn
    starts: Array | None = None  # [] of sequences
    carry: Any = ()  # what actor and critic remember before the first step of each sequence


class Values(NamedTuple):
    """What the critic expects."""

    value: Array  # [T, N, A, C]
    last: Array  # [N, A, C] after the last action


def make_optimizer(config: PPO) -> optax.GradientTransformation:
    adam = optax.adam(partial(learning_rate, config), b1=config.momentum, b2=SQUARES, eps=EPSILON)
    optimizer = optax.chain(optax.clip_by_global_norm(config.gradient_clip), adam)
    # In steps of few samples it counts that a network has many arrays: as one vector they are one
    # array.
    return optimizer if config.minibatches == 1 else optax.flatten(optimizer)


def learning_rate(config: PPO, step: Array) -> Array:
    """After so many steps of an iteration."""
    steps = config.updates * config.epochs * config.minibatches
    return config.learning_rate * remaining(config.decay, step / steps)


def remaining(span: Span, progress: Array) -> Array:
    """What is left of a coefficient that falls linearly to 0 over `span`, after `progress` (0 to 1)
    of an iteration."""
    start, end = span
    return jnp.clip((end - progress) / max(end - start, 1e-9), 0.0, 1.0)


def scale_rewards(
    config: PPO, seen: Normalizer, reward: Array, counted: Array
) -> tuple[Array, Normalizer]:
    """Rewards [T, N, A, C] over the deviation of each channel's discounted sum so far, and what was
    seen by now; counted are [T, N, A]."""

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
        # Beyond a settled stream's end there is nothing, even where it was cut off: to bootstrap
        # from the value there would count what was paid once more. An endless stream has no end.
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


def loss(
    config: PPO, policy: Policy, lesson: Lesson, bonus: Array, count: Array
) -> tuple[Array, dict[str, Array]]:
    """PPO's clipped surrogate, the value heads' squared error, and `bonus` times the entropy.

    All are sums over the counted samples divided by `count`, so that those of a batch's pieces add
    up to the batch's.
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
    """What the policy does at each sample [B], or at each step of sequences [B, L], and what it
    expects."""
    if not policy.recurrent:
        return policy(lesson.view), policy.values(lesson.view)
    played, value = policy.learn(lesson.carry, *time_first((lesson.view, lesson.starts)))
    back = lambda leaf: jnp.moveaxis(leaf, 0, 1) if leaf.ndim > 2 else leaf
    return jax.tree.map(back, played), back(value)


class Joint(NamedTuple):
    """A loss of all members together, and the samples that its minibatches are taken from."""

    loss: Callable[[Policy, Samples], Array]
    # [P, T, N, A, ...]; of policies with memory [P, 1, N, A, T, ...], which are not divided
    samples: Samples


def update(
    config: PPO,
    policies: Policy,
    opt_states: Any,
    lessons: Lesson,
    bonus: Array,
    joint: Joint | None,
    keys: Array,
) -> tuple[Policy, Any, dict[str, Array]]:
    """`epochs` passes over each member's batch, all leaves [P, ...]; gives the metrics of the last
    step. Normalisers are not learned here."""
    optimizer, sequences = make_optimizer(config), policies.recurrent
    assemble = lambda nets, rest: dataclasses.replace(rest, actor=nets[0], critic=nets[1])
    rest = dataclasses.replace(policies, actor=None, critic=None)  # type: ignore[arg-type]
    # Inputs are normalised once, not for either network in every step.
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
        carry: tuple[Any, Any], now: tuple[Lesson, Array, Any]
    ) -> tuple[tuple[Any, Any], dict[str, Array]]:
        (nets, opt_states), (part, counts, samples) = carry, now
        gradient, metrics = each_member(own_gradient, nets, bare, part, counts)
        if joint is not None:
            samples = jax.tree.map(_flat, joint.samples if sequences else samples)
            extra, slope = jax.value_and_grad(
                lambda nets: joint.loss(assemble(nets, rest), samples)
            )(nets)
            gradient = jax.tree.map(jnp.add, gradient, slope)
            metrics["loss"] += extra
        updates, opt_states = each_member(optimizer.update, gradient, opt_states)
        return (optax.apply_updates(nets, updates), opt_states), metrics

    def one_epoch(carry: tuple[Any, Any], order: Array) -> tuple[tuple[Any, Any], dict[str, Array]]:
        samples = None if joint is None or sequences else joint.samples
        if config.minibatches == 1:
            counts = each_member(lambda one: jnp.maximum(one.counted.sum(), 1.0), lessons)
            return one_step(carry, (lessons, counts, samples))
        parts = _minibatches(config, (lessons, samples), order)
        # All counts at once: in every step there would be one more barrier of all devices, for a
        # number each.
        counts = jnp.maximum(parts[0].counted.reshape(*parts[0].counted.shape[:2], -1).sum(-1), 1.0)
        carry, metrics = jax.lax.scan(one_step, carry, (parts[0], counts, parts[1]))
        return carry, jax.tree.map(lambda x: x[-1], metrics)

    size = lessons.counted[0].size // (lessons.counted.shape[-1] if sequences else 1)
    order = each_member(lambda key: orders(config, size, key), keys).swapaxes(0, 1)
    carry = ((policies.actor, policies.critic), opt_states)
    (nets, opt_states), metrics = jax.lax.scan(one_epoch, carry, order)
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

    It is sorted by random bits, of which the low ones are the sample's own number: to sort single
    numbers takes a sixth of the time of an argsort, a ninth of that of `jax.random.permutation`.
    Samples whose other bits are the same stay in order, which is rare: 4096 samples leave 20 bits
    to chance.
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
