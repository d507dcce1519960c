"""PGA-MAP-Elites (Nilsson and Cully, 2021): an archive of elites; half of the children are bred
and half are improved by a critic's gradient.

    children:  x + iso N(0, I) + line (y - x) N(0, 1)      of elites x and y
               x after some steps along grad_x Q_1(s, x(s))
               the greedy policy, for which the critics are trained

Each generation is one update: its candidates play, the best of each cell stays, and the critics
learn from a replay buffer. The k cells are the k policies of a run.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from rspo.core.learning import PPO
from rspo.core.members import count, member
from rspo.core.policies import Normalizer, Policy, init_normalizer
from rspo.core.policies.policy import Actor
from rspo.core.settings import Count, Positive
from rspo.core.types import Trajectory, View
from rspo.methods.actor_critic import (
    ActorCritic,
    Transitions,
    improved,
    init_actor_critic,
    learned,
    no_transitions,
    random_net,
    transitions,
)
from rspo.methods.base import Kind, Learner, Method, Need, Plan, Settings, Setup, TrainState
from rspo.methods.elites import NOTHING, Elites, cells_of, isoline, no_elites
from rspo.methods.references import References
from rspo.rollout.base import Collector

GENERATIONS = 16  # whose samples the buffer holds
# Candidates are nearly deterministic, unlike PPO's first policies: their weights are random, so
# the first ones already behave differently.
CHOICE_GAIN, REAL_GAIN, LOG_STD = 10.0, 1.0, -3.0


class Scales(eqx.Module):
    """The same for all policies and fixed by the first generation: an elite's inputs never change,
    so neither does its behaviour."""

    obs: Normalizer | None
    state: Normalizer | None  # of the global state, where critics see one
    reward: Array  # [] the reward that critics see as 1

    def of(self, policy: Policy) -> Policy:
        """A policy that plays."""
        return dataclasses.replace(policy, normalizer=self.obs, state_normalizer=self.state)


class Search(eqx.Module):
    """What a run carries besides its elites in order of their returns. Policies have no
    normalisers here."""

    elites: Elites
    candidates: Policy  # [B, ...] that play next
    learner: ActorCritic
    buffer: Transitions  # [GENERATIONS, S, ...], of weight 0 before anything was played
    scales: Scales


class Generation(eqx.Module):
    """What the candidates have played."""

    played: Trajectory  # [B, ...]
    behaviours: Array  # [B, E]


@dataclass(frozen=True)
class PGAMapElites(Method):
    """Settings of PGA-MAP-Elites."""

    episodes: Count = 32
    """Maximum episodes to evaluate a candidate; the steps of an update determine the number of
    candidates."""
    iso: float = 0.005
    """Standard deviation of the noise that breeding adds to every weight."""
    line: float = 0.05
    """Standard deviation of a child's step from one parent towards the other."""
    critic_steps: Count = 300
    """Steps of the critics in each generation; their own policy takes half as many."""
    policy_steps: Count = 10
    """Steps of a child along the critic's gradient."""
    minibatch: Count = 256
    """Samples per such step."""
    learning_rate: Positive = 1e-3
    """Learning rate of critics, their policy and children."""
    remembered: Count = 4096
    """Samples per generation in the buffer."""

    kind: ClassVar[Kind] = "archive"
    needs: ClassVar[tuple[Need, ...]] = ("behaviour",)
    memories: ClassVar[bool] = False  # critics learn from single steps
    # Their updates have few episodes, which would mean few candidates.
    tuned: ClassVar[Mapping[str, Settings]] = {
        "robots": {"method": {"episodes": 2}},
        "skirmish": {"ppo": {"memory": "none"}},  # so that the preset is one that it can train
    }
    paper: ClassVar[Mapping[str, Settings]] = {"skirmish": {"ppo": {"memory": "none"}}}

    def plan(self, policies: int) -> Plan:
        return Plan(members=policies)

    def learner(self, setup: Setup, settings: PPO) -> Learner:
        return Learner(
            partial(self._init, setup, settings),
            partial(self._play, setup, settings),
            partial(self._learn, setup, settings),
        )

    def sizes(self, setup: Setup, settings: PPO) -> tuple[int, int]:
        """Candidates in a generation, and episodes of each: all steps of an update."""
        episodes = settings.batch // setup.spec.horizon
        each = max(n for n in range(1, min(self.episodes, episodes) + 1) if episodes % n == 0)
        return setup.plan.members * episodes // each, each

    def _init(self, setup: Setup, settings: PPO, keys: Array) -> TrainState:
        policy_key, critic_key = jax.random.split(keys[0])
        number, _ = self.sizes(setup, settings)
        candidates = jax.vmap(partial(_candidate, setup, settings))(
            jax.random.split(policy_key, number)
        )
        policy = member(candidates, 0)
        width = (settings.hidden,) * settings.layers
        learner = init_actor_critic(setup.spec, policy, width, self.learning_rate, critic_key)
        elites = no_elites(_idle(policy), setup.plan.members)
        buffer = no_transitions(setup.spec, GENERATIONS, self.remembered)
        search = Search(elites, candidates, learner, buffer, _unit_scales(setup, settings))
        return _state(search, jnp.zeros((), jnp.int32))

    def _play(
        self, setup: Setup, settings: PPO, collect: Collector, state: TrainState, keys: Array
    ) -> Generation:
        number, episodes = self.sizes(setup, settings)
        key, search = _keys(keys[0], state.update)[0], state.opt_state

        def one(i: Any) -> Generation:
            policy = search.scales.of(member(search.candidates, i))
            own = jax.random.fold_in(key, i)
            played = collect(policy, episodes, own, padding=settings.padding)
            return Generation(played, collect.env.behaviour(played))

        return collect.each(one, number)

    def _learn(
        self,
        setup: Setup,
        settings: PPO,
        state: TrainState,
        kept: References,
        data: Generation,
        keys: Array,
    ) -> tuple[TrainState, dict[str, Array]]:
        _, sample_key, critic_key, child_key = _keys(keys[0], state.update)
        cells, first = setup.plan.members, state.update == 0
        returns = jax.vmap(lambda one: one.returns.mean())(data.played)
        search = state.opt_state
        scales = _fixed(search.scales, data.played, returns, first)
        # The first generation fixes how observations are normalised; it then plays again, and only
        # then may enter the archive.
        ranks = jnp.where(first, NOTHING, returns)
        elites = search.elites.add(search.candidates, ranks, cells_of(data.behaviours, cells))
        fresh = self._samples(setup, settings, scales, data.played, sample_key)
        place = state.update % GENERATIONS
        buffer = jax.tree.map(lambda old, new: old.at[place].set(new), search.buffer, fresh)
        learner, loss = self._trained(search.learner, buffer, settings.gamma, critic_key)
        search = Search(elites, search.candidates, learner, buffer, scales)
        candidates = self._children(search, child_key)
        search = eqx.tree_at(lambda own: own.candidates, search, candidates)
        ordered = elites.in_order()
        metrics = {
            "return": jnp.where(ordered.filled, ordered.returns, returns.mean()),
            "filled": ordered.filled.astype(jnp.float32),
            "coverage": elites.filled.mean(),
            "candidates": returns.mean(),
            "length": jax.vmap(lambda one: one.first.sum(0).mean())(data.played).mean(),
            "loss": loss,
        }
        metrics = {name: jnp.broadcast_to(number, (cells,)) for name, number in metrics.items()}
        return _state(search, state.update + 1), metrics

    def _samples(
        self, setup: Setup, settings: PPO, scales: Scales, played: Trajectory, key: Array
    ) -> Transitions:
        """Some steps of a generation, as critics see them: [S, ...]."""
        space, ends = setup.spec.action_space, settings.horizon == "end"
        all_of_them = jax.vmap(lambda one: transitions(one, space, ends))(played)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[4:]), all_of_them)
        some = _drawn(flat, key, self.remembered)
        view, following = (_seen(scales, view) for view in (some.view, some.following))
        return some._replace(view=view, following=following, reward=some.reward / scales.reward)

    def _trained(
        self, learner: ActorCritic, buffer: Transitions, gamma: float, key: Array
    ) -> tuple[ActorCritic, Array]:
        """The critics and their policy after this generation's steps, and the last loss."""

        def step(learner: ActorCritic, key: Array) -> tuple[ActorCritic, Array]:
            key, *keys = jax.random.split(key, 3)
            one, two = (self._minibatch(buffer, own) for own in keys)
            return learned(learner, (one, two), gamma, self.learning_rate, key)

        steps = jax.random.split(key, -(-self.critic_steps // 2))
        learner, losses = jax.lax.scan(step, learner, steps)
        return learner, losses[-1]

    def _minibatch(self, buffer: Transitions, key: Array) -> Transitions:
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), buffer)
        return _drawn(flat, key, self.minibatch)

    def _children(self, search: Search, key: Array) -> Policy:
        """Half bred, half improved, including the greedy policy; the same candidates while there
        is no elite."""
        keys, number = jax.random.split(key, 5), count(search.candidates)
        one, other = (search.elites.sample(own, number // 2) for own in keys[:2])
        bred = isoline(one, other, self.iso, self.line, keys[2])
        parents = search.elites.sample(keys[3], number - number // 2)
        better = jax.tree.map(
            lambda leaf, greedy: leaf.at[-1].set(greedy),
            self._improved(search, parents, keys[4]),
            search.learner.policy,
        )
        children = jax.tree.map(lambda *halves: jnp.concatenate(halves), bred, better)
        found = search.elites.filled.any()
        return jax.tree.map(
            lambda new, old: jnp.where(found, new, old), children, search.candidates
        )

    def _improved(self, search: Search, parents: Policy, key: Array) -> Policy:
        """Parents [B, ...] after some steps along the gradient of the critic."""
        optimizer, critics = optax.adam(self.learning_rate), search.learner.critics

        def step(carry: tuple[Policy, Any], key: Array) -> tuple[tuple[Policy, Any], None]:
            batch = self._minibatch(search.buffer, key)
            one = lambda policy, own: improved(policy, own, critics, batch, self.learning_rate)
            return jax.vmap(one)(*carry), None

        start = (parents, jax.vmap(lambda policy: optimizer.init(policy.actor))(parents))
        return jax.lax.scan(step, start, jax.random.split(key, self.policy_steps))[0][0]


def _candidate(setup: Setup, settings: PPO, key: Array) -> Policy:
    """A member of the first generation: a random, nearly deterministic network."""
    space, width = setup.spec.action_space, (settings.hidden,) * settings.layers
    gain = REAL_GAIN if space.continuous else CHOICE_GAIN
    net = random_net((setup.spec.obs_size, *width, space.n), gain, key)
    log_std = jnp.full(space.n, LOG_STD, jnp.float32) if space.continuous else None
    return Policy(Actor(net, log_std, space), critic=None, normalizer=None)


def _idle(policy: Policy) -> Policy:
    """The placeholder of an empty cell: uniform over choices, 0 for continuous actions."""
    last = lambda own: own.actor.net.weights[-1]
    return eqx.tree_at(last, policy, replace_fn=jnp.zeros_like)


def _state(search: Search, update: Array) -> TrainState:
    policies = search.elites.in_order().policies
    play = jax.vmap(search.scales.of, out_axes=0)
    return TrainState(play(policies), search, (), None, update)


def _unit_scales(setup: Setup, settings: PPO) -> Scales:
    spec, normal = setup.spec, settings.normalize_obs
    return Scales(
        init_normalizer(spec.obs_size) if normal else None,
        init_normalizer(spec.state_size) if normal and spec.state_size else None,
        jnp.ones(()),
    )


def _fixed(scales: Scales, played: Trajectory, returns: Array, first: Array) -> Scales:
    """The scales after the first generation: of its observations and its rewards."""
    counted, deviation = played.counted.astype(jnp.float32), returns.std()
    fitted = Scales(
        scales.obs and scales.obs.update(played.view.obs, counted),
        scales.state and scales.state.update(played.view.state, counted),
        jnp.where(deviation > 0, deviation, 1.0),
    )
    return jax.tree.map(lambda new, old: jnp.where(first, new, old), fitted, scales)


def _seen(scales: Scales, view: View) -> View:
    obs = view.obs if scales.obs is None else scales.obs(view.obs)
    state = view.state if scales.state is None else scales.state(view.state)
    return view._replace(obs=obs, state=state)


def _drawn(samples: Transitions, key: Array, count: int) -> Transitions:
    """Some of the samples [B], with replacement."""
    chosen = jax.random.randint(key, (count,), 0, samples.reward.shape[0])
    return jax.tree.map(lambda leaf: leaf[chosen], samples)


@jax.jit
def _keys(key: Array, update: Array) -> tuple[Array, ...]:
    """For playing, sampling, critics and children: a function of the number of the update."""
    return tuple(jax.random.split(jax.random.fold_in(key, update), 4))
