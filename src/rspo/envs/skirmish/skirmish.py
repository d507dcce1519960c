"""The skirmishes as an environment."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Played, Shape, Spec, Step, Trajectory, View
from rspo.envs.base import Env
from rspo.envs.skirmish import contract, descriptors, drawing
from rspo.envs.skirmish.battle import Rules, TargetRule, fight
from rspo.envs.skirmish.maps import MAPS, Map
from rspo.envs.skirmish.pictures import strip
from rspo.envs.skirmish.state import State, fresh
from rspo.envs.skirmish.units import SLOP
from rspo.errors import InputError

CliffMoves = Literal["scaler", "smac"]
JITTER = 0.1  # largest offset of a starting position, in both directions


class Skirmish(Env):
    """One of the `MAPS`: allies that learn against enemies that follow an order.

    The reward is the same for all allies: its features weighted by `weights`.
    """

    name: str = eqx.field(static=True)
    targets: TargetRule = eqx.field(static=True, default="shooters")
    """How enemies choose targets (`combat.choose_targets`)."""
    cliff_moves: CliffMoves = eqx.field(static=True, default="scaler")
    """Whether moves over a cliff are offered to units that can walk there or, as in SMAC's mask,
    to none."""
    attack_commit: float | None = eqx.field(static=True, default=None)
    """Seconds that an attack roots an enemy; None: by the unit's data."""
    slop: float = eqx.field(static=True, default=SLOP)
    """By how much a target may be out of reach when a later hit of the same attack lands."""

    def __check_init__(self) -> None:
        if self.name not in MAPS:
            raise InputError(f"There is no map '{self.name}'; there are {', '.join(MAPS)}.")
        for field, kind in (("targets", TargetRule), ("cliff_moves", CliffMoves)):
            if (value := getattr(self, field)) not in get_args(kind):
                allowed = ", ".join(get_args(kind))
                raise InputError(f"{field} is {value!r}, but it must be one of {allowed}.")
        for field, number in (("attack_commit", self.attack_commit), ("slop", self.slop)):
            if number is not None and not 0 <= number < math.inf:
                raise InputError(f"{field} is {number}, but it must be a finite number from 0 on.")

    @property
    def title(self) -> str:
        return self.name

    @property
    def game(self) -> Map:
        return MAPS[self.name]

    @property
    def rules(self) -> Rules:
        return Rules(self.game, self.targets, self.attack_commit, self.slop)

    @property
    def spec(self) -> Spec:
        game, units = self.game, self.game.allies.count + self.game.enemies.count
        return Spec(
            obs_size=contract.obs_size(game),
            action_space=Discrete(contract.actions(game)),
            horizon=game.limit,
            agents=game.allies.count,
            reset_noise=2 * units + 1,
            step_noise=units,
            state_size=contract.state_size(game),
            features=len(contract.FEATURES),
        )

    @property
    def weights(self) -> np.ndarray:
        """The weight of each of `contract.FEATURES`."""
        return contract.weights(self.game)

    @property
    def passable(self) -> np.ndarray:
        """[y, x] the cells that the move mask uses."""
        ground = self.rules.terrain
        scales = self.game.allies.unit.tall and self.cliff_moves == "scaler"
        return ground.scalable if scales else ground.walkable

    def reset(self, noise: Array) -> tuple[State, View]:
        """noise: the enemies' target point; the offsets of each unit's start in x, and in y."""
        game = self.game
        starts = np.array(game.allies.places + game.enemies.places, np.float32)
        x, y = starts.T + JITTER * (2.0 * noise[1:].reshape(2, -1) - 1.0)
        split = game.allies.count
        order = jnp.lexsort((y[:split], x[:split]))  # SMAC numbers allies from left to right
        first, last = starts[0], starts[split - 1]
        point = first + noise[0] * (last - first)
        state = State(
            fresh(game.allies, x[:split][order], y[:split][order]),
            fresh(game.enemies, x[split:], y[split:]),
            point[0],
            point[1],
            time=jnp.zeros((), jnp.int32),
            last_action=jnp.full(split, -1, jnp.int32),
        )
        return state, contract.view(game, self.passable, state)

    def step(self, state: State, action: Array, noise: Array) -> tuple[State, Step]:
        """noise: for each unit's next cooldown."""
        game = self.game
        action = jnp.where(state.allies.alive, action, 0).astype(jnp.int32)
        orders, target = contract.orders(action)
        allies = state.allies._replace(target=target)
        point = state.point_x, state.point_y
        allies, enemies = fight(self.rules, allies, state.enemies, orders, point, noise)
        after = State(allies, enemies, *point, time=state.time + 1, last_action=action)
        features = contract.features(state, after)
        reward = (features * self.weights).sum()
        over = ~allies.alive.any() | ~enemies.alive.any()
        seen = contract.view(game, self.passable, after)
        shared = lambda what: jnp.broadcast_to(what, (game.allies.count, *what.shape))
        return after, Step(seen, shared(reward), over, allies.alive, shared(features))

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The strategy that most episodes show, and the share that was `won`."""
        return descriptors.describe(self.game, trajectory)

    def scene(self, state: Any) -> Sequence[Shape]:
        return drawing.scene(self.game, state)

    def backdrop(self) -> Sequence[Shape]:
        return drawing.backdrop(self.game)

    def pictures(self, strategies: Mapping[str, Played]) -> Mapping[str, str]:
        """The paths of the units, a strip of panels for each strategy."""
        return {
            f"{number:03d}-tracks.svg": strip(self.game, name, played.episodes())
            for number, (name, played) in enumerate(strategies.items())
        }
