"""Action distributions. They run on NumPy and JAX arrays alike, through the array API that both share."""

from typing import Any, NamedTuple

Array = Any  # numpy.ndarray or jax.Array


class Categorical(NamedTuple):
    """A choice among n, by unnormalised log-probabilities [..., n]."""

    logits: Array

    @property
    def log_probs(self) -> Array:
        xp = self.logits.__array_namespace__()
        shifted = self.logits - xp.max(self.logits, axis=-1, keepdims=True)
        return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))

    def sample(self, uniform: Array) -> Array:
        """The choice whose slice of the cumulative distribution holds `uniform` [...]: one number an action, however
        many choices, which is several times cheaper than a Gumbel draw for each."""
        xp = self.logits.__array_namespace__()
        cumulative = xp.cumulative_sum(xp.exp(self.log_probs), axis=-1)[..., :-1]
        return xp.sum(xp.astype(uniform[..., None] >= cumulative, xp.int32), axis=-1, dtype=xp.int32)

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
