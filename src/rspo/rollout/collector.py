"""Collecting whole episodes. A collector, built once per environment, is the only place that knows
its kind."""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.devices import compiler_options, everywhere
from rspo.core.distributions import Distribution
from rspo.core.types import Padding, Trajectory, View, as_view
from rspo.envs.base import AnyEnv, Env, HostEnv

S = TypeVar("S")
Function = TypeVar("Function", bound=Callable[..., Any])


class Acting(Protocol):
    """What a collector needs of a policy."""

    def initial(self, *batch: int) -> Any: ...

    def step(self, carry: Any, view: View) -> tuple[Any, Distribution]: ...


class Collector(abc.ABC):
    """Plays episodes in one environment, and knows how to compile programs that play."""

    compiled: bool
    """Whether rollouts are part of compiled programs, so that steps are cheap."""

    def __init__(self, env: Any) -> None:
        self.env, self.spec = env, env.spec

    @abc.abstractmethod
    def __call__(
        self,
        policy: Acting,
        episodes: int,
        key: Array,
        *,
        padding: Padding = "count",
        greedy: bool = False,
        record: bool = False,
        latent: Any = None,
    ) -> Trajectory:
        """Play `episodes` episodes side by side from their start to the horizon; `latent`
        [episodes, Z] is seen by the policy with its observations.

        After termination an episode is frozen: same observation, reward 0. With the padding
        "count" those steps count in losses and likelihoods (the paper's sums compare trajectories
        of one fixed length); with "drop" only live steps do. With "restart" a new episode begins
        there instead, and every step is live.
        """

    @abc.abstractmethod
    def program(self, function: Function) -> Function:
        """A function that plays: one compiled program, or Python that calls compiled functions."""

    @abc.abstractmethod
    def each(self, function: Callable[[Any], Any], count: int) -> Any:
        """`function(i)`, which plays, for each i below `count` in turn: leaves [count, ...]."""

    @abc.abstractmethod
    def trainer(
        self,
        play: Callable[[S, Any], Any],
        learn: Callable[[S, Any, Any, Any], tuple[S, dict[str, Array]]],
        rows: int,
    ) -> Callable[[S, Any, Any, Any], tuple[S, dict[str, Any]]]:
        """`advance(state, rivals, key, n)`: n <= rows times `learn(state, rivals, play(state, key),
        key)`. It returns `rows` rows of metrics, of which the first n are set."""

    def close(self) -> None:  # noqa: B027  (most have nothing to let go of)
        """Release its resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def collector(env: AnyEnv) -> Collector:
    """The collector of an environment of either kind."""
    if isinstance(env, HostEnv):
        from rspo.rollout.host import (
            HostCollector,
        )  # host code need not be loaded for games in JAX

        return HostCollector(env)
    return JaxCollector(env)


class JaxCollector(Collector):
    """Environment, policy and the code around them become one program."""

    env: Env
    compiled = True

    def __call__(
        self,
        policy: Acting,
        episodes: int,
        key: Array,
        *,
        padding: Padding = "count",
        greedy: bool = False,
        record: bool = False,
        latent: Any = None,
    ) -> Trajectory:
        env, spec, restart = self.env, self.spec, padding == "restart"
        seen = partial(_seen, latent=latent)
        reset_key, step_key, action_key = jax.random.split(key, 3)
        steps = (spec.horizon, episodes)
        noise = jax.random.uniform(step_key, (*steps, spec.step_noise))
        state, obs = jax.vmap(env.reset)(
            jax.random.uniform(reset_key, (episodes, spec.reset_noise))
        )
        view, memory = seen(obs), policy.initial(episodes, spec.agents)
        # Not the method itself: JAX would look it up among others, and compare policies' arrays.
        acting = jax.eval_shape(lambda *now: policy.step(*now), memory, view)
        kind, shape = acting[1].noise
        draw = jax.random.uniform if kind == "uniform" else jax.random.normal
        action_noise = draw(action_key, (spec.horizon, *shape))
        again = (
            jax.random.uniform(jax.random.fold_in(reset_key, 1), (*steps, spec.reset_noise))
            if restart
            else None
        )

        def body(carry: tuple[Any, ...], draws: tuple[Array, Array, Any]) -> tuple[Any, Any]:
            state, view, memory, live, alive = carry
            env_noise, action_noise, reset_noise = draws
            memory, distribution = policy.step(memory, view)
            action = distribution.mode() if greedy else distribution.sample(action_noise)
            after, step = jax.vmap(env.step)(state, spec.action_space.to_env(action), env_noise)
            state = jax.tree.map(lambda new, old: _where(live, new, old), after, state)
            terminated = ~live | step.terminated
            features = None if step.features is None else _where(live, step.features, 0.0)
            reward = _where(live, step.reward, 0.0)
            row = (
                view,
                action,
                distribution.log_prob(action),
                reward,
                terminated,
                live,
                alive,
                features,
            )
            following = jnp.ones_like(alive) if step.alive is None else step.alive
            view, alive = jax.tree.map(
                lambda new, old: _where(live, new, old), (seen(step.obs), following), (view, alive)
            )
            reached = state
            if restart:
                fresh_state, fresh_obs = jax.vmap(env.reset)(reset_noise)
                fresh = (
                    fresh_state,
                    seen(fresh_obs),
                    policy.initial(episodes, spec.agents),
                    jnp.ones_like(alive),
                )
                state, view, memory, alive = jax.tree.map(
                    lambda new, old: _where(terminated, new, old),
                    fresh,
                    (state, view, memory, alive),
                )
            carry = (state, view, memory, live if restart else ~terminated, alive)
            return carry, (row, reached if record else None)

        everyone = jnp.ones((episodes, spec.agents), bool)
        carry = (state, view, memory, jnp.ones(episodes, bool), everyone)
        (_, last, *_), (rows, states) = jax.lax.scan(body, carry, (noise, action_noise, again))
        view, action, log_prob, reward, terminated, live, alive, features = rows
        counted = alive & (jnp.ones_like(live) if padding == "count" else live)[..., None]
        start = state if record else None
        return Trajectory(
            view,
            action,
            log_prob,
            reward,
            terminated,
            live,
            counted,
            last,
            states,
            start,
            features=features,
        )

    def program(self, function: Function) -> Function:
        return jax.jit(function, compiler_options=compiler_options())  # type: ignore[return-value]

    def each(self, function: Callable[[Any], Any], count: int) -> Any:
        # In sequence: the episodes of one keep the cores busy and fit their caches.
        return jax.lax.map(function, jnp.arange(count))

    def trainer(
        self,
        play: Callable[[S, Any], Any],
        learn: Callable[[S, Any, Any, Any], tuple[S, dict[str, Array]]],
        rows: int,
    ) -> Callable[[S, Any, Any, Any], tuple[S, dict[str, Any]]]:
        def one_update(state: S, rivals: Any, key: Array) -> tuple[S, dict[str, Array]]:
            return learn(state, rivals, play(state, key), key)

        def advance(state: S, rivals: Any, key: Array, count: Array) -> tuple[S, dict[str, Array]]:
            shapes = jax.eval_shape(one_update, state, rivals, key)[1]
            table = jax.tree.map(lambda m: jnp.zeros((rows, *m.shape), m.dtype), shapes)

            def body(i: Array, carry: tuple[S, dict[str, Array]]) -> tuple[S, dict[str, Array]]:
                state, metrics = one_update(carry[0], rivals, key)
                return state, jax.tree.map(lambda column, m: column.at[i].set(m), carry[1], metrics)

            return jax.lax.fori_loop(0, count, body, (state, table))

        # Shardings are fixed, or a state from a checkpoint would recompile the program.
        return jax.jit(
            advance,
            in_shardings=everywhere(),
            out_shardings=everywhere(),
            compiler_options=compiler_options(),
        )


def _seen(obs: Any, latent: Any) -> View:
    """The view of each agent, with the episode's latent: leaves [N, A, ...]."""
    view = as_view(obs)
    if latent is None:
        return view
    xp = view.obs.__array_namespace__()
    return view._replace(
        latent=xp.broadcast_to(latent[:, None], (*view.obs.shape[:2], latent.shape[-1]))
    )


def _where(condition: Array, new: Array, old: Any) -> Array:
    """`where` along the leading axis, whatever the leaf's own rank."""
    return jnp.where(condition.reshape(condition.shape + (1,) * (jnp.ndim(new) - 1)), new, old)


def stacked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A table of metrics from its rows."""
    return jax.tree.map(lambda *column: np.stack(column), *jax.device_get(rows))
