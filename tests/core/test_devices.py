"""Work that devices share: what they exchange, and in which order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rspo.core.devices import after, gathered, share


@pytest.mark.skipif(jax.device_count() == 1, reason="there is one device alone")
def test_a_batch_is_gathered_whole_and_in_one_exchange():
    rng = np.random.default_rng(0)
    shape = (3, 4, 2 * jax.device_count(), 2)
    batch = {
        "obs": rng.standard_normal((*shape, 5)).astype(np.float32),
        "action": rng.integers(-1000, 1000, shape).astype(np.int32),
        "counted": rng.random(shape) < 0.5,
        "live": rng.random(shape[:3]) < 0.5,
        "none": None,
    }
    whole = jax.jit(
        lambda batch: gathered(jax.tree.map(lambda leaf: share(leaf + leaf, axis=2), batch))
    )
    found = whole(batch)
    for leaf, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(batch), strict=True):
        assert leaf.dtype == wanted.dtype
        assert leaf.sharding.is_fully_replicated
        np.testing.assert_array_equal(leaf, wanted + wanted)
    program = whole.lower(batch).compile().as_text()
    assert program.count(" all-gather(") + program.count(" all-gather-start(") == 1


def test_what_comes_after_stays_what_it_is():
    tree = {"a": jnp.arange(3.0), "b": jnp.asarray([True, False]), "c": None}
    found = jax.jit(after)(tree, (jnp.ones((2, 3)), {"x": jnp.asarray(-jnp.inf)}, ()))
    for leaf, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(tree), strict=True):
        np.testing.assert_array_equal(leaf, wanted)
