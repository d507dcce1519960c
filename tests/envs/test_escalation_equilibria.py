"""The exact best response in Escalation: brute force, played episodes and scripted policies
agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from plain_games import GRID, PlainEscalation, neighbour
from rspo.core.distributions import Categorical
from rspo.core.types import Descriptor
from rspo.envs import escalation_equilibria
from rspo.envs.escalation import Escalation, count_equilibria, lengths_in
from rspo.envs.escalation_equilibria import Pair, examine
from worlds import collect

STAY, RIGHT, LEFT, UP, DOWN = range(5)


def chosen(action):
    return 1.0 * (action[..., None] == np.arange(5))


def follow(obs):
    """NumPy and JAX alike."""
    where, x, y = obs.__array_namespace__().where, obs[..., 5], obs[..., 6]
    sideways, upright = where(x > 0, RIGHT, LEFT), where(y > 0, UP, DOWN)
    return where(x != 0, sideways, where(y != 0, upright, STAY))


def follow_until(stop):
    return lambda obs: chosen(obs.__array_namespace__().where(stop(obs), STAY, follow(obs)))


def length_is(k):
    return follow_until(lambda obs: obs[..., 0] >= k)


def sometimes(policy, other, share):
    return lambda obs: share * other(obs) + (1 - share) * policy(obs)


def uniform(obs):
    return np.full((*obs.shape[:-1], 5), 0.2)


def any_policy(obs):
    """Different probabilities in every state, none of them 0."""
    features = np.cos(obs.astype(np.float64) @ np.linspace(0.3, 2.9, 7 * 5).reshape(7, 5))
    toward = chosen(follow(obs))
    weight = np.exp(features + 2 * toward)
    return weight / weight.sum(-1, keepdims=True)


# --- brute force ---


def seen(cells, light, length, agent):
    game = PlainEscalation(cells, light, length)
    return np.asarray(game.observe()[agent], np.float32)


def brute_force(policy, cells, light, length, steps, best):
    """What agent 0 earns at most, or by the policy, against it: every action and every chance."""
    if steps == 0:
        return 0.0
    mine, theirs = (policy(seen(cells, light, length, agent)) for agent in (0, 1))
    values = []
    for action in range(5):
        total = 0.0
        for reply in range(5):
            around = [
                there
                for there in (neighbour(light, move) for move in (RIGHT, LEFT, UP, DOWN))
                if there
            ]
            outcomes = []
            for slot in range(len(around)):
                game = PlainEscalation(cells, light, length)
                reward = game.step((action, reply), [(slot + 0.5) / len(around)])[0]
                rest = (policy, game.agents, game.light, game.length, steps - 1, best)
                outcomes.append(reward + (0.0 if game.over else brute_force(*rest)))
                if game.light == light:
                    break  # it did not move: chance decides nothing
            total += theirs[reply] * np.mean(outcomes)
        values.append(total)
    return max(values) if best else float(mine @ values)


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize(
    ("cells", "light"),
    [([(2, 1), (1, 2)], (2, 2)), ([(0, 1), (1, 0)], (0, 0)), ([(4, 4), (3, 3)], (4, 3))],
)
def test_values_agree_with_brute_force(cells, light, best):
    horizon = 3
    table = escalation_equilibria._tabulate(any_policy, horizon)
    values = escalation_equilibria._values(Escalation(), horizon, table, None if best else table)
    one, two, lit = (GRID.index(cell) for cell in (*cells, light))
    expected = brute_force(any_policy, cells, light, 0, horizon, best)
    assert values[one, two, lit] == pytest.approx(expected, abs=1e-6)
    assert expected != 0


# --- played episodes ---


def lengths_of(policy):
    return escalation_equilibria._lengths(escalation_equilibria._tabulate(policy, 50), 50)


@pytest.mark.slow
def test_the_value_and_the_lengths_are_those_of_played_episodes():
    policy = sometimes(length_is(6), uniform, 0.05)
    sampled = lambda obs: Categorical(jnp.log(policy(obs)))
    program = jax.jit(lambda key: collect(Escalation(), sampled, 4096, key, record=True))
    played = jax.device_get(program(jax.random.key(0)))
    pair, stats = examine(policy), Escalation().describe(played).stats
    error = float(played.returns.mean(-1).std()) / 64
    assert pair.value == pytest.approx(float(played.returns.mean()), abs=4 * error)
    lengths, unbroken = lengths_of(policy)
    np.testing.assert_allclose(lengths, lengths_in(stats, 50), atol=0.03)
    assert lengths.sum() == pytest.approx(1)
    assert (pair.length, pair.unbroken) == (6, unbroken)


# --- scripted policies ---


@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_stopping_together_is_an_equilibrium(k):
    pair = examine(length_is(k))
    assert (pair.value, pair.best) == (pytest.approx(k), pytest.approx(k))
    assert (pair.length, pair.unbroken) == (k, 0)
    assert pair.describe() == Descriptor(f"L={k}", {"L*": k}, clear=True)


def test_following_to_the_end_is_an_equilibrium():
    pair = examine(length_is(99))
    assert pair.gain == pytest.approx(0)
    assert pair.unbroken == pytest.approx(1)
    assert (pair.describe().label, pair.describe().clear) == ("L=always", True)


def test_stopping_in_agreed_directions_is_an_equilibrium():
    """At ten both leave if the light goes left or down, and both see where it went."""
    policy = follow_until(lambda obs: (obs[..., 0] >= 10) & (obs[..., 5] + obs[..., 6] < 0))
    pair, (lengths, _) = examine(policy), lengths_of(policy)
    assert (pair.length, pair.gain) == (10, pytest.approx(0))
    assert lengths[10] == pytest.approx(
        0.5
    )  # by symmetry; later the light is rather above and to the right
    assert 0.125 < lengths[12] < 0.25 < lengths[11] < 0.5


@pytest.mark.parametrize(
    "policy",
    [
        sometimes(
            length_is(3), length_is(99), 0.5
        ),  # from 3 on it parts half of the time: better to leave at 3
        sometimes(length_is(20), uniform, 0.1),  # slips so often that stopping early pays
        lambda obs: (
            chosen(np.where((obs[..., 0] >= 5) & (obs[..., 1] < 2), STAY, follow(obs))) * 0.6
            + 0.4 * chosen(follow(obs))
        ),
    ],
)
def test_who_leaves_the_other_alone_is_no_equilibrium(policy):
    pair = examine(policy)
    assert pair.best > pair.value + 0.5
    assert not pair.describe().clear


def test_never_meeting_does_not_count():
    """Nobody gains alone, but there is no cooperation to speak of."""
    pair = examine(lambda obs: chosen(np.where(follow(obs) == RIGHT, LEFT, STAY)))
    assert (pair.length, pair.describe().clear) == (0, False)


def test_the_tolerance_is_half_a_step_or_a_twentieth():
    stable = lambda value, best, tolerance=1.0: Pair(value, best, 5, 0.0).describe(tolerance).clear
    assert stable(5.0, 5.5)
    assert not stable(5.0, 5.51)
    assert stable(40.0, 42.0)
    assert not stable(40.0, 42.1)
    assert stable(40.0, 42.1, tolerance=2)
    assert not stable(5.0, 5.3, tolerance=0.5)


def test_what_is_no_equilibrium_is_not_counted():
    pairs = [Pair(k, k + gain, k, 0.0) for k, gain in ((1, 0), (2, 0), (4, 0), (9, 3))]
    assert count_equilibria(pair.describe() for pair in pairs) == 2
