"""Against their definitions, and the same on NumPy and JAX arrays."""

import math
import statistics
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plain import log_softmax
from rspo.core.distributions import Categorical, Gaussian, Uniform

# No subnormal numbers: XLA rounds them to 0.
NUMBERS = partial(st.floats, width=32, allow_subnormal=False)
LOGITS = arrays(np.float32, (3, 4), elements=NUMBERS(-30, 30))
BACKENDS = pytest.mark.parametrize("backend", [np.asarray, jnp.asarray], ids=["numpy", "jax"])


@BACKENDS
@given(logits=LOGITS)
def test_log_probs_and_entropy_follow_the_definition(backend, logits):
    wanted = np.array([log_softmax(row) for row in logits])
    found = Categorical(backend(logits))
    np.testing.assert_allclose(found.log_probs, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        found.entropy(), -(np.exp(wanted) * wanted).sum(-1), rtol=1e-4, atol=1e-5
    )
    for action in range(4):
        chosen = found.log_prob(backend(np.full(3, action)))
        np.testing.assert_allclose(chosen, wanted[:, action], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found.mode(), logits.argmax(-1))


@BACKENDS
def test_huge_logits_stay_finite(backend):
    found = Categorical(backend(np.array([1e4, 0.0, -1e4], np.float32)))
    np.testing.assert_allclose(found.log_probs, [0.0, -1e4, -2e4])
    assert float(found.entropy()) == 0.0


@BACKENDS
@given(logits=arrays(np.float32, 4, elements=NUMBERS(-5, 5)))
def test_sampling_evenly_spaced_numbers_gives_the_probabilities(backend, logits):
    """Inverse CDF: each choice owns a slice of [0, 1) as long as its probability."""
    count = 1000
    uniform = (np.arange(count, dtype=np.float32) + 0.5) / count
    drawn = Categorical(backend(np.broadcast_to(logits, (count, 4)))).sample(backend(uniform))
    expected = np.exp(log_softmax(logits)) * count
    assert np.abs(np.bincount(drawn, minlength=4) - expected).max() <= 1.01
    assert (np.diff(drawn) >= 0).all()


@BACKENDS
def test_sample_never_leaves_the_choices(backend):
    extremes = backend(np.array([0.0, np.nextafter(np.float32(1), np.float32(0))], np.float32))
    for logits in ([0.0] * 5, [50.0, 0, 0, 0, -50.0], [-50.0, 0, 0, 0, 50.0]):
        drawn = Categorical(backend(np.array([logits] * 2, np.float32))).sample(extremes)
        assert set(np.asarray(drawn)) <= set(range(5))


def test_random_draws_have_the_right_frequencies():
    probabilities = np.array([0.1, 0.2, 0.0, 0.7], np.float32)
    logits = jnp.log(jnp.maximum(probabilities, 1e-30))
    uniform = jax.random.uniform(jax.random.key(0), (20_000,))
    drawn = Categorical(jnp.broadcast_to(logits, (20_000, 4))).sample(uniform)
    share = np.bincount(drawn, minlength=4) / 20_000
    deviation = np.sqrt(probabilities * (1 - probabilities) / 20_000)
    assert (np.abs(share - probabilities) <= 4 * deviation).all()


@given(logits=LOGITS, uniform=arrays(np.float32, 3, elements=NUMBERS(0, 1, exclude_max=True)))
def test_numpy_and_jax_agree(logits, uniform):
    ours, theirs = Categorical(logits), Categorical(jnp.asarray(logits))
    np.testing.assert_allclose(ours.log_probs, theirs.log_probs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.mode(), theirs.mode())
    edges = np.cumsum(np.exp([log_softmax(row) for row in logits]), -1)
    safe = np.abs(edges - uniform[:, None]).min(-1) > 1e-5  # not on an edge between two slices
    np.testing.assert_array_equal(
        ours.sample(uniform)[safe], theirs.sample(jnp.asarray(uniform))[safe]
    )
    assert ours.sample(uniform).dtype == theirs.sample(jnp.asarray(uniform)).dtype == np.int32


def test_log_prob_has_the_gradient_of_cross_entropy():
    logits = jnp.asarray([0.3, -1.0, 2.0])
    gradient = jax.grad(lambda x: Categorical(x).log_prob(jnp.asarray(1)))(logits)
    np.testing.assert_allclose(gradient, np.eye(3)[1] - np.exp(log_softmax(logits)), atol=1e-6)


# --- masks ---


@st.composite
def masks(draw, shape=(3, 4)):
    """Some choices, at least one."""
    mask = draw(arrays(bool, shape))
    for row in mask.reshape(-1, shape[-1]):
        row[draw(st.integers(0, shape[-1] - 1))] = True
    return mask


@BACKENDS
@given(logits=LOGITS, mask=masks())
def test_a_mask_leaves_the_distribution_of_the_allowed_choices(backend, logits, mask):
    """Renormalised over them."""
    found = Categorical(backend(logits)).allowing(backend(mask))
    assert found.log_probs.dtype == np.float32
    for row in range(3):
        allowed = np.flatnonzero(mask[row])
        wanted = log_softmax(logits[row, allowed])
        np.testing.assert_allclose(found.log_probs[row, allowed], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            found.entropy()[row], -(np.exp(wanted) * wanted).sum(), rtol=1e-4, atol=1e-5
        )
        assert found.mode()[row] == allowed[logits[row, allowed].argmax()]
    for action in range(4):
        chosen = found.log_prob(backend(np.full(3, action)))
        for row in range(3):
            if mask[row, action]:
                wanted = log_softmax(logits[row, mask[row]])[mask[row, :action].sum()]
                np.testing.assert_allclose(chosen[row], wanted, rtol=1e-5, atol=1e-5)
            else:
                assert np.exp(chosen[row]) == 0
                assert np.isfinite(chosen[row])


LARGEST = np.nextafter(np.float32(1), np.float32(0))
UNIFORM = st.one_of(st.sampled_from([np.float32(0), LARGEST]), NUMBERS(0, 1, exclude_max=True))


@BACKENDS
@given(logits=LOGITS, mask=masks(), uniform=arrays(np.float32, 3, elements=UNIFORM))
def test_what_is_forbidden_is_never_drawn(backend, logits, mask, uniform):
    drawn = Categorical(backend(logits)).allowing(backend(mask)).sample(backend(uniform))
    assert drawn.dtype == np.int32
    assert mask[np.arange(3), drawn].all()


@pytest.mark.slow
@BACKENDS
@given(
    seed=st.integers(0, 2**32 - 1),
    choices=st.sampled_from([300, 5000]),
    share=st.sampled_from([0.01, 0.5, 0.99]),
    scale=st.sampled_from([0.0, 1.0, 20.0]),
)
def test_nor_is_it_among_very_many_whose_probabilities_do_not_add_up_to_one(
    backend, seed, choices, share, scale
):
    """In single precision: 0, the largest number below 1, and those where one choice's slice
    ends."""
    rng = np.random.default_rng(seed)
    logits, mask = (
        (scale * rng.standard_normal(choices)).astype(np.float32),
        rng.random(choices) < share,
    )
    mask[rng.integers(choices - 1)] = True
    mask[-1] = False  # rounding beyond the sum ends here
    edges = np.cumsum(np.exp(Categorical(logits).allowing(mask).log_probs))[
        rng.integers(0, choices, 20)
    ]
    near = np.concatenate(
        [edges, np.nextafter(edges, np.float32(0)), np.nextafter(edges, np.float32(2))]
    )
    uniform = np.clip([0.0, LARGEST, *near, *rng.random(20, np.float32)], 0, LARGEST).astype(
        np.float32
    )
    many = lambda row: backend(np.broadcast_to(row, (len(uniform), choices)).copy())
    drawn = Categorical(many(logits)).allowing(many(mask)).sample(backend(uniform))
    assert mask[np.asarray(drawn)].all()


@BACKENDS
@given(logits=arrays(np.float32, 4, elements=NUMBERS(-5, 5)), mask=masks((4,)))
def test_the_allowed_choices_are_drawn_with_their_probabilities(backend, logits, mask):
    count = 1000
    uniform = (np.arange(count, dtype=np.float32) + 0.5) / count
    masked = Categorical(backend(np.broadcast_to(logits, (count, 4)))).allowing(
        backend(np.tile(mask, (count, 1)))
    )
    expected = np.zeros(4)
    expected[mask] = np.exp(log_softmax(logits[mask])) * count
    assert (
        np.abs(np.bincount(masked.sample(backend(uniform)), minlength=4) - expected).max() <= 1.01
    )


def test_no_gradient_reaches_what_is_forbidden():
    logits, mask = jnp.asarray([0.3, -1.0, 2.0, 0.5]), jnp.asarray([True, False, True, False])
    for value in (lambda d: d.log_prob(jnp.asarray(0)), lambda d: d.entropy()):
        gradient = np.asarray(
            jax.grad(lambda x, value=value: value(Categorical(x).allowing(mask)))(logits)
        )
        assert not gradient[[1, 3]].any()
        wanted = jax.grad(lambda x, value=value: value(Categorical(x)))(logits[jnp.asarray([0, 2])])
        np.testing.assert_allclose(gradient[[0, 2]], wanted, atol=1e-6)


def test_no_mask_allows_everything():
    found = Categorical(np.zeros((3, 4)))
    assert found.allowing(None) is found


MEANS = arrays(np.float32, (3, 2), elements=NUMBERS(-5, 5))
LOG_STD = arrays(np.float32, 2, elements=NUMBERS(-5, 2))


@BACKENDS
@given(mean=MEANS, log_std=LOG_STD, action=MEANS)
def test_gaussian_densities_are_those_of_the_standard_library(backend, mean, log_std, action):
    found = Gaussian(backend(mean), backend(log_std))
    for row in range(3):
        curves = [
            statistics.NormalDist(float(m), math.exp(s))
            for m, s in zip(mean[row], log_std, strict=True)
        ]
        # Its density underflows far from the mean, where ours must not.
        squared = [((a - c.mean) / c.stdev) ** 2 for a, c in zip(action[row], curves, strict=True)]
        wanted = sum(math.log(c.pdf(c.mean)) - z / 2 for c, z in zip(curves, squared, strict=True))
        np.testing.assert_allclose(
            found.log_prob(backend(action))[row], wanted, rtol=1e-4, atol=1e-4
        )
        near = sum((a - m) ** 2 for a, m in zip(action[row], mean[row], strict=True)) / 2
        np.testing.assert_allclose(found.distance(backend(action))[row], near, rtol=1e-5, atol=1e-6)


@BACKENDS
def test_gaussian_entropy_is_the_mean_of_the_negative_log_density(backend):
    found = Gaussian(
        backend(np.zeros((200_000, 2), np.float32)), backend(np.array([-1.0, 0.5], np.float32))
    )
    drawn = found.sample(
        backend(np.random.default_rng(0).standard_normal((200_000, 2), np.float32))
    )
    surprise = -np.asarray(found.log_prob(drawn), np.float64)
    assert abs(surprise.mean() - found.entropy()[0]) < 4 * surprise.std() / 200_000**0.5
    np.testing.assert_allclose(np.std(np.asarray(drawn), axis=0), np.exp([-1.0, 0.5]), rtol=0.01)
    assert found.entropy().shape == (200_000,)


@BACKENDS
def test_gaussian_samples_are_the_noise_moved_and_stretched(backend):
    found = Gaussian(
        backend(np.array([[1.0, -2.0]], np.float32)),
        backend(np.log(np.array([0.5, 3.0], np.float32))),
    )
    np.testing.assert_allclose(
        found.sample(backend(np.array([[2.0, -1.0]], np.float32))), [[2.0, -5.0]], rtol=1e-6
    )
    np.testing.assert_array_equal(found.mode(), [[1.0, -2.0]])


@BACKENDS
def test_the_density_far_from_a_sharp_gaussian_is_a_number(backend):
    sharpest = Gaussian(backend(np.zeros(17, np.float32)), backend(np.full(17, -5.0, np.float32)))
    found = float(sharpest.log_prob(backend(np.full(17, 1e4, np.float32))))
    assert found == pytest.approx(-17 * (1e4 * math.exp(5)) ** 2 / 2, rel=1e-4)


@BACKENDS
def test_uniform_numbers_are_uniform(backend):
    found = Uniform(backend(np.array([0.0, 5.0], np.float32)))
    np.testing.assert_allclose(
        found.sample(backend(np.array([0.0, 0.75], np.float32))), [-1.0, 5.5]
    )
    np.testing.assert_allclose(
        found.log_prob(backend(np.array([0.9, 4.1], np.float32))), 2 * math.log(0.5), rtol=1e-6
    )
    assert found.log_prob(backend(np.array([1.1, 4.1], np.float32))) == -math.inf
    np.testing.assert_allclose(found.entropy(), 2 * math.log(2), rtol=1e-6)


@pytest.mark.parametrize(
    ("distribution", "kind", "shape"),
    [
        (Categorical(np.zeros((3, 4))), "uniform", (3,)),
        (Gaussian(np.zeros((3, 4)), np.zeros(4)), "normal", (3, 4)),
        (Uniform(np.zeros((3, 4))), "uniform", (3, 4)),
    ],
)
def test_each_asks_for_the_noise_that_it_samples_from(distribution, kind, shape):
    assert distribution.noise == (kind, shape)
    assert (
        distribution.sample(np.zeros(distribution.noise.shape)).shape == distribution.mode().shape
    )
