"""Bandits over a sliding window: payoffs change while policies learn, so only the last pulls
count."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


class Window(eqx.Module):
    """The last pulls, the oldest first; an unused slot has the arm -1."""

    arm: Array  # [W]
    payoff: Array  # [W]

    def record(self, arm: Array, payoff: Array) -> "Window":
        """Append pulls [n] at the end, and drop the same number at the start."""
        last = lambda old, new: jnp.concatenate([old, new.astype(old.dtype)])[-old.shape[0] :]
        return Window(last(self.arm, arm), last(self.payoff, payoff))

    def totals(self, arms: int) -> tuple[Array, Array]:
        """How often each arm was pulled and its total payoff: [arms] both."""
        pulled = (self.arm[:, None] == jnp.arange(arms)).astype(self.payoff.dtype)
        return pulled.sum(0), self.payoff @ pulled


def init_window(size: int) -> Window:
    return Window(jnp.full(size, -1, jnp.int32), jnp.zeros(size))


def thompson(window: Window, arms: int, first: int, key: Array) -> Array:
    """The arm with the best draw from Beta(1 + successes, 1 + failures); a random one for the
    `first` pulls. Payoffs are 1 for a success, 0 for a failure, and in between for a tie."""
    beta_key, any_key = jax.random.split(key)
    pulls, successes = window.totals(arms)
    drawn = jax.random.beta(beta_key, 1 + successes, 1 + pulls - successes)
    anyone = jax.random.randint(any_key, (), 0, arms)
    return jnp.where(pulls.sum() < first, anyone, drawn.argmax()).astype(jnp.int32)


def boltzmann(window: Window, arms: int, greed: float, explore: float) -> Array:
    """Probabilities of the arms: a share `explore` is uniform, the rest a softmax of `greed` times
    each arm's mean payoff, standardised over all payoffs."""
    pulls, total = window.totals(arms)
    known = window.arm >= 0
    count = jnp.maximum(known.sum(), 1)
    mean = window.payoff.sum() / count
    deviation = jnp.sqrt((jnp.square(window.payoff - mean) * known).sum() / count)
    better = jnp.where(pulls > 0, total / jnp.maximum(pulls, 1) - mean, 0.0)
    chances = jax.nn.softmax(greed * better / (deviation + 1e-8))
    return (1 - explore) * chances + explore / arms
