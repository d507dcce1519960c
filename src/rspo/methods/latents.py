"""What SMERL, MAVEN and DGPO share: one policy is given one of k latents before an episode, and a
discriminator learns to guess it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from jax import Array

from rspo.core.settings import Count, Positive
from rspo.core.types import Trajectory
from rspo.methods.base import Kind, Method, Plan, Setup
from rspo.methods.discriminator import Guess, Guessing, evenly, fit, init_guessing


@dataclass(frozen=True)
class Latents(Method):
    """Settings of the discriminator. The method's state has it as `guessing`."""

    hidden: Count = 64
    """Width of the discriminator's two hidden layers."""
    steps: Count = 4
    """Gradient steps of the discriminator per update."""
    learning_rate: Positive = 3e-3
    """Learning rate of the discriminator."""

    kind: ClassVar[Kind] = "latent"

    def plan(self, policies: int) -> Plan:
        return Plan(latents=policies)

    def init_guessing(self, setup: Setup, key: Array, actions: bool = False) -> Guessing:
        latents, rate = setup.plan.latents, self.learning_rate
        return init_guessing(setup.spec, latents, self.hidden, rate, key, actions)

    def guessed(self, guessing: Guessing, guess: Guess, data: Trajectory) -> Guessing:
        """The discriminator after an update's steps."""
        return fit(guessing, guess, data, self.steps, self.learning_rate)

    def context(self, state: Any, key: Array, episodes: int) -> Array:
        return evenly(state.guessing.model.latents, key, episodes)
