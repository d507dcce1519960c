"""A policy: actor, critic heads, and what normalises their inputs."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.distributions import Categorical, Gaussian, MultiCategorical, choosing
from rspo.core.policies.gru import GRU, init_gru
from rspo.core.policies.mlp import MLP, init_mlp
from rspo.core.policies.normalizer import Normalizer, init_normalizer
from rspo.core.pytrees import pytree, static
from rspo.core.spaces import ActionSpace, Box
from rspo.core.types import Spec, View, as_view

# Bounds of a Gaussian's log standard deviation: densities stay finite.
LOG_STD = (-5.0, 2.0)
Memory = Literal["none", "gru"]
Net = MLP | GRU
Acted = Categorical | MultiCategorical | Gaussian


@pytree
class Actor:
    """From observations to a distribution over actions."""

    net: Net
    log_std: Array | None  # [D] of continuous actions: learned, and the same in every state
    space: ActionSpace = static()

    def distribution(self, numbers: Any, mask: Any = None) -> Acted:
        if not isinstance(self.space, Box):
            return choosing(self.space, numbers, mask)
        assert self.log_std is not None
        return Gaussian(numbers, self.log_std.__array_namespace__().clip(self.log_std, *LOG_STD))


@pytree
class Policy:
    """pi(a | s) and V_c(s). Homogeneous agents share it; the agent axis is one more batch axis."""

    actor: Actor
    critic: Net | None  # None in a kept policy: only its actor is used
    normalizer: Normalizer | None  # of observations
    state_normalizer: Normalizer | None = None  # of the global state, where the critic sees one
    context: Array | None = None  # [Z] the fixed latent of a kept policy, if it has one

    @property
    def recurrent(self) -> bool:
        return self.actor.net.recurrent

    @property
    def inputs(self) -> int:
        """Size of the actor's input: an observation and a latent."""
        net = self.actor.net
        return int((net.body if isinstance(net, GRU) else net).weights[0].shape[0])

    def initial(self, *batch: int) -> Any:
        """The memory before an episode."""
        return self.actor.net.initial(*batch)

    def step(self, carry: Any, view: View) -> tuple[Any, Acted]:
        """One step of acting."""
        carry, numbers = self.actor.net.step(carry, self._seen(view))
        return carry, self.actor.distribution(numbers, view.mask)

    def __call__(self, seen: Any) -> Acted:
        """The distribution of a policy without memory, for an observation or a View with any
        axes."""
        view = as_view(seen)
        return self.step((), view)[1]

    def replay(self, view: View, starts: Any) -> Acted:
        """The distribution over whole episodes [T, ...], with its own memory of them."""
        numbers, _ = self.actor.net.unroll(
            self.initial(*view.obs.shape[1:-1]), self._seen(view), starts
        )
        return self.actor.distribution(numbers, view.mask)

    def learn(self, carry: Any, view: View, starts: Any) -> tuple[Acted, Any]:
        """Action distributions and values in sequences [L, ...], given the memories of actor and
        critic before their first step."""
        numbers, _ = self.actor.net.unroll(carry[0], self._seen(view), starts)
        values, _ = self._critic.unroll(carry[1], self._judged(view), starts)
        return self.actor.distribution(numbers, view.mask), values

    def look_back(self, view: View, starts: Any, last: View) -> tuple[Any, Any, Any]:
        """Over whole episodes [T, ...]: the critic's values, its value after the last step, and
        the memories of actor and critic before each step."""
        batch = view.obs.shape[1:-1]
        _, acting = self.actor.net.unroll(self.initial(*batch), self._seen(view), starts)
        joined = jax.tree.map(lambda steps, end: jnp.concatenate([steps, end[None]]), view, last)
        over = jnp.concatenate([starts, jnp.zeros_like(starts[:1])])
        values, judging = self._critic.unroll(
            self._critic.initial(*batch), self._judged(joined), over
        )
        return values[:-1], values[-1], (acting, judging[:-1])

    def values(self, seen: Any) -> Any:
        """One value per channel, from a critic without memory: [..., O] -> [..., C]."""
        return self._critic.step((), self._judged(as_view(seen)))[1]

    def to_env(self, action: Any) -> Any:
        """A policy's action in the environment's units."""
        return self.actor.space.to_env(action)

    def normalized(self, view: View) -> View:
        """The view as the networks see it, for a policy without normalisers."""
        obs = view.obs if self.normalizer is None else self.normalizer(view.obs)
        state = view.state
        if state is not None and self.state_normalizer is not None:
            state = self.state_normalizer(state)
        return view._replace(obs=obs, state=state)

    @property
    def _critic(self) -> Net:
        assert self.critic is not None, "a kept policy has no critic"
        return self.critic

    def _seen(self, view: View) -> Any:
        return self._with_latent(self.normalized(view).obs, view.latent)

    def _judged(self, view: View) -> Any:
        view = self.normalized(view)
        return self._with_latent(view.obs if view.state is None else view.state, view.latent)

    def _with_latent(self, seen: Any, latent: Any) -> Any:
        xp = seen.__array_namespace__()
        # A kept policy's own latent, whatever latents the episodes had.
        if self.context is not None:
            latent = xp.broadcast_to(
                xp.asarray(self.context), (*seen.shape[:-1], self.context.shape[0])
            )
        return seen if latent is None else xp.concat([seen, latent], axis=-1)


def init_policy(
    spec: Spec,
    channels: int,
    hidden: int,
    layers: int,
    normalize: bool,
    key: Array,
    memory: Memory = "none",
    latent: int = 0,
) -> Policy:
    actor_key, critic_key = jax.random.split(key)
    init = init_gru if memory == "gru" else init_mlp
    width, space = (hidden,) * layers, spec.action_space
    state_size = spec.state_size or spec.obs_size
    # Nearly uniform at first, or centred.
    actor = init((spec.obs_size + latent, *width, space.n), 0.01, actor_key)
    return Policy(
        actor=Actor(actor, jnp.zeros(space.n) if isinstance(space, Box) else None, space),
        critic=init((state_size + latent, *width, channels), 1.0, critic_key),
        normalizer=init_normalizer(spec.obs_size) if normalize else None,
        state_normalizer=init_normalizer(spec.state_size)
        if normalize and spec.state_size
        else None,
    )
