"""Monster-Hunt: every rule on hand-made states, agreement with a plain version, and names for
scripted players."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plain_games import GRID, PlainMonsterHunt, spawn
from rspo.core.distributions import Categorical
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Played, Trajectory
from rspo.envs.monster_hunt import (
    MonsterHunt,
    State,
    count_places,
    heatmap_in,
    meeting_heatmap,
    statistics,
)
from worlds import collect

STAY, RIGHT, LEFT, UP, DOWN = range(5)
SECOND_CLOSEST, VERTICAL, SECOND_EATS = 1, 2, 4  # bits of the coins
FAR = ((4, 3), (4, 4))  # apples out of the way

ORDERS = (True, False)
BOTH_ORDERS = pytest.mark.parametrize("monster_first", ORDERS)
envs = {order: MonsterHunt(monster_first=order) for order in ORDERS}
steps = {order: jax.jit(envs[order].step) for order in ORDERS}
resets = jax.jit(jax.vmap(MonsterHunt().reset))


def hand_made(agents, monster, apples=FAR):
    place = lambda cells: jnp.asarray(cells, jnp.int32)
    return State(place(agents), place(monster), place(apples), jnp.zeros((2, 3)))


def noise_of(coins=0, respawn=(0.5, 0.5, 0.5)):
    return jnp.asarray([(coins + 0.5) / 8, *respawn])


def play(state, *actions, coins=0, respawn=(0.5, 0.5, 0.5), monster_first=True):
    return steps[monster_first](state, jnp.asarray(actions), noise_of(coins, respawn))


def cells(positions):
    """Positions [..., 2] as tuples."""
    return [tuple(position) for position in np.asarray(positions).reshape(-1, 2).tolist()]


# --- walking ---


def test_actions_and_walls():
    """Every action from every cell, for either agent; the wall stops them."""
    for x, y in GRID:
        ends = [
            (x, y),
            (min(x + 1, 4), y),
            (max(x - 1, 0), y),
            (x, min(y + 1, 4)),
            (x, max(y - 1, 0)),
        ]
        state = hand_made([(x, y), (x, y)], (0, 0) if (x, y) != (0, 0) else (1, 0))
        for action, end in enumerate(ends):
            assert cells(play(state, action, STAY)[0].agents) == [end, (x, y)]
            assert cells(play(state, STAY, action)[0].agents) == [(x, y), end]


# --- meeting the monster ---


@BOTH_ORDERS
def test_one_agent_meets_the_monster(monster_first):
    state = hand_made([(0, 0), (1, 4)], (2, 0))
    after, step = play(state, RIGHT, STAY, monster_first=monster_first)
    np.testing.assert_array_equal(after.events, [[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(step.reward, [-2, 0])
    assert cells(after.monster)[0] not in cells(after.agents)
    assert cells(after.apples) == list(FAR)


@BOTH_ORDERS
def test_both_agents_meet_the_monster(monster_first):
    state = hand_made([(0, 0), (1, 1)], (2, 0))
    after, step = play(state, RIGHT, DOWN, monster_first=monster_first)
    np.testing.assert_array_equal(after.events, [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(step.reward, [5, 5])
    assert cells(after.monster)[0] not in cells(after.agents)


@BOTH_ORDERS
def test_the_monster_meets_agents_that_wait(monster_first):
    for agents, rewards in (
        ([(0, 0), (0, 4)], [-2, 0]),
        ([(0, 4), (0, 0)], [0, -2]),
        ([(0, 0), (0, 0)], [5, 5]),
    ):
        _, step = play(hand_made(agents, (1, 0)), STAY, STAY, monster_first=monster_first)
        np.testing.assert_array_equal(step.reward, rewards)


def test_an_agent_beside_the_monster_may_step_aside_or_pass_it():
    state = hand_made([(1, 0), (4, 4)], (2, 0), apples=((0, 4), (1, 4)))
    for action in (UP, LEFT, RIGHT):
        after, step = play(state, action, STAY)
        assert cells(after.monster) == [(1, 0)]
        np.testing.assert_array_equal(step.reward, [0, 0])


def test_a_monster_that_moves_last_cannot_be_passed():
    state = hand_made([(1, 0), (4, 4)], (2, 0), apples=((0, 4), (1, 4)))
    _, step = play(
        state, RIGHT, STAY, monster_first=False
    )  # onto the monster, which stays with its prey
    np.testing.assert_array_equal(step.reward, [-2, 0])
    after, step = play(state, LEFT, STAY, monster_first=False)
    assert cells(after.monster) == [(1, 0)]
    np.testing.assert_array_equal(step.reward, [0, 0])


def test_no_meeting_costs_nothing():
    after, step = play(hand_made([(0, 0), (0, 1)], (4, 0)), STAY, STAY)
    np.testing.assert_array_equal(after.events, np.zeros((2, 3)))
    np.testing.assert_array_equal(step.reward, [0, 0])
    assert cells(after.monster) == [(3, 0)]
    assert not step.terminated


# --- the monster's way ---


@BOTH_ORDERS
def test_the_monster_goes_for_the_closest_agent_whatever_the_coin(monster_first):
    for coin in range(8):
        for agents, closest in (([(0, 2), (3, 2)], 0), ([(3, 2), (0, 2)], 1)):
            _, step = play(
                hand_made(agents, (1, 2)), STAY, STAY, coins=coin, monster_first=monster_first
            )
            assert step.reward[closest] == -2


@BOTH_ORDERS
def test_a_coin_decides_between_equally_close_agents(monster_first):
    state = hand_made([(0, 2), (4, 2)], (2, 2))
    for coin, end in ((0, (1, 2)), (SECOND_CLOSEST, (3, 2))):
        assert cells(
            play(state, STAY, STAY, coins=coin, monster_first=monster_first)[0].monster
        ) == [end]


def test_closeness_is_straight_line_distance():
    """Two steps aside and two up are closer, by the square root of 8, than three straight ones."""
    for agents in ([(2, 2), (3, 0)], [(3, 0), (2, 2)]):
        assert cells(play(hand_made(agents, (0, 0)), STAY, STAY, coins=VERTICAL)[0].monster) == [
            (0, 1)
        ]


def test_a_coin_decides_the_direction_if_the_agent_is_off_in_both():
    for agent, horizontal, vertical in (((4, 4), (3, 2), (2, 3)), ((0, 1), (1, 2), (2, 1))):
        state = hand_made([agent, agent], (2, 2), apples=((0, 0), (1, 0)))
        for coin, end in ((0, horizontal), (VERTICAL, vertical)):
            assert cells(play(state, STAY, STAY, coins=coin)[0].monster) == [end]


def test_the_monster_takes_the_straight_way_whatever_the_coin():
    for coin, (agent, end) in itertools.product(
        range(8), (((2, 4), (2, 3)), ((2, 0), (2, 1)), ((0, 2), (1, 2)))
    ):
        assert cells(
            play(hand_made([agent, agent], (2, 2)), STAY, STAY, coins=coin)[0].monster
        ) == [end]


def test_the_monster_goes_for_where_the_agents_were_or_are():
    state = hand_made([(0, 2), (0, 2)], (2, 2))
    assert cells(play(state, UP, UP, coins=VERTICAL, monster_first=True)[0].monster) == [(1, 2)]
    assert cells(play(state, UP, UP, coins=VERTICAL, monster_first=False)[0].monster) == [(2, 3)]


# --- apples ---


def test_an_agent_gets_an_apple():
    state = hand_made([(1, 0), (3, 0)], (1, 4), apples=((0, 0), (4, 0)))
    for actions, apple, rewards in (((LEFT, STAY), 0, [2, 0]), ((STAY, RIGHT), 1, [0, 2])):
        after, step = play(state, *actions)
        np.testing.assert_array_equal(step.reward, rewards)
        np.testing.assert_array_equal(after.events[:, 2], np.asarray(rewards) / 2)
        assert cells(after.apples)[apple] != cells(state.apples)[apple]
        assert cells(after.apples)[1 - apple] == cells(state.apples)[1 - apple]


def test_each_agent_gets_an_apple():
    state = hand_made([(1, 0), (3, 0)], (1, 4), apples=((0, 0), (4, 0)))
    after, step = play(state, LEFT, RIGHT)
    np.testing.assert_array_equal(step.reward, [2, 2])
    assert not set(cells(after.apples)) & {(0, 0), (4, 0)}


@pytest.mark.parametrize("apple", [0, 1])
def test_a_coin_decides_who_gets_an_apple_that_both_enter(apple):
    apples = [(4, 4), (4, 4)]
    apples[apple], apples[1 - apple] = (1, 0), (4, 3)
    state = hand_made([(0, 0), (2, 0)], (1, 4), apples)
    for coin, rewards in ((0, [2, 0]), (SECOND_EATS, [0, 2])):
        after, step = play(state, RIGHT, LEFT, coins=coin)
        np.testing.assert_array_equal(step.reward, rewards)
        assert cells(after.apples)[apple] != (1, 0)
        assert cells(after.apples)[1 - apple] == (4, 3)


def test_the_monster_leaves_the_apple_it_walks_over():
    state = hand_made([(0, 0), (0, 0)], (3, 0), apples=((2, 0), (4, 4)))
    state, _ = play(state, STAY, STAY)
    assert cells(state.monster) == cells(state.apples)[:1] == [(2, 0)]
    state, step = play(state, STAY, STAY)
    assert cells(state.monster) == [(1, 0)]
    assert cells(state.apples) == [(2, 0), (4, 4)]
    np.testing.assert_array_equal(step.reward, [0, 0])


def test_an_apple_under_the_monster_counts_as_well():
    """The monster comes onto the apple's cell as the agents do; both things respawn, apart."""
    state = hand_made([(0, 0), (1, 4)], (2, 0), apples=((1, 0), (4, 4)))
    after, step = play(state, RIGHT, STAY)
    np.testing.assert_array_equal(after.events, [[0, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(step.reward, [-2 + 2, 0])
    assert len({*cells(after.agents), *cells(after.monster), *cells(after.apples)}) == 5
    state = hand_made([(0, 0), (1, 1)], (2, 0), apples=((1, 0), (4, 4)))
    for coin, rewards in ((0, [5 + 2, 5]), (SECOND_EATS, [5, 5 + 2])):
        np.testing.assert_array_equal(play(state, RIGHT, DOWN, coins=coin)[1].reward, rewards)


# --- where things appear ---


def midpoints(count):
    """One number from each of `count` equal slices of [0, 1)."""
    return (np.arange(count) + 0.5) / count


@pytest.mark.parametrize("together", [True, False])
def test_the_monster_respawns_on_every_free_cell_with_the_same_chance(together):
    state = hand_made([(0, 0), (1, 1) if together else (3, 3)], (2, 0))
    free = [cell for cell in GRID if cell not in {(1, 0), (1, 0) if together else (3, 3), *FAR}]
    reached = [
        cells(play(state, RIGHT, DOWN if together else STAY, respawn=(u, 0.5, 0.5))[0].monster)[0]
        for u in midpoints(len(free))
    ]
    assert len(free) == (22 if together else 21)
    assert sorted(reached) == sorted(free)


@pytest.mark.parametrize("apple", [0, 1])
def test_an_apple_respawns_on_every_free_cell_with_the_same_chance(apple):
    apples = [(4, 4), (4, 4)]
    apples[apple] = (1, 0)
    state = hand_made([(0, 0), (0, 3)], (2, 4), apples)
    free = [
        cell for cell in GRID if cell not in {(1, 0), (0, 3), (4, 4), (1, 4)}
    ]  # the monster steps to (1, 4)
    numbers = [
        [0.5, u if apple == 0 else 0.5, u if apple == 1 else 0.5] for u in midpoints(len(free))
    ]
    reached = [
        cells(play(state, RIGHT, STAY, respawn=respawn)[0].apples)[apple] for respawn in numbers
    ]
    assert sorted(reached) == sorted(free)


cell_of_grid = st.sampled_from(GRID)
uniform = st.floats(0, 1, exclude_max=True, width=32)
four_numbers = st.lists(uniform, min_size=4, max_size=4)
two_actions = st.tuples(st.integers(0, 4), st.integers(0, 4))


@st.composite
def any_state(draw):
    """Whatever a game can come to: the agents may share a cell, and the monster one with an
    apple."""
    agents = draw(st.tuples(cell_of_grid, cell_of_grid))
    others = st.sampled_from([cell for cell in GRID if cell not in agents])
    apples = draw(st.tuples(others, others))
    assume(apples[0] != apples[1])
    return agents, draw(others), apples


@given(start=any_state(), actions=two_actions, numbers=four_numbers, monster_first=st.booleans())
def test_nothing_respawns_on_an_occupied_cell(start, actions, numbers, monster_first):
    after, _ = steps[monster_first](
        hand_made(*start), jnp.asarray(actions), jnp.asarray(numbers, jnp.float32)
    )
    agents, (monster,), apples = cells(after.agents), cells(after.monster), cells(after.apples)
    assert {monster, *apples} <= set(GRID) - set(agents)
    assert apples[0] != apples[1]
    if after.events[:, :2].any():
        assert monster not in apples


def test_everything_starts_on_its_own_cell_each_with_the_same_chance():
    """The monster, placed third, takes each cell that is left once, for every pair of agents'
    cells."""
    numbers = np.array(
        list(itertools.product(midpoints(25), midpoints(24), midpoints(23), [0.1], [0.9])),
        np.float32,
    )
    state = jax.device_get(resets(numbers)[0])
    placed = np.concatenate([state.agents, state.monster[:, None], state.apples], axis=1)
    number = placed[..., 1] * 5 + placed[..., 0]
    assert ((number >= 0) & (number < 25)).all()
    assert (np.diff(np.sort(number), axis=1) > 0).all()
    assert len(np.unique(number[:, :3], axis=0)) == 25 * 24 * 23
    assert not state.events.any()


def test_the_apples_start_anywhere():
    """Chi-squared with 24 degrees of freedom: over 60 in one case of 20000."""
    noise = jax.random.uniform(jax.random.key(0), (5000, 5))
    apples = np.asarray(resets(noise)[0].apples)
    for apple in (0, 1):
        counts = np.bincount(apples[:, apple, 1] * 5 + apples[:, apple, 0], minlength=25)
        assert ((counts - 200) ** 2 / 200).sum() < 60


# --- what the agents see and get ---


def test_spec():
    spec = MonsterHunt().spec
    assert (spec.obs_size, spec.action_space, spec.horizon, spec.agents) == (10, Discrete(5), 50, 2)


def test_the_observation_is_the_own_position_and_the_others_relative_to_it():
    state = hand_made([(0, 4), (4, 1)], (4, 4), apples=((1, 0), (0, 0)))
    _, step = play(state, STAY, STAY)  # the monster steps to (4, 3)
    np.testing.assert_array_equal(
        step.obs, [[0, 4, 4, -3, 4, -1, 1, -4, 0, -4], [4, 1, -4, 3, 0, 2, -3, -1, -4, -1]]
    )
    assert step.obs.dtype == jnp.float32


def test_the_first_observation_is_of_the_start():
    numbers = [0.1, 0.9, 0.3, 0.7, 0.5]
    _, obs = resets(jnp.asarray([numbers]))
    one, two, monster, *apples = spawn(numbers)
    np.testing.assert_array_equal(obs[0], PlainMonsterHunt([one, two], monster, apples).observe())


def test_settings_weigh_the_events():
    env = MonsterHunt(cooperation=3.0, penalty=-7.0, apple=1.0)
    np.testing.assert_array_equal(env.weights, [3, -7, 1])
    np.testing.assert_array_equal(MonsterHunt().weights, [5, -2, 2])
    step = jax.jit(env.step)
    state = hand_made([(0, 0), (1, 4)], (2, 0), apples=((1, 0), (4, 4)))
    np.testing.assert_array_equal(
        step(state, jnp.asarray([RIGHT, STAY]), noise_of())[1].reward, [-7 + 1, 0]
    )
    state = hand_made([(0, 0), (1, 1)], (2, 0))
    np.testing.assert_array_equal(
        step(state, jnp.asarray([RIGHT, DOWN]), noise_of())[1].reward, [3, 3]
    )


def test_the_reward_is_the_events_times_the_weights(games):
    played = games["chase", RANDOM]
    np.testing.assert_allclose(played.reward, played.state.events @ MonsterHunt().weights)
    assert (played.state.events.sum((0, 1, 2)) > 0).all()  # random play has them all
    assert played.live.all()
    assert not played.terminated.any()


# --- a plain version of the game ---


def assert_agree(state, step, game, rewards):
    assert cells(state.agents) == game.agents
    assert cells(state.monster) == [game.monster]
    assert cells(state.apples) == game.apples
    np.testing.assert_array_equal(step.reward, rewards)
    np.testing.assert_array_equal(step.obs, game.observe())


@given(start=any_state(), actions=two_actions, numbers=four_numbers, monster_first=st.booleans())
def test_one_step_from_anywhere_agrees_with_the_plain_version(
    start, actions, numbers, monster_first
):
    game = PlainMonsterHunt(*start, monster_first=monster_first)
    rewards = game.step(actions, numbers)
    state, step = steps[monster_first](
        hand_made(*start), jnp.asarray(actions), jnp.asarray(numbers, jnp.float32)
    )
    assert_agree(state, step, game, rewards)


GAMES = {
    "default": (MonsterHunt(), {}),
    "cheap apples": (MonsterHunt(apple=1.0), {"apple": 1}),
    "monster last": (MonsterHunt(monster_first=False), {"monster_first": False}),
}


def unroll(env):
    """Play given actions with given numbers, in one jitted program."""

    def one_step(state, draws):
        state, step = env.step(state, *draws)
        return state, (state, step)

    return jax.jit(
        lambda first, actions, numbers: jax.lax.scan(
            one_step, env.reset(first)[0], (actions, numbers)
        )[1]
    )


unrolled = {name: unroll(env) for name, (env, _) in GAMES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_play_agrees_with_the_plain_version_step_by_step(name, seed):
    rng = np.random.default_rng(seed)
    first, numbers = rng.random(5, dtype=np.float32), rng.random((50, 4), dtype=np.float32)
    actions = rng.integers(0, 5, (50, 2), dtype=np.int32)
    one, two, monster, *apples = spawn(first)
    game = PlainMonsterHunt([one, two], monster, apples, **GAMES[name][1])
    states, played = jax.device_get(unrolled[name](first, actions, numbers))
    for t in range(50):
        rewards = game.step(actions[t], numbers[t])
        assert_agree(*jax.tree.map(lambda leaf: leaf[t], (states, played)), game, rewards)  # noqa: B023


# --- scripted players and their names ---


def walk_by(offset):
    """The action that goes along an offset [..., 2], along its longer side first; 0 at its end."""
    x, y = offset[..., 0], offset[..., 1]
    sideways, upright = jnp.where(x > 0, RIGHT, LEFT), jnp.where(y > 0, UP, DOWN)
    return jnp.where(
        (x == 0) & (y == 0), STAY, jnp.where(jnp.abs(x) >= jnp.abs(y), sideways, upright)
    )


def wait_at(x, y):
    return lambda obs: walk_by(jnp.asarray([x, y]) - obs[..., :2])


def wait_in_the_next_corner(obs):
    """The corner next to the middle between the agents."""
    middle = obs[..., :2] + obs[..., 2:4] / 2
    return walk_by(jnp.where(middle > 2, 4, 0) - obs[..., :2])


def eat_apples(obs):
    """To the nearer apple."""
    first, second = obs[..., 6:8], obs[..., 8:10]
    nearer = jnp.abs(first).sum(-1) <= jnp.abs(second).sum(-1)
    return walk_by(jnp.where(nearer[..., None], first, second))


def gathered(obs, then):
    """Meet in the middle, and from then on do what `then` says."""
    other = obs[..., 2:4]
    middle = jnp.floor(obs[..., :2] + other / 2) - obs[..., :2]
    return jnp.where((other == 0).all(-1), then, walk_by(middle))


def chase(obs):
    """Go for the monster together; beside it, let it come."""
    monster = obs[..., 4:6]
    return gathered(obs, jnp.where(jnp.abs(monster).sum(-1) == 1, STAY, walk_by(monster)))


def rush(obs):
    """Go for where the monster is together, and pass it by, over and over."""
    return gathered(obs, walk_by(obs[..., 4:6]))


PLAYERS = {
    "apples": (eat_apples, "Apple"),
    "one corner": (wait_at(0, 0), "Corner"),
    "another corner": (wait_at(4, 0), "Corner"),
    "the next corner": (wait_in_the_next_corner, "Corner"),
    "middle of an edge": (wait_at(2, 0), "Edge"),
    "beside a corner": (wait_at(4, 3), "Edge"),
    "centre": (wait_at(2, 2), "Interior"),
    "off the centre": (wait_at(1, 3), "Interior"),
    "chase": (chase, "Chase"),
    "chase without a plan": (rush, "mixed"),
}
SHARP, SLOPPY, RANDOM = 0.0, 0.1, 1.0  # how often a player's action is replaced by a random one
GROUPS = [*itertools.product(PLAYERS, (SHARP, SLOPPY)), ("chase", RANDOM)]
EPISODES = 256


def everybody(obs):
    """All players side by side, `EPISODES` games each: one program to compile instead of one a
    player."""
    slips = jnp.repeat(jnp.asarray([slips for _, slips in GROUPS]), EPISODES)[:, None, None]
    own = zip(GROUPS, jnp.split(obs, len(GROUPS)), strict=True)
    action = jnp.concatenate([PLAYERS[name][0](seen) for (name, _), seen in own])
    chosen = action[..., None] == jnp.arange(5)
    return Categorical(jnp.log(jnp.where(chosen, 1 - slips, 0) + slips / 5 + 1e-12))


@pytest.fixture(scope="module")
def games():
    """The recorded episodes of each player."""
    env, count = MonsterHunt(), len(GROUPS) * EPISODES
    program = jax.jit(lambda key: collect(env, everybody, count, key, record=True))
    every = dataclasses.replace(jax.device_get(program(jax.random.key(0))), last=None)
    return {
        group: part(every, slice(i * EPISODES, (i + 1) * EPISODES))
        for i, group in enumerate(GROUPS)
    }


def part(trajectory, columns):
    return jax.tree.map(lambda leaf: leaf[:, columns], trajectory)


@pytest.mark.parametrize("slips", [SHARP, SLOPPY])
@pytest.mark.parametrize("name", PLAYERS)
def test_scripted_players_have_their_names(games, name, slips):
    descriptor = MonsterHunt().describe(games[name, slips])
    weak = (name, slips) == (
        "chase",
        SLOPPY,
    )  # a sloppy chase earns less than waiting in the centre
    assert descriptor.label == ("weak Chase" if weak else PLAYERS[name][1]), descriptor.stats
    assert descriptor.clear == (descriptor.label not in ("mixed", "weak Chase"))


def test_random_play_is_mixed(games):
    descriptor = MonsterHunt().describe(games["chase", RANDOM])
    assert (descriptor.label, descriptor.clear) == ("mixed", False)


def test_episodes_of_different_strategies_are_mixed(games):
    halves = [part(games[name, SHARP], slice(EPISODES // 2)) for name in ("one corner", "chase")]
    both = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *halves)
    descriptor = MonsterHunt().describe(both)
    assert (descriptor.label, descriptor.clear) == ("mixed", False)
    assert descriptor.stats["Corner"] == pytest.approx(0.5, abs=0.05)
    assert descriptor.stats["Chase"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("name", "distance"), [("one corner", 100), ("middle of an edge", 80), ("centre", 60)]
)
def test_waiting_catches_the_monster_as_often_as_it_can_come(games, name, distance):
    """It comes from one of the 24 other cells, by as many steps as that is away: on average
    `distance` / 24."""
    catches = games[name, SHARP].state.events[10:, :, 0, 0].mean()
    assert catches == pytest.approx(24 / distance, rel=0.04)


def test_scripted_returns(games):
    """The order of the strategies, worst to best, and about what a whole episode pays each
    agent."""
    names = ("apples", "one corner", "middle of an edge", "centre", "chase")
    returns = [games[name, SHARP].reward.sum(0).mean() for name in names]
    np.testing.assert_allclose(returns, [23, 56, 71, 96, 127], rtol=0.06)


def test_a_chase_that_earns_less_than_waiting_in_the_centre_is_weak(games):
    """The same episodes, with penalties enough: still a Chase by what is done, no longer by what it
    earns."""
    played = games["chase", SHARP]
    for price, label in ((0.5, "Chase"), (1.0, "weak Chase")):
        descriptor = MonsterHunt().describe(
            dataclasses.replace(played, reward=played.reward - price)
        )
        assert (descriptor.label, descriptor.clear) == (label, label == "Chase")
        assert descriptor.stats["Chase"] > 0.9
    assert 50 * 0.5 < 127 - 96 < 50 * 1.0


# --- places ---


def waiting(label, clear=True, **cells):
    """By the heat map: cells as x1y2=share."""
    stats = {f"meet({cell[1]},{cell[3]})": share for cell, share in cells.items()}
    return Descriptor(label, stats, clear=clear)


@pytest.mark.parametrize(
    ("name", "cell"), [("one corner", (0, 0)), ("another corner", (4, 0)), ("centre", (2, 2))]
)
def test_the_heat_map_is_greatest_where_they_meet_most(games, name, cell):
    heatmap = heatmap_in(MonsterHunt().describe(games[name, SLOPPY]).stats)
    assert np.unravel_index(heatmap.argmax(), heatmap.shape) == cell[::-1]
    assert not heatmap_in({"together": 0.0}).any()


def test_places_are_counted_by_name_and_heat_map(games):
    every = {
        name: MonsterHunt().describe(games[name, slips]) for name, slips in GROUPS if slips == SHARP
    }
    assert (
        count_places(every.values()) == 9
    )  # two corners, all four by turns, two edges, two inside, Apple, Chase
    assert count_places([every["one corner"], every["another corner"]]) == 2
    assert count_places([every["chase"]] * 3) == 1


def test_neighbours_on_an_edge_are_one_place_if_they_have_half_in_common():
    edge = waiting("Edge", x1y0=0.6, x2y0=0.4)
    assert count_places([edge, waiting("Edge", x1y0=0.3, x2y0=0.7)]) == 1
    assert count_places([edge, waiting("Edge", x2y0=0.4, x3y0=0.6)]) == 2
    assert count_places([edge, waiting("Interior", x1y0=0.6, x2y0=0.4)]) == 2
    assert count_places([edge, waiting("mixed", clear=False, x4y4=1.0)]) == 1


def test_a_chase_has_no_place():
    assert count_places([waiting("Chase", x1y1=1.0), waiting("Chase", x3y3=1.0)]) == 1
    assert count_places([waiting("weak Chase", clear=False, x1y1=1.0)]) == 0


def trajectory_of(agents, monster, events=None):
    """Recorded episodes with these positions [T, N, 2, 2] and [T, N, 2]."""
    agents = np.asarray(agents)
    events = np.zeros((*agents.shape[:2], 2, 3), np.float32) if events is None else events
    state = State(agents, np.asarray(monster), np.zeros_like(agents), events)
    reward = events @ MonsterHunt().weights
    blank = np.zeros(agents.shape[:2])
    return Trajectory(blank, blank, blank, reward, blank, blank, blank, blank, state)


def test_the_heat_map_shows_where_the_agents_are_together_once_settled():
    agents = np.zeros((50, 2, 2, 2), int)
    agents[:10] = (4, 4)  # they do not count: not settled
    agents[10:40, 0] = (3, 1)  # thirty steps of the first episode together at x = 3, y = 1
    agents[40:, 0, 0] = (1, 0)  # then apart
    agents[10:, 1, 0] = (0, 4)  # apart throughout the second episode, but for ten steps
    agents[20:30, 1] = (0, 2)
    heatmap = meeting_heatmap(trajectory_of(agents, np.zeros((50, 2, 2), int)))
    expected = np.zeros((5, 5))
    expected[1, 3], expected[2, 0] = 0.75, 0.25
    np.testing.assert_allclose(heatmap, expected)


def test_the_heat_map_of_agents_that_never_meet_is_empty():
    agents = np.zeros((50, 3, 2, 2), int)
    agents[:, :, 1] = 1
    assert not meeting_heatmap(trajectory_of(agents, np.zeros((50, 3, 2), int))).any()


@pytest.mark.parametrize(
    ("name", "cell"), [("one corner", (0, 0)), ("beside a corner", (4, 3)), ("centre", (2, 2))]
)
def test_the_heat_map_is_among_the_numbers_behind_a_name(games, name, cell):
    """[y, x], of those who wait nearly all on one cell."""
    stats = MonsterHunt().describe(games[name, SHARP]).stats
    heatmap = heatmap_in(stats)
    np.testing.assert_array_equal(heatmap, meeting_heatmap(games[name, SHARP]))
    assert heatmap[cell[1], cell[0]] > 0.95
    assert heatmap.sum() == pytest.approx(1)


def test_the_picture_has_a_heat_map_for_each_strategy(games):
    found = {name: MonsterHunt().describe(games[name, SHARP]) for name in ("apples", "one corner")}
    played = {name: Played(each.label, each.stats, lambda: None) for name, each in found.items()}
    picture = MonsterHunt().pictures(played)["meeting.svg"]
    assert picture.count("of the time<") == 2
    assert ">apples<" in picture
    assert ">one corner<" in picture


def test_the_numbers_behind_a_name():
    """One episode by hand: eleven settled positions, so ten moves that count."""
    agents, monster = np.zeros((21, 1, 2, 2), int), np.zeros((21, 1, 2), int)
    monster[:, 0] = (4, 0)
    agents[15:, 0, 0] = (1, 0)  # the first agent steps towards the monster once,
    agents[20:, 0, 0] = (1, 1)  # and away from it once
    events = np.zeros((21, 1, 2, 3), np.float32)
    events[3, 0, :, 0] = 1  # a catch, before they have settled: events always count
    events[12, 0, 1, 1] = events[13, 0, 0, 2] = events[14, 0, 1, 2] = 1
    numbers = statistics(trajectory_of(agents, monster, events))
    assert {name: value.item() for name, value in numbers.items()} == pytest.approx(
        {
            "return": (5 + 5 - 2 + 2 + 2) / 2,
            "catches": 1,
            "penalties": 1,
            "apples": 2,
            "together": 5 / 11,
            "corner": 1,
            "border": 1,
            "toward": 1 / 20,
            "away": 1 / 20,
        }
    )


# --- drawing ---


def test_the_scene_shows_everybody_within_their_cell():
    state = State(
        np.array([(0, 0), (4, 4)]), np.array((2, 2)), np.array([(4, 0), (0, 4)]), np.zeros((2, 3))
    )
    shapes = MonsterHunt().scene(state)
    assert sorted(shape.role for shape in shapes) == ["agent", "agent", "apple", "apple", "monster"]
    centre = {
        "agent": [(-0.8, -0.8), (0.8, 0.8)],
        "monster": [(0, 0)],
        "apple": [(0.8, -0.8), (-0.8, 0.8)],
    }
    for role, cells_of_role in centre.items():
        for shape, (x, y) in zip(
            [shape for shape in shapes if shape.role == role], cells_of_role, strict=True
        ):
            assert abs(shape.x - x) + shape.size <= 0.2
            assert abs(shape.y - y) + shape.size <= 0.2


def test_agents_on_one_cell_are_drawn_apart():
    state = State(
        np.array([(1, 1), (1, 1)]), np.array((2, 2)), np.array([(4, 0), (0, 4)]), np.zeros((2, 3))
    )
    one, two = (shape for shape in MonsterHunt().scene(state) if shape.role == "agent")
    assert two.x - one.x >= one.size + two.size
    assert one.y == two.y
