"""One round of training: collect, score, update, over and over, for every member of the round."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.devices import after, compiler_options, everywhere, gathered, map_samples, share
from rspo.core.learning import PPO
from rspo.core.members import each_member, member
from rspo.core.policies import Normalizer, Policy, init_normalizer, init_policy
from rspo.core.sequences import chunked
from rspo.core.types import Samples, Trajectory
from rspo.learn import ppo
from rspo.methods.base import Learner, Method, Setup, TrainState
from rspo.methods.references import Measure, References, live_rivals
from rspo.rollout.base import Collector


def init_state(setup: Setup, method: Method, settings: PPO, keys: Array) -> TrainState:
    """The start of a round; a key for each member."""
    channels = len(method.channels(setup.capacity))

    def one(key: Array) -> tuple[Policy, Any, Any, Normalizer | None]:
        policy_key, method_key = jax.random.split(key)
        size = (settings.hidden, settings.layers, settings.normalize_obs)
        policy = init_policy(
            setup.spec, channels, *size, policy_key, settings.memory, method.latent_size(setup.plan)
        )
        opt_state = ppo.make_optimizer(settings).init((policy.actor, policy.critic))
        returns = init_normalizer(channels) if settings.normalize_reward else None
        return policy, opt_state, method.init(setup, method_key), returns

    policy, opt_state, learners, returns = each_member(one, keys)
    return TrainState(policy, opt_state, learners, returns, jnp.zeros((), jnp.int32))


class Trainer(NamedTuple):
    """The two functions of a round, compiled once and shared by all rounds with the same number of
    rival slots."""

    init: Callable[[Array], TrainState]
    advance: Callable[[TrainState, References, Array, Any], tuple[TrainState, dict[str, Array]]]


def make_trainer(
    collect: Collector, method: Method, settings: PPO, measure: Measure, setup: Setup, rows: int
) -> Trainer:
    """`advance(state, rivals, keys, n)` runs n <= rows updates; the first n of `rows` rows of
    metrics are set. A round has `settings.updates`."""
    learner = make_learner(collect.compiled, method, settings, measure, setup)
    init = jax.jit(
        lambda keys: _typed(learner.init(keys)),
        out_shardings=everywhere(),
        compiler_options=compiler_options(),
    )
    return Trainer(init, collect.trainer(partial(learner.play, collect), learner.learn, rows))


def _typed(state: TrainState) -> TrainState:
    """A method's initial Python numbers become typed arrays, or the second update would
    recompile."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), state)


def make_learner(
    compiled: bool, method: Method, settings: PPO, measure: Measure, setup: Setup
) -> Learner:
    """The method's own, or PPO."""
    own = method.learner(setup, settings)
    if own is not None:
        return own
    # A batch that is split into minibatches is needed whole on every device: sharding it first
    # would only add barriers. For a compiled environment it also shards the stepping, which is
    # worth more.
    shared = settings.minibatches == 1 or compiled
    return Learner(
        partial(init_state, setup, method, settings),
        partial(_play, method, settings, setup),
        partial(_learn, method, settings, measure, setup, shared),
    )


def _play(
    method: Method, settings: PPO, setup: Setup, collect: Collector, state: TrainState, keys: Array
) -> Trajectory:
    """A batch of each member."""
    episodes = settings.batch // setup.spec.horizon

    def one(i: Any) -> Trajectory:
        own = member((state.policy, state.method), i)
        key = _update_keys(keys[i], state.update)[0]
        latents = method.latent_size(setup.plan) > 0
        context_key, play_key = jax.random.split(key) if latents else (key, key)
        latent = method.context(own[1], context_key, episodes)
        return collect(own[0], episodes, play_key, padding=settings.padding, latent=latent)

    return collect.each(one, setup.plan.members)


def _learn(
    method: Method,
    settings: PPO,
    measure: Measure,
    setup: Setup,
    shared: bool,
    state: TrainState,
    kept: References,
    data: Trajectory,
    keys: Array,
) -> tuple[TrainState, dict[str, Array]]:
    """One update from the members' latest batches."""
    if shared:
        data = _shared(data)
    # [P, 2]
    update_keys = each_member(lambda key: jnp.stack(_update_keys(key, state.update)[1:]), keys)
    members = jnp.arange(setup.plan.members)

    def rivals_of(policies: Policy, own: Array) -> References:
        return kept if setup.plan.members == 1 else live_rivals(policies, own, measure)

    def prepare(own: Array, policy: Policy, learners: Any, returns: Any, played: Trajectory) -> Any:
        rivals = rivals_of(state.policy, own)
        score = method.score(learners, played, rivals, state.update / settings.updates)
        metrics = {
            "return": played.returns.mean(),
            "length": played.first.sum(0).mean(),
        } | score.metrics
        if returns is not None:
            scaled, returns = ppo.scale_rewards(settings, returns, score.reward, played.counted)
            score = score._replace(reward=scaled)
        values, carry = _values(policy, played)
        channels = method.channels(setup.capacity)
        advantage, target = ppo.advantages(settings, values, played, score, channels)
        lesson = _lesson(policy, played, advantage, target, score.weight)
        lesson = _sequences(settings, lesson, played, carry) if policy.recurrent else lesson
        samples = played.samples._replace(extra=score.extra)
        return lesson, returns, metrics, samples

    learned_from = (members, state.policy, state.method, state.returns, data)
    lessons, returns, metrics, samples = each_member(prepare, *learned_from)
    rivals = each_member(partial(rivals_of, state.policy), members)
    joint_samples = after(samples, (metrics, lessons.advantage.sum()))
    policies, opt_states, more = ppo.update(
        settings,
        state.policy,
        state.opt_state,
        lessons,
        ppo.entropy_coefficient(settings, state.update),
        _joint(method, state, joint_samples, rivals, update_keys[0, 1], settings.minibatches),
        update_keys[:, 0],
    )
    policies = each_member(_normalized, policies, after(data, more))
    learners = method.update(state.method, after(data, policies), rivals, update_keys[0, 1])
    return TrainState(policies, opt_states, learners, returns, state.update + 1), metrics | more


def _joint(
    method: Method,
    state: TrainState,
    samples: Samples,
    rivals: References,
    key: Array,
    minibatches: int,
) -> ppo.Joint | None:
    """The members' joint loss, where the method has one."""
    if type(method).loss is Method.loss:
        return None
    whole = state.policy.recurrent or method.whole_episodes
    samples = gathered(samples)
    if whole:
        samples = each_member(lambda one: chunked(one, samples.reward.shape[1]), samples)

    def loss(policies: Policy, part: Samples, key: Array) -> Array:
        if whole and not method.whole_episodes:
            key, draw_key = jax.random.split(key)
            part = _minibatch_of_episodes(part, minibatches, draw_key)
        return method.loss(state.method, policies, part, rivals, key)

    return ppo.Joint(loss, samples, key, whole)


def _minibatch_of_episodes(samples: Samples, minibatches: int, key: Array) -> Samples:
    """As many of the episodes [P, B, T] as one of a batch's minibatches has."""
    episodes = samples.reward.shape[1]
    some = jax.random.choice(key, episodes, (max(episodes // minibatches, 1),), replace=False)
    return jax.tree.map(lambda leaf: leaf[:, some], samples)


def _normalized(policy: Policy, played: Trajectory) -> Policy:
    """The policy with its input normalisers updated by this batch: used only after the update, so
    that PPO's ratios start at 1; frozen everywhere else."""
    normalizer, state_normalizer = policy.normalizer, policy.state_normalizer
    if normalizer is not None:
        normalizer = normalizer.update(played.view.obs, played.counted)
    if state_normalizer is not None:
        state_normalizer = state_normalizer.update(played.view.state, played.counted)
    return dataclasses.replace(policy, normalizer=normalizer, state_normalizer=state_normalizer)


@jax.jit
def _update_keys(key: Array, update: Array) -> tuple[Array, ...]:
    """Keys for collecting, for PPO and for the method, derived from the number of the update."""
    return tuple(jax.random.split(jax.random.fold_in(key, update), 3))


def _shared(data: Trajectory) -> Trajectory:
    """The episodes sharded over the devices; XLA partitions the computations on them."""
    last = jax.tree.map(lambda leaf: share(leaf, axis=1), data.last)
    rest = jax.tree.map(lambda leaf: share(leaf, axis=2), dataclasses.replace(data, last=None))  # type: ignore[arg-type]
    return dataclasses.replace(rest, last=last)


def _values(policy: Policy, played: Trajectory) -> tuple[ppo.Values, Any]:
    """The critic's values and, for a policy with memory, its memory before each step."""
    if not policy.recurrent:
        value = map_samples(lambda view, policy: policy.values(view), played.view, policy)
        return ppo.Values(value, policy.values(played.last)), ()
    starts = jnp.broadcast_to(played.starts[..., None], played.reward.shape)
    value, last, carry = policy.look_back(played.view, starts, played.last)
    return ppo.Values(value, last), carry


def _lesson(
    policy: Policy, played: Trajectory, advantage: Array, target: Array, weight: Array
) -> ppo.Lesson:
    log_prob = played.log_prob
    if log_prob is None and policy.recurrent:
        starts = jnp.broadcast_to(played.starts[..., None], played.reward.shape)
        log_prob = policy.replay(played.view, starts).log_prob(played.action)
    elif log_prob is None:
        acted = (played.view, played.action)
        log_prob = map_samples(
            lambda acted, policy: policy(acted[0]).log_prob(acted[1]), acted, policy
        )
    return ppo.Lesson(
        view=played.view,
        action=played.action,
        log_prob=log_prob,
        advantage=advantage,
        target=target,
        counted=played.counted.astype(jnp.float32),
        learned=(weight != 0).astype(jnp.float32),
    )


def _sequences(settings: PPO, lesson: ppo.Lesson, played: Trajectory, carry: Any) -> ppo.Lesson:
    """Chunks of the episodes, each with the memory before its first step."""
    starts = jnp.broadcast_to(played.starts[..., None], played.reward.shape)
    cut = chunked(lesson._replace(starts=starts), settings.chunk)
    return cut._replace(carry=jax.tree.map(lambda leaf: leaf[:: settings.chunk], carry))
