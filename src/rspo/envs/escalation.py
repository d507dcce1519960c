"""Escalation (paper, section 4.2 and appendix): two agents follow a light on a 5 x 5 grid, for as
long as both do.

A step: both agents walk (`grid.ACTIONS`; the wall stops them; they may share a cell). Then,
- if both stand on the light, each gets 1, the cooperation length L grows by 1, and the light moves
  to a random adjacent cell of the grid. The first such meeting begins the cooperation: L is 0
  before and 1 after it;
- else, if the cooperation has begun, it is broken and the game terminates. An agent that stands on
  the light alone pays 0.9 L, where L counts the steps in which they did cooperate; if both left,
  nobody pays;
- else nothing happens: the light stands still until they first meet on it, and 0.9 L is 0 for an
  agent that is there alone. An episode lasts 50 steps at most.
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
    pick,
    same,
    spawn,
    walk,
)

ALWAYS = "L=always"


class State(NamedTuple):
    agents: Array  # [2, 2] positions (x, y)
    light: Array  # [2]
    length: Array  # [] L
    # [2, 2] what happened to each agent in the last step: cooperation (0 or 1), penalty (0 or L)
    events: Array


class Escalation(Env):
    """Two agents, each seeing L, its own position, and where the other agent and the light are from
    there.

    A reward is the events times `weights`: methods that randomise rewards reweight the same
    events.
    """

    cooperation: float = eqx.field(static=True, default=1.0)
    """Reward of each agent when both step on the light."""
    penalty: float = eqx.field(static=True, default=-0.9)
    """Reward, times L, of an agent that steps on the light alone."""

    @property
    def spec(self) -> Spec:
        actions = Discrete(len(ACTIONS))
        return Spec(
            obs_size=7,
            action_space=actions,
            horizon=50,
            agents=2,
            reset_noise=3,
            step_noise=1,
            features=2,
        )

    @property
    def weights(self) -> np.ndarray:
        """The weight of each of `State.events`."""
        return np.array((self.cooperation, self.penalty), np.float32)

    def reset(self, noise: Array) -> tuple[State, Array]:
        """All on different cells; noise [3]: one number each for the agents and the light."""
        one, two, light = spawn(noise)
        state = State(jnp.stack([one, two]), light, jnp.zeros((), jnp.int32), jnp.zeros((2, 2)))
        return state, self._observe(state)

    def step(self, state: State, action: Array, noise: Array) -> tuple[State, Step]:
        """noise [1]: where the light goes, if it moves."""
        agents = walk(state.agents, action)
        lit = same(agents, state.light)
        together = lit.all()
        penalty = jnp.where(lit & ~together, state.length, 0)
        events = jnp.stack([lit & together, penalty], axis=-1).astype(jnp.float32)
        light = jnp.where(together, _wander(state.light, noise[0]), state.light)
        broken = (state.length > 0) & ~together
        state = State(agents, light, state.length + together, events)
        reward = (events * self.weights).sum(-1)
        return state, Step(self._observe(state), reward, broken, features=events)

    def _observe(self, state: State) -> Array:
        """L and the own position; the other agent and the light relative to it."""
        length = jnp.broadcast_to(state.length, (2, 1))
        seen = (length, state.agents, state.agents[::-1] - state.agents, state.light - state.agents)
        return jnp.concatenate(seen, axis=-1).astype(jnp.float32)

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The equilibrium "follow the light for L* steps, then stop together" that the episodes
        show, if any.

        - L=always: at least .8 of the episodes cooperate to the end, for half of the horizon or
          more.
        - L=1-2, L=3-4, ...: L* is the most frequent final L of the episodes that meet (of several,
          the smallest). In at least .8 of all episodes they meet, nobody pays for being left
          alone, and L is within 1 of L*.
        - mixed: anything else, such as never meeting.

        Whether a policy is an equilibrium is computed exactly by
        `rspo.envs.escalation_equilibria`.

        Equilibria are distinct if their L* differ by 2 or more. This relation is not transitive:
        1 is not distinct from 2 nor 2 from 3, but 1 is from 3. So the label names a pair of
        lengths: distinct equilibria always have different labels; the converse fails only for
        neighbours such as 2 and 3. `count_equilibria` is exact.
        """
        stats = statistics(trajectory)
        if stats["unbroken"] >= 0.8:
            return Descriptor(ALWAYS, stats)
        if stats["agreeing"] < 0.8:
            return Descriptor("mixed", stats, clear=False)
        odd = int(stats["L*"] - 1) // 2 * 2 + 1
        return Descriptor(f"L={odd}-{odd + 1}", stats)

    def behaviour(self, trajectory: Trajectory) -> Array:
        """The fraction of time in which they cooperate."""
        return (trajectory.reward > 0).all(-1).mean(0)

    def scene(self, state: Any) -> Sequence[Shape]:
        light = Shape("light", *drawn(state.light), 0.45 * CELL_WIDTH, f"L={int(state.length)}")
        return [light, *draw_agents(state.agents)]

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """The distribution of the cooperation length, one histogram per strategy."""
        title = "Cooperation length L: share of the episodes"
        lengths = {
            name: lengths_in(played.stats, self.spec.horizon) for name, played in strategies.items()
        }
        return {"cooperation.svg": charts.bars(title, lengths, axis="L")}

    def backdrop(self) -> Sequence[Shape]:
        return draw_grid()


def _wander(light: Array, uniform: Array) -> Array:
    """A random adjacent cell inside the grid, each one equally likely."""
    x, y = light
    blocked = jnp.zeros((), jnp.int32)
    # Right, left, up, down.
    for direction, wall in enumerate((x == SIZE - 1, x == 0, y == SIZE - 1, y == 0)):
        blocked |= wall.astype(jnp.int32) << direction
    return walk(light, 1 + pick(uniform, 4, blocked, most=2))


def statistics(trajectory: Trajectory) -> dict[str, float]:
    """The numbers behind a name; all but the first three are shares of the episodes. P(L=k) is 0
    where not given."""
    horizon = len(trajectory.terminated)
    length = trajectory.state.length[-1]  # of the last live step: the state is frozen from then on
    share = np.bincount(length, minlength=horizon + 1) / len(length)
    most = 1 + int(share[1:].argmax())
    paid = (trajectory.state.events[-1, ..., 1] > 0).any(-1)
    unbroken = ~trajectory.terminated[-1] & (2 * length >= horizon)
    return {
        "return": float(trajectory.reward.sum(0, dtype=np.float64).mean()),
        "L": float(length.mean()),
        "L*": float(most),
        "agreeing": float(((length > 0) & (abs(length - most) <= 1) & ~paid).mean()),
        "unbroken": float(unbroken.mean()),
        "paid": float(paid.mean()),
        **{f"P(L={k})": float(share[k]) for k in np.flatnonzero(share)},
    }


def lengths_in(stats: Mapping[str, float], horizon: int) -> np.ndarray:
    """The distribution of the final L, from 0 to the horizon, that a descriptor's numbers hold."""
    return np.array([stats.get(f"P(L={k})", 0.0) for k in range(horizon + 1)])


def count_equilibria(found: Iterable[Descriptor]) -> int:
    """How many distinct ones: the largest set with L* two or more apart, plus always
    cooperating."""
    clear = [descriptor for descriptor in found if descriptor.clear]
    count, last = 0, -np.inf
    for length in sorted(
        descriptor.stats["L*"] for descriptor in clear if descriptor.label != ALWAYS
    ):
        if length - last >= 2:
            count, last = count + 1, length
    return count + any(descriptor.label == ALWAYS for descriptor in clear)
