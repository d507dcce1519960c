"""Population Diversity: the determinant of a kernel matrix over policies.

It is 0 when two policies are the same and 1 when all are far apart. Two kernels, which the paper's
theorem connects: its own for stochastic policies, exp(-JSD / 2p²), and DvD's for deterministic
ones, exp(-|phi_i - phi_j|² / 2l²N). A score means nothing without its scale and its states, so both
are part of the result. Definitions: docs/diversity.md.

Plain NumPy; axes M policies, S states, D action dimensions or choices.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from rspo.errors import InputError

Array = np.ndarray
Divergence = Literal["symmetrised-kl", "jensen-shannon"]
DIVERGENCES: tuple[Divergence, ...] = ("symmetrised-kl", "jensen-shannon")
AUTHORS_LENGTH = 30.0
"""The scale of the authors' kernel on whole episodes of 512 steps."""
DRAWS = 64
"""Actions drawn per state and policy for the Jensen-Shannon divergence of Gaussians, which has no
closed form."""


class Gaussians(NamedTuple):
    """Diagonal Gaussian policies on the same states; `log_std` may be broadcast, as [M, 1, D]."""

    mean: Array  # [M, S, D]
    log_std: Array  # [M, S, D]


class Categoricals(NamedTuple):
    """Policies that choose among D, on the same states; -inf is a masked choice. Agents are folded
    into the states."""

    logits: Array  # [M, S, D]


class MultiCategoricals(NamedTuple):
    """The same where C independent choices are made at once, among D each."""

    logits: Array  # [M, S, C, D]


@dataclass(frozen=True)
class PopulationDiversity:
    """A score together with all that is needed to read it."""

    value: float
    kernel: str  # "symmetrised-kl", "jensen-shannon", "squared-exponential" or "episode-nll"
    scale_name: str  # "p" of the paper's kernel or "l" of DvD's and the authors'
    scale: float
    policies: int
    states: int
    source: str  # where the states came from
    smallest_eigenvalue: float  # below 0: the kernel is not positive semidefinite
    matrix: tuple[tuple[float, ...], ...]  # the kernel between each two policies

    def __str__(self) -> str:
        return (
            f"Population Diversity {self.value:.3f} ({self.kernel}, {self.scale_name} = "
            f"{self.scale:g}, "
            f"{self.policies} policies on {self.states} states from {self.source})"
        )


def population_diversity(
    policies: Gaussians | Categoricals | MultiCategoricals,
    *,
    p: float,
    source: str,
    owner: Array | None = None,
    divergence: Divergence = "symmetrised-kl",
) -> PopulationDiversity:
    """The paper's: det exp(-JSD(i, j) / 2p²). What the paper calls JSD is half the sum of the two
    Kullback-Leibler divergences, by its proof; the bounded Jensen-Shannon divergence is the other
    choice.

    `owner` [S] says which policy visited a state. With it, an expectation over policy i runs over
    i's own states, as in the paper's proof; without it, over all states.
    """
    if divergence not in DIVERGENCES:
        raise InputError(
            f"The divergence '{divergence}' is unknown. Allowed: {', '.join(DIVERGENCES)}."
        )
    if isinstance(policies, Gaussians):
        mean = _checked(np.asarray(policies.mean, np.float64))
        arrays = [mean, _checked(_like(np.asarray(policies.log_std, np.float64), mean))]
        towards = _gaussian_kl if divergence == "symmetrised-kl" else _gaussian_kl_to_middle
    elif isinstance(policies, MultiCategoricals):
        if divergence != "symmetrised-kl":
            raise InputError(
                f"The divergence '{divergence}' is not known of several choices at once: use "
                "'symmetrised-kl', which is the sum over them."
            )
        count, states, choices, most = policies.logits.shape
        logits = np.asarray(policies.logits, np.float64).reshape(count, states * choices, most)
        # Concatenated, because the divergence sums over all of them.
        arrays, towards = [_log_probs(logits).reshape(count, states, -1)], _categorical_kl
    else:
        arrays = [_log_probs(np.asarray(policies.logits, np.float64))]
        towards = _categorical_kl if divergence == "symmetrised-kl" else _categorical_kl_to_middle
    weights = _weights(arrays[0], owner)

    def distance(i: int, j: int) -> float:
        first, second = [array[i] for array in arrays], [array[j] for array in arrays]
        return 0.5 * (
            _mean(towards(first, second), weights[i]) + _mean(towards(second, first), weights[j])
        )

    return _score(distance, "p", p, divergence, arrays[0].shape[:2], source)


def dvd_diversity(
    actions: Array, *, length: float, source: str, owner: Array | None = None
) -> PopulationDiversity:
    """DvD's: det exp(-|phi_i - phi_j|² / 2l²N), phi the N actions [M, S, D] that each policy takes,
    in one long vector.

    With `owner`, two policies are compared on the states of those two alone, half from each, as in
    the paper's proof.
    """
    actions = _checked(np.asarray(actions, np.float64))
    weights = _weights(actions, owner)

    def distance(i: int, j: int) -> float:
        return _mean(np.square(actions[i] - actions[j]).sum(-1), 0.5 * (weights[i] + weights[j]))

    return _score(distance, "l", length, "squared-exponential", actions.shape[:2], source)


def trajectory_diversity(
    cross_entropy: Array, *, steps: int, source: str, length: float = AUTHORS_LENGTH
) -> PopulationDiversity:
    """As the paper's authors compute it: det exp(-s_ij / l²), s_ij = (d_ij + d_ji - d_ii - d_jj) /
    2, where d_ij [M, M] is the mean over policy i's episodes of their summed NLL under policy j.
    `steps` is how many steps each policy played.

    Sampling can make s_ij negative, which then counts as 0.
    """
    entropy = np.asarray(cross_entropy, np.float64)
    if entropy.ndim != 2 or entropy.shape[0] != entropy.shape[1] or not np.isfinite(entropy).all():
        raise InputError(
            f"The cross-entropies have shape {list(entropy.shape)}; expected finite numbers "
            "[policies, policies]."
        )
    # The kernels here have 2 l² where the authors have l².
    distance = lambda i, j: float(entropy[i, j] + entropy[j, i] - entropy[i, i] - entropy[j, j])
    return _score(distance, "l", length, "episode-nll", (len(entropy), steps), source)


def matching_p(length: float, sigma: float) -> float:
    """The p for which the paper's kernel on Gaussians of standard deviation `sigma` equals DvD's
    kernel of `length` on their means.

    The paper's proof says l / sigma. It loses a factor 2 on the way: JSD is E|mu_i - mu_j|² / 2
    sigma², so p² must be l² / 2 sigma².
    """
    return length / (math.sqrt(2) * sigma)


def _score(
    distance: Callable[[int, int], float],
    name: str,
    scale: float,
    kernel: str,
    sizes: tuple[int, ...],
    source: str,
) -> PopulationDiversity:
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"{name} is {scale}; give a positive number, for example 1.")
    if not source.strip():
        raise InputError(
            "The source of the states is empty; say where they came from, for example '8 episodes "
            "of each'."
        )
    policies, states = sizes
    matrix = np.eye(policies)
    for i in range(policies):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = math.exp(-max(distance(i, j), 0.0) / (2 * scale**2))
    eigenvalues = np.linalg.eigvalsh(matrix)
    # Rounding moves an eigenvalue by about M times machine precision: anything closer to 0 is 0.
    eigenvalues[np.abs(eigenvalues) < 4 * policies * np.finfo(np.float64).eps] = 0.0
    rows = tuple(tuple(float(entry) for entry in row) for row in matrix)
    value, smallest = float(eigenvalues.prod()), float(eigenvalues[0])
    return PopulationDiversity(
        value, kernel, name, float(scale), policies, states, source, smallest, rows
    )


def _checked(array: Array) -> Array:
    if array.ndim != 3 or 0 in array.shape:
        raise InputError(
            f"The policies' outputs have shape {list(array.shape)}; expected [policies, states, "
            "dimensions], none 0."
        )
    if not np.isfinite(array).all():
        raise InputError(
            "The policies' outputs hold a number that is not finite; look for the policy that "
            "diverged."
        )
    return array


def _like(array: Array, wanted: Array) -> Array:
    try:
        return np.broadcast_to(array, wanted.shape)
    except ValueError:
        raise InputError(
            f"log_std has shape {list(array.shape)}, which does not fit the means' "
            f"{list(wanted.shape)}."
        ) from None


def _weights(shaped: Array, owner: Array | None) -> Array:
    """[M, S]: how much each state counts in an expectation over policy i; rows sum to 1."""
    policies, states, _ = shaped.shape
    if owner is None:
        return np.full((policies, states), 1 / states)
    owner = np.asarray(owner)
    if owner.shape != (states,) or not np.issubdtype(owner.dtype, np.integer):
        raise InputError(
            f"The owners have shape {list(owner.shape)}; expected one integer for each of {states} "
            "states."
        )
    counts = np.array([(owner == i).sum() for i in range(policies)])
    if counts.sum() != states or not counts.all():
        raise InputError(
            f"The owners give {counts.tolist()} of {states} states to the {policies} policies; "
            "each needs some."
        )
    return (owner == np.arange(policies)[:, None]) / counts[:, None]


def _mean(values: Array, weights: Array) -> float:
    """Only over states that count: an infinite divergence on another policy's states is
    ignored."""
    counted = weights > 0
    return float(np.dot(values[counted], weights[counted]))


def _gaussian_kl(first: list[Array], second: list[Array]) -> Array:
    (mean, log_std), (other_mean, other_log_std) = first, second
    shift = 2 * (log_std - other_log_std)
    with np.errstate(over="ignore"):  # infinitely far apart is a kernel of 0
        distance = np.square((mean - other_mean) * np.exp(-other_log_std))
        return 0.5 * (np.expm1(shift) - shift + distance).sum(-1)


def _gaussian_kl_to_middle(first: list[Array], second: list[Array]) -> Array:
    """KL(first | (first + second) / 2) by drawn actions, the same draws for every pair so that
    scores compare."""
    (mean, log_std), (other_mean, other_log_std) = first, second
    total = np.zeros(mean.shape[0])
    for half in np.random.default_rng(0).standard_normal((DRAWS // 2, *mean.shape)):
        for noise in (half, -half):
            action = mean + np.exp(log_std) * noise
            other_noise = (action - other_mean) * np.exp(-other_log_std)
            log_ratio = (
                0.5 * (np.square(noise) - np.square(other_noise)) + log_std - other_log_std
            ).sum(-1)
            total += math.log(2) - np.logaddexp(0.0, log_ratio)
    return total / DRAWS


def _log_probs(logits: Array) -> Array:
    _checked(np.where(np.isneginf(logits), 0.0, logits))
    top = logits.max(-1, keepdims=True)
    if np.isneginf(top).any():
        raise InputError("All choices of a state are masked; at least one must be allowed.")
    shifted = logits - top
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _categorical_kl(first: list[Array], second: list[Array]) -> Array:
    return _expected_log_ratio(first[0], second[0])


def _categorical_kl_to_middle(first: list[Array], second: list[Array]) -> Array:
    return _expected_log_ratio(first[0], np.logaddexp(first[0], second[0]) - math.log(2))


def _expected_log_ratio(log_probs: Array, other: Array) -> Array:
    probs = np.exp(log_probs)
    possible = probs > 0
    ratio = np.where(possible, log_probs, 0.0) - np.where(possible, other, 0.0)
    return (probs * ratio).sum(-1)
