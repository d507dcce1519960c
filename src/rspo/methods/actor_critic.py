"""Twin critics and the gradient that they give to policies (TD3, Fujimoto et al., 2018).

    y = r + gamma * min_i Q_i'(s', pi'(s'))       critics:  (Q_i(s, a) - y)^2
                                                  policies:  maximise Q_1(s, pi(s))

Continuous actions are inputs of a critic, and targets are smoothed by noise. Discrete ones are its
outputs: Q(s, a) = q(s) . onehot(a), and Q(s, pi(s)) is the expectation over the policy's choice;
for several choices at once the values add up.
"""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.distributions import Gaussian, MultiCategorical
from rspo.core.policies import MLP, Policy
from rspo.core.spaces import ActionSpace, Box, MultiDiscrete
from rspo.core.types import Spec, Trajectory, View

NOISE, MOST_NOISE = 0.2, 0.5  # standard deviation of target-action noise, and its clip
MIXING = 0.005  # of the learned networks into the target networks, per step


class Transitions(NamedTuple):
    """Steps that a critic learns from; any axes may precede those given."""

    view: View
    action: Array  # [n] continuous, or one-hot
    reward: Array  # []
    following: View
    over: Array  # [] 1 where nothing is earned afterwards
    weight: Array  # [] 0 of steps that do not count


def transitions(played: Trajectory, space: ActionSpace, ends: bool) -> Transitions:
    """Of a batch of episodes, [T, N, A]; `ends`: whether the horizon is the end of the game."""
    view, last = (_masked(seen, space) for seen in (played.view, played.last))
    following = jax.tree.map(
        lambda steps, last: jnp.concatenate([steps[1:], last[None]]), view, last
    )
    over = played.terminated.at[-1].set(True) if ends else played.terminated
    # Where the environment truncated an episode, the next observation belongs to another one.
    known = played.live if played.truncated is None else played.live & ~played.truncated
    each = lambda steps: jnp.broadcast_to(steps[..., None], played.reward.shape).astype(jnp.float32)
    action = played.action if space.continuous else space.encode(played.action)
    counted = played.counted.astype(jnp.float32)
    return Transitions(view, action, played.reward, following, each(over), each(known) * counted)


def no_transitions(spec: Spec, *axes: int) -> Transitions:
    """An empty buffer."""
    zeros = lambda *shape: jnp.zeros((*axes, *shape))
    state = zeros(spec.state_size) if spec.state_size else None
    view = _masked(View(zeros(spec.obs_size), None, state), spec.action_space)
    return Transitions(view, zeros(spec.action_space.n), zeros(), view, zeros(), zeros())


def _masked(view: View, space: ActionSpace) -> View:
    """Discrete actions always have a mask, so that buffers have the same structure with or without
    one."""
    if space.continuous or view.mask is not None:
        return view
    return view._replace(mask=jnp.ones((*view.obs.shape[:-1], space.n), bool))


class ActorCritic(eqx.Module):
    """Critics, the policy that they are trained for, and target copies of all. Their inputs are
    already normalised."""

    critics: MLP  # leaves [2, ...]
    policy: Policy  # without normalisers
    critic_targets: MLP
    policy_target: Policy
    opt_states: Any


def init_actor_critic(
    spec: Spec, policy: Policy, width: tuple[int, ...], learning_rate: float, key: Array
) -> ActorCritic:
    seen, n = spec.state_size or spec.obs_size, spec.action_space.n
    sizes = (seen + n, *width, 1) if spec.action_space.continuous else (seen, *width, n)
    critics = jax.vmap(lambda key: random_net(sizes, 1.0, key))(jax.random.split(key))
    optimizer = optax.adam(learning_rate)
    opt_states = (optimizer.init(critics), optimizer.init(policy.actor))
    return ActorCritic(critics, policy, critics, policy, opt_states)


def random_net(sizes: tuple[int, ...], last_gain: float, key: Array) -> MLP:
    """Normal weights scaled by the number of inputs, from one draw; zero biases. Orthogonal
    weights, as PPO's networks have, take far longer to compile for many networks at once."""
    shapes = list(itertools.pairwise(sizes))
    ends = list(itertools.accumulate(rows * columns for rows, columns in shapes))
    parts = jnp.split(jax.random.normal(key, (ends[-1],)), ends[:-1])
    gains = (2**0.5,) * (len(sizes) - 2) + (last_gain,)
    weights = tuple(
        gain / shape[0] ** 0.5 * part.reshape(shape)
        for gain, shape, part in zip(gains, shapes, parts, strict=True)
    )
    return MLP(weights, tuple(jnp.zeros(n) for n in sizes[1:]))


def action_of(policy: Policy, view: View) -> Array:
    """The policy's action as a critic sees it, [..., n]: the action itself, or the probabilities
    of choices."""
    space, doing = policy.actor.space, policy(view)
    if isinstance(doing, Gaussian):
        return _bounded(space, doing.mean)
    if isinstance(doing, MultiCategorical):
        assert isinstance(space, MultiDiscrete)
        table = jnp.exp(doing.each.log_probs)
        return jnp.concatenate([table[..., i, :n] for i, n in enumerate(space.sizes)], axis=-1)
    return jnp.exp(doing.log_probs)


def _bounded(space: ActionSpace, action: Array) -> Array:
    """A continuous action as the environment clips it, in the policy's units."""
    assert isinstance(space, Box)
    low, high, middle, half = space.scale
    return jnp.clip(action, (low - middle) / half, (high - middle) / half)


def value(critic: MLP, space: ActionSpace, view: View, action: Array) -> Array:
    """Q(s, a): [...]."""
    seen = view.obs if view.state is None else view.state
    if space.continuous:
        return critic(jnp.concatenate([seen, action], axis=-1))[..., 0]
    return (critic(seen) * action).sum(-1)


def targets(learner: ActorCritic, batch: Transitions, gamma: float, key: Array) -> Array:
    """y of each transition."""
    policy, space = learner.policy_target, learner.policy_target.actor.space
    action = action_of(policy, batch.following)
    if space.continuous:
        noise = NOISE * jax.random.normal(key, action.shape)
        action = _bounded(space, action + jnp.clip(noise, -MOST_NOISE, MOST_NOISE))
    both = jax.vmap(lambda critic: value(critic, space, batch.following, action))(
        learner.critic_targets
    )
    return batch.reward + gamma * (1 - batch.over) * both.min(0)


def critic_loss(critics: MLP, space: ActionSpace, batch: Transitions, target: Array) -> Array:
    """The squared error of both."""
    both = jax.vmap(lambda critic: value(critic, space, batch.view, batch.action))(critics)
    error = jnp.square(both - target).sum(0)
    return (error * batch.weight).sum() / jnp.maximum(batch.weight.sum(), 1)


def policy_loss(actor: Any, policy: Policy, critics: MLP, batch: Transitions) -> Array:
    """Minus the first critic's value of the policy with this actor."""
    policy = eqx.tree_at(lambda own: own.actor, policy, actor)
    first = jax.tree.map(lambda leaf: leaf[0], critics)
    expected = value(first, policy.actor.space, batch.view, action_of(policy, batch.view))
    return -(expected * batch.weight).sum() / jnp.maximum(batch.weight.sum(), 1)


def improved(
    policy: Policy, opt_state: Any, critics: MLP, batch: Transitions, learning_rate: float
) -> tuple[Policy, Any]:
    """A policy after one step along the critic's gradient."""
    slope = jax.grad(policy_loss)(policy.actor, policy, critics, batch)
    change, opt_state = optax.adam(learning_rate).update(slope, opt_state)
    actor = optax.apply_updates(policy.actor, change)
    return eqx.tree_at(lambda own: own.actor, policy, actor), opt_state


def learned(
    learner: ActorCritic,
    batches: tuple[Transitions, Transitions],
    gamma: float,
    learning_rate: float,
    key: Array,
) -> tuple[ActorCritic, Array]:
    """Two steps of the critics and one of their policy, as in TD3, and the critics' loss."""
    optimizer, loss = optax.adam(learning_rate), jnp.zeros(())
    for batch, own_key in zip(batches, jax.random.split(key), strict=True):
        target = targets(learner, batch, gamma, own_key)
        loss, slope = jax.value_and_grad(critic_loss)(
            learner.critics, learner.policy.actor.space, batch, target
        )
        change, opt_state = optimizer.update(slope, learner.opt_states[0])
        critics = optax.apply_updates(learner.critics, change)
        learner = ActorCritic(
            critics,
            learner.policy,
            _mixed(critics, learner.critic_targets),
            learner.policy_target,
            (opt_state, learner.opt_states[1]),
        )
    policy, opt_state = improved(
        learner.policy, learner.opt_states[1], learner.critics, batches[1], learning_rate
    )
    slow = _mixed(policy, learner.policy_target)
    opt_states = (learner.opt_states[0], opt_state)
    return ActorCritic(learner.critics, policy, learner.critic_targets, slow, opt_states), loss


def _mixed(learned: Any, target: Any) -> Any:
    return jax.tree.map(lambda new, old: old + MIXING * (new - old), learned, target)
