"""Monster-Hunt (paper, section 4.2 and appendix): two agents, a monster and two apples on a 5 x 5
grid, 50 steps.

A step, in this order:
1. The monster takes one step towards its closest agent; a coin decides between two that are equally
   close.
2. Both agents walk (`grid.ACTIONS`); the wall stops them. They may share a cell.
3. An agent that now shares the monster's cell has met it: alone that costs 2, together ("a catch")
   it pays 5 to each. An agent that shares an apple's cell gets 2 for it; if both enter it at once,
   a coin decides which one does.
4. What was met respawns: the monster, then the first apple, then the second, each on an empty
   cell. The game never terminates.

Where the paper is silent, the game's original code decides (reward-randomised policy gradient,
RPG):
- The monster moves towards where the agents were, so it can be evaded, and an agent that steps
  onto the cell that it leaves passes it. `MonsterHunt(monster_first=False)` lets it move after the
  agents instead. That is another game, in which apples cost more penalties. In either, plain
  policy gradients find a corner as well, where the paper's find apples only
  (results/monster-hunt-strategies.md).
- The closest agent is the one at the smallest straight-line distance.
- If that agent is off in both directions, the monster steps along either one with equal chance. (In
  the original code it then prefers a cell without an apple; here it does not.)
- The monster may stand on an apple, and leaves it there; an agent that meets both on one cell gets
  both rewards.
- An apple is worth 2, as in the paper's text; its appendix says 1: `MonsterHunt(apple=1.0)`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core import charts
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Played, Shape, Spec, Step, Trajectory
from rspo.envs.base import Env
from rspo.envs.grid import (
    ACTIONS,
    CELL_WIDTH,
    SIZE,
    draw_agents,
    draw_grid,
    drawn,
    free_position,
    same,
    spawn,
    walk,
)

SETTLED = 10  # initial steps that are ignored, in which the agents find their places
NAMES = ("Apple", "Corner", "Edge", "Chase", "Interior")
PLACED = ("Corner", "Edge", "Interior")  # strategies that wait, each in a place
CENTRE = 96.0  # what an agent earns by waiting in the centre, the best place to wait


class State(NamedTuple):
    agents: Array  # [2, 2] positions (x, y)
    monster: Array  # [2]
    apples: Array  # [2, 2]
    # [2, 3] what happened to each agent in the last step, 0 or 1: cooperation, penalty, apple
    events: Array


class MonsterHunt(Env):
    """Two agents, each seeing its own position and where the other agent, the monster and the
    apples are from there.

    A reward is the events times `weights`: methods that randomise rewards reweight the same
    events.
    """

    cooperation: float = eqx.field(static=True, default=5.0)
    """Reward of each of two agents that meet the monster together."""
    penalty: float = eqx.field(static=True, default=-2.0)
    """Reward of an agent that meets the monster alone."""
    apple: float = eqx.field(static=True, default=2.0)
    """Reward of the agent that gets an apple."""
    monster_first: bool = eqx.field(static=True, default=True)
    """Whether the monster heads for the agents' positions before or after they move."""

    @property
    def spec(self) -> Spec:
        actions = Discrete(len(ACTIONS))
        return Spec(
            obs_size=10,
            action_space=actions,
            horizon=50,
            agents=2,
            reset_noise=5,
            step_noise=4,
            features=3,
        )

    @property
    def weights(self) -> np.ndarray:
        """The weight of each of `State.events`."""
        return np.array((self.cooperation, self.penalty, self.apple), np.float32)

    def reset(self, noise: Array) -> tuple[State, Array]:
        """All on different cells; noise [5]: one number each for the agents, the monster and the
        apples."""
        one, two, monster, *apples = spawn(noise)
        state = State(jnp.stack([one, two]), monster, jnp.stack(apples), jnp.zeros((2, 3)))
        return state, self._observe(state)

    def step(self, state: State, action: Array, noise: Array) -> tuple[State, Step]:
        """noise [4]: the coins, three in one number; then where the monster and each apple respawn,
        if they do."""
        coins = (noise[0] * 8).astype(jnp.int32)
        agents = walk(state.agents, action)
        prey = state.agents if self.monster_first else agents
        monster = _pursue(state.monster, prey, coins & 1, coins & 2)
        met = same(agents, monster)
        together = met.all()
        entered = same(agents[:, None], state.apples)  # [agent, apple]
        # Which agent gets an apple that both enter.
        chosen = jnp.stack([coins & 4 == 0, coins & 4 != 0])
        gets = entered & (chosen[:, None] | ~entered.all(0))
        events = jnp.stack([met & together, met & ~together, gets.any(1)], -1).astype(jnp.float32)
        monster, apples = _respawn(
            agents, monster, state.apples, met.any(), entered.any(0), noise[1:]
        )
        state = State(agents, monster, apples, events)
        reward = (events * self.weights).sum(-1)
        return state, Step(self._observe(state), reward, jnp.zeros((), bool), features=events)

    def _observe(self, state: State) -> Array:
        """Own position; the other agent, the monster, the first and the second apple relative to
        it."""
        rest = jnp.concatenate([state.monster[None], state.apples])
        others = jnp.concatenate(
            [state.agents[::-1, None], jnp.broadcast_to(rest, (2, 3, 2))], axis=1
        )
        relative = (others - state.agents[:, None]).reshape(2, 8)
        return jnp.concatenate([state.agents, relative], axis=-1).astype(jnp.float32)

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The name that at least .6 of the episodes have; without one the strategy is "mixed".

        An episode gets the first name that applies; its numbers are those of `statistics`.
        - Apple: 10 apples or more, and under 2 catches.
        - mixed: under 5 catches, or together less than half of the time.
        - Corner: at least .6 of the time together in corners.
        - Edge: at least .85 of the time together on the border (corners included), and under .5
          in corners.
        - Chase: moves towards the monster in .35 of the steps or more, away from it in at least
          .2 fewer, and 15 catches or more: waiting on the border gives 14 on average.
        - Interior: at most .5 of the time together on the border, and not going for the monster:
          waiting further inside.
        - mixed: anything else.

        A Chase that earns less than waiting in the centre is not the optimum: "weak Chase", which
        is never novel. In `stats`, `meet(x,y)` is the heat map of where the agents meet; 0 where
        not given.
        """
        numbers = statistics(trajectory)
        names = _names(numbers)
        share = {name: float((names == name).mean()) for name in NAMES}
        label, most = max(share.items(), key=lambda item: item[1])
        stats = share | {name: float(value.mean()) for name, value in numbers.items()}
        stats |= {
            f"meet({x},{y})": float(m)
            for (y, x), m in np.ndenumerate(meeting_heatmap(trajectory))
            if m > 0
        }
        if most < 0.6:
            return Descriptor("mixed", stats, clear=False)
        weak = label == "Chase" and stats["return"] < CENTRE
        return Descriptor("weak Chase" if weak else label, stats, clear=not weak)

    def behaviour(self, trajectory: Trajectory) -> Array:
        """How far from the centre they are together, on average: 0 for apart, then a third more
        each for the interior, an edge and a corner."""
        own, other = trajectory.obs[..., 0, :2], trajectory.obs[..., 0, 2:4]
        walls = ((own == 0) | (own == SIZE - 1)).sum(-1)
        return jnp.where((other == 0).all(-1), (1 + walls) / 3, 0.0).mean(0)

    def scene(self, state: Any) -> Sequence[Shape]:
        apples = [Shape("apple", *drawn(apple), 0.2 * CELL_WIDTH) for apple in state.apples]
        return [
            Shape("monster", *drawn(state.monster), 0.45 * CELL_WIDTH),
            *apples,
            *draw_agents(state.agents),
        ]

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """Where the agents meet, one heat map per strategy."""
        title = "Where the two agents stand together, in % of that time"
        share = lambda stats: f"together {stats.get('together', 0.0):.0%} of the time"
        maps = {
            name: (heatmap_in(played.stats), share(played.stats))
            for name, played in strategies.items()
        }
        return {"meeting.svg": charts.grids(title, maps)}

    def backdrop(self) -> Sequence[Shape]:
        return draw_grid()

    def heatmaps(self, trajectory: Trajectory) -> Mapping[str, np.ndarray]:
        return {"where the agents meet": meeting_heatmap(trajectory)}


def _pursue(monster: Array, prey: Array, tie: Array, turn: Array) -> Array:
    """The monster's step towards the closest agent; `tie` and `turn` are coins: zero or
    nonzero."""
    offset = prey - monster
    distance = offset[:, 0] ** 2 + offset[:, 1] ** 2
    first = (distance[0] < distance[1]) | ((distance[0] == distance[1]) & (tie == 0))
    way = jnp.sign(jnp.where(first, offset[0], offset[1]))
    sideways = (way[1] == 0) | ((way[0] != 0) & (turn == 0))
    return monster + jnp.where(jnp.stack([sideways, ~sideways]), way, 0)


def _respawn(
    agents: Array, monster: Array, apples: Array, met: Array, entered: Array, noise: Array
) -> tuple[Array, Array]:
    """What was met moves to a new cell, the rest stays. What was met stood on an agent's cell, so
    it blocks no other."""
    one, two = agents
    first, second = apples
    monster = jnp.where(met, free_position(noise[0], one, two, first, second), monster)
    first = jnp.where(entered[0], free_position(noise[1], one, two, monster, second), first)
    second = jnp.where(entered[1], free_position(noise[2], one, two, monster, first), second)
    return monster, jnp.stack([first, second])


def meeting_heatmap(trajectory: Trajectory) -> np.ndarray:
    """Where the agents stand together once settled, as shares of that time [y, x]; all 0 if they
    never do."""
    agents = trajectory.state.agents[SETTLED:]
    x, y = agents[_together(agents)][:, 0].T
    count = np.zeros((SIZE, SIZE))
    np.add.at(count, (y, x), 1)
    return count / max(count.sum(), 1)


def heatmap_in(stats: Mapping[str, float]) -> np.ndarray:
    """The heat map [y, x] that a descriptor's numbers hold."""
    return np.array([[stats.get(f"meet({x},{y})", 0.0) for x in range(SIZE)] for y in range(SIZE)])


def count_places(found: Iterable[Descriptor]) -> int:
    """How many differ in name or, if they wait, in place: their heat maps overlap by less than
    half with each one counted before. Apple and Chase have no place, and policies without a clear
    name do not count."""
    counted: list[Descriptor] = []
    for descriptor in found:
        if descriptor.clear and not any(_same_place(descriptor, other) for other in counted):
            counted.append(descriptor)
    return len(counted)


def _same_place(one: Descriptor, other: Descriptor) -> bool:
    if one.label != other.label or one.label not in PLACED:
        return one.label == other.label
    return bool(np.minimum(heatmap_in(one.stats), heatmap_in(other.stats)).sum() >= 0.5)


def statistics(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """The numbers behind a name, one for each episode [N]. All but the first four are shares, once
    settled."""
    state = trajectory.state
    cooperation, penalties, apples = state.events.sum((0, 2)).T
    agents, monster = state.agents[SETTLED:], state.monster[SETTLED:, :, None]
    together = _together(agents)
    margin = np.isin(agents[:, :, 0], (0, SIZE - 1))  # in the first or last column, row
    # Nearer to where the monster was, by an agent's own step.
    nearer = np.abs(agents - monster)[:-1].sum(-1) - np.abs(agents[1:] - monster[:-1]).sum(-1)
    of_together = lambda where: (where & together).sum(0) / np.maximum(together.sum(0), 1)
    return {
        "return": trajectory.reward.sum(0).mean(-1),  # the mean over agents
        "catches": cooperation / 2,  # each is an event of both agents
        "penalties": penalties,
        "apples": apples,
        "together": together.mean(0),
        "corner": of_together(margin.all(-1)),
        "border": of_together(margin.any(-1)),
        "toward": (nearer > 0).mean((0, 2)),
        "away": (nearer < 0).mean((0, 2)),
    }


def _together(agents: np.ndarray) -> np.ndarray:
    return (agents[:, :, 0] == agents[:, :, 1]).all(-1)


def _names(numbers: Mapping[str, np.ndarray]) -> np.ndarray:
    """See `MonsterHunt.describe`."""
    catches, corner, border = numbers["catches"], numbers["corner"], numbers["border"]
    pursuit = (numbers["toward"] >= 0.35) & (numbers["toward"] - numbers["away"] >= 0.2)
    rules = {
        "Apple": (numbers["apples"] >= 10) & (catches < 2),
        "mixed": (catches < 5) | (numbers["together"] < 0.5),
        "Corner": corner >= 0.6,
        "Edge": (border >= 0.85) & (corner < 0.5),
        "Chase": pursuit & (catches >= 15),
        "Interior": ~pursuit & (border <= 0.5),
    }
    return np.select(list(rules.values()), list(rules), default="mixed")
