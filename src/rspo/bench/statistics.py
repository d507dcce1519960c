"""Statistics of few seeds, as rliable defines them (Agarwal et al. 2021, "Deep reinforcement
learning at the edge of the statistical precipice").

Scores are a list of tasks, each an array of its runs: seeds of one method on one environment. The
numbers of runs may differ between tasks, which then have equal weight all the same; rliable asks
for equal numbers.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

Scores = Sequence[np.ndarray]
LEVEL = 0.95
RESAMPLES = 2000


def interquartile_mean(values: np.ndarray) -> float:
    """The mean of the middle half: of n values, the n // 4 lowest and the n // 4 highest are left
    out."""
    ordered = np.sort(np.asarray(values, float).ravel())
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def aggregate(scores: Scores) -> float:
    """The interquartile mean over all runs of all tasks. Runs of tasks that have fewer are repeated
    until all tasks have equally many, so that a task does not count more for having more seeds."""
    most = math.lcm(*(np.size(task) for task in scores))
    return interquartile_mean(
        np.concatenate([np.repeat(np.ravel(task), most // np.size(task)) for task in scores])
    )


def bootstrap(
    scores: Scores,
    statistic: Callable[[Scores], np.ndarray | float] = aggregate,
    *,
    resamples: int = RESAMPLES,
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95 % confidence interval by the stratified bootstrap: runs are drawn with
    replacement within each task, and the interval is between percentiles of the statistic."""
    rng = np.random.default_rng(0)
    tasks = [np.ravel(task) for task in scores]
    drawn = [
        statistic([task[rng.integers(len(task), size=len(task))] for task in tasks])
        for _ in range(resamples)
    ]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.asarray(drawn, float), (tail, 1 - tail), axis=0)
    return low, high


@cache
def mean_interval(values: tuple[float, ...]) -> tuple[float, float]:
    """The same for the mean over one task's runs."""
    place = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.array(values)[place].mean(1), (tail, 1 - tail))
    return float(low), float(high)


def performance_profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """The share of runs, of all tasks together, whose score is above each threshold. Tasks have
    equal weight, whatever their number of runs."""
    shares = [(np.ravel(task)[:, None] > thresholds).mean(0) for task in scores]
    return np.mean(shares, axis=0)
