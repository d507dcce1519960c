"""Collecting whole episodes, from a JAX environment inside whatever jitted program calls it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.distributions import Distribution
from rspo.core.types import Padding, Trajectory
from rspo.envs.base import AnyEnv, HostEnv
from rspo.rollout import host as rollout_host


def fused(env: AnyEnv) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What a function that collects goes through: one compiled program for a JAX environment. Around a host environment
    it stays Python, and only what it calls is compiled."""
    return (lambda function: function) if isinstance(env, HostEnv) else jax.jit


@contextlib.contextmanager
def staged(env: AnyEnv) -> Iterator[None]:
    """While an environment is used; afterwards nothing is left of what it was played on."""
    try:
        yield
    finally:
        if isinstance(env, HostEnv):
            rollout_host.leave(env)


def collect(
    env: AnyEnv,
    policy: Callable[[Array], Distribution],
    episodes: int,
    key: Array,
    *,
    padding: Padding = "count",
    greedy: bool = False,
    record: bool = False,
) -> Trajectory:
    """Play `episodes` episodes side by side from their start to the horizon.

    After termination an episode stands still: same observation, reward 0. With the padding "count" those steps count
    in losses and likelihoods (the paper's sums compare trajectories of one fixed length); with "drop" only live steps
    do. With "restart" a new episode begins there instead, and every step is live.
    """
    if isinstance(env, HostEnv):
        return rollout_host.collect(env, policy, episodes, key, padding=padding, greedy=greedy, record=record)
    spec, restart = env.spec, padding == "restart"
    reset_key, step_key, action_key = jax.random.split(key, 3)
    steps = (spec.horizon, episodes)
    noise = jax.random.uniform(step_key, (*steps, spec.step_noise))
    state, obs = jax.vmap(env.reset)(jax.random.uniform(reset_key, (episodes, spec.reset_noise)))
    kind, shape = jax.eval_shape(lambda obs: policy(obs), obs).noise
    action_noise = (jax.random.uniform if kind == "uniform" else jax.random.normal)(action_key, (spec.horizon, *shape))
    again = jax.random.uniform(jax.random.fold_in(reset_key, 1), (*steps, spec.reset_noise)) if restart else None

    def body(carry: tuple[Any, Array, Array], draws: tuple[Array, Array, Any]) -> tuple[Any, Any]:
        state, obs, live = carry
        env_noise, action_noise, reset_noise = draws
        distribution = policy(obs)
        action = distribution.mode() if greedy else distribution.sample(action_noise)
        after, step = jax.vmap(env.step)(state, spec.action_space.to_env(action), env_noise)
        state = jax.tree.map(lambda new, old: _where(live, new, old), after, state)
        terminated = ~live | step.terminated
        row = (obs, action, distribution.log_prob(action), _where(live, step.reward, 0.0), terminated, live)
        obs, reached = _where(live, step.obs, obs), state
        if restart:
            fresh = jax.vmap(env.reset)(reset_noise)
            state, obs = jax.tree.map(lambda new, old: _where(terminated, new, old), fresh, (state, obs))
        return (state, obs, live if restart else ~terminated), (row, reached if record else None)

    start = state if record else None
    carry = (state, obs, jnp.ones(episodes, bool))
    (_, last_obs, _), (rows, states) = jax.lax.scan(body, carry, (noise, action_noise, again))
    obs, action, log_prob, reward, terminated, live = rows
    counted = jnp.ones_like(live) if padding == "count" else live
    return Trajectory(obs, action, log_prob, reward, terminated, live, counted, last_obs, states, start)


def _where(condition: Array, new: Array, old: Any) -> Array:
    """`where` along the leading axis, whatever the leaf's own rank."""
    return jnp.where(condition.reshape(condition.shape + (1,) * (jnp.ndim(new) - 1)), new, old)
