"""Population Diversity: against the formulas written out in loops, values known in closed form, and
the theorem."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rspo.errors import InputError
from rspo.search.diversity import (
    Categoricals,
    Gaussians,
    MultiCategoricals,
    dvd_diversity,
    matching_p,
    population_diversity,
    trajectory_diversity,
)

SOURCE = "a test"
seeds = st.integers(0, 2**32 - 1)


def gaussians(seed: int, policies: int = 4, states: int = 6, dims: int = 3) -> Gaussians:
    rng = np.random.default_rng(seed)
    return Gaussians(
        rng.normal(size=(policies, states, dims)), rng.normal(size=(policies, 1, dims)) * 0.3
    )


def plain_gaussian_kl(mean: float, std: float, other_mean: float, other_std: float) -> float:
    return (
        math.log(other_std / std) + (std**2 + (mean - other_mean) ** 2) / (2 * other_std**2) - 0.5
    )


def plain_diversity(policies: Gaussians, p: float, owner: np.ndarray | None = None) -> float:
    """The paper's definition, one number at a time."""
    mean, std = policies.mean, np.exp(np.broadcast_to(policies.log_std, policies.mean.shape))
    count, states, dims = mean.shape

    def kl(i: int, j: int) -> float:
        own = [s for s in range(states) if owner is None or owner[s] == i]
        each = [
            sum(
                plain_gaussian_kl(mean[i, s, d], std[i, s, d], mean[j, s, d], std[j, s, d])
                for d in range(dims)
            )
            for s in own
        ]
        return sum(each) / len(own)

    kernel = [
        [math.exp(-(0.5 * kl(i, j) + 0.5 * kl(j, i)) / (2 * p**2)) for j in range(count)]
        for i in range(count)
    ]
    return float(np.linalg.det(np.array(kernel)))


@given(seeds, st.floats(0.3, 3.0))
def test_gaussians_as_the_paper_defines_it(seed: int, p: float) -> None:
    policies = gaussians(seed)
    owner = np.array([0, 1, 2, 3, 0, 1])
    for owners in (None, owner):
        found = population_diversity(policies, p=p, source=SOURCE, owner=owners).value
        assert found == pytest.approx(plain_diversity(policies, p, owners), abs=1e-12)


@given(seeds, st.floats(0.3, 3.0))
def test_dvd_as_the_paper_defines_it(seed: int, length: float) -> None:
    actions = gaussians(seed).mean
    phi = actions.reshape(len(actions), -1)
    kernel = [
        [math.exp(-sum((a - b) ** 2) / (2 * length**2 * actions.shape[1])) for b in phi]
        for a in phi
    ]
    found = dvd_diversity(actions, length=length, source=SOURCE)
    assert found.value == pytest.approx(np.linalg.det(np.array(kernel)), abs=1e-12)
    np.testing.assert_allclose(found.matrix, kernel, rtol=1e-12)


def test_two_policies_by_hand() -> None:
    one_apart = np.array([[[0.0]], [[1.0]]])
    assert dvd_diversity(one_apart, length=1, source=SOURCE).value == pytest.approx(
        1 - math.exp(-1)
    )
    # Two unit Gaussians one apart: each KL is 1/2, and so is their mean.
    found = population_diversity(Gaussians(one_apart, np.zeros((1, 1, 1))), p=1, source=SOURCE)
    assert found.value == pytest.approx(1 - math.exp(-0.5))


@given(seeds, st.floats(0.1, 5.0), st.floats(0.1, 5.0))
def test_theorem_on_any_states(seed: int, length: float, sigma: float) -> None:
    """Randomised with one deviation, the stochastic score at p = l / (sqrt(2) sigma) is DvD's of
    the means: not only in the limit of many states but on every set of them, shared or each
    policy's own."""
    means = gaussians(seed, states=8).mean
    policies = Gaussians(means, np.full((1, 1, 1), math.log(sigma)))
    for owner in (None, np.arange(8) % 4):
        for p, like in (
            (matching_p(length, sigma), length),
            (length / sigma, math.sqrt(2) * length),
        ):
            # The p that the proof prints, l / sigma, gives DvD's score at sqrt(2) l.
            dvd = dvd_diversity(means, length=like, source=SOURCE, owner=owner)
            found = population_diversity(policies, p=p, source=SOURCE, owner=owner)
            np.testing.assert_allclose(found.matrix, dvd.matrix, rtol=1e-9)
            assert found.value == pytest.approx(dvd.value, abs=1e-12)


def test_theorem_in_the_limit_of_many_states() -> None:
    """mu_i(s) = k_i s on standard normal states: E|mu_i - mu_j|² = (k_i - k_j)², the limit in
    closed form."""
    slopes, length, sigma = np.array([-1.0, 0.2, 0.9]), 0.7, 0.3
    limit = np.linalg.det(np.exp(-np.square(slopes[:, None] - slopes) / (2 * length**2)))
    errors = []
    for states in (100, 10_000, 1_000_000):
        seen = np.random.default_rng(states).normal(size=states)
        means = slopes[:, None, None] * seen[:, None]
        policies = Gaussians(means, np.full((1, 1, 1), math.log(sigma)))
        stochastic = population_diversity(
            policies, p=matching_p(length, sigma), source=SOURCE
        ).value
        assert stochastic == pytest.approx(
            dvd_diversity(means, length=length, source=SOURCE).value, abs=1e-12
        )
        errors.append(abs(stochastic - limit))
    # The mean of s² errs by sqrt(2 / N); the score's derivative to it is below 1. Five deviations.
    assert errors[-1] < 5 * math.sqrt(2 / 1_000_000)
    assert errors[0] > errors[-1]


@given(seeds, st.permutations(range(4)))
def test_the_order_of_the_policies_does_not_matter(seed: int, order: list[int]) -> None:
    policies, owner = gaussians(seed), np.array([0, 1, 2, 3, 0, 1])
    moved = Gaussians(policies.mean[order], policies.log_std[order])
    new_owner = np.argsort(order)[owner]
    before = population_diversity(policies, p=1, source=SOURCE, owner=owner)
    after = population_diversity(moved, p=1, source=SOURCE, owner=new_owner)
    assert after.value == pytest.approx(before.value, abs=1e-12)
    np.testing.assert_allclose(
        after.matrix, np.array(before.matrix)[np.ix_(order, order)], rtol=1e-12
    )


@given(seeds, st.sampled_from(["symmetrised-kl", "jensen-shannon"]))
def test_a_policy_twice_is_exactly_zero(seed: int, divergence: str) -> None:
    policies, logits = gaussians(seed), gaussians(seed).mean
    twice = Gaussians(*(np.concatenate([array, array[1:2]]) for array in policies))
    choices = Categoricals(
        np.concatenate([logits, logits[1:2] + 7.0])
    )  # the same policy, its logits shifted
    for scored in (twice, choices):
        assert population_diversity(scored, p=1, source=SOURCE, divergence=divergence).value == 0.0
    assert dvd_diversity(twice.mean, length=1, source=SOURCE).value == 0.0


@given(seeds)
def test_far_apart_is_one_and_nothing_overflows(seed: int) -> None:
    policies = gaussians(seed)
    far = policies.mean + 1e6 * np.arange(4)[:, None, None]
    assert dvd_diversity(far, length=1, source=SOURCE).value == 1.0
    for log_std in (policies.log_std, np.full((1, 1, 1), -300.0), np.full((1, 1, 1), 5.0)):
        assert population_diversity(Gaussians(far, log_std), p=1, source=SOURCE).value == 1.0
    certain = Categoricals(np.where(np.eye(4, dtype=bool)[:, None, :], 0.0, -np.inf))
    assert population_diversity(certain, p=1, source=SOURCE).value == 1.0


@given(seeds, st.floats(1.0, 4.0))
def test_it_grows_with_distance_and_falls_with_the_scale(seed: int, factor: float) -> None:
    """DvD's kernel is a Gaussian one, of which a smaller scale is a Hadamard power: the determinant
    cannot fall."""
    actions = gaussians(seed).mean
    near = dvd_diversity(actions, length=1, source=SOURCE).value
    assert dvd_diversity(factor * actions, length=1, source=SOURCE).value >= near - 1e-12
    assert dvd_diversity(actions, length=factor, source=SOURCE).value <= near + 1e-12
    fewer = dvd_diversity(actions[:3], length=1, source=SOURCE).value
    assert near <= fewer + 1e-12  # a further policy can only add similarity
    assert 0 <= near <= 1


@given(seeds)
def test_one_policy_scores_one(seed: int) -> None:
    assert (
        population_diversity(Categoricals(gaussians(seed).mean[:1]), p=1, source=SOURCE).value
        == 1.0
    )


@given(seeds)
def test_categoricals_in_loops(seed: int) -> None:
    logits = gaussians(seed, states=3).mean
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)

    def kl(p: np.ndarray, q: np.ndarray) -> float:
        return sum(
            float(a * math.log(a / b)) for a, b in zip(p.ravel(), q.ravel(), strict=True)
        ) / len(p)

    symmetrised = [[0.5 * kl(a, b) + 0.5 * kl(b, a) for b in probs] for a in probs]
    bounded = [[0.5 * kl(a, (a + b) / 2) + 0.5 * kl(b, (a + b) / 2) for b in probs] for a in probs]
    for divergence, distances in (("symmetrised-kl", symmetrised), ("jensen-shannon", bounded)):
        found = population_diversity(
            Categoricals(logits), p=0.5, source=SOURCE, divergence=divergence
        )
        np.testing.assert_allclose(found.matrix, np.exp(-np.array(distances) / 0.5), rtol=1e-10)
        assert found.value == pytest.approx(np.linalg.det(np.array(found.matrix)), abs=1e-12)


@given(seed=seeds)
def test_several_choices_at_once_are_one_among_all_combinations(seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(3, 5, 2, 4))
    logits[:, :, 0, 3] = -np.inf  # the first choice is among three
    joint = (logits[:, :, 0, :, None] + logits[:, :, 1, None, :]).reshape(3, 5, 16)
    several = population_diversity(MultiCategoricals(logits), p=1.0, source=SOURCE)
    one = population_diversity(Categoricals(joint), p=1.0, source=SOURCE)
    np.testing.assert_allclose(several.matrix, one.matrix, rtol=1e-9)
    with pytest.raises(InputError, match="several choices at once"):
        population_diversity(
            MultiCategoricals(logits), p=1.0, source=SOURCE, divergence="jensen-shannon"
        )


def test_masked_choices() -> None:
    """A choice that neither has does not count; one that only one has is infinitely far in KL, at
    most log 2 in JS."""
    both = Categoricals(np.array([[[0.0, 1.0, -np.inf]], [[1.0, 0.0, -np.inf]]]))
    without = Categoricals(both.logits[..., :2])
    for divergence in ("symmetrised-kl", "jensen-shannon"):
        masked = population_diversity(both, p=1, source=SOURCE, divergence=divergence)
        assert (
            masked.value
            == population_diversity(without, p=1, source=SOURCE, divergence=divergence).value
            > 0
        )
    apart = Categoricals(np.array([[[0.0, -np.inf]], [[-np.inf, 0.0]]]))
    assert population_diversity(apart, p=1, source=SOURCE).value == 1.0
    bounded = population_diversity(apart, p=1, source=SOURCE, divergence="jensen-shannon")
    assert bounded.matrix[0][1] == pytest.approx(math.exp(-math.log(2) / 2))


def test_jensen_shannon_of_gaussians_against_an_integral() -> None:
    grid = np.linspace(-12, 12, 20_001)
    density = lambda mean, std: (
        np.exp(-0.5 * ((grid - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    )
    first, second = density(0.0, 1.0) + 1e-300, density(1.5, 0.6) + 1e-300
    middle = (first + second) / 2
    both = first * np.log(first / middle) + second * np.log(second / middle)
    exact = float(0.5 * both.sum() * (grid[1] - grid[0]))
    states = 2000  # times 64 draws: the estimate errs by well under 1 %
    mean = np.broadcast_to(np.array([0.0, 1.5])[:, None, None], (2, states, 1))
    policies = Gaussians(mean, np.log(np.array([1.0, 0.6]))[:, None, None])
    found = population_diversity(policies, p=1, source=SOURCE, divergence="jensen-shannon")
    assert -2 * math.log(found.matrix[0][1]) == pytest.approx(exact, rel=0.01)


def test_states_of_others_do_not_count() -> None:
    """Two policies that differ only where the third goes are the same to each other."""
    mean = np.zeros((3, 6, 1))
    mean[1, 4:] = 5.0
    mean[2] = 5.0
    owner = np.array([0, 0, 1, 1, 2, 2])
    policies = Gaussians(mean, np.zeros((1, 1, 1)))
    assert population_diversity(policies, p=1, source=SOURCE, owner=owner).matrix[0][1] == 1.0
    assert dvd_diversity(mean, length=1, source=SOURCE, owner=owner).matrix[0][1] == 1.0
    assert population_diversity(policies, p=1, source=SOURCE).matrix[0][1] < 1.0


def test_the_example_in_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "diversity.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(code, {})
    assert "3 policies on 100 states from 100 random states" in capsys.readouterr().out


def test_the_result_says_what_it_was_computed_from() -> None:
    found = population_diversity(gaussians(0), p=0.5, source="8 episodes of each policy")
    assert (found.scale_name, found.scale, found.policies, found.states) == ("p", 0.5, 4, 6)
    for words in (
        "p = 0.5",
        "4 policies on 6 states from 8 episodes of each policy",
        "symmetrised-kl",
    ):
        assert words in str(found)
    assert "l = 2" in str(dvd_diversity(gaussians(0).mean, length=2, source=SOURCE))


def test_a_kernel_that_is_no_gram_matrix_is_told() -> None:
    """On each policy's own states a chain of three can be near at its links and far at its ends: no
    distance is so."""
    mean = np.zeros((3, 3, 1))
    mean[2, 0] = mean[0, 2] = (
        10.0  # 0 and 2 differ on their own states, 1 agrees with both on what it sees
    )
    found = population_diversity(
        Gaussians(mean, np.zeros((1, 1, 1))), p=1, source=SOURCE, owner=np.arange(3)
    )
    assert found.smallest_eigenvalue < 0
    assert found.value == pytest.approx(np.linalg.det(np.array(found.matrix)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: population_diversity(gaussians(0), p=0, source=SOURCE), "p is 0"),
        (lambda: dvd_diversity(np.zeros((2, 3, 1)), length=-1, source=SOURCE), "l is -1"),
        (lambda: dvd_diversity(np.zeros((2, 3, 1)), length=1, source=" "), "source"),
        (lambda: dvd_diversity(np.zeros((2, 3)), length=1, source=SOURCE), r"\[2, 3\]"),
        (lambda: dvd_diversity(np.full((2, 3, 1), np.nan), length=1, source=SOURCE), "not finite"),
        (
            lambda: population_diversity(
                Gaussians(np.zeros((2, 3, 1)), np.zeros((4, 1, 1))), p=1, source=SOURCE
            ),
            "log_std",
        ),
        (
            lambda: population_diversity(
                Categoricals(np.full((2, 3, 1), -np.inf)), p=1, source=SOURCE
            ),
            "masked",
        ),
        (
            lambda: population_diversity(gaussians(0), p=1, source=SOURCE, owner=np.zeros(6, int)),
            r"\[6, 0, 0, 0\]",
        ),
        (
            lambda: population_diversity(gaussians(0), p=1, source=SOURCE, owner=np.zeros(5, int)),
            r"\[5\]",
        ),
        (
            lambda: population_diversity(gaussians(0), p=1, source=SOURCE, divergence="kl"),
            "symmetrised-kl",
        ),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


# ---- the authors' recipe


def test_the_authors_kernel_of_deterministic_gaussians_is_that_of_their_means() -> None:
    """With a = mu_i and NLL |a - mu_j|² / 2 the exponent is sum_t |mu_i - mu_j|² / 2 l², averaged
    over whose states they are; here all policies play on the same ones."""
    means = np.random.default_rng(0).normal(size=(3, 512, 6))
    entropy = np.square(means[:, None] - means[None]).sum((-1, -2)) / 2
    score = trajectory_diversity(entropy, steps=512, source="test")
    kernel = np.exp(-np.square(means[:, None] - means[None]).sum((-1, -2)) / (2 * 30**2))
    assert score.value == pytest.approx(np.linalg.det(kernel), rel=1e-9)
    assert (score.scale_name, score.scale, score.states) == ("l", 30.0, 512)
    np.testing.assert_allclose(score.matrix, kernel)


def test_what_both_policies_find_unlikely_does_not_set_them_apart() -> None:
    """The entropy of a policy's own actions is taken off, and what noise makes negative is 0."""
    own = np.array([[5.0, 5.0], [7.0, 7.0]])
    assert trajectory_diversity(own, steps=1, source="test").value == 0
    assert trajectory_diversity(own - np.eye(2)[::-1], steps=1, source="test").value == 0


@pytest.mark.parametrize("wrong", [np.zeros((2, 3)), np.zeros(3), np.full((2, 2), np.nan)])
def test_other_shapes_of_cross_entropies_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(InputError, match="expected finite numbers"):
        trajectory_diversity(wrong, steps=1, source="test")
