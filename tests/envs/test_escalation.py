"""Escalation: every rule on hand-made states, agreement with a plain version, and names for
scripted players."""

import copy
import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_games import GRID, PlainEscalation, neighbour, spawn
from rspo.core.distributions import Categorical
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Trajectory
from rspo.envs.escalation import Escalation, State, count_equilibria, lengths_in
from worlds import collect

STAY, RIGHT, LEFT, UP, DOWN = range(5)
one_step = jax.jit(Escalation().step)
resets = jax.jit(jax.vmap(Escalation().reset))


def hand_made(agents, light, length=0):
    place = lambda cells: jnp.asarray(cells, jnp.int32)
    return State(place(agents), place(light), place(length), jnp.zeros((2, 2)))


def play(state, *actions, uniform=0.5):
    return one_step(state, jnp.asarray(actions), jnp.asarray([uniform], jnp.float32))


def cells(positions):
    """Positions [..., 2] as tuples."""
    return [tuple(position) for position in np.asarray(positions).reshape(-1, 2).tolist()]


def midpoints(count):
    """One number from each of `count` equal slices of [0, 1)."""
    return (np.arange(count) + 0.5) / count


def adjacent(cell):
    return [
        there for there in (neighbour(cell, action) for action in (RIGHT, LEFT, UP, DOWN)) if there
    ]


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
        state = hand_made([(x, y), (x, y)], (2, 2))
        for action, end in enumerate(ends):
            assert cells(play(state, action, STAY)[0].agents) == [end, (x, y)]
            assert cells(play(state, STAY, action)[0].agents) == [(x, y), end]


# --- before the first meeting ---


def test_nothing_happens_until_they_meet_on_the_light():
    """Neither elsewhere, nor together beside the light, nor one alone on it: L = 0, so 0.9 L is
    nothing."""
    for agents in ([(0, 0), (4, 4)], [(1, 2), (1, 2)], [(2, 2), (0, 0)], [(0, 0), (2, 2)]):
        after, step = play(hand_made(agents, (2, 2)), STAY, STAY)
        np.testing.assert_array_equal(step.reward, [0, 0])
        np.testing.assert_array_equal(after.events, np.zeros((2, 2)))
        assert not step.terminated
        assert cells(after.light) == [(2, 2)]
        assert after.length == 0


def test_leaving_the_light_alone_at_length_0_ends_nothing():
    after, step = play(hand_made([(2, 2), (2, 1)], (2, 2)), RIGHT, UP)
    np.testing.assert_array_equal(step.reward, [0, 0])
    assert not step.terminated
    assert after.length == 0


def test_the_first_meeting_begins_the_cooperation():
    after, step = play(hand_made([(2, 2), (2, 1)], (2, 2)), STAY, UP)
    np.testing.assert_array_equal(step.reward, [1, 1])
    np.testing.assert_array_equal(after.events, [[1, 0], [1, 0]])
    assert not step.terminated
    assert after.length == 1
    assert cells(after.light)[0] in adjacent((2, 2))


# --- cooperating ---


@pytest.mark.parametrize("length", [1, 5, 48])
def test_following_together_goes_on(length):
    after, step = play(hand_made([(2, 2), (2, 2)], (2, 3), length), UP, UP)
    np.testing.assert_array_equal(step.reward, [1, 1])
    assert not step.terminated
    assert after.length == length + 1
    assert cells(after.light)[0] in adjacent((2, 3))


@pytest.mark.parametrize("length", [1, 5])
def test_who_follows_alone_pays_for_every_step_they_cooperated(length):
    state = hand_made([(2, 2), (2, 2)], (2, 3), length)
    for actions, who in (((UP, STAY), 0), ((DOWN, UP), 1)):
        after, step = play(state, *actions)
        expected = np.zeros(2)
        expected[who] = -0.9 * length
        np.testing.assert_allclose(step.reward, expected, rtol=1e-6)
        np.testing.assert_array_equal(
            after.events, [[0, length * (who == 0)], [0, length * (who == 1)]]
        )
        assert step.terminated
        assert after.length == length
        assert cells(after.light) == [(2, 3)]


@pytest.mark.parametrize("length", [1, 5])
def test_leaving_together_ends_the_game_and_costs_nothing(length):
    for actions in ((STAY, STAY), (LEFT, LEFT), (DOWN, RIGHT)):
        after, step = play(hand_made([(2, 2), (2, 2)], (2, 3), length), *actions)
        np.testing.assert_array_equal(step.reward, [0, 0])
        assert step.terminated
        assert after.length == length


def test_settings_weigh_the_events():
    np.testing.assert_allclose(Escalation().weights, [1, -0.9])
    env = Escalation(cooperation=2.0, penalty=5.0)
    state, step = hand_made([(2, 2), (2, 2)], (2, 3), 3), jax.jit(env.step)
    np.testing.assert_array_equal(
        step(state, jnp.asarray([UP, UP]), jnp.zeros(1))[1].reward, [2, 2]
    )
    np.testing.assert_array_equal(
        step(state, jnp.asarray([UP, LEFT]), jnp.zeros(1))[1].reward, [15, 0]
    )


# --- where things appear ---


@pytest.mark.parametrize("light", GRID)
def test_the_light_moves_to_each_adjacent_cell_with_the_same_chance(light):
    """Four inside, three at a wall, two in a corner."""
    around = adjacent(light)
    reached = [
        cells(play(hand_made([light, light], light), STAY, STAY, uniform=u)[0].light)[0]
        for u in midpoints(12)
    ]
    assert {cell: reached.count(cell) for cell in around} == dict.fromkeys(
        around, 12 // len(around)
    )


def test_everything_starts_on_its_own_cell_each_with_the_same_chance():
    """Each of the 25 * 24 * 23 ways to place two agents and the light comes up once."""
    numbers = np.array(
        list(itertools.product(midpoints(25), midpoints(24), midpoints(23))), np.float32
    )
    state = jax.device_get(resets(numbers)[0])
    placed = np.concatenate([state.agents, state.light[:, None]], axis=1)
    number = placed[..., 1] * 5 + placed[..., 0]
    assert ((number >= 0) & (number < 25)).all()
    assert (np.diff(np.sort(number), axis=1) > 0).all()
    assert len(np.unique(number, axis=0)) == 25 * 24 * 23
    assert not state.length.any()


# --- what the agents see ---


def test_spec():
    spec = Escalation().spec
    assert (spec.obs_size, spec.action_space, spec.horizon, spec.agents) == (7, Discrete(5), 50, 2)


def test_the_observation_is_the_length_the_own_position_and_the_others_relative_to_it():
    _, step = play(hand_made([(1, 3), (4, 0)], (2, 2), 0), STAY, STAY)
    np.testing.assert_array_equal(step.obs, [[0, 1, 3, 3, -3, 1, -1], [0, 4, 0, -3, 3, -2, 2]])
    assert step.obs.dtype == jnp.float32
    _, step = play(
        hand_made([(0, 1), (1, 0)], (0, 0), 7), DOWN, LEFT, uniform=0.1
    )  # the light goes right
    np.testing.assert_array_equal(step.obs, [[8, 0, 0, 0, 0, 1, 0]] * 2)


# --- a plain version of the game ---

uniform = st.floats(0, 1, exclude_max=True, width=32)


def assert_agree(state, step, game, rewards):
    assert cells(state.agents) == game.agents
    assert cells(state.light) == [game.light]
    assert state.length == game.length
    assert step.terminated == game.over
    np.testing.assert_allclose(step.reward, rewards, rtol=1e-6)
    np.testing.assert_array_equal(step.obs, game.observe())


@st.composite
def near_the_light(draw):
    """A state in which both agents can reach the light in one step."""
    light = draw(st.sampled_from(GRID))
    agent = st.sampled_from([light, *adjacent(light)])
    return (draw(agent), draw(agent)), light, draw(st.integers(0, 49))


@given(
    start=near_the_light(), actions=st.tuples(st.integers(0, 4), st.integers(0, 4)), number=uniform
)
def test_one_step_near_the_light_agrees_with_the_plain_version(start, actions, number):
    game = PlainEscalation(*start)
    rewards = game.step(actions, [number])
    assert_agree(*play(hand_made(*start), *actions, uniform=number), game, rewards)


@jax.jit
def unrolled(first, actions, numbers):
    def body(state, draws):
        state, step = Escalation().step(state, *draws)
        return state, (state, step)

    return jax.lax.scan(body, Escalation().reset(first)[0], (actions, numbers))[1]


def steer(game, rng, loyalty):
    """Actions that walk to the light with the probability `loyalty`, and are random otherwise."""

    def towards(cell):
        x, y = game.light[0] - cell[0], game.light[1] - cell[1]
        return RIGHT if x > 0 else LEFT if x < 0 else UP if y > 0 else DOWN if y < 0 else STAY

    return [
        towards(cell) if rng.random() < loyalty else int(rng.integers(5)) for cell in game.agents
    ]


@given(seed=st.integers(0, 2**32 - 1), loyalty=st.sampled_from([0.0, 0.9, 1.0]))
def test_whole_games_agree_with_the_plain_version_step_by_step(seed, loyalty):
    """Random play hardly ever meets, so some games are played by agents that mostly follow the
    light."""
    rng = np.random.default_rng(seed)
    first, numbers = rng.random(3, dtype=np.float32), rng.random((50, 1), dtype=np.float32)
    one, two, light = spawn(first)
    game, actions, after = PlainEscalation([one, two], light), np.zeros((50, 2), np.int32), []
    np.testing.assert_array_equal(resets(first[None])[1][0], game.observe())
    for t in range(50):
        if not game.over:
            actions[t] = steer(game, rng, loyalty)
            rewards = game.step(actions[t], numbers[t])
            after.append((copy.copy(game), rewards))
    states, steps = jax.device_get(unrolled(first, actions, numbers))
    for t, (game, rewards) in enumerate(after):
        assert_agree(*jax.tree.map(lambda leaf: leaf[t], (states, steps)), game, rewards)  # noqa: B023


# --- scripted players and their names ---


def follow(obs):
    """To the light, and there wait for the other one."""
    x, y = obs[..., 5], obs[..., 6]
    sideways, upright = jnp.where(x > 0, RIGHT, LEFT), jnp.where(y > 0, UP, DOWN)
    return jnp.where(x != 0, sideways, jnp.where(y != 0, upright, STAY))


def follow_until(stop):
    """Follow, and stay once `stop` says so: the light has just moved away, so both leave it
    together."""
    return lambda obs: jnp.where(stop(obs), STAY, follow(obs))


def length_is(k):
    return follow_until(lambda obs: obs[..., 0] >= k)


def at_the_wall(obs):
    """When the light is in the last column, once they cooperate: at no length in particular."""
    return (obs[..., 0] > 0) & (obs[..., 1] + obs[..., 5] == 4)


def ten_but_some_directions(obs):
    """From L = 10 on, if the light goes left or down: half of them stop at 10, a quarter at 11, an
    eighth at 12."""
    return (obs[..., 0] >= 10) & (obs[..., 5] + obs[..., 6] < 0)


def ten_and_down(obs):
    """From L = 10 on, if the light goes down: soon after, but at no length in particular."""
    return (obs[..., 0] >= 10) & (obs[..., 6] < 0)


SHARP, SLOPPY = 0.0, 0.02  # how often a player's action is replaced by a random one
PLAYERS = {
    "one step": (length_is(1), SHARP, "L=1-2"),
    "two steps": (length_is(2), SHARP, "L=1-2"),
    "three steps": (length_is(3), SHARP, "L=3-4"),
    "three steps, sloppily": (length_is(3), SLOPPY, "L=3-4"),
    "twenty steps": (length_is(20), SHARP, "L=19-20"),
    "ten steps, then some directions": (follow_until(ten_but_some_directions), SHARP, "mixed"),
    "ten steps, then until it goes down": (follow_until(ten_and_down), SHARP, "mixed"),
    "always": (follow, SHARP, "L=always"),
    "until the wall": (follow_until(at_the_wall), SHARP, "mixed"),
    "never": (lambda obs: jnp.full(obs.shape[:-1], STAY), SHARP, "mixed"),
    "random": (follow, 1.0, "mixed"),
}
EPISODES = 256


def half_hearted(obs):
    """Follow three steps, and after that each agent on its own follows or stays, with equal
    chance."""
    chosen = follow(obs)[..., None] == jnp.arange(5)
    stays = (obs[..., :1] >= 3) & (jnp.arange(5) == STAY)
    return Categorical(jnp.log(chosen + stays + 1e-12))


def everybody(obs):
    """All players side by side, `EPISODES` games each: one program to compile instead of one a
    player."""
    *own, last = jnp.split(obs, len(PLAYERS) + 1)
    slips = jnp.repeat(jnp.asarray([slips for _, slips, _ in PLAYERS.values()]), EPISODES)[
        :, None, None
    ]
    action = jnp.concatenate(
        [player(seen) for (player, _, _), seen in zip(PLAYERS.values(), own, strict=True)]
    )
    chosen = action[..., None] == jnp.arange(5)
    scripted = jnp.log(jnp.where(chosen, 1 - slips, 0) + slips / 5 + 1e-12)
    return Categorical(jnp.concatenate([scripted, half_hearted(last).logits]))


@pytest.fixture(scope="module")
def games():
    """The recorded episodes of each player."""
    count = (len(PLAYERS) + 1) * EPISODES
    program = jax.jit(lambda key: collect(Escalation(), everybody, count, key, record=True))
    every = dataclasses.replace(jax.device_get(program(jax.random.key(0))), last=None, start=None)
    part = lambda i: jax.tree.map(lambda leaf: leaf[:, i * EPISODES : (i + 1) * EPISODES], every)
    return {name: part(i) for i, name in enumerate([*PLAYERS, "half-hearted"])}


@pytest.mark.parametrize("name", PLAYERS)
def test_scripted_players_have_their_names(games, name):
    descriptor = Escalation().describe(games[name])
    assert descriptor.label == PLAYERS[name][2], descriptor.stats
    assert descriptor.clear == (descriptor.label != "mixed")


@pytest.mark.parametrize(
    ("name", "length"), [("one step", 1), ("two steps", 2), ("twenty steps", 20)]
)
def test_the_numbers_behind_a_stop_together(games, name, length):
    stats = Escalation().describe(games[name]).stats
    expected = {
        "return": length,
        "L": length,
        "L*": length,
        "agreeing": 1,
        "unbroken": 0,
        "paid": 0,
    }
    assert stats == pytest.approx(expected | {f"P(L={length})": 1})


@pytest.mark.parametrize("name", ["twenty steps", "always", "half-hearted", "never"])
def test_the_distribution_of_the_length_is_among_the_numbers(games, name):
    ends = games[name].state.length[-1]
    shares = lengths_in(Escalation().describe(games[name]).stats, horizon=50)
    np.testing.assert_allclose(shares, [(ends == k).mean() for k in range(51)])


def test_always_following_is_the_optimum(games):
    """They meet within eight steps and cooperate to the end: one each from then on."""
    stats = Escalation().describe(games["always"]).stats
    assert (stats["unbroken"], stats["paid"]) == (1, 0)
    assert 43 <= min(int(key[4:-1]) for key in stats if key.startswith("P(")) <= 50
    assert stats["return"] == pytest.approx(stats["L"])
    assert sum(share for key, share in stats.items() if key.startswith("P(")) == pytest.approx(1)


def test_stopping_one_without_the_other_is_no_equilibrium(games):
    """From L = 3 on they part with the probability 1/2 and both stay with 1/4: two of three games
    end in a payment."""
    descriptor = Escalation().describe(games["half-hearted"])
    assert (descriptor.label, descriptor.clear) == ("mixed", False)
    assert descriptor.stats["L*"] == 3
    assert descriptor.stats["paid"] == pytest.approx(2 / 3, abs=0.12)


def test_never_meeting_is_no_equilibrium(games):
    stats = Escalation().describe(games["never"]).stats
    assert (stats["P(L=0)"], stats["agreeing"], stats["unbroken"]) == (1, 0, 0)


def test_the_reward_is_the_events_times_the_weights(games):
    played = games["half-hearted"]
    reward = np.where(
        played.live[..., None], played.state.events @ Escalation().weights, 0
    )  # 0 once all is over
    np.testing.assert_allclose(played.reward, reward, rtol=1e-6)
    assert (played.reward < 0).any()


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        ([], 0),
        ([1], 1),
        ([1, 2], 1),
        ([2, 3], 1),
        ([1, 3], 2),
        ([3, 1, 2], 2),
        ([4, 4, 1], 2),
        ([1, 2, 3, 4, 5], 3),
    ],
)
def test_equilibria_are_distinct_from_two_steps_apart_on(lengths, count):
    found = [Descriptor(f"L={length}", {"L*": float(length)}) for length in lengths]
    noise = [Descriptor("mixed", {"L*": 30.0}, clear=False)]
    always = [Descriptor("L=always", {"L*": 46.0}), Descriptor("L=always", {"L*": 44.0})]
    assert count_equilibria(found + noise) == count
    assert count_equilibria([*always, *found, *noise]) == count + 1


def ended_at(lengths, paid=0.0):
    """Episodes that were broken at these lengths."""
    shape = (50, len(lengths))
    events = np.zeros((*shape, 2, 2), np.float32)
    events[..., 0, 1] = paid
    state = State(None, None, np.broadcast_to(np.asarray(lengths), shape), events)
    blank, true = np.zeros(shape), np.ones(shape, bool)
    return Trajectory(blank, blank, blank, np.zeros((*shape, 2)), true, true, true, blank, state)


def test_a_label_is_shared_by_two_neighbours_only():
    """So equilibria that are distinct, two or more apart, never have the same one."""
    labels = [Escalation().describe(ended_at([length] * 4)).label for length in range(1, 41)]
    assert labels[0::2] == labels[1::2]
    assert len(set(labels)) == 20


def test_an_equilibrium_is_what_four_of_five_episodes_agree_on():
    label = lambda lengths, paid=0.0: Escalation().describe(ended_at(lengths, paid)).label
    assert label([5, 5, 4, 6, 9]) == "L=5-6"
    assert label([5, 5, 4, 7, 9]) == "mixed"
    assert label([5, 5, 6, 7, 7]) == "mixed"  # three adjacent lengths, but too many two away
    assert label([1, 1, 1, 1, 0]) == "L=1-2"
    assert label([1, 1, 1, 0, 0]) == "mixed"  # too often they do not meet at all
    assert label([5, 5, 5, 5, 5], paid=5.0) == "mixed"


# --- drawing ---


def test_the_scene_shows_everybody_within_their_cell():
    state = State(np.array([(0, 0), (4, 4)]), np.array((2, 3)), np.asarray(3), np.zeros((2, 2)))
    shapes = {(shape.role, shape.label): shape for shape in Escalation().scene(state)}
    for key, (x, y) in {
        ("light", "L=3"): (0, 0.4),
        ("agent", "1"): (-0.8, -0.8),
        ("agent", "2"): (0.8, 0.8),
    }.items():
        shape = shapes.pop(key)
        assert abs(shape.x - x) + shape.size <= 0.2
        assert abs(shape.y - y) + shape.size <= 0.2
    assert not shapes
