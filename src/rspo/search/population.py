"""How different the distinct strategies of a run are, as one number: Population Diversity on states
that they visit."""

from collections.abc import Sequence

import numpy as np

from rspo.core.distributions import Categorical, Gaussian, MultiCategorical
from rspo.search.archive import Strategy
from rspo.search.diversity import (
    Categoricals,
    Gaussians,
    MultiCategoricals,
    PopulationDiversity,
    population_diversity,
)

P = 1.0  # the kernel's scale; the paper gives none


def diversity_of(
    strategies: Sequence[Strategy],
    states: Sequence[np.ndarray],
    p: float = P,
    whose: str = "the distinct strategies",
) -> PopulationDiversity:
    """The paper's score of these policies on the states [S, O] that each of them visited, all of
    them together."""
    obs = np.concatenate(states).astype(np.float32)
    seen = [strategy.policy(obs) for strategy in strategies]
    source = f"sampled episodes of {whose}, equally many from each"
    if all(isinstance(one, Categorical) for one in seen):
        logits = np.stack([np.asarray(one.logits) for one in seen if isinstance(one, Categorical)])
        return population_diversity(Categoricals(logits), p=p, source=source)
    if all(isinstance(one, MultiCategorical) for one in seen):
        tables = [np.asarray(one.each.logits) for one in seen if isinstance(one, MultiCategorical)]
        return population_diversity(MultiCategoricals(np.stack(tables)), p=p, source=source)
    gaussians = [one for one in seen if isinstance(one, Gaussian)]
    mean = np.stack([np.asarray(one.mean) for one in gaussians])
    log_std = np.stack([np.broadcast_to(one.log_std, one.mean.shape) for one in gaussians])
    return population_diversity(Gaussians(mean, log_std), p=p, source=source)
