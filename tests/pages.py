"""Run folders to report on, in seconds: real episodes of untrained policies, metrics made up so
that they are known."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

import rspo
from rspo.config import merge
from rspo.core.members import member
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Shape, Spec, Step, Trajectory
from rspo.envs.base import Env
from rspo.presets import preset
from rspo.rollout.collector import collector
from rspo.runs.run import Run
from rspo.search.archive import Archive, Status, Strategy
from rspo.search.loop import Found, Tools, keys

UPDATES = 40
SETTINGS: dict[str, Any] = {
    "ppo": {"updates": UPDATES},
    "judge": {"episodes": 8},
    "measure": {"random": "uniform"},
}


class Linkage(Env):
    """A chain of limbs that swings, as a robot would be drawn; long episodes."""

    limbs: int = eqx.field(static=True, default=3)
    horizon: int = eqx.field(static=True, default=60)
    name: str = eqx.field(static=True, default="swing")

    @property
    def spec(self) -> Spec:
        return Spec(self.limbs, Discrete(2), horizon=self.horizon, reset_noise=1)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        angles = noise[0] * 6 + jnp.arange(self.limbs)
        return angles, angles[None]

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        state = state + 0.1 * (1 + jnp.arange(self.limbs)) * jnp.where(action[0] == 1, 1.0, 0.5)
        return state, Step(state[None], jnp.ones(1), jnp.asarray(False))

    def describe(self, trajectory: Trajectory) -> Descriptor:
        return Descriptor(self.name, {self.name: 1.0})

    def scene(self, state: Any) -> Sequence[Shape]:
        shapes, x, y = [], 0.0, 0.5
        for angle in state:
            end = (x + 0.25 * math.sin(angle), y - 0.25 * abs(math.cos(angle)))
            shapes.append(Shape("limb", x, y, 0.04, end=end))
            x, y = end
        return shapes

    def backdrop(self) -> Sequence[Shape]:
        return [Shape("line", -1.0, -0.6, 0.01, end=(1.0, -0.6))]


class Undrawn(Env):
    """Two agents and nothing to see: the page shows what is observed."""

    @property
    def spec(self) -> Spec:
        return Spec(3, Discrete(4), horizon=12, agents=2, reset_noise=1)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        state = jnp.stack([noise[0], 0.0 * noise[0]])
        return state, self._observe(state)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        state = state + jnp.stack([0.1 * action[0], jnp.ones(())])
        return state, Step(self._observe(state), action.astype(jnp.float32), state[1] >= 9)

    def _observe(self, state: Array) -> Array:
        return jnp.stack(
            [jnp.stack([state[0], state[1], jnp.asarray(float(agent))]) for agent in range(2)]
        )


def rows(references: int) -> tuple[dict[str, Any], ...]:
    """An iteration's metrics: return from 0 to 1; reference j accepts all from update 10 (j + 1)
    on, 0.5 before."""
    return tuple(
        {
            "update": t + 1,
            "return": (t + 1) / UPDATES,
            "accepted": 1.0,
            "accepted_by": [1.0 if t + 1 >= 10 * (j + 1) else 0.5 for j in range(references)],
            "intrinsic": 0.25,
            "entropy": 1.0 - t / UPDATES,
        }
        for t in range(UPDATES)
    )


def make_run(folder: Path, env: str | Env, count: int = 3, **settings: Any) -> Path:
    """A finished run; its first two strategies are novel, the third a duplicate, all others
    failed."""
    world = rspo.make(env) if isinstance(env, str) else env
    name = env if isinstance(env, str) else type(env).__name__
    batch = {"ppo": {"updates": UPDATES, "batch": 8 * world.spec.horizon}}
    method = settings.get("method", "rspo")
    config = merge(
        preset(name, method if isinstance(method, str) else "rspo"),
        {"iterations": count, **SETTINGS, **batch, **settings},
        "test",
    )
    run, tools, archive = (
        Run.create(folder, config, world.spec),
        Tools(collector(world), config),
        Archive(config),
    )
    statuses: Sequence[Status] = ("novel", "novel", "duplicate", *["failed"] * count)  # type: ignore[assignment]
    with run.locked():
        for index in range(count):
            own = keys(config, index, 1)
            policy = tools.playing(member(tools.begin(archive, index, 1).state.policy, 0), 0)
            evaluation, recording = tools.evaluate(policy, tools.references(archive), own.evaluate)
            remembered = jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tools.shapes[1]
            )
            policy, remembered = jax.device_get((policy, remembered))
            strategy = Strategy(
                index,
                statuses[index],
                evaluation,
                policy,
                5.0 + index,
                remembered,
                1,
                round=index,
                reason=f"said of strategy {index}",
            )
            archive.add(strategy)
            run.save(Found(strategy, rows(len(evaluation.distance)), recording), archive)
    return folder
