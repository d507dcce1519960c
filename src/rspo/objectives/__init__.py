"""One method a file; importing this package registers them by name."""

from rspo.objective import Objective, register
from rspo.objectives.rspo import RSPO

register("rspo", RSPO, "Reward-Switching Policy Optimization (the paper's method)")
register(
    "no-switch", lambda: RSPO(switch="off", lambda_b=1.0), "ablation: the soft objective, reward plus diversity bonus"
)
register("no-intrinsic", lambda: RSPO(lambda_b=0.0, lambda_r=0.0), "ablation: trajectory filtering alone")
register("behaviour-only", lambda: RSPO(lambda_r=0.0), "ablation: no reward-driven intrinsic reward")
register("pg", Objective, "PPO with restarts: the task's reward alone, a new initialisation each iteration")
