"""Reward-randomised policy gradient (RPG; Tang et al., ICLR 2021), a baseline of the paper.

Where the reward is a weighted sum of features, r = w . features, a policy that learns with other
weights may find a strategy that the true ones hide. One policy per vector of weights: first those
of a list of candidates, then weights drawn at random. In the last part of its round it learns the
true reward; it is evaluated on that alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from rspo.core.settings import Positive, Share, Within
from rspo.core.types import Trajectory
from rspo.errors import InputError
from rspo.methods.base import Method, Need, Score, Settings, Setup, Stream
from rspo.methods.references import References

Numbers = Annotated[tuple[float, ...], Within(-math.inf)]

# As published, (cooperation, penalty, apple) and (cooperation, penalty).
MONSTER_HUNT = (
    *(5.0, 1.0, -5.0),
    *(4.0, 2.0, -2.0),
    *(0.0, 5.0, 0.0),
    *(5.0, 0.0, 5.0),
    *(5.0, 0.0, 0.0),
    *(-5.0, 5.0, -5.0),
    *(-5.0, 0.0, 5.0),
    *(5.0, -5.0, 5.0),
)
ESCALATION = (1.0, 0.0, 1.0, -2.0, 0.0, 1.0, 1.0, -0.5, 1.0, 1.0, 1.0, 5.0)


@dataclass(frozen=True)
class RPG(Method):
    """Settings of RPG."""

    candidates: Numbers = ()
    """Weights of the features for the first policies, concatenated: those of the first policy,
    then those of the second, and so on. Later policies get random ones."""
    largest: Positive = 5.0
    """Random weights are drawn uniformly between minus this and this."""
    finetune: Share = 0.25
    """Last fraction of a round, in which a policy learns the true reward; 0: never."""

    needs: ClassVar[tuple[Need, ...]] = ("features",)
    tuned: ClassVar[Mapping[str, Settings]] = {
        "monster-hunt": {"method": {"candidates": MONSTER_HUNT}},
        "escalation": {"method": {"candidates": ESCALATION}},
    }
    paper: ClassVar[Mapping[str, Settings]] = {
        "monster-hunt": {"method": {"candidates": MONSTER_HUNT, "finetune": 0.0}},
        "escalation": {"method": {"candidates": ESCALATION}},
    }

    def channels(self, capacity: int) -> tuple[Stream, ...]:
        return ("episodic", "episodic")

    def init(self, setup: Setup, key: Array) -> Array:
        """The weights for each number of kept policies, up to the round that fills all slots."""
        size, count = setup.spec.features, len(self.candidates)
        if size == 0 or count % size:
            raise InputError(
                f"method.candidates has {count} numbers, but it must have as many for each policy "
                f"as the reward has features, which is {size}."
            )
        bound = self.largest
        table = jax.random.uniform(key, (setup.capacity + 1, size), minval=-bound, maxval=bound)
        given = jnp.reshape(jnp.asarray(self.candidates), (-1, size))[: setup.capacity + 1]
        return table.at[: len(given)].set(given)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        weights = state[rivals.mask.sum()]
        random = data.features @ weights
        reward = jnp.stack([random, data.reward], axis=-1)
        true = jnp.asarray(progress >= 1 - self.finetune, reward.dtype)
        weight = jnp.broadcast_to(jnp.stack([1 - true, true]), reward.shape)
        metrics = {"random_return": (random * data.first[..., None]).sum(0).mean()}
        metrics |= {f"weight_{i}": number for i, number in enumerate(weights)}
        return Score(reward, weight, metrics)
