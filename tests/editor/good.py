"""What a user writes: both type checkers must have nothing to say about it."""

from typing import assert_type

import numpy as np

import rspo

assert_type(rspo.__version__, str)


def enough(update: rspo.Update) -> bool:
    return update.metrics["return"] > 0.9


archive = rspo.discover(
    "four-goals-easy",
    method={"name": "rspo", "lambda_b": 0.1},
    iterations=4,
    seed=0,
    ppo={"updates": 10, "decay": (0.5, 1.0)},
    measure={"alpha": 0.5, "cap": None},
    judge={"episodes": 64},
    on_update=enough,
    on_strategy=print,
)
assert_type(archive, rspo.Archive)
assert_type(archive[0], rspo.Strategy)
assert_type(archive[1:], list[rspo.Strategy])
assert_type([strategy.descriptor for strategy in archive], list[str | None])
archive.play("left", "left.svg", episodes=2)
archive.report("report.html")
rspo.load(archive.save("runs/goals"))[0].act(np.zeros(10), greedy=True)
