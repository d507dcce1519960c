"""Action distributions. They run on NumPy and JAX arrays alike, through the array API that both
share."""

import math
from typing import Any, Literal, NamedTuple

from rspo.core.spaces import Discrete, MultiDiscrete

Array = Any  # numpy.ndarray or jax.Array
FORBIDDEN = -1e9  # the logit of a masked choice: its probability is exactly 0, its logarithm finite


class Noise(NamedTuple):
    """The random numbers that `sample` turns into actions: in [0, 1), or standard normal."""

    kind: Literal["uniform", "normal"]
    shape: tuple[int, ...]


class Categorical(NamedTuple):
    """A choice among n, by unnormalised log-probabilities [..., n]; with a mask [..., n], among
    the allowed ones."""

    logits: Array
    mask: Array | None = None

    def allowing(self, mask: Array | None) -> "Categorical":
        """The same among the allowed choices only, in samples, mode and entropy."""
        if mask is None:
            return self
        return Categorical(
            self.logits.__array_namespace__().where(mask, self.logits, FORBIDDEN), mask
        )

    @property
    def noise(self) -> Noise:
        return Noise("uniform", self.logits.shape[:-1])

    @property
    def log_probs(self) -> Array:
        xp = self.logits.__array_namespace__()
        shifted = self.logits - xp.max(self.logits, axis=-1, keepdims=True)
        return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))

    def sample(self, uniform: Array) -> Array:
        """The choice whose slice of the cumulative distribution holds `uniform` [...]: one random
        number per action instead of a Gumbel draw per choice, which is cheaper."""
        xp = self.logits.__array_namespace__()
        cumulative = xp.cumulative_sum(xp.exp(self.log_probs), axis=-1)
        if self.mask is None:
            above = uniform[..., None] >= cumulative[..., :-1]
            return xp.sum(xp.astype(above, xp.int32), axis=-1, dtype=xp.int32)
        # Sums round, so the mask is needed to never pick a choice whose slice has no width.
        reached = self.mask & (cumulative > uniform[..., None])
        last = self.mask.shape[-1] - 1 - xp.argmax(xp.flip(self.mask, axis=-1), axis=-1)
        return xp.astype(
            xp.where(xp.any(reached, axis=-1), xp.argmax(reached, axis=-1), last), xp.int32
        )

    def mode(self) -> Array:
        xp = self.logits.__array_namespace__()
        return xp.astype(xp.argmax(self.logits, axis=-1), xp.int32)

    def log_prob(self, action: Array) -> Array:
        xp = self.logits.__array_namespace__()
        # A comparison instead of a gather: its gradient is a product, not a slow scatter.
        chosen = action[..., None] == xp.arange(self.logits.shape[-1])
        return xp.sum(xp.where(chosen, self.log_probs, 0.0), axis=-1)

    def entropy(self) -> Array:
        xp = self.logits.__array_namespace__()
        log_probs = self.log_probs
        return -xp.sum(xp.exp(log_probs) * log_probs, axis=-1)


class MultiCategorical(NamedTuple):
    """Several independent choices at once, in one table [..., D, K] for D choices among at most K;
    where one has fewer, the rest of its row is masked."""

    each: Categorical

    @property
    def noise(self) -> Noise:
        return self.each.noise

    def sample(self, uniform: Array) -> Array:
        """A number for each choice: [..., D]."""
        return self.each.sample(uniform)

    def mode(self) -> Array:
        return self.each.mode()

    def log_prob(self, action: Array) -> Array:
        log_probs = self.each.log_prob(action)
        return log_probs.__array_namespace__().sum(log_probs, axis=-1)

    def entropy(self) -> Array:
        entropies = self.each.entropy()
        return entropies.__array_namespace__().sum(entropies, axis=-1)


def choosing(
    space: Discrete | MultiDiscrete, logits: Array, mask: Array | None = None
) -> Categorical | MultiCategorical:
    """From the concatenated logits [..., n] of all choices; with a mask [..., n], among the
    allowed ones."""
    if isinstance(space, Discrete):
        return Categorical(logits).allowing(mask)
    shape, xp = (
        (*logits.shape[:-1], len(space.sizes), max(space.sizes)),
        logits.__array_namespace__(),
    )
    if len(set(space.sizes)) == 1:
        allowed = None if mask is None else xp.reshape(mask, shape)
        return MultiCategorical(Categorical(xp.reshape(logits, shape)).allowing(allowed))
    if mask is None:
        mask = xp.ones(space.n, dtype=bool)
    table = Categorical(_rows(space.sizes, logits, 0.0))
    return MultiCategorical(table.allowing(xp.broadcast_to(_rows(space.sizes, mask, False), shape)))


def _rows(sizes: tuple[int, ...], flat: Array, filling: float | bool) -> Array:
    """[..., sum of sizes] -> [..., D, K], each choice in a padded row."""
    xp, most, rows, start = flat.__array_namespace__(), max(sizes), [], 0
    for size in sizes:
        missing = xp.full((*flat.shape[:-1], most - size), filling, dtype=flat.dtype)
        rows.append(xp.concat([flat[..., start : start + size], missing], axis=-1))
        start += size
    return xp.stack(rows, axis=-2)


class Gaussian(NamedTuple):
    """Independent normal numbers by their means [..., D] and log standard deviations [D]."""

    mean: Array
    log_std: Array

    @property
    def noise(self) -> Noise:
        return Noise("normal", self.mean.shape)

    def sample(self, normal: Array) -> Array:
        return self.mean + self.mean.__array_namespace__().exp(self.log_std) * normal

    def mode(self) -> Array:
        return self.mean

    def log_prob(self, action: Array) -> Array:
        """The log-density, which is unbounded: where a standard deviation is below 0.4 it can be
        positive."""
        xp = self.mean.__array_namespace__()
        terms = (
            xp.square((action - self.mean) * xp.exp(-self.log_std)) / 2
            + self.log_std
            + math.log(2 * math.pi) / 2
        )
        return -xp.sum(terms, axis=-1)

    def distance(self, action: Array) -> Array:
        """Half the squared distance from the mean: -log_prob at unit deviation, up to a
        constant."""
        xp = self.mean.__array_namespace__()
        return xp.sum(xp.square(action - self.mean), axis=-1) / 2

    def entropy(self) -> Array:
        xp = self.mean.__array_namespace__()
        return xp.sum(
            xp.zeros_like(self.mean) + self.log_std + math.log(2 * math.pi * math.e) / 2, axis=-1
        )


class Uniform(NamedTuple):
    """Independent numbers, uniform within 1 of their centres [..., D]."""

    centre: Array

    @property
    def noise(self) -> Noise:
        return Noise("uniform", self.centre.shape)

    def sample(self, uniform: Array) -> Array:
        return self.centre + 2 * uniform - 1

    def mode(self) -> Array:
        return self.centre

    def log_prob(self, action: Array) -> Array:
        xp = self.centre.__array_namespace__()
        inside = xp.abs(action - self.centre) <= 1
        return xp.sum(xp.where(inside, -math.log(2), -math.inf), axis=-1)

    def entropy(self) -> Array:
        xp = self.centre.__array_namespace__()
        return xp.sum(xp.zeros_like(self.centre) + math.log(2), axis=-1)


Distribution = Categorical | MultiCategorical | Gaussian | Uniform
