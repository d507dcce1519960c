"""The default settings of a run: those of the task, overridden by what the method declares for it.

They are data: one record per environment here, a table per domain in each method's file. Where they
depart from the paper's, docs/departures.md says why; `--paper` takes the paper's own.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from rspo.config import Config, Judge, merge
from rspo.core.learning import PPO
from rspo.envs.base import AnyEnv
from rspo.errors import InputError
from rspo.methods.base import Settings
from rspo.methods.references import Measure
from rspo.registry import METHODS, PREFIXES, make

SMAC = "smac:"


@dataclass(frozen=True)
class Task:
    """The defaults of an environment's runs, whatever the method."""

    domain: str
    iterations: int = 4
    ppo: PPO = dataclasses.field(default_factory=PPO)
    measure: Measure = dataclasses.field(default_factory=Measure)
    judge: Judge = dataclasses.field(default_factory=Judge)
    paper: Settings = dataclasses.field(default_factory=dict)
    """What the paper's own settings change."""


def preset(
    env: str, method: str = "rspo", world: AnyEnv | None = None, paper: bool = False
) -> Config:
    """The configuration that `rspo discover ENV --method METHOD` starts from; `world`: the
    environment, if available."""
    made = METHODS.make(method)
    # The game itself has the settings of its simulator.
    name = env.removeprefix(SMAC)
    task = TASKS.get(name, Task("unknown" if name == env else "skirmish"))
    if name not in TASKS and world is None and env.startswith(tuple(PREFIXES)):
        world = make(env)
    if paper and not task.paper:
        raise InputError(
            f"The paper has no settings for {env}: leave --paper out. It has some for: "
            f"{', '.join(name for name, task in TASKS.items() if task.paper)}."
        )
    config = Config(
        env, task.iterations, method=made, ppo=task.ppo, measure=task.measure, judge=task.judge
    )
    declared = made.paper if paper else made.tuned
    brought = {} if name in TASKS or world is None else world.settings
    paper_settings = task.paper if paper else {}
    own = declared.get(task.domain, {}), declared.get(name, {})
    for settings in (brought, paper_settings, *own):
        config = merge(config, dict(settings), f"the preset of {env}")
    return config


# One hidden layer and no decay, as in the paper's appendix; the number of updates, which it does
# not give, follows from the steps in the authors' configuration files.
_LETTER = {"layers": 1, "decay": (1.0, 1.0), "entropy_decay": (1.0, 1.0), "horizon": "cut"}


def _four_goals(ppo: PPO, alpha: float) -> Task:
    letter = {**_LETTER, "learning_rate": 3e-4, "entropy_coefficient": 0.05}
    return Task(
        "four-goals",
        iterations=7,
        ppo=ppo,
        measure=Measure(alpha=alpha),
        judge=Judge(quality=0.8),
        paper={"ppo": letter, "measure": {"alpha": 0.5}},
    )


# The game ends at its horizon: docs/experiments.md shows the effect of ignoring that, and of each
# of the other choices.
_MEDIUM = PPO(
    updates=200, learning_rate=3e-3, decay=(0.5, 1.0), entropy_decay=(0.5, 1.0), horizon="end"
)
_HARD = dataclasses.replace(_MEDIUM, updates=400)
# With fixed landmarks a policy sharpens within ten updates. Twice the paper's entropy bonus of
# 0.05 probably keeps more paths to its landmark likely, so that fewer are odd enough to pass as a
# new strategy.
_EASY = dataclasses.replace(_MEDIUM, updates=50, learning_rate=2e-3, entropy_coefficient=0.1)

# Like the authors' code they normalise, and cap and discount the measure.
_STAG_HUNT = PPO(
    learning_rate=2e-3,
    decay=(1.0, 1.0),
    value_coefficient=1.0,
    entropy_coefficient=0.01,
    normalize_reward=True,
    padding="drop",
)
_STAG_HUNT_LETTER: dict[str, Any] = {
    "ppo": {
        **_LETTER,
        "learning_rate": 1e-3,
        "normalize_reward": False,
        "normalize_obs": False,
        "padding": "count",
    },
    "measure": {"alpha": 0.6, "cap": None, "discount": 1.0},
}


def _robot(
    alpha: float,
    updates: int = 240,
    learning_rate: float = 5e-4,
    entropy_coefficient: float = 0.01,
) -> Task:
    # Sample-efficient settings: batches of a quarter of the paper's 16384, in its minibatches of
    # 512, and a learning rate of 5e-4 instead of 3e-4 (docs/experiments.md). Normalisation follows
    # the authors' code, and so does the initial network as random play: its actions spread further
    # than uniform ones, and the paper's alphas assume that.
    ppo = PPO(
        batch=4096,
        updates=updates,
        learning_rate=learning_rate,
        epochs=10,
        minibatches=8,
        entropy_coefficient=entropy_coefficient,
        normalize_obs=True,
        normalize_reward=True,
        padding="restart",
    )
    letter = {
        **_LETTER,
        "batch": 16384,
        "updates": 250,
        "minibatches": 32,
        "learning_rate": 3e-4,
        "entropy_coefficient": 0.01,
        "normalize_obs": False,
        "normalize_reward": False,
    }
    return Task(
        "robots",
        iterations=5,
        ppo=ppo,
        measure=Measure(alpha=alpha, random="initial"),
        judge=Judge(episodes=32),
        paper={"ppo": letter, "measure": {"random": "uniform"}},
    )


def _skirmish(iterations: int, alpha: float, ppo: PPO, **tuned: Any) -> Task:
    # The paper's: a GRU, chunks of ten steps, 1600 of them in a batch, its rates and coefficients.
    # The number of updates follows from the steps of a later port by the same group.
    ppo = dataclasses.replace(
        ppo,
        learning_rate=5e-4,
        decay=(1.0, 1.0),
        entropy_coefficient=0.01,
        gradient_clip=10.0,
        layers=1,
        padding="drop",
        memory="gru",
    )
    tuned["normalize_obs"] = True
    return Task(
        "skirmish",
        iterations,
        dataclasses.replace(ppo, **tuned),
        Measure(alpha=alpha),
        Judge(episodes=32),
        paper={"ppo": {name: getattr(ppo, name) for name in tuned}},
    )


# With the paper's entropy bonus marines only ever stand and shoot: they are sure of it before they
# see what fleeing is worth. More of it at first, none at the end, and several steps of the
# optimiser from each batch win in a third of the paper's steps (docs/experiments.md).
_MARINES: dict[str, Any] = {
    "updates": 100,
    "epochs": 4,
    "minibatches": 5,
    "entropy_coefficient": 0.1,
    "entropy_decay": (0.5, 1.0),
    "padding": "restart",
}
# A first policy of colossi wins within 60 updates; what is left of 150 is for RSPO's later ones.
_COLOSSI = _MARINES | {"updates": 150, "entropy_coefficient": 0.05, "entropy_decay": (1.0, 1.0)}

TASKS = {
    "four-goals-easy": _four_goals(_EASY, alpha=0.5),
    "four-goals-medium": _four_goals(_MEDIUM, alpha=0.5),
    # At the paper's 0.5 an iteration can end between the thresholds: at an old landmark, reached in
    # an odd way.
    "four-goals-hard": _four_goals(_HARD, alpha=0.7),
    "monster-hunt": Task(
        "stag-hunt",
        iterations=20,
        ppo=dataclasses.replace(_STAG_HUNT, batch=12800, updates=200),
        # At the paper's 0.6 nearly everything is accepted with this cap; the authors'
        # configuration has 0.8.
        measure=Measure(alpha=0.8, cap=3.0, discount=0.995),
        # Picking apples earns a seventh of hunting, and is a strategy.
        judge=Judge(quality=0.25),
        paper=_STAG_HUNT_LETTER,
    ),
    "escalation": Task(
        "stag-hunt",
        iterations=10,
        ppo=dataclasses.replace(_STAG_HUNT, batch=6400, updates=300, normalize_obs=True),
        measure=Measure(alpha=0.6, cap=10.0, discount=0.995),
        paper={**_STAG_HUNT_LETTER, "ppo": {**_STAG_HUNT_LETTER["ppo"], "updates": 400}},
    ),
    "tree": Task(
        "tree",
        ppo=PPO(batch=1024, updates=300, learning_rate=1e-2, hidden=16, layers=1, horizon="end"),
        judge=Judge(quality=0.8),
    ),
    # Batch, steps and alpha are those of the authors' configuration.
    "point": Task(
        "point",
        ppo=PPO(
            batch=6400,
            updates=160,
            learning_rate=1e-3,
            epochs=10,
            minibatches=8,
            entropy_coefficient=0.01,
            normalize_obs=True,
            normalize_reward=True,
        ),
        measure=Measure(alpha=1.1, random="initial"),
    ),
    "half-cheetah": _robot(alpha=1.1, updates=480),  # twice the steps, in about as much time
    "hopper": _robot(alpha=0.9),
    "walker2d": _robot(alpha=0.9),
    # An entropy bonus drives its noise to where most actions are clipped, and it falls.
    "humanoid": _robot(alpha=1.0, learning_rate=2e-4, entropy_coefficient=0.0),
    "2m_vs_1z": _skirmish(4, 0.5, PPO(batch=15900, updates=314, epochs=1), **_MARINES),
    "3m": _skirmish(4, 0.5, PPO(batch=15960, updates=314, epochs=5)),
    "2c_vs_64zg": _skirmish(6, 0.3, PPO(batch=16000, updates=625, epochs=5), **_COLOSSI),
}
