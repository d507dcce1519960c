"""More iterations later: a search that goes on is the search that was never stopped."""

import dataclasses

import pytest

from product import same
from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.methods.rspo import RSPO
from rspo.rollout.collector import collector
from rspo.search.archive import Archive
from rspo.search.loop import Found, search
from worlds import Rooms

ENV = Rooms(depth=2, blind=True)
FEW, MANY = (
    7,
    12,
)  # on both sides of eight kept policies, after which there are twice as many places
KEPT = ("index", "status", "evaluation", "threshold", "attempt", "round", "member", "latent")


def searched(config: Config, archive: Archive) -> list[Found]:
    return [event for event in search(collector(ENV), config, archive) if isinstance(event, Found)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        RSPO(lambda_b=0.1),
        RSPO(lambda_b=0.1, lambda_r=0.1, predictor_steps=2, streams="per-reference"),
    ],
    ids=["single", "per-reference"],
)
def test_going_on_to_more_iterations_gives_what_all_at_once_gives(method: RSPO) -> None:
    learner = PPO(batch=48, updates=4, learning_rate=2e-2, hidden=8, layers=1)
    many = Config("rooms", MANY, method=method, ppo=learner, judge=Judge(episodes=16))
    few = dataclasses.replace(many, iterations=FEW)
    whole, begun = Archive(many), Archive(few)
    at_once, first = searched(many, whole), searched(few, begun)
    extended = Archive(many, list(begun))
    then = searched(many, extended)
    assert (len(begun), len(then), len(extended)) == (FEW, MANY - FEW, MANY)
    for one, other in zip(at_once, first + then, strict=True):
        assert one.rows == other.rows
    for one, other in zip(whole, extended, strict=True):
        assert same((one.policy, one.memory), (other.policy, other.memory))
        for name in KEPT:
            assert getattr(one, name) == getattr(other, name), name
    assert not any(same(whole[i].policy, whole[i - 1].policy) for i in range(1, MANY))
