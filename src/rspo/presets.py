"""The settings a run starts from, per environment: the paper's, and where they differ, why."""

import dataclasses

from rspo.config import Config, Judge
from rspo.likelihood import Measure
from rspo.objective import Objective, make_objective
from rspo.objectives.rspo import RSPO
from rspo.ppo import PPO


def preset(env: str, objective: str = "rspo") -> Config:
    """The configuration `rspo discover ENV --objective OBJECTIVE` starts from."""
    method = make_objective(objective)
    if env in FOUR_GOALS:
        return dataclasses.replace(FOUR_GOALS[env], objective=objective, method=_four_goals_method(method))
    return Config(env, objective=objective, method=method)


def _four_goals_method(method: Objective) -> Objective:
    """The paper uses no intrinsic reward in 4-Goals; only the no-switch ablation needs one."""
    if not isinstance(method, RSPO):
        return method
    return dataclasses.replace(method, lambda_b=0.001 if method.switch == "off" else 0.0)


def _four_goals(mode: str, updates: int, alpha: float) -> Config:
    # The paper has a learning rate of 3e-4, an entropy coefficient of 0.05 and no number of updates. Before the
    # smallest landmark is found, rewards are so rare that Adam follows noise: docs/experiments.md has what each does.
    ppo = PPO(
        updates=updates,
        learning_rate=3e-3,
        momentum=0.98,
        decay=(0.5, 1.0),
        entropy_coefficient=0.1,
        entropy_decay=(0.5, 1.0),
    )
    return Config(f"four-goals-{mode}", 7, ppo=ppo, measure=Measure(alpha=alpha), judge=Judge(quality=0.8))


FOUR_GOALS = {
    config.env: config
    for config in (
        _four_goals("easy", updates=200, alpha=0.5),
        _four_goals("medium", updates=400, alpha=0.5),
        # At the paper's 0.5 an iteration can end between the thresholds: at an old landmark, reached in an odd way.
        _four_goals("hard", updates=1000, alpha=0.8),
    )
}
