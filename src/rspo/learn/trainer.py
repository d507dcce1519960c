"""One iteration's training: collect, score, update, over and over inside one jitted program."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.config import Config
from rspo.core import interrupt
from rspo.core.devices import everywhere, map_samples, share
from rspo.core.policies import Normalizer, Policy, init_normalizer, init_policy
from rspo.core.types import Spec, Trajectory
from rspo.envs.base import AnyEnv, HostEnv
from rspo.learn import ppo
from rspo.methods.references import References
from rspo.rollout.collector import collect


class TrainState(eqx.Module):
    """All that training carries from one update to the next; a checkpoint is exactly this."""

    policy: Policy
    opt_state: Any
    objective: Any
    returns: Normalizer | None  # what reward normalisation has seen
    update: Array  # how many are done; the key of an update is folded from it, so a resumed run draws the same numbers


def init_state(spec: Spec, config: Config, key: Array) -> TrainState:
    """The start of an iteration."""
    objective, settings = config.method, config.ppo
    policy_key, objective_key = jax.random.split(key)
    channels = objective.channels(config.iterations)
    policy = init_policy(spec, channels, settings.hidden, settings.layers, settings.normalize_obs, policy_key)
    opt_state = ppo.make_optimizer(settings).init((policy.actor, policy.critic))
    returns = init_normalizer(channels) if settings.normalize_reward else None
    remembered = objective.init(spec, objective_key)
    return TrainState(policy, opt_state, remembered, returns, jnp.zeros((), jnp.int32))


class Trainer(NamedTuple):
    """The two functions of a run, compiled once and shared by all its iterations."""

    init: Callable[[Array], TrainState]
    advance: Callable[[TrainState, References, Array, Any], tuple[TrainState, dict[str, Array]]]


def make_trainer(env: AnyEnv, config: Config, rows: int) -> Trainer:
    """`advance(state, references, key, n)` runs n <= rows updates; of `rows` rows of metrics the first n are set."""
    settings = config.ppo
    play = partial(collect, env, episodes=config.episodes(env.spec), padding=settings.padding)
    # A batch that is cut into minibatches is needed whole on every device: sharing it out first would only add
    # barriers. Stepping a JAX environment is divided by this too, which is worth more.
    learn = partial(_learn, config, shared=settings.minibatches == 1 or not isinstance(env, HostEnv))

    def one_update(state: TrainState, references: References, key: Array) -> tuple[TrainState, dict[str, Array]]:
        return learn(state, references, play(state.policy, key=_update_keys(key, state.update)[0]), key)

    def advance(
        state: TrainState, references: References, key: Array, count: Array
    ) -> tuple[TrainState, dict[str, Array]]:
        shapes = jax.eval_shape(one_update, state, references, key)[1]
        table = jax.tree.map(lambda m: jnp.zeros((rows, *m.shape), m.dtype), shapes)

        def body(i: Array, carry: tuple[TrainState, dict[str, Array]]) -> tuple[TrainState, dict[str, Array]]:
            state, metrics = one_update(carry[0], references, key)
            return state, jax.tree.map(lambda column, m: column.at[i].set(m), carry[1], metrics)

        return jax.lax.fori_loop(0, count, body, (state, table))

    # Placements are fixed, or a state from a checkpoint would compile the program once more than one from `advance`.
    jit = partial(jax.jit, in_shardings=everywhere(), out_shardings=everywhere())
    init = jax.jit(partial(init_state, env.spec, config), out_shardings=everywhere())
    if isinstance(env, HostEnv):
        return Trainer(init, partial(_advance_on_host, play, jit(learn)))
    return Trainer(init, jit(advance))


def _advance_on_host(
    play: Callable[..., Trajectory],
    learn: Callable[..., tuple[TrainState, dict[str, Array]]],
    state: TrainState,
    references: References,
    key: Array,
    count: int,
) -> tuple[TrainState, Any]:
    """Python plays, and the compiled program learns, by turns."""
    placed = partial(jax.device_put, device=everywhere())  # which takes the compiled program twice as long to do
    learn_from, learn_key = placed((references, key))
    rows = []
    for _ in range(count):
        interrupt.check()
        update = int(state.update)  # off the devices: one that is on each would have each draw the same seeds
        trajectory = play(state.policy, key=_update_keys(key, update)[0])
        state, metrics = learn(state, learn_from, placed(trajectory), learn_key)
        rows.append(metrics)
    return state, jax.tree.map(lambda *column: np.stack(column), *jax.device_get(rows))


def _learn(
    config: Config, state: TrainState, references: References, trajectory: Trajectory, key: Array, *, shared: bool
) -> tuple[TrainState, dict[str, Array]]:
    """One update from the batch that the policy has just played."""
    objective, settings, policy, returns = config.method, config.ppo, state.policy, state.returns
    _, ppo_key, objective_key = _update_keys(key, state.update)
    if shared:
        trajectory = _shared(trajectory)
    score = objective.score(state.objective, trajectory, references, state.update / settings.updates)
    metrics = {"return": trajectory.returns.mean(), "length": trajectory.first.sum(0).mean()} | score.metrics
    if returns is not None:
        scaled, returns = ppo.scale_rewards(settings, returns, score.reward, trajectory.counted)
        score = score._replace(reward=scaled)
    advantage, target = ppo.advantages(settings, policy, trajectory, score)
    learned, opt_state, more = ppo.update(
        settings,
        ppo.make_optimizer(settings),
        policy,
        state.opt_state,
        _samples(policy, trajectory, advantage, target, score.weight),
        ppo.entropy_coefficient(settings, state.update),
        lambda policy: objective.loss(state.objective, policy, trajectory),
        ppo_key,
    )
    if policy.normalizer is not None:
        # In use after the update, so that PPO's ratios start at 1; frozen everywhere else.
        counted = jnp.broadcast_to(trajectory.counted[..., None], trajectory.reward.shape)
        learned = Policy(learned.actor, learned.critic, policy.normalizer.update(trajectory.obs, counted))
    remembered = objective.update(state.objective, trajectory, objective_key)
    return TrainState(learned, opt_state, remembered, returns, state.update + 1), metrics | more


@jax.jit
def _update_keys(key: Array, update: Array) -> tuple[Array, ...]:
    """For collecting, for PPO and for the objective: a function of the number of the update."""
    return tuple(jax.random.split(jax.random.fold_in(key, update), 3))


def _shared(trajectory: Trajectory) -> Trajectory:
    """Every device gets its share of the episodes, and XLA divides what is computed from them."""
    last_obs = share(trajectory.last_obs, axis=0)
    rest = jax.tree.map(lambda leaf: share(leaf, axis=1), eqx.tree_at(lambda t: t.last_obs, trajectory, None))
    return eqx.tree_at(lambda t: t.last_obs, rest, last_obs, is_leaf=lambda leaf: leaf is None)


def _samples(policy: Policy, trajectory: Trajectory, advantage: Array, target: Array, weight: Array) -> ppo.Batch:
    log_prob = trajectory.log_prob
    if log_prob is None:
        acted = (trajectory.obs, trajectory.action)
        log_prob = map_samples(lambda acted, policy: policy(acted[0]).log_prob(acted[1]), acted, policy)
    counted = jnp.broadcast_to(trajectory.counted[..., None], trajectory.reward.shape)
    return ppo.Batch(
        obs=trajectory.obs,
        action=trajectory.action,
        log_prob=log_prob,
        advantage=advantage,
        target=target,
        counted=counted.astype(jnp.float32),
        learned=(weight != 0).astype(jnp.float32),
    )
