"""The settings of the learner that every method shares."""

from dataclasses import dataclass
from typing import Annotated, Literal

from rspo.core.policies.policy import Memory
from rspo.core.settings import Count, Positive, Share, Span, Within
from rspo.core.types import Padding


@dataclass(frozen=True)
class PPO:
    """Settings of the learner that every method shares. Defaults are the paper's for 4-Goals."""

    batch: Annotated[int, Within(1, 10**7)] = 8192
    """Environment steps in one update: batch / horizon whole episodes side by side."""
    updates: Annotated[int, Within(1, 10**9)] = 200
    """Updates in one iteration."""
    settled: Annotated[int, Within(0, 10**6)] = 0
    """End an iteration early if over this many updates its return has not changed and nothing was
    rejected, or if over three times as many neither return nor acceptance has risen; 0: never. The
    learning rate is then not fully annealed."""
    epochs: Count = 4
    """Passes over a batch."""
    minibatches: Annotated[int, Within(1, 10**8)] = 1
    """Minibatches per pass over a shuffled batch."""
    learning_rate: Positive = 3e-4
    decay: Span = (0.0, 1.0)
    """Part of an iteration over which the learning rate falls to 0; `1 1`: constant."""
    momentum: Annotated[float, Within(0, 0.9999)] = 0.9
    """Adam's first decay rate. Where rewards are rare, Adam amplifies noise; a longer average
    dampens it."""
    gamma: Share = 0.99
    """Discount of the return."""
    gae_lambda: Share = 0.95
    clip: Positive = 0.2
    """PPO's clipping range of the probability ratio."""
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.05
    entropy_decay: Span = (1.0, 1.0)
    """Part of an iteration over which the entropy coefficient falls to 0, so policies end sharp;
    `1 1`: constant."""
    gradient_clip: Positive = 0.5
    """Upper bound of the gradient's norm."""
    hidden: Annotated[int, Within(1, 10**4)] = 64
    """Units of a hidden layer; actor and critic are separate networks."""
    layers: Annotated[int, Within(1, 100)] = 2
    """Hidden layers. The paper says one; its authors' code has two, and 4-Goals medium needs
    two."""
    normalize_obs: bool = False
    """Normalise observations by their running mean and standard deviation."""
    normalize_reward: bool = False
    """Divide each stream's reward by the running standard deviation of its discounted sum."""
    padding: Padding = "count"
    """Steps after an early end of an episode: they repeat the last step and count in likelihoods
    and losses, or are left out of both; or a new episode begins at once, and returns are those of
    the first."""
    horizon: Literal["cut", "end"] = "cut"
    """Whether the horizon truncates an episode, so that values bootstrap from the last state; or
    ends the game, after which nothing is earned."""
    memory: Memory = "none"
    """The policy's memory within an episode: none, or a gated recurrent unit (GRU) in actor and
    critic."""
    chunk: Annotated[int, Within(1, 10**7)] = 10
    """Sequence length in training, for a policy with memory."""
    init: Literal["fresh", "same"] = "fresh"
    """Weights at the start of an iteration: newly drawn, or the same for every iteration of a
    run."""
