"""Collects episodes from a JAX environment, inside compiled programs."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.devices import compiler_options, everywhere
from rspo.core.types import Padding, Trajectory, View, as_view
from rspo.envs.base import Env
from rspo.rollout.base import Acting, Collector, Function, S


class Now(NamedTuple):
    """The episodes between two steps."""

    state: Any  # [N, ...] the environment's
    view: View  # [N, A, ...]
    memory: Any  # [N, A, ...] the policy's
    live: Array  # [N]
    alive: Array  # [N, A]


class Row(NamedTuple):
    """What one step leaves in a trajectory."""

    view: View
    action: Array
    log_prob: Array
    reward: Array
    terminated: Array
    live: Array
    alive: Array
    features: Any


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
        spec, restart = self.spec, padding == "restart"
        begin = partial(self._begin, policy, latent)
        reset_key, step_key, action_key = jax.random.split(key, 3)
        steps = (spec.horizon, episodes)
        noise = jax.random.uniform(step_key, (*steps, spec.step_noise))
        start = begin(jax.random.uniform(reset_key, (episodes, spec.reset_noise)))
        state, view, memory = start
        # Not the method itself: JAX would look it up among others, and compare policies' arrays.
        acting = jax.eval_shape(lambda *now: policy.step(*now), memory, view)
        kind, shape = acting[1].noise
        draw = jax.random.uniform if kind == "uniform" else jax.random.normal
        action_noise = draw(action_key, (spec.horizon, *shape))
        again = None
        if restart:
            again_key = jax.random.fold_in(reset_key, 1)
            again = jax.random.uniform(again_key, (*steps, spec.reset_noise))

        def body(now: Now, draws: tuple[Array, Array, Any]) -> tuple[Now, tuple[Row, Any]]:
            now, row = self._stepped(policy, latent, greedy, now, *draws[:2])
            reached = now.state if record else None
            if not restart:
                return now._replace(live=~row.terminated), (row, reached)
            fresh = (*begin(draws[2]), jnp.ones_like(now.alive))
            state, view, memory, alive = jax.tree.map(
                lambda new, old: _where(row.terminated, new, old),
                fresh,
                (now.state, now.view, now.memory, now.alive),
            )
            return Now(state, view, memory, now.live, alive), (row, reached)

        everyone = jnp.ones((episodes, spec.agents), bool)
        first = Now(*start, jnp.ones(episodes, bool), everyone)
        last, (rows, states) = jax.lax.scan(body, first, (noise, action_noise, again))
        live = jnp.ones_like(rows.live) if padding == "count" else rows.live
        return Trajectory(
            view=rows.view,
            action=rows.action,
            log_prob=rows.log_prob,
            reward=rows.reward,
            terminated=rows.terminated,
            live=rows.live,
            counted=rows.alive & live[..., None],
            last=last.view,
            state=states,
            start=state if record else None,
            features=rows.features,
        )

    def _begin(self, policy: Acting, latent: Any, noise: Array) -> tuple[Any, View, Any]:
        """New episodes: states, views and the policy's memories."""
        state, obs = jax.vmap(self.env.reset)(noise)
        return state, _seen(obs, latent), policy.initial(noise.shape[0], self.spec.agents)

    def _stepped(
        self,
        policy: Acting,
        latent: Any,
        greedy: bool,
        now: Now,
        env_noise: Array,
        action_noise: Array,
    ) -> tuple[Now, Row]:
        """One step of all episodes; finished ones stay as they are."""
        memory, distribution = policy.step(now.memory, now.view)
        action = distribution.mode() if greedy else distribution.sample(action_noise)
        moves = self.spec.action_space.to_env(action)
        after, step = jax.vmap(self.env.step)(now.state, moves, env_noise)
        if_live = lambda new, old: _where(now.live, new, old)
        state = jax.tree.map(if_live, after, now.state)
        terminated = ~now.live | step.terminated
        features = None if step.features is None else if_live(step.features, 0.0)
        reward, log_prob = if_live(step.reward, 0.0), distribution.log_prob(action)
        row = Row(now.view, action, log_prob, reward, terminated, now.live, now.alive, features)
        following = jnp.ones_like(now.alive) if step.alive is None else step.alive
        view, alive = jax.tree.map(
            if_live, (_seen(step.obs, latent), following), (now.view, now.alive)
        )
        return Now(state, view, memory, now.live, alive), row

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
