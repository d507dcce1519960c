"""PGA-MAP-Elites: archive, breeding and critics against plain NumPy, and that it fills the cells of
small worlds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
import rspo
from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.core.policies import Policy, uniform_policy
from rspo.core.policies.policy import Actor
from rspo.core.spaces import Box, Discrete, MultiDiscrete
from rspo.core.types import Descriptor, Spec, View
from rspo.envs.base import Env
from rspo.errors import InputError
from rspo.methods import actor_critic, pga_map_elites
from rspo.methods.base import Plan, Setup
from rspo.methods.elites import Elites, cells_of, isoline, no_elites
from rspo.methods.pga_map_elites import PGAMapElites
from rspo.registry import METHODS, make
from rspo.search.check import check_needs
from worlds import Bandit, Rooms, Slope, collect

SEEDS = st.integers(0, 2**32 - 1)

# --- the archive ---


@given(seed=SEEDS, cells=st.sampled_from([1, 4]))
@settings(max_examples=10)
def test_each_cell_keeps_the_best_that_was_ever_seen_in_it(seed, cells):
    rng = np.random.default_rng(seed)
    elites, best = no_elites(jnp.full(2, -1.0), cells), {}
    for _ in range(3):
        numbers, returns = rng.normal(size=(5, 2)), rng.permutation(5) / 2 + rng.integers(0, 2)
        places = rng.integers(0, cells, 5)
        elites = elites.add(jnp.asarray(numbers), jnp.asarray(returns), jnp.asarray(places))
        for number, earned, place in zip(numbers, returns, places, strict=True):
            if earned >= best.get(place, (-np.inf,))[0]:  # of equals the newest
                best[place] = (earned, number)
    for cell in range(cells):
        assert bool(elites.filled[cell]) == (cell in best)
        earned, number = best.get(cell, (-np.inf, [-1.0, -1.0]))
        np.testing.assert_allclose(elites.returns[cell], earned, rtol=1e-5)
        np.testing.assert_allclose(elites.policies[cell], number, rtol=1e-5)
    ordered = np.asarray(elites.in_order().returns)
    np.testing.assert_array_equal(ordered, np.sort(np.asarray(elites.returns))[::-1])


def test_parents_are_elites_and_nothing_else():
    elites = Elites(jnp.arange(4.0), jnp.asarray([-jnp.inf, 3.0, -jnp.inf, -5.0]))
    drawn = np.asarray(elites.sample(jax.random.key(0), 1000))
    assert set(drawn.tolist()) == {1.0, 3.0}
    assert 400 < (drawn == 1).sum() < 600


@given(seed=SEEDS, cells=st.sampled_from([1, 5]))
@settings(max_examples=10)
def test_a_policy_belongs_to_the_cell_of_most_of_its_episodes(seed, cells):
    behaviours = np.random.default_rng(seed).random((3, 7)).astype(np.float32)
    behaviours[0, 0] = 1.0  # belongs to the last cell
    counts = [
        np.histogram(row, bins=np.linspace(0, 1, cells + 1, dtype=np.float32))[0]
        for row in behaviours
    ]
    found = cells_of(jnp.asarray(behaviours), cells)
    for count, cell in zip(counts, np.asarray(found), strict=True):
        assert count[cell] == count.max()


def test_children_lie_around_the_line_through_their_parents():
    count = 4000
    one = {"a": jnp.zeros((count, 2)), "b": jnp.zeros((count, 1))}
    other = {"a": jnp.full((count, 2), 3.0), "b": jnp.full((count, 1), -1.0)}
    alone = isoline(one, one, 0.01, 0.5, jax.random.key(0))
    np.testing.assert_allclose(alone["a"].std(0), 0.01, rtol=0.1)
    child = isoline(one, other, 0.0, 0.5, jax.random.key(0))
    np.testing.assert_allclose(child["a"][:, 0], -3 * child["b"][:, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(child["a"].mean(), 0, atol=0.1)
    np.testing.assert_allclose(child["a"].std(0), 1.5, rtol=0.1)


# --- the critics ---

SPACES = {"choices": Discrete(3), "several": MultiDiscrete((2, 3)), "real": Box((-1.0,), (1.0,))}


def random_case(space, seed=0):
    """A learner, a batch of transitions, and their NumPy copies."""
    rng, spec = np.random.default_rng(seed), Spec(4, space, horizon=5)
    net = actor_critic.random_net((4, 8, space.n), 1.0, jax.random.key(seed))
    log_std = jnp.full(space.n, -3.0) if space.continuous else None
    policy = Policy(Actor(net, log_std, space), None, None)
    learner = actor_critic.init_actor_critic(spec, policy, (8,), 1e-2, jax.random.key(seed + 1))
    obs, following = jnp.asarray(rng.normal(size=(2, 32, 4)), jnp.float32)
    mask = None if space.continuous else jnp.ones((32, space.n), bool)
    action = rng.uniform(-1, 1, (32, space.n)).astype(np.float32)
    if not space.continuous:
        drawn = rng.integers(0, 2, (32, *space.shape))
        action = np.asarray(space.encode(jnp.asarray(drawn)), np.float32)
    reward, over, weight = rng.normal(size=32), rng.integers(0, 2, 32), rng.integers(0, 2, 32)
    numbers = [jnp.asarray(x, jnp.float32) for x in (reward, over, weight)]
    batch = actor_critic.Transitions(
        View(obs, mask), jnp.asarray(action), numbers[0], View(following, mask), *numbers[1:]
    )
    return learner, batch


def plain_q(critics, i, obs, action, continuous):
    net = jax.tree.map(lambda leaf: np.asarray(leaf)[i], critics)
    if continuous:
        return plain.forward(net, np.concatenate([obs, action]))[0]
    return plain.forward(net, obs) @ action


def plain_action(policy, obs):
    numbers, space = plain.forward(policy.actor.net, obs), policy.actor.space
    if space.continuous:
        return np.clip(numbers, -1, 1)
    sizes = (space.n,) if isinstance(space, Discrete) else space.sizes
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    return np.concatenate([np.exp(plain.log_softmax(part)) for part in parts])


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_targets_and_losses_are_those_of_the_formula(name, monkeypatch):
    monkeypatch.setattr(actor_critic, "NOISE", 0.0)  # targets of real actions are smoothed by it
    learner, batch = random_case(SPACES[name])
    continuous, gamma = SPACES[name].continuous, 0.9
    target = actor_critic.targets(learner, batch, gamma, jax.random.key(0))
    policy, errors, expected = jax.device_get(learner.policy), [], []
    for b in range(32):
        obs, after = np.asarray(batch.view.obs[b]), np.asarray(batch.following.obs[b])
        doing = plain_action(policy, after)
        q = min(plain_q(learner.critics, i, after, doing, continuous) for i in (0, 1))
        y = batch.reward[b] + gamma * (1 - batch.over[b]) * q
        np.testing.assert_allclose(target[b], y, rtol=1e-4, atol=1e-4)
        action = np.asarray(batch.action[b])
        both = [plain_q(learner.critics, i, obs, action, continuous) - y for i in (0, 1)]
        errors.append(np.square(both).sum())
        expected.append(plain_q(learner.critics, 0, obs, plain_action(policy, obs), continuous))
    weight = np.asarray(batch.weight)
    loss = actor_critic.critic_loss(learner.critics, SPACES[name], batch, target)
    np.testing.assert_allclose(loss, (errors * weight).sum() / weight.sum(), rtol=1e-3)
    loss = actor_critic.policy_loss(learner.policy.actor, learner.policy, learner.critics, batch)
    np.testing.assert_allclose(loss, -(expected * weight).sum() / weight.sum(), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_a_step_raises_what_the_critic_expects_and_lowers_its_error(name):
    learner, batch = random_case(SPACES[name])
    loss = lambda policy: actor_critic.policy_loss(policy.actor, policy, learner.critics, batch)
    better, _ = actor_critic.improved(
        learner.policy, learner.opt_states[1], learner.critics, batch, 1e-3
    )
    assert loss(better) < loss(learner.policy)
    step = jax.jit(lambda own, key: actor_critic.learned(own, (batch, batch), 0.0, 1e-2, key))
    losses = []
    for key in jax.random.split(jax.random.key(0), 60):
        learner, error = step(learner, key)
        losses.append(float(error))
    assert losses[-1] < 0.3 * losses[0]  # without a future the targets stand still


@pytest.mark.slow
def test_transitions_follow_each_other_and_end_with_their_episode():
    played = collect(Rooms(doors=2, depth=1), uniform_policy(2), 3, jax.random.key(0))
    for ends in (False, True):
        made = actor_critic.transitions(played, Discrete(2), ends)
        np.testing.assert_array_equal(made.following.obs[:-1], played.view.obs[1:])
        np.testing.assert_array_equal(made.following.obs[-1], played.last.obs)
        np.testing.assert_array_equal(made.action.argmax(-1), played.action)
        assert made.over[-1].all() == ends
        assert not made.over[:-1].any()
    over = collect(Bandit((0.0, 1.0)), uniform_policy(2), 3, jax.random.key(0))
    assert actor_critic.transitions(over, Discrete(2), False).over.all()


# --- the behaviours of the environments ---


def test_every_cell_of_a_landmark_is_its_own():
    for cells in range(4, 12):
        assert len(set((np.arange(4) * 2 + 1) * cells // 8)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four-goals-easy", "monster-hunt", "escalation", "point"])
def test_behaviours_are_numbers_from_0_to_1_of_what_was_played(name):
    env = make(name)
    played = collect(env, uniform_policy(env.spec.action_space), 16, jax.random.key(0))
    found = np.asarray(jax.jit(env.behaviour)(played))
    assert found.shape == (16,)
    assert ((found >= 0) & (found <= 1)).all()
    assert np.ptp(found) > 0


def test_a_robot_behaves_by_its_pitch():
    env = make("half-cheetah")
    with_short = collect(env, uniform_policy(env.spec.action_space), 2, jax.random.key(0))
    found = env.behaviour(with_short)
    wanted = np.clip(0.5 + with_short.obs[:, :, 0, 1].mean(0) / (2 * np.pi), 0, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_without_behaviours_it_is_refused():
    method = METHODS.make("pga-map-elites")
    check_needs(method, make("four-goals-easy"))
    with pytest.raises(InputError, match="does not say how episodes behave"):
        check_needs(method, Bandit((0.0, 1.0)))


# --- runs ---


class Doors(Rooms):
    """Its behaviour is the door."""

    def behaviour(self, trajectory: Any) -> Any:
        return (trajectory.action[0, :, 0] + 0.5) / self.doors


class Sides(Env):
    """Real actions: pays how far the action is from 0, and either side is a behaviour."""

    @property
    def spec(self) -> Spec:
        return Spec(1, Box((-1.0,), (1.0,)), horizon=2)

    reset = Slope.reset

    def step(self, state, action, noise):
        state, step = Slope.step(self, state, action, noise)
        return state, step._replace(reward=jnp.abs(action[:, 0]))

    def behaviour(self, trajectory):
        return (trajectory.action[0, :, 0, 0] > 0) * 0.9

    def describe(self, trajectory):
        right = float((trajectory.action[0] > 0).mean())
        return Descriptor("right" if right > 0.5 else "left", {"right": right})


def found(env, tmp_path, count, **more):
    method = PGAMapElites(
        "pga-map-elites", critic_steps=40, minibatch=64, remembered=256, episodes=8
    )
    learner = PPO(**{"batch": 96, "updates": 12, "hidden": 16, "layers": 1} | more)
    config = Config("x", count, method=method, ppo=learner, judge=Judge(episodes=64))
    return rspo.discover(env, config=config, out=tmp_path / "run", quiet=True)


@pytest.mark.slow
def test_it_finds_every_door(tmp_path):
    archive = found(Doors(doors=3, depth=1), tmp_path, 3)
    assert {strategy.descriptor for strategy in archive} == {"door 0", "door 1", "door 2"}
    assert all(strategy.status == "novel" for strategy in archive)
    assert all(strategy.evaluation.return_mean > 0.95 for strategy in archive)
    again = rspo.load(tmp_path / "run")
    assert [s.evaluation for s in again] == [s.evaluation for s in archive]


@pytest.mark.slow
def test_it_finds_both_sides_of_real_actions_and_says_that_other_cells_are_empty(tmp_path):
    archive = found(Sides(), tmp_path, 3)
    assert {strategy.descriptor for strategy in archive[:2]} == {"left", "right"}
    assert all(strategy.evaluation.return_mean > 1.8 for strategy in archive[:2])
    assert archive[2].status == "failed"


def test_the_first_generation_fixes_all_scales():
    rng = np.random.default_rng(0)
    played = plain.random_trajectory(rng, actions=3)
    generation = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], played)
    setup = Setup(Spec(played.obs.shape[-1], Discrete(3), horizon=5), Plan(members=2), 2)
    start = pga_map_elites._unit_scales(setup, PPO(normalize_obs=True))
    returns = jnp.asarray([1.0, 5.0])
    fixed = pga_map_elites._fixed(start, generation, returns, jnp.asarray(True))
    counted = np.asarray(played.counted)
    np.testing.assert_allclose(fixed.obs.mean, played.obs[counted].mean(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(fixed.reward, 2.0)
    later = pga_map_elites._fixed(fixed, generation, returns * 7, jnp.asarray(False))
    np.testing.assert_array_equal(later.obs.mean, fixed.obs.mean)
    np.testing.assert_array_equal(later.reward, fixed.reward)


def test_it_takes_the_steps_of_other_methods():
    for policies, batch in ((4, 512), (3, 160)):
        config = Config("x", policies, method=METHODS.make("pga-map-elites"), ppo=PPO(batch=batch))
        other = Config("x", policies, method=METHODS.make("pg"), ppo=PPO(batch=batch))
        assert config.steps == other.steps
        spec = Spec(1, Discrete(2), horizon=16)
        setup = Setup(spec, config.plan, policies)
        candidates, episodes = config.method.sizes(setup, config.ppo)
        assert candidates * episodes * 16 == policies * batch
        assert episodes <= config.method.episodes
        assert config.plan == Plan(members=policies)


def test_a_memory_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"ppo\.memory is 'gru'"):
        found(Doors(doors=2, depth=1), tmp_path, 2, memory="gru")
