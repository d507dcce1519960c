"""Several choices at once: against the joint distribution over all their combinations, one by one."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import rspo
from plain import log_softmax
from rspo.core.distributions import choosing
from rspo.core.policies import init_policy, uniform_policy
from rspo.core.policies.packing import from_arrays, to_arrays
from rspo.core.spaces import Discrete, MultiDiscrete
from rspo.core.types import Spec, Step, View
from rspo.envs.base import Env

NUMBERS = partial(st.floats, width=32, allow_subnormal=False)
FEW = settings(max_examples=20, deadline=None)
SIZES = pytest.mark.parametrize("sizes", [(2, 3, 4), (2, 2), (3,), (4, 1, 2)], ids=str)


def facts(space, logits, mask, actions):
    found = choosing(space, logits, mask)
    return found.log_prob(actions), found.entropy(), found.mode()


def samples(space, logits, mask, numbers):
    return choosing(space, logits, mask).sample(numbers)


def both(function):
    """In NumPy, and in JAX as one program: operation by operation, each would be compiled."""
    return pytest.mark.parametrize(
        function.__name__, [function, jax.jit(function, static_argnums=0)], ids=["numpy", "jax"]
    )


def parts(sizes, flat):
    """The numbers of each choice."""
    return np.split(flat, np.cumsum(sizes)[:-1], axis=-1)


def joint(sizes, logits, mask=None):
    """log p of every combination that is allowed, by its choices."""
    rows = parts(sizes, np.where(True if mask is None else mask, logits, -np.inf))
    tables = []
    for row in rows:
        table, allowed = np.full(len(row), -np.inf), np.isfinite(row)
        table[allowed] = log_softmax(row[allowed])
        tables.append(table)
    every = itertools.product(*(range(size) for size in sizes))
    found = {c: sum(table[i] for table, i in zip(tables, c, strict=True)) for c in every}
    return {c: value for c, value in found.items() if np.isfinite(value)}


@st.composite
def masks(draw, sizes):
    """At least one of each choice."""
    mask = draw(arrays(bool, sum(sizes)))
    for row in parts(sizes, mask):
        row[draw(st.integers(0, len(row) - 1))] = True
    return mask


def check_against_joint(facts, sizes, logits, mask):
    wanted = joint(sizes, logits, mask)
    assert abs(sum(np.exp(list(wanted.values()))) - 1) < 1e-6
    # Masked ones too, so that every example has the same shapes.
    every = np.array(list(itertools.product(*(range(size) for size in sizes))), np.int32)
    rows = lambda x: None if x is None else np.broadcast_to(x, (len(every), len(x)))
    each, entropies, modes = facts(MultiDiscrete(sizes), rows(logits), rows(mask), every)
    for combination, log_prob in zip(every.tolist(), np.asarray(each), strict=True):
        if tuple(combination) in wanted:
            np.testing.assert_allclose(log_prob, wanted[tuple(combination)], rtol=1e-5, atol=1e-4)
        else:
            assert log_prob < -1e8
    log_probs = np.array(list(wanted.values()))
    entropy = -(np.exp(log_probs) * log_probs).sum()
    np.testing.assert_allclose(entropies, entropy, rtol=1e-4, atol=1e-5)
    assert wanted[tuple(np.asarray(modes)[0].tolist())] >= log_probs.max() - 1e-5


@both(facts)
@SIZES
@FEW
@given(data=st.data())
def test_likelihood_entropy_and_mode_are_those_of_the_joint_distribution(facts, sizes, data):
    logits = data.draw(arrays(np.float32, sum(sizes), elements=NUMBERS(-20, 20)))
    check_against_joint(facts, sizes, logits, None)


@both(facts)
@SIZES
@FEW
@given(data=st.data())
def test_a_mask_leaves_the_joint_distribution_of_what_it_allows(facts, sizes, data):
    logits = data.draw(arrays(np.float32, sum(sizes), elements=NUMBERS(-20, 20)))
    check_against_joint(facts, sizes, logits, data.draw(masks(sizes)))


@both(samples)
@FEW
@given(data=st.data())
def test_sampling_a_grid_of_numbers_gives_the_joint_probabilities(samples, data):
    """Every choice has its own random number, so a grid over both covers the combinations in
    proportion."""
    sizes, side = (2, 3), 200
    logits = data.draw(arrays(np.float32, sum(sizes), elements=NUMBERS(-4, 4)))
    ticks = (np.arange(side, dtype=np.float32) + 0.5) / side
    grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1).reshape(-1, 2)
    table = np.broadcast_to(logits, (len(grid), sum(sizes)))
    drawn = np.asarray(samples(MultiDiscrete(sizes), table, None, grid))
    assert drawn.dtype == np.int32
    assert drawn.shape == grid.shape
    for combination, log_prob in joint(sizes, logits).items():
        share = (drawn == combination).all(-1).mean()
        assert abs(share - np.exp(log_prob)) <= 2.1 / side


@both(samples)
@SIZES
@FEW
@given(data=st.data())
def test_no_number_leads_to_a_choice_that_is_not_there(samples, sizes, data):
    space, below = MultiDiscrete(sizes), np.nextafter(np.float32(1), np.float32(0))
    logits = data.draw(arrays(np.float32, (2, space.n), elements=NUMBERS(-50, 50)))
    mask = np.broadcast_to(data.draw(masks(sizes)), (2, space.n))
    ends = np.stack([np.zeros(len(sizes)), np.full(len(sizes), below)]).astype(np.float32)
    for allowed in (None, mask):
        drawn = np.asarray(samples(space, logits, allowed, ends))
        for choice, row in zip(drawn.T, parts(sizes, mask[0]), strict=True):
            assert ((choice >= 0) & (choice < len(row))).all()
            assert allowed is None or row[choice].all()


@SIZES
def test_each_choice_takes_a_number(sizes):
    found = choosing(MultiDiscrete(sizes), np.zeros((3, sum(sizes)), np.float32))
    assert found.noise == ("uniform", (3, len(sizes)))


def test_one_choice_is_the_plain_distribution():
    logits = np.array([[0.3, -1.0, 2.0]], np.float32)
    one, several = choosing(Discrete(3), logits), choosing(MultiDiscrete((3,)), logits)
    np.testing.assert_array_equal(one.log_prob(np.array([1])), several.log_prob(np.array([[1]])))
    np.testing.assert_array_equal(one.entropy(), several.entropy())


def test_the_gradient_is_that_of_each_choice():
    sizes, logits = (2, 3), jnp.asarray([0.3, -1.0, 2.0, 0.1, -0.4])
    action = jnp.asarray([1, 0])
    choice = lambda x: choosing(MultiDiscrete(sizes), x)
    found, entropy = jax.jit(
        lambda x: (
            jax.grad(lambda x: choice(x).log_prob(action))(x),
            jax.grad(lambda x: choice(x).entropy())(x),
        )
    )(logits)
    wanted = np.array([0, 1, 1, 0, 0]) - np.concatenate(
        [np.exp(log_softmax(part)) for part in parts(sizes, np.asarray(logits))]
    )
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.isfinite(entropy).all()


@pytest.mark.parametrize("backend", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_an_action_as_numbers(backend):
    taken = MultiDiscrete((2, 3)).encode(backend(np.array([[1, 0], [0, 2]])))
    np.testing.assert_array_equal(taken, [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])
    assert taken.dtype == np.float32


def test_random_play_takes_every_combination_alike():
    found = uniform_policy(MultiDiscrete((2, 3)))(np.zeros((4, 7), np.float32))
    action = np.array([[0, 0], [1, 2], [0, 1], [1, 0]])
    np.testing.assert_allclose(found.log_prob(action), np.full(4, -np.log(6)), rtol=1e-6)
    np.testing.assert_allclose(found.entropy(), np.full(4, np.log(6)), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_policy_has_an_output_for_each_and_crosses_pipes(memory):
    spec = Spec(4, MultiDiscrete((2, 3)), horizon=5)
    policy = init_policy(spec, 1, 8, 1, True, jax.random.key(0), memory)
    obs = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    view = uniform_policy(spec.action_space)
    assert view(obs).noise.shape == (6, 2)
    _, found = policy.step(policy.initial(6), View(jnp.asarray(obs)))
    assert found.sample(jnp.full((6, 2), 0.5)).shape == (6, 2)
    packed = from_arrays(to_arrays(policy), spec.action_space)
    _, again = packed.step(packed.initial(6), View(obs))
    np.testing.assert_allclose(again.each.logits, found.each.logits, rtol=1e-4, atol=1e-5)


class Locks(Env):
    """Two dials that are turned at once: the first setting pays where both are right, and there are
    two ways to be."""

    @property
    def spec(self):
        return Spec(1, MultiDiscrete((2, 3)), horizon=2)

    def reset(self, noise):
        return jnp.zeros(()), jnp.ones((1, 1))

    def step(self, state, action, noise):
        first, second = action[0, 0], action[0, 1]
        right = ((first == 0) & (second == 2)) | ((first == 1) & (second == 0))
        return state, Step(jnp.ones((1, 1)), right[None].astype(jnp.float32), jnp.asarray(False))


@pytest.mark.slow
def test_a_run_learns_both_ways_keeps_them_and_plays_them(tmp_path):
    """With the reward predictor, which reads actions too; whatever is kept is read back."""
    settings = {
        "iterations": 2,
        "ppo": {"updates": 30, "batch": 256, "hidden": 16, "learning_rate": 1e-2},
        "judge": {"episodes": 64},
        # Being unlikely would pay more than the task here: -log p of the other setting is above 4.
        "method": {"lambda_b": 0.0, "lambda_r": 0.1, "predictor_steps": 5},
    }
    archive = rspo.discover(Locks(), out=tmp_path / "run", quiet=True, **settings)
    assert [strategy.status for strategy in archive] == ["novel", "novel"]
    ways = {tuple(strategy.act(np.ones(1), greedy=True).tolist()) for strategy in archive}
    assert ways == {(0, 2), (1, 0)}
    again = rspo.load(tmp_path / "run")
    for one, other in zip(archive, again, strict=True):
        np.testing.assert_array_equal(
            one.act(np.ones((5, 1)), rng=3), other.act(np.ones((5, 1)), rng=3)
        )
    evaluated = rspo.evaluate(tmp_path / "run", env=Locks())
    assert [s.evaluation for s in evaluated] == [s.evaluation for s in archive]
    page = (tmp_path / "run" / "report.html").read_text()
    assert " distinct strateg" in page
