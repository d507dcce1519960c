"""The skirmishes: the arithmetic of the game's data, terrain, SMAC's contract, symmetry, and what
scripted players achieve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rspo.core.policies import uniform_policy
from rspo.envs.skirmish import Skirmish, combat, contract
from rspo.envs.skirmish.battle import DT
from rspo.envs.skirmish.maps import MAPS
from rspo.envs.skirmish.state import State, fresh, info
from rspo.envs.skirmish.terrain import STRAIGHT, terrain
from rspo.envs.skirmish.units import UNITS
from rspo.errors import InputError
from rspo.rollout.collector import collector

MARINES, COLOSSI = Skirmish("2m_vs_1z"), Skirmish("2c_vs_64zg")
STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(1, 7)
CALM = 0.0625 / 0.1875
steps = {env.name: jax.jit(env.step) for env in (MARINES, COLOSSI)}
views = {
    env.name: jax.jit(lambda state, env=env: contract.view(env.game, env.passable, state))
    for env in (MARINES, COLOSSI)
}
resets = {env.name: jax.jit(env.reset) for env in (MARINES, COLOSSI)}


def started(env):
    return resets[env.name](jnp.full(env.spec.reset_noise, 0.5))


def after(env, state, *action):
    """A step without jitter."""
    return steps[env.name](state, jnp.asarray(action), jnp.full(env.spec.step_noise, CALM))


def placed(env, allies, enemies):
    """A fresh state with units at these places; what is left out is dead."""
    state, _ = started(env)

    def team(side, places):
        x, y = np.full((2, side.count), 16.0, np.float32)
        hp = np.zeros(side.count, np.float32)
        for i, (at_x, at_y) in enumerate(places):
            x[i], y[i], hp[i] = at_x, at_y, side.unit.hp
        full = fresh(side, jnp.asarray(x), jnp.asarray(y))
        return full._replace(hp=jnp.asarray(hp), shield=full.shield * (hp > 0))

    return state._replace(
        allies=team(env.game.allies, allies), enemies=team(env.game.enemies, enemies)
    )


# --- the arithmetic of damage ---


def hurt_until_dead(victim, shooter, hits=1):
    """How many blows it takes, without recovery."""
    team, blows = fresh(MAPS["2m_vs_1z"].enemies, jnp.zeros(1), jnp.zeros(1)), 0
    team = team._replace(hp=jnp.full(1, victim.hp), shield=jnp.full(1, victim.shield))
    while float(team.hp[0]) > 0:
        team = combat.hurt(team, victim, jnp.full(1, float(hits)), shooter.damage, 0.0)
        blows += 1
    return blows


def test_a_zealot_dies_of_29_shots():
    """8 on the shield, one on both, 20 on hit points."""
    assert hurt_until_dead(UNITS["zealot"], UNITS["marine"]) == 29


def test_a_marine_dies_of_three_volleys_and_a_zergling_of_one():
    assert hurt_until_dead(UNITS["marine"], UNITS["zealot"], hits=2) == 3
    assert hurt_until_dead(UNITS["zergling"], UNITS["colossus"], hits=2) == 1
    assert hurt_until_dead(UNITS["zergling"], UNITS["colossus"], hits=1) == 2


@pytest.mark.parametrize("hits", [1, 2, 5, 31])
@pytest.mark.parametrize("shield", [0.0, 3.25, 5.0, 148.0])
def test_many_hits_at_once_are_hits_one_after_the_other(hits, shield):
    colossus, zergling = UNITS["colossus"], UNITS["zergling"]
    team = fresh(MAPS["2m_vs_1z"].enemies, jnp.zeros(1), jnp.zeros(1))
    team = team._replace(hp=jnp.full(1, 200.0), shield=jnp.full(1, shield))
    at_once = combat.hurt(team, colossus, jnp.full(1, float(hits)), zergling.damage, 0.0)
    hp, left = 200.0, shield
    for _ in range(hits):
        absorbed = min(left, zergling.damage)
        left -= absorbed
        if absorbed < zergling.damage:
            hp -= max(zergling.damage - absorbed - colossus.armour, 0.0)
    np.testing.assert_allclose([at_once.hp[0], at_once.shield[0]], [hp, left], atol=1e-4)


def test_reaches_and_commitment():
    unit = UNITS
    assert unit["marine"].reach(unit["zealot"]) == pytest.approx(5.875)
    assert unit["zealot"].reach(unit["marine"]) == pytest.approx(0.975)
    assert unit["colossus"].reach(unit["zergling"]) == pytest.approx(7.375)
    assert unit["zergling"].reach(unit["colossus"]) == pytest.approx(1.475)
    assert unit["zealot"].commitment == pytest.approx(0.78)


@pytest.mark.slow
def test_a_marine_needs_29_periods_for_a_zealot_that_cannot_reach_it():
    """Both shoot: half the time. The zealot stands still, as if in a blow that takes forever."""
    state, count = placed(MARINES, [(13.0, 14.0), (13.0, 12.0)], [(16.0, 13.0)]), 0
    state = state._replace(enemies=state.enemies._replace(swing=jnp.full(1, -1000.0)))
    while float(state.enemies.hp[0]) > 0 and count < 60:
        state, result = after(MARINES, state, ATTACK, ATTACK)
        count += 1
    volleys = 15  # 29 shots of two marines
    assert count == pytest.approx((volleys - 1) * 0.8608 / 0.5 + 1, abs=1.0)
    assert bool(result.terminated)
    np.testing.assert_array_equal(state.allies.hp, [45.0, 45.0])


def test_the_lance_burns_a_line_across_the_shot():
    """3.55 long and 1.05 wide for zerglings."""
    line = [(16 + dx, 18.0) for dx in (-1.7, -0.8, 0.0, 0.8, 1.7)]
    beside = [(16 - 1.9, 18.0), (16 + 1.9, 18.0), (16.0, 18.6), (16.8, 17.4)]
    state = placed(COLOSSI, [(16.0, 14.5)], [*line, *beside])
    lance, radius = UNITS["colossus"].lance, UNITS["zergling"].radius
    places = (state.enemies.x[:9], state.enemies.y[:9])
    hit = combat.burnt(lance, radius, (jnp.asarray(16.0), jnp.asarray(14.5)), (16.0, 18.0), places)
    np.testing.assert_array_equal(hit, [True] * 5 + [False] * 4)


@pytest.mark.slow
def test_shields_recover_after_ten_seconds():
    state = placed(MARINES, [(10.0, 10.0)], [(20.0, 20.0)])
    hurt = state.enemies._replace(shield=jnp.full(1, 20.0), calm=jnp.zeros(1))
    state = state._replace(enemies=hurt)
    shields = []
    for _ in range(25):
        state, _ = after(MARINES, state, STOP, 0)
        shields.append(float(state.enemies.shield[0]))
    assert shields[18] == 20.0
    assert shields[-1] == pytest.approx(20.0 + 2.0 * 0.5 * 5, abs=0.5)


@pytest.mark.slow
def test_the_zealots_second_hit_lands_on_who_steps_back():
    """Within a slop of one; a marine that was hit and runs is hit once more by the same blow."""
    state = placed(MARINES, [(16.0, 12.0)], [(16.0, 12.9)])
    ended, _ = after(MARINES, state, SOUTH, 0)
    assert float(ended.allies.hp[0]) == 45.0 - 16.0
    precise = jax.jit(Skirmish("2m_vs_1z", slop=0.0).step)
    ended, _ = precise(state, jnp.asarray([SOUTH, 0]), jnp.full(3, CALM))
    assert float(ended.allies.hp[0]) == 45.0 - 8.0


# --- terrain ---


def test_the_ground_of_2c_vs_64zg():
    ground = terrain(MAPS["2c_vs_64zg"].ground)
    assert ground.walkable.sum() == 336
    assert (ground.scalable & ~ground.walkable).sum() == 48
    assert ground.walkable[13, :4].all()
    assert not ground.walkable[12:14, 4:28].any()
    assert ground.scalable[12:14, 4:28].all()
    assert ground.walkable[18, 8:24].sum() == ground.walkable[18].sum() == 16


def test_the_ground_of_2m_vs_1z_is_an_octagon():
    walkable = terrain(MAPS["2m_vs_1z"].ground).walkable
    assert [int(walkable[y].sum()) for y in (5, 6, 8, 10, 21, 22, 24, 26)] == [
        0, 12, 16, 20, 20, 16, 12, 0,
    ]  # fmt: skip
    np.testing.assert_array_equal(walkable, walkable.T)


@pytest.mark.parametrize("name", MAPS)
def test_ways_lead_to_every_cell(name):
    """Following way-points from any cell gets to any other, over walkable cells alone."""
    ground = terrain(MAPS[name].ground)
    cells = np.flatnonzero(ground.walkable)
    at = np.broadcast_to(np.arange(len(cells)), (len(cells), len(cells)))
    to = np.arange(len(cells))[:, None]
    for _ in range(20):
        way = ground.way[to, at]
        at = np.where(way == STRAIGHT, to, ground.number[np.maximum(way, 0)])
    assert (at == to).all()


def test_ways_go_round_the_cliff():
    """From below the plateau to its middle: by the nearer side."""
    ground = terrain(MAPS["2c_vs_64zg"].ground)
    number = ground.number.reshape(32, 32)
    left = ground.way[number[15, 14], number[9, 13]]
    right = ground.way[number[15, 17], number[9, 18]]
    assert left % 32 < 4
    assert right % 32 > 27
    assert ground.way[number[9, 20], number[9, 10]] == STRAIGHT
    on_cliff = ground.way[number[12, 16]]  # struck from below
    assert on_cliff[number[11, 12]] == STRAIGHT
    assert on_cliff[number[15, 12]] != STRAIGHT


@pytest.mark.slow
def test_zerglings_come_up_the_ramps_and_never_stand_on_the_cliff():
    state, _ = started(COLOSSI)
    ground = COLOSSI.rules.terrain
    for _ in range(20):
        state, _ = after(COLOSSI, state, STOP, STOP)
        x, y = np.asarray(state.enemies.x, int), np.asarray(state.enemies.y, int)
        assert ground.walkable[y, x].all()
    assert (np.asarray(state.enemies.y) > 14).sum() > 20


# --- SMAC's contract ---


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("2m_vs_1z", (16, 26, 7, 150, 2)),
        ("2c_vs_64zg", (332, 342, 70, 400, 2)),
        ("3m", (30, 48, 9, 60, 3)),
    ],
)
def test_sizes(name, numbers):
    spec = Skirmish(name).spec
    assert (
        spec.obs_size,
        spec.state_size,
        spec.action_space.n,
        spec.horizon,
        spec.agents,
    ) == numbers
    _, seen = jax.eval_shape(Skirmish(name).reset, jnp.zeros(spec.reset_noise))
    assert seen.obs.shape == (spec.agents, spec.obs_size)
    assert seen.state.shape == (spec.agents, spec.state_size)
    assert seen.mask.shape == (spec.agents, spec.action_space.n)


@pytest.mark.parametrize("name", MAPS)
def test_allies_are_numbered_from_left_to_right(name):
    """Also where they start in a column: by SMAC's order, (type, x, y)."""
    env, reset, rng = Skirmish(name), jax.jit(Skirmish(name).reset), np.random.default_rng(2)
    for _ in range(8):
        state, _ = reset(jnp.asarray(rng.random(env.spec.reset_noise), jnp.float32))
        assert (np.diff(state.allies.x) >= 0).all()


def test_an_unknown_map_is_named():
    with pytest.raises(InputError, match="no map '8m'; there are 2m_vs_1z"):
        Skirmish("8m")


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ({"targets": "closest"}, "targets is 'closest', but it must be one of shooters, attackers"),
        ({"cliff_moves": "yes"}, "cliff_moves is 'yes', but it must be one of scaler, smac"),
        ({"attack_commit": -1.0}, "attack_commit is -1.0"),
        ({"slop": float("nan")}, "slop is nan"),
    ],
)
def test_switches_that_make_no_sense_are_refused(switch, words):
    with pytest.raises(InputError, match=words):
        Skirmish("2m_vs_1z", **switch)


def test_masks_at_walls():
    """A move is allowed where the cell one unit ahead is walkable."""
    for (x, y), wanted in {
        (16.0, 16.0): [1, 1, 1, 1],
        (6.5, 15.0): [1, 1, 1, 0],
        (25.5, 15.0): [1, 1, 0, 1],
        (25.05, 15.0): [1, 1, 0, 1],
        (24.95, 15.0): [1, 1, 1, 1],
        (16.0, 25.5): [0, 1, 1, 1],
        (16.0, 6.5): [1, 0, 1, 1],
        (7.5, 10.5): [1, 0, 1, 1],
    }.items():
        seen = views["2m_vs_1z"](placed(MARINES, [(x, y), (16, 16)], [(16, 20)]))
        np.testing.assert_array_equal(seen.mask[0, :6], [0, 1, *wanted])


def test_masks_at_the_edge_of_the_map_round_towards_zero():
    """SMAC looks at the cell int(x - 1): 0 for any x below 2, so that a pointless move is allowed
    at the left edge, and not at the right one."""
    for x, wanted in {0.5: [1, 1], 1.5: [1, 1], 30.5: [1, 1], 31.5: [0, 1]}.items():
        seen = views["2c_vs_64zg"](placed(COLOSSI, [(x, 11.0)], [(16, 9)]))
        np.testing.assert_array_equal(seen.mask[0, [EAST, WEST]], wanted)


def test_masks_of_attacks_and_of_the_dead():
    state = placed(COLOSSI, [(16.0, 15.0)], [(16.0, 20.9), (16.0, 21.1), (12.0, 15.0)])
    mask = views["2c_vs_64zg"](state).mask
    np.testing.assert_array_equal(np.flatnonzero(mask[0, ATTACK:]), [0, 2])
    np.testing.assert_array_equal(np.flatnonzero(mask[1]), [0])


def test_cliffs_are_open_to_colossi_unless_smac_says_no():
    """With SMAC's mask they step onto the rim, and no further."""
    for cliff_moves, y, south in (
        ("scaler", 14.5, 1), ("smac", 14.5, 0), ("smac", 15.05, 1), ("smac", 13.9, 0), ("scaler", 13.9, 1),
    ):  # fmt: skip
        env = Skirmish("2c_vs_64zg", cliff_moves=cliff_moves)
        state = placed(env, [(16.0, y)], [(16.0, 9.0)])
        north, down, *_ = contract.moves(env.passable, state)
        assert down[0] == south
        assert north[0]


def test_an_observation_by_hand():
    state = placed(MARINES, [(13.0, 12.0), (19.0, 12.0)], [(16.0, 16.0)])
    enemies = state.enemies._replace(hp=jnp.full(1, 50.0), shield=jnp.full(1, 10.0))
    state = state._replace(enemies=enemies, allies=state.allies._replace(hp=jnp.array([45.0, 9.0])))
    obs = views["2m_vs_1z"](state).obs
    np.testing.assert_allclose(
        obs[0],
        [1, 1, 1, 1, 1, 5 / 9, 3 / 9, 4 / 9, 0.5, 0.2, 1, 6 / 9, 6 / 9, 0, 0.2, 1],
        atol=1e-6,
    )
    state = placed(MARINES, [(13.0, 12.0)], [(16.0, 21.5)])
    obs = views["2m_vs_1z"](state).obs
    np.testing.assert_array_equal(obs[0, 4:], [0.0] * 11 + [1.0])  # out of sight, and alone
    np.testing.assert_array_equal(obs[1], np.zeros(16))


def test_a_global_state_by_hand():
    state = placed(MARINES, [(13.0, 12.0)], [(16.0, 20.0)])
    allies = state.allies._replace(cooldown=jnp.array([0.5, 0.3]))
    state = state._replace(allies=allies, last_action=jnp.array([3, 0]))
    seen = views["2m_vs_1z"](state).state
    assert (seen[0] == seen[1]).all()
    first = [1.0, 8 / 15, -3 / 32, -4 / 32]
    np.testing.assert_allclose(
        seen[0], [*first, *[0] * 4, 1, 0, 4 / 32, 1, *np.eye(7)[3], *np.eye(7)[0]], atol=1e-6
    )


@pytest.mark.parametrize(("env", "scale"), [(MARINES, 18.0), (COLOSSI, 154.0)])
def test_rewards_add_up_to_twenty(env, scale):
    """Of SMAC's points, divided by a twentieth of all that there are."""
    np.testing.assert_allclose(env.weights, np.array([1.0, 10.0, 200.0]) / scale, rtol=1e-6)
    before, _ = started(env)
    dead = before.enemies._replace(hp=before.enemies.hp * 0, shield=before.enemies.shield * 0)
    found = contract.features(before, before._replace(enemies=dead))
    np.testing.assert_allclose((found * env.weights).sum(), 20.0, rtol=1e-5)


def test_healing_pays_as_smacs_absolute_value_has_it():
    before, _ = started(MARINES)
    hurt = before._replace(enemies=before.enemies._replace(shield=jnp.full(1, 49.0)))
    np.testing.assert_array_equal(contract.features(hurt, before), [1.0, 0.0, 0.0])


def test_healing_beside_a_death_is_subtracted_from_what_it_pays():
    """|damage + 10 kills| in SMAC's code, not |damage| + 10 kills: here |1 - 3 + 10|."""
    state = placed(COLOSSI, [(16.0, 16.0)], [(16.0, 9.0), (14.0, 9.0)])
    enemies = state.enemies._replace(hp=state.enemies.hp.at[:2].set(jnp.array([1.0, 30.0])))
    after = enemies._replace(hp=enemies.hp.at[:2].set(jnp.array([0.0, 33.0])))
    found = contract.features(
        state._replace(enemies=enemies), state._replace(enemies=after)
    ) * np.array([1.0, 10.0, 0.0])
    assert float(found.sum()) == 8.0


def test_the_end_of_a_game():
    state = placed(MARINES, [(16.0, 12.0), (13.0, 12.0)], [(16.0, 14.0)])
    weak = state._replace(enemies=state.enemies._replace(hp=jnp.ones(1), shield=jnp.zeros(1)))
    ended, step = after(MARINES, weak, ATTACK, ATTACK)
    assert bool(step.terminated)
    facts = {name: int(value) for name, value in info(ended).items()}
    assert facts == {"battle_won": 1, "dead_allies": 0, "dead_enemies": 1}
    np.testing.assert_allclose(step.reward, [(1 + 10 + 200) / 18] * 2, rtol=1e-5)
    state = placed(MARINES, [(16.0, 12.0)], [(16.0, 12.9)])
    lost, step = after(
        MARINES, state._replace(allies=state.allies._replace(hp=jnp.array([8.0, 0.0]))), STOP, 0
    )
    assert bool(step.terminated)
    assert not info(lost)["battle_won"]
    np.testing.assert_array_equal(step.alive, [False, False])
    np.testing.assert_array_equal(step.reward, [0.0, 0.0])


def test_moves_go_1_125_units_and_stop_at_walls():
    state = placed(MARINES, [(16.0, 12.0), (7.05, 15.0)], [(10.0, 22.0)])
    for action, (dx, dy) in {
        NORTH: (0, 1), SOUTH: (0, -1), EAST: (1, 0), WEST: (-1, 0), STOP: (0, 0),
    }.items():  # fmt: skip
        moved, _ = after(MARINES, state, action, STOP)
        found = [float(moved.allies.x[0]), float(moved.allies.y[0])]
        np.testing.assert_allclose(found, [16 + 1.125 * dx, 12 + 1.125 * dy], atol=1e-4)
    moved, _ = after(MARINES, state, STOP, WEST)
    assert 6.0 <= float(moved.allies.x[1]) < 6.3


# --- both sides of a mirror ---


SWAP = np.arange(70)
SWAP[[EAST, WEST]] = WEST, EAST


def mirrored(state):
    flip = lambda team: team._replace(x=32.0 - team.x)
    return state._replace(
        allies=flip(state.allies),
        enemies=flip(state.enemies),
        point_x=32.0 - state.point_x,
        last_action=jnp.asarray(SWAP)[state.last_action],
    )


@pytest.mark.slow
@pytest.mark.parametrize("env", [MARINES, COLOSSI], ids=lambda env: env.name)
def test_mirrored_play_has_a_mirrored_outcome(env):
    rng = np.random.default_rng(3)
    state, _ = resets[env.name](jnp.asarray(rng.random(env.spec.reset_noise), jnp.float32))
    for _ in range(16):
        other = mirrored(state)  # anew at each step: a crowd multiplies what rounding leaves
        mask = np.asarray(views[env.name](state).mask)
        action = np.array([rng.choice(np.flatnonzero(row)) for row in mask])
        noise = jnp.asarray(rng.random(env.spec.step_noise), jnp.float32)
        state, step = steps[env.name](state, jnp.asarray(action), noise)
        other, step2 = steps[env.name](other, jnp.asarray(SWAP[action]), noise)
        np.testing.assert_allclose(step2.reward, step.reward, atol=1e-3)
        for mine, theirs in zip(
            jax.tree.leaves(mirrored(state)), jax.tree.leaves(other), strict=True
        ):
            np.testing.assert_allclose(theirs, mine, atol=1e-3)


# --- through the collector ---


@pytest.mark.slow
def test_random_play_through_the_collector():
    env = Skirmish("3m")
    play = jax.jit(
        lambda key: collector(env)(uniform_policy(9), 16, key, padding="drop", record=True)
    )
    played = play(jax.random.key(0))
    chosen = np.take_along_axis(
        np.asarray(played.view.mask), np.asarray(played.action)[..., None], -1
    )
    assert chosen.all()
    alive = np.concatenate([np.ones((1, 16, 3), bool), np.asarray(played.state.allies.hp)[:-1] > 0])
    np.testing.assert_array_equal(played.counted, alive & np.asarray(played.live)[..., None])
    np.testing.assert_allclose(
        (np.asarray(played.features) * env.weights).sum(-1), played.reward, atol=1e-5
    )
    assert isinstance(played.state, State)
    assert DT * 4 == 0.5
