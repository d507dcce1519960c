"""One iteration's training: collect, score, update, over and over inside one jitted program."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo import compiled_ppo, interrupt, ppo
from rspo.awake import awake
from rspo.config import Config
from rspo.env import AnyEnv
from rspo.host import HostEnv
from rspo.likelihood import References
from rspo.parallel import cores, everywhere, map_samples, share, use_cores
from rspo.policy import Normalizer, Policy, init_normalizer, init_policy
from rspo.rollout import collect
from rspo.rollout_host import begin
from rspo.types import Spec, Trajectory

LOG_WEIGHT = 10.0  # at most, of a sample that another policy played: far beyond what one update does, but finite


class TrainState(eqx.Module):
    """All that training carries from one update to the next; a checkpoint is exactly this."""

    policy: Policy
    acting: Policy | None  # the one that plays the next batch, if that is not `policy`
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
    acting = policy if settings.overlap else None
    remembered = objective.init(spec, objective_key)
    return TrainState(policy, acting, opt_state, remembered, returns, jnp.zeros((), jnp.int32))


def use_cores_for(env: AnyEnv, config: Config) -> None:
    """Before anything else touches a device: all cores learn, but where players keep them busy meanwhile, one does."""
    if isinstance(env, HostEnv):
        use_cores(1 if config.ppo.overlap and env.name is not None else None, players=cores())


class Trainer(NamedTuple):
    """The two functions of a run, compiled once and shared by all its iterations."""

    init: Callable[[Array], TrainState]
    advance: Callable[[TrainState, References, Array, Any], tuple[TrainState, dict[str, Array]]]


def make_trainer(env: AnyEnv, config: Config, rows: int) -> Trainer:
    """`advance(state, references, key, n)` runs n <= rows updates; of `rows` rows of metrics the first n are set."""
    objective, settings = config.method, config.ppo
    optimizer = ppo.make_optimizer(settings)
    episodes = config.episodes(env.spec)
    # What is cut into minibatches every device needs as a whole, and each sum over shares would be one more meeting of
    # all of them. Playing a JAX environment is shared by this too, and worth more.
    shared = settings.minibatches == 1 or not isinstance(env, HostEnv)

    def batch_by(start: Callable[..., Any]) -> Callable[[Policy, Any, Array], Any]:
        """How an update's batch of a policy's is played, or begun."""
        play = partial(start, env, episodes=episodes, padding=settings.padding)
        return lambda policy, update, key: play(policy, key=_update_keys(key, update)[0])

    def learn(
        state: TrainState, references: References, trajectory: Trajectory, key: Array
    ) -> tuple[TrainState, dict[str, Array]]:
        _, ppo_key, objective_key = _update_keys(key, state.update)
        if shared:
            trajectory = _shared(trajectory)
        batch, returns, metrics = _prepare(config, state, references, trajectory)
        auxiliary = lambda policy: objective.loss(state.objective, policy, trajectory)  # noqa: E731
        bonus = ppo.entropy_coefficient(settings, state.update)
        policy, opt_state, learned = ppo.update(
            settings, optimizer, state.policy, state.opt_state, batch, bonus, auxiliary, ppo_key
        )
        rest = _rest(config, state, trajectory, returns, objective_key)
        return _after(config, state, _nets(policy), opt_state, rest), metrics | learned

    def one_update(state: TrainState, references: References, key: Array) -> tuple[TrainState, dict[str, Array]]:
        return learn(state, references, batch_by(collect)(_acting(state), state.update, key), key)

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
        by = _CompiledLearning(config, jit) if compiled_ppo.learns(env, config) else jit(learn)
        return Trainer(init, _HostTraining(settings, batch_by(begin), by).advance)
    return Trainer(init, jit(advance))


class _HostTraining:
    """Players play, and the compiled program learns: by turns, or both at once."""

    def __init__(self, settings: ppo.PPO, begin: Callable[..., Any], learn: Callable[..., Any]) -> None:
        self.settings, self.begin, self.learn = settings, begin, learn
        self.ahead: tuple[Any, ...] = ()  # the state that was given last, its key, and the batch that is being played

    def advance(self, state: TrainState, references: References, key: Array, count: int) -> tuple[TrainState, Any]:
        left, self.ahead = self.ahead, ()
        following, rows = left[2] if left and left[0] is state and left[1] is key else None, []
        placed = partial(jax.device_put, device=everywhere())  # which takes the compiled program twice as long to do
        learn_from, learn_key = placed((references, key))
        with awake(jax.device_count() if jax.default_backend() == "cpu" else 1):
            for _ in range(count):
                interrupt.check()
                update = int(state.update)  # off the devices: one that is on each would have each draw the same seeds
                playing = following or self.begin(_acting(state), update, key)
                overlap = self.settings.overlap and update + 1 < self.settings.updates
                following = self.begin(state.policy, update + 1, key) if overlap else None
                state, metrics = self.learn(state, learn_from, placed(playing()), learn_key)
                rows.append(metrics)
            table = jax.tree.map(lambda *column: np.stack(column), *jax.device_get(rows))
        state = placed(state)  # of which compiled steps leave a part in NumPy's arrays
        self.ahead = (state, key, following)
        return state, table


class _CompiledLearning:
    """`learn`, with PPO's steps by compiled code and all else by XLA."""

    def __init__(self, config: Config, jit: Callable[..., Any]) -> None:
        self.config, self.around = config, jit(partial(self._around, config))

    def __call__(
        self, state: TrainState, references: References, trajectory: Trajectory, key: Array
    ) -> tuple[TrainState, dict[str, Any]]:
        # Always in NumPy's arrays: for those of JAX's, with which training begins, it would be compiled once more.
        policy, acting = jax.tree.map(np.asarray, (state.policy, state.acting))
        needed = TrainState(policy, acting, None, state.objective, state.returns, state.update)
        lesson, rest, metrics = self.around(needed, references, trajectory, key)
        nets, opt_state, learned = compiled_ppo.update(self.config.ppo, _nets(state.policy), state.opt_state, lesson)
        return _after(self.config, state, nets, opt_state, rest), metrics | learned

    @staticmethod
    def _around(
        config: Config, state: TrainState, references: References, trajectory: Trajectory, key: Array
    ) -> tuple[compiled_ppo.Lesson, "Rest", dict[str, Array]]:
        _, ppo_key, objective_key = _update_keys(key, state.update)
        batch, returns, metrics = _prepare(config, state, references, trajectory)
        bonus = ppo.entropy_coefficient(config.ppo, state.update)
        lesson = compiled_ppo.lesson(config.ppo, state.policy, batch, bonus, state.update, ppo_key)
        return lesson, _rest(config, state, trajectory, returns, objective_key), metrics


class Rest(NamedTuple):
    """What an update changes beside the networks."""

    normalizer: Normalizer | None
    objective: Any
    returns: Normalizer | None
    update: Array


def _prepare(
    config: Config, state: TrainState, references: References, trajectory: Trajectory
) -> tuple[ppo.Batch, Normalizer | None, dict[str, Array]]:
    """What to learn from, what reward normalisation has seen by then, and metrics."""
    settings, policy, returns = config.ppo, state.policy, state.returns
    score = config.method.score(state.objective, trajectory, references, state.update / settings.updates)
    if returns is not None:
        scaled, returns = ppo.scale_rewards(settings, returns, score.reward, trajectory.counted)
        score = score._replace(reward=scaled)
    advantage, target = ppo.advantages(settings, policy, trajectory, score)
    batch = _batch(policy, state.acting, trajectory, advantage, target, score.weight)
    metrics = {"return": trajectory.returns.mean(), "length": trajectory.first.sum(0).mean()}
    return batch, returns, metrics | score.metrics


def _rest(config: Config, state: TrainState, trajectory: Trajectory, returns: Normalizer | None, key: Array) -> Rest:
    normalizer = state.policy.normalizer
    if normalizer is not None:
        # In use after the update, so that PPO's ratios start at 1; frozen everywhere else.
        counted = jnp.broadcast_to(trajectory.counted[..., None], trajectory.reward.shape)
        normalizer = normalizer.update(trajectory.obs, counted)
    return Rest(normalizer, config.method.update(state.objective, trajectory, key), returns, state.update + 1)


def _after(config: Config, state: TrainState, nets: tuple[Any, Any], opt_state: Any, rest: Rest) -> TrainState:
    acting = state.policy if config.ppo.overlap else None  # the next batch is played while this one is learned from
    policy = Policy(*nets, rest.normalizer)
    return TrainState(policy, acting, opt_state, rest.objective, rest.returns, rest.update)


def _nets(policy: Policy) -> tuple[Any, Any]:
    return policy.actor, policy.critic


@jax.jit
def _update_keys(key: Array, update: Array) -> tuple[Array, ...]:
    """For collecting, for PPO and for the objective: a function of the number of the update."""
    return tuple(jax.random.split(jax.random.fold_in(key, update), 3))


def _shared(trajectory: Trajectory) -> Trajectory:
    """Every device gets its share of the episodes, and XLA divides what is computed from them."""
    last_obs = share(trajectory.last_obs, axis=0)
    rest = jax.tree.map(lambda leaf: share(leaf, axis=1), eqx.tree_at(lambda t: t.last_obs, trajectory, None))
    return eqx.tree_at(lambda t: t.last_obs, rest, last_obs, is_leaf=lambda leaf: leaf is None)


def _acting(state: TrainState) -> Policy:
    """Whose play is learned from next."""
    return state.policy if state.acting is None else state.acting


def _log_prob(policy: Policy, trajectory: Trajectory) -> Array:
    acted = (trajectory.obs, trajectory.action)
    return map_samples(lambda acted, policy: policy(acted[0]).log_prob(acted[1]), acted, policy)


def _batch(
    policy: Policy, acting: Policy | None, trajectory: Trajectory, advantage: Array, target: Array, weight: Array
) -> ppo.Batch:
    """Of play by `acting`, if that is not `policy`. What PPO keeps close to is the policy as it is now, and samples
    weigh as much more as they are likelier under it (the decoupled objective of Hilton et al., 2022): if it kept close
    to the policy that played, only half of each step would be left to go."""
    log_prob = trajectory.log_prob
    if log_prob is None or acting is not None:
        log_prob = _log_prob(policy, trajectory)
    if acting is not None:
        played = _log_prob(acting, trajectory) if trajectory.log_prob is None else trajectory.log_prob
        advantage = advantage * jnp.exp(jnp.minimum(log_prob - played, LOG_WEIGHT))
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
