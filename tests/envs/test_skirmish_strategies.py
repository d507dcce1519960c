"""What scripted players achieve, and the names that their play is given."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rspo.core.policies import uniform_policy
from rspo.envs.skirmish import Skirmish, descriptors
from rspo.envs.skirmish.descriptors import Tracks
from rspo.envs.skirmish.descriptors import colossi as read_colossi
from rspo.rollout.collector import collector
from skirmish_players import COLOSSI, MARINES, Hesitant, play, win_rate


@functools.cache
def marines():
    return play(Skirmish("2m_vs_1z"), MARINES, episodes=64)


@functools.cache
def colossi():
    return play(Skirmish("2c_vs_64zg"), COLOSSI, episodes=16)


def random_play(env, episodes):
    run = jax.jit(
        lambda key: collector(env)(
            uniform_policy(env.spec.action_space.n), episodes, key, padding="drop", record=True
        )
    )
    return jax.device_get(run(jax.random.key(0)))


@pytest.mark.slow
@pytest.mark.parametrize("player", ["stand", "attack", "toggle"])
def test_marines_that_stand_lose(player):
    assert win_rate(marines()[player]) == 0


@pytest.mark.slow
def test_random_marines_lose():
    assert win_rate(random_play(Skirmish("2m_vs_1z"), 256)) == 0


@pytest.mark.slow
def test_a_decoy_wins_about_always():
    assert win_rate(marines()["decoy"]) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("targets", "rises"), [("shooters", True), ("sticky", False)])
def test_whether_moves_near_the_zealot_pay_before_they_win(targets, rises):
    """By the default rule more random moves near the zealot pay more, long before they win; by the
    other one they pay less."""
    env = Skirmish("2m_vs_1z", targets=targets)

    @jax.jit
    def earned(odds):
        return collector(env)(
            Hesitant(odds, env), 512, jax.random.key(0), padding="drop"
        ).returns.mean()

    more = np.diff([earned(odds) for odds in (0.2, 0.4, 0.6, 0.8)]) > 0
    assert more.all() if rises else not more.any()


@pytest.mark.parametrize("player", list(MARINES)[4:])
def test_each_strategy_of_marines_wins_and_has_its_name(player):
    found = Skirmish("2m_vs_1z").describe(marines()[player])
    assert found.stats["won"] == win_rate(marines()[player]) >= 0.9
    assert found.label == player
    assert found.clear


def test_defeats_have_no_strategy():
    found = Skirmish("2m_vs_1z").describe(marines()["attack"])
    assert (found.label, found.clear, found.stats["won"]) == ("defeat", False, 0.0)


def test_a_win_pays_twenty():
    played = marines()["alternate distraction"]
    won = played.returns[:, 0][np.asarray(played.state.enemies.hp)[-1, :, 0] == 0]
    np.testing.assert_allclose(won, 20.0, atol=1e-3)


def test_what_grows_back_pays_twice_and_is_told():
    """Shields that recover pay by growing, as SMAC has it, and by being shot again. A zealot with
    damaged shields has not been hit for long; marines wait, then shoot."""
    env = Skirmish("2m_vs_1z")
    step, rest = jax.jit(env.step), np.full(3, 0.5, np.float32)
    start, _ = env.reset(np.full(env.spec.reset_noise, 0.5, np.float32))
    start = start._replace(enemies=start.enemies._replace(shield=jnp.full(1, 20.0)))
    states, damage, state = [], 0.0, start
    for action in [1] * 4 + [6] * 6:
        state, told = step(state, jnp.full(2, action), rest)
        states.append(state)
        damage += float(told.features[0, 0])
    batch = lambda *leaves: np.stack(leaves)[:, None]  # of one episode
    played = SimpleNamespace(
        start=jax.tree.map(lambda leaf: np.asarray(leaf)[None], start),
        state=jax.tree.map(batch, *states),
    )
    (healing,) = descriptors._healing(played, np.ones((10, 1), bool))
    assert healing >= 3.0
    lost = float(start.enemies.health[0] - state.enemies.health[0])
    assert lost > 0
    assert damage == pytest.approx(lost + 2 * healing, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("player", ["stand", "nearest"])
def test_colossi_that_stay_at_their_start_lose(player):
    assert win_rate(colossi()[player]) == 0


@pytest.mark.slow
def test_random_colossi_lose():
    assert win_rate(random_play(Skirmish("2c_vs_64zg"), 64)) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("player", ["kite", "hop", "left wave", "right wave"])
def test_colossi_that_hold_a_ramp_kite_or_hop_over_the_cliff_win(player):
    assert win_rate(colossi()[player]) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("player", list(COLOSSI)[4:])
def test_each_strategy_of_colossi_has_its_name(player):
    found = Skirmish("2c_vs_64zg").describe(colossi()[player])
    assert found.label == player
    assert found.clear


def test_a_sniper_is_unhurt_itself_even_if_the_attractor_is_dead():
    """The attractor loses everything early and dies, the other one loses a little late."""
    steps, zero = 20, np.zeros((20, 1, 2))
    for late, named in ((30.0, True), (50.0, False)):
        lost = zero.copy()
        lost[2, 0, 0], lost[15, 0, 1] = 350.0, late
        seen = Tracks(
            live=np.ones((steps, 1), bool),
            x=zero + np.array([10.0, 15.0]),
            y=zero + 17.0,
            dx=zero,
            dy=zero,
            alive=np.cumsum(lost, 0) < 350,
            fired=zero > 0,
            lost=lost,
            target=np.zeros((steps, 1, 1), int),
            enemy_y=np.full((steps, 1, 1), 17.0),
            enemy_alive=np.ones((steps, 1, 1), bool),
            won=np.ones(1, bool),
        )
        numbers, rules = read_colossi(seen)
        assert numbers["sniper's late damage"] == late
        assert bool(rules["attractor and sniper"][0]) == named


@pytest.mark.slow
def test_with_smacs_own_mask_nobody_hops_over_the_cliff():
    env = Skirmish("2c_vs_64zg", cliff_moves="smac")
    assert win_rate(play(env, {"hop": COLOSSI["hop"]}, episodes=8)["hop"]) == 0
