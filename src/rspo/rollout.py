"""Collecting whole episodes from a JAX environment, inside whatever jitted program calls it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from rspo.distributions import Categorical
from rspo.env import Env
from rspo.types import Trajectory


def collect(
    env: Env,
    policy: Callable[[Array], Categorical],
    episodes: int,
    key: Array,
    *,
    padding: bool = True,
    greedy: bool = False,
    record: bool = False,
) -> Trajectory:
    """Play `episodes` episodes side by side from their start to the horizon.

    After termination an episode stands still: same observation, reward 0. With `padding` those steps count in
    losses and likelihoods (the paper's sums compare trajectories of one fixed length); without, only live steps do.
    """
    spec = env.spec
    reset_key, step_key, action_key = jax.random.split(key, 3)
    steps = (spec.horizon, episodes)
    noise = jax.random.uniform(step_key, (*steps, spec.step_noise))
    uniform = jax.random.uniform(action_key, (*steps, spec.agents))
    state, obs = jax.vmap(env.reset)(jax.random.uniform(reset_key, (episodes, spec.reset_noise)))

    def body(carry: tuple[Any, Array, Array], draws: tuple[Array, Array]) -> tuple[Any, Any]:
        state, obs, live = carry
        env_noise, action_noise = draws
        distribution = policy(obs)
        action = distribution.mode() if greedy else distribution.sample(action_noise)
        after, step = jax.vmap(env.step)(state, action, env_noise)
        state = jax.tree.map(lambda new, old: _where(live, new, old), after, state)
        terminated = ~live | step.terminated
        row = (obs, action, distribution.log_prob(action), _where(live, step.reward, 0.0), terminated, live)
        obs = _where(live, step.obs, obs)
        return (state, obs, ~terminated), (row, state if record else None)

    start = state if record else None
    carry = (state, obs, jnp.ones(episodes, bool))
    (_, last_obs, _), (rows, states) = jax.lax.scan(body, carry, (noise, uniform))
    obs, action, log_prob, reward, terminated, live = rows
    counted = jnp.ones_like(live) if padding else live
    return Trajectory(obs, action, log_prob, reward, terminated, live, counted, last_obs, states, start)


def _where(condition: Array, new: Array, old: Any) -> Array:
    """`where` along the leading axis, whatever the leaf's own rank."""
    return jnp.where(condition.reshape(condition.shape + (1,) * (jnp.ndim(new) - 1)), new, old)
