"""The settings of `rspo.discover` as keywords, so that an editor completes them and a type checker
catches a misspelt one. A test keeps these tables equal to `Config`, which documents each."""

from typing import Literal, TypedDict


class PPOKeywords(TypedDict, total=False):
    """`ppo={...}`: the learner that every method shares."""

    batch: int
    updates: int
    settled: int
    epochs: int
    minibatches: int
    learning_rate: float
    decay: tuple[float, float]
    momentum: float
    gamma: float
    gae_lambda: float
    clip: float
    value_coefficient: float
    entropy_coefficient: float
    entropy_decay: tuple[float, float]
    gradient_clip: float
    hidden: int
    layers: int
    normalize_obs: bool
    normalize_reward: bool
    padding: Literal["count", "drop", "restart"]
    horizon: Literal["cut", "end"]
    memory: Literal["none", "gru"]
    chunk: int
    init: Literal["fresh", "same"]


class MeasureKeywords(TypedDict, total=False):
    """`measure={...}`: how distance between policies is measured."""

    of: Literal["actions", "return"]
    alpha: float
    least: float | None
    delta: float | None
    random: Literal["uniform", "initial"]
    cap: float | None
    gaussian: Literal["density", "distance"]
    discount: float


class JudgeKeywords(TypedDict, total=False):
    """`judge={...}`: how a finished policy is judged."""

    episodes: int
    quality: float
    accept: float
    references: Literal["all", "distant", "novel"]
    attempts: int


class Keywords(TypedDict, total=False):
    """What `rspo.discover` takes besides the environment and the method."""

    iterations: int
    seed: int
    horizon: int | None
    ppo: PPOKeywords
    measure: MeasureKeywords
    judge: JudgeKeywords
