"""Ridge Rider (Parker-Holder et al., 2020): follow the eigenvectors of the Hessian with positive
curvature from a saddle, one optimum for each.

    ride:   theta + step * e      while e^T H e > curved; e follows the eigenvector as it turns
    climb:  theta + rate * grad J                            until |grad J| < flat

A policy is one linear layer: with one-hot observations, a table. In an environment that gives its
tables J is exact and nothing is played; elsewhere J is estimated from sampled episodes,

    J(theta) = E [ p_theta(tau) / p(tau) * (R(tau) - mean R) ],

whose gradient and Hessian at the policy that played are unbiased but noisy. All members start at
the same point; the digits of a member's number say which ridge it takes at each saddle.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.learning import PPO
from rspo.core.members import each_member, member
from rspo.core.policies import MLP, Policy
from rspo.core.policies.policy import Actor
from rspo.core.settings import Count, Positive
from rspo.core.types import Padding, Trajectory, View
from rspo.envs.base import Tables
from rspo.methods.base import Kind, Learner, Method, Plan, Settings, Setup, TrainState
from rspo.methods.lanczos import Spectrum, lanczos
from rspo.methods.references import References
from rspo.rollout.base import Collector


class Ride(eqx.Module):
    """The state of a member."""

    number: Array  # [] of the member
    riding: Array  # [] whether along a ridge, or up the gradient
    direction: Array  # [D] of the ridge
    saddles: Array  # [] how many it has left


@dataclass(frozen=True)
class RidgeRider(Method):
    """Settings of Ridge Rider."""

    ridges: Count = 1
    """Number of eigenvectors of largest curvature to follow from a saddle; each has two
    directions."""
    step: Positive = 0.1
    """Length of a step along a ridge."""
    learning_rate: Positive = 1.0
    """Learning rate of gradient ascent."""
    curved: Positive = 0.05
    """The smallest curvature of a ridge."""
    flat: Positive = 0.05
    """The norm of the gradient below which a point is a saddle, if it has a ridge."""
    products: Count = 16
    """Hessian-vector products to find eigenvectors, at most the number of weights."""

    kind: ClassVar[Kind] = "tabular"
    memories: ClassVar[bool] = False
    tuned: ClassVar[Mapping[str, Settings]] = {"skirmish": {"ppo": {"memory": "none"}}}
    paper: ClassVar[Mapping[str, Settings]] = tuned

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def learner(self, setup: Setup, settings: PPO) -> Learner:
        return Learner(
            partial(_init, setup), partial(_play, setup, settings), partial(self._learn, setup)
        )

    def _learn(
        self, setup: Setup, state: TrainState, kept: References, data: Any, keys: Array
    ) -> tuple[TrainState, dict[str, Array]]:
        if isinstance(data, Tables):
            value = partial(exact_return, data, setup.spec.horizon)
            one = lambda policy, ride: self._moved(policy, ride, value)
            policies, rides, metrics = each_member(one, state.policy, state.method)
        else:
            sampled = lambda policy, ride, played: self._moved(
                policy, ride, partial(sampled_return, played), played.returns.mean()
            )
            policies, rides, metrics = each_member(sampled, state.policy, state.method, data)
        return TrainState(policies, (), rides, None, state.update + 1), metrics

    def _moved(
        self,
        policy: Policy,
        ride: Ride,
        value: Callable[[Policy], Array],
        earned: Array | None = None,
    ) -> tuple[Policy, Ride, dict[str, Array]]:
        """One step of a member."""
        shape = _weights(policy).shape
        at = lambda theta: value(eqx.tree_at(_weights, policy, theta.reshape(shape)))
        theta, slope = _weights(policy).ravel(), jax.grad(at)
        gradient = slope(theta)
        product = lambda vector: jax.jvp(slope, (theta,), (vector,))[1]
        start = jnp.where(ride.riding, ride.direction, _any_direction(theta.size))
        spectrum = lanczos(product, start, min(self.products, theta.size))
        ride, curvature = self._next(ride, spectrum, jnp.linalg.norm(gradient))
        change = jnp.where(ride.riding, self.step * ride.direction, self.learning_rate * gradient)
        policy = eqx.tree_at(_weights, policy, (theta + change).reshape(shape))
        earned = at(theta) if earned is None else earned
        metrics = {
            "return": earned,
            "gradient": jnp.linalg.norm(gradient),
            "curvature": curvature,
            "riding": ride.riding.astype(jnp.float32),
            "saddles": ride.saddles.astype(jnp.float32),
            "loss": -earned,
        }
        return policy, ride, metrics

    def _next(self, ride: Ride, spectrum: Spectrum, gradient: Array) -> tuple[Ride, Array]:
        """The next move at this point, and the curvature that decided it."""
        base = 2 * self.ridges
        digit = ride.number // base**ride.saddles % base
        same = jnp.abs(spectrum.overlap).argmax()
        ridge = jnp.minimum(digit // 2, spectrum.values.shape[0] - 1)
        chosen = jnp.where(ride.riding, same, ridge)
        turned = spectrum.vectors[chosen] * jnp.sign(spectrum.overlap[chosen])
        sign = jnp.where(ride.riding, 1.0, 1.0 - 2.0 * (digit % 2))
        curvature = spectrum.values[chosen]
        # The start counts as a saddle whatever the gradient.
        is_saddle = (gradient < self.flat) | (ride.saddles == 0)
        goes = (ride.riding | is_saddle) & (curvature > self.curved)
        begins = goes & ~ride.riding
        direction = jnp.where(goes, sign * turned, ride.direction)
        return Ride(ride.number, goes, direction, ride.saddles + begins), curvature


def exact_return(tables: Tables, horizon: int, policy: Policy) -> Array:
    """J of a policy: the rewards of all steps, weighted by state visitation probabilities."""
    doing = jnp.exp(policy(View(jnp.asarray(tables.obs))).log_probs)  # type: ignore[union-attr]
    moves = jnp.einsum("sa,sat->st", doing, tables.transition)
    pays = (doing * tables.reward).sum(-1)

    def step(where: Array, _: None) -> tuple[Array, Array]:
        return where @ moves, where @ pays

    return jax.lax.scan(step, jnp.asarray(tables.start), None, horizon)[1].sum()


def sampled_return(played: Trajectory, policy: Policy) -> Array:
    """The same from episodes, up to a constant, with importance weights relative to the policy
    that played."""
    log_prob = policy(played.view).log_prob(played.action) * played.counted
    change = log_prob.sum((0, 2))
    gain = played.returns.mean(-1) - played.returns.mean()
    return (jnp.exp(change - jax.lax.stop_gradient(change)) * gain).mean()


def _weights(policy: Policy) -> Any:
    return policy.actor.net.weights[0]  # type: ignore[union-attr]


def _any_direction(size: int) -> Array:
    """The same for all members, so that they see the same ridges."""
    return jax.random.normal(jax.random.key(0), (size,))


def _init(setup: Setup, keys: Array) -> TrainState:
    """All members at the uniformly random policy."""
    spec, members = setup.spec, setup.plan.members
    space = spec.action_space
    net = MLP((jnp.zeros((spec.obs_size, space.n)),), (jnp.zeros(space.n),))
    policy = Policy(Actor(net, jnp.zeros(space.n) if space.continuous else None, space), None, None)
    policies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (members, *leaf.shape)), policy)
    ride = Ride(
        jnp.arange(members),
        jnp.zeros(members, bool),
        jnp.zeros((members, spec.obs_size * space.n)),
        jnp.zeros(members, jnp.int32),
    )
    return TrainState(policies, (), ride, None, jnp.zeros((), jnp.int32))


def _play(
    setup: Setup, settings: PPO, collect: Collector, state: TrainState, keys: Array
) -> Tables | Trajectory:
    """The tables of the environment, or a batch of each member."""
    tables = collect.env.tables()
    if tables is not None:
        return jax.tree.map(jnp.asarray, tables)
    # One episode per column, so that likelihoods and returns belong to the same episode.
    padding: Padding = "count" if settings.padding == "count" else "drop"
    episodes = settings.batch // setup.spec.horizon

    def one(i: Any) -> Trajectory:
        key = jax.random.fold_in(keys[i], state.update)
        return collect(member(state.policy, i), episodes, key, padding=padding)

    return collect.each(one, setup.plan.members)
