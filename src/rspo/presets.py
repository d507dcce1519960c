"""The settings a run starts from, per environment: the paper's, and where they differ, why."""

import dataclasses

from rspo.config import Config, Judge
from rspo.envs.base import AnyEnv, HostEnv
from rspo.learn.ppo import PPO
from rspo.methods.base import Method
from rspo.methods.references import Measure
from rspo.methods.rspo import RSPO
from rspo.registry import METHODS, PREFIXES, make


def preset(env: str, objective: str = "rspo", world: AnyEnv | None = None) -> Config:
    """The configuration `rspo discover ENV --objective OBJECTIVE` starts from; `world`: the
    environment, if at hand."""
    method = METHODS.make(objective)
    if env in FOUR_GOALS:
        method = _four_goals_method(method, release=0.25 if env == "four-goals-hard" else 0.0)
        return dataclasses.replace(FOUR_GOALS[env], objective=objective, method=method)
    if env in ROBOTS:
        return dataclasses.replace(ROBOTS[env], objective=objective, method=_robot_method(method))
    if env in STAG_HUNTS:
        method = _stag_hunt_method(method, objective, env)
        return dataclasses.replace(STAG_HUNTS[env], objective=objective, method=method)
    if env.startswith(tuple(PREFIXES)):
        world = make(env) if world is None else world
    if isinstance(world, HostEnv):
        return dataclasses.replace(_brought(env, world), objective=objective, method=method)
    return Config(env, objective=objective, method=method)


def _brought(env: str, world: HostEnv) -> Config:
    """For an environment that nobody here knows: whole episodes, eight or more, of about 8192 steps
    in all."""
    episodes = max(round(8192 / world.spec.horizon / 8), 1) * 8
    ppo = PPO(
        batch=episodes * world.spec.horizon,
        epochs=10,
        minibatches=8,
        entropy_coefficient=0.01,
        normalize_obs=True,
        normalize_reward=True,
        padding="restart" if world.can_restart else "count",
    )
    return Config(env, ppo=ppo, judge=Judge(episodes=64))


def _four_goals_method(method: Method, release: float) -> Method:
    """The paper uses no intrinsic reward in 4-Goals; only the no-switch ablation needs one."""
    if not isinstance(method, RSPO):
        return method
    if method.switch == "off":
        return dataclasses.replace(method, lambda_b=0.001)
    return dataclasses.replace(method, lambda_b=0.0, release=release)


# The paper's settings, but for the learning rate of 3e-4, two hidden layers, and what falls to 0 in
# the second half. It gives no number of updates: these are those of the authors' code. The game
# ends at its horizon: docs/experiments.md has what comes of not knowing that, and what each of the
# other choices does.
_MEDIUM = PPO(
    updates=200, learning_rate=3e-3, decay=(0.5, 1.0), entropy_decay=(0.5, 1.0), horizon="end"
)
_HARD = dataclasses.replace(_MEDIUM, updates=400)
# Where landmarks stand still, a policy sharpens within ten updates. Twice the paper's entropy bonus
# of 0.05 likely keeps more ways to its landmark in it, so that fewer are odd enough to pass for a
# new strategy.
_EASY = dataclasses.replace(_MEDIUM, updates=50, learning_rate=2e-3, entropy_coefficient=0.1)
FOUR_GOALS = {
    env: Config(env, 7, ppo=ppo, measure=Measure(alpha=alpha), judge=Judge(quality=0.8))
    for env, ppo, alpha in (
        ("four-goals-easy", _EASY, 0.5),
        ("four-goals-medium", _MEDIUM, 0.5),
        # At the paper's 0.5 an iteration can end between the thresholds: at an old landmark,
        # reached in an odd way.
        ("four-goals-hard", _HARD, 0.7),
    )
}


def _stag_hunt_method(method: Method, objective: str, env: str) -> Method:
    """The paper's weights of both intrinsic rewards and smoothed switching, less what an ablation
    leaves out."""
    if not isinstance(method, RSPO):
        return method
    if method.switch != "off":
        method = dataclasses.replace(method, switch="smooth")
    lambda_b = 0.0 if objective == "no-intrinsic" else 0.2
    lambda_r = 0.0 if objective in ("no-intrinsic", "behaviour-only") else 1.0
    method = dataclasses.replace(method, lambda_b=lambda_b, lambda_r=lambda_r, streams="grouped")
    # With the paper's own choices cooperation did not grow, and nobody chased the monster
    # (docs/experiments.md).
    method = dataclasses.replace(method, rejected="mask", error_scale="batch")
    if env == "escalation":
        return dataclasses.replace(method, predictor_data="mixed")
    return dataclasses.replace(method, release=0.25)


# The paper's settings, but for the learning rate of 1e-3, the number of updates, which it does not
# give, and two hidden layers; like the authors' code they normalise, and cap and discount the
# measure.
_STAG_HUNT = PPO(
    learning_rate=2e-3,
    decay=(1.0, 1.0),
    value_coefficient=1.0,
    entropy_coefficient=0.01,
    normalize_reward=True,
    padding="drop",
)
STAG_HUNTS = {
    "monster-hunt": Config(
        "monster-hunt",
        20,
        ppo=dataclasses.replace(_STAG_HUNT, batch=12800, updates=200),
        # At the paper's 0.6 nearly all is accepted with such a cap; the authors' configuration has
        # 0.8.
        measure=Measure(alpha=0.8, cap=3.0, discount=0.995),
        judge=Judge(quality=0.25),  # picking apples earns a seventh of hunting, and is a strategy
    ),
    "escalation": Config(
        "escalation",
        10,
        ppo=dataclasses.replace(_STAG_HUNT, batch=6400, updates=300, normalize_obs=True),
        measure=Measure(alpha=0.6, cap=10.0, discount=0.995),
    ),
}


def _robot_method(method: Method) -> Method:
    """The behaviour-driven intrinsic reward alone, with lambda 1, as a stream of its own; the soft
    objective only converged with a weight of 0.001."""
    if not isinstance(method, RSPO) or method.lambda_b == 0:
        return method
    return dataclasses.replace(
        method, lambda_b=0.001 if method.switch == "off" else 1.0, streams="grouped"
    )


def _robot(name: str, alpha: float, updates: int = 240) -> Config:
    # The paper's settings, but for two hidden layers, the number of updates, which it does not
    # give, and what makes the most of few steps: batches of a quarter of its 16384, in its
    # minibatches of 512, and a learning rate of 5e-4 instead of 3e-4 (docs/experiments.md).
    # Normalisation is the authors' code's, and so is the initial network as random play: its
    # actions stray further than uniform ones, and the paper's alphas go with that.
    ppo = PPO(
        batch=4096,
        updates=updates,
        learning_rate=5e-4,
        epochs=10,
        minibatches=8,
        entropy_coefficient=0.01,
        normalize_obs=True,
        normalize_reward=True,
        padding="restart",
    )
    return Config(
        name, 5, ppo=ppo, measure=Measure(alpha=alpha, random="initial"), judge=Judge(episodes=32)
    )


ROBOTS = {
    config.env: config
    for config in (
        _robot(
            "half-cheetah", alpha=1.1, updates=480
        ),  # twice the steps of the others, in about as much time
        _robot("hopper", alpha=0.9),
        _robot("walker2d", alpha=0.9),
        _robot("humanoid", alpha=1.0),
    )
}
