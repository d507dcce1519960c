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
        return Config(
            env, 7, objective=objective, method=four_goals(method), ppo=FOUR_GOALS[env], judge=Judge(quality=0.8)
        )
    return Config(env, objective=objective, method=method)


def four_goals(method: Objective) -> Objective:
    """The paper uses no intrinsic reward in 4-Goals; only the no-switch ablation needs one."""
    if isinstance(method, RSPO) and method.switch != "off":
        return dataclasses.replace(method, lambda_b=0.0)
    return method


# The paper gives no number of updates, and a learning rate of 3e-4.
FOUR_GOALS = {
    "four-goals-easy": PPO(updates=160, learning_rate=1e-3),
    "four-goals-medium": PPO(updates=260, learning_rate=1e-3),
    "four-goals-hard": PPO(updates=400, learning_rate=1e-3),
}

__all__ = ["Measure", "preset"]
