"""Rounds that give several strategies: a population, and one policy with several latents."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import rspo
from product import results, same
from rspo import api
from rspo.config import Config, Judge
from rspo.core.learning import PPO
from rspo.core.types import Trajectory, View
from rspo.errors import InputError
from rspo.methods.base import Method, Plan, Score
from rspo.methods.references import References
from rspo.registry import METHODS
from rspo.runs.run import Run
from worlds import Rooms

UPDATES = 24  # three calls of the jitted program


@dataclasses.dataclass(frozen=True)
class Doors(Method):
    """One policy for all doors: it is paid for going through the one that its latent names."""

    bonus: float = 1.0

    def plan(self, policies: int) -> Plan:
        return Plan(latents=policies)

    def latent_size(self, plan: Plan) -> int:
        return 2

    def context(self, state: Any, key: Array, episodes: int) -> Array:
        return jax.nn.one_hot(jax.random.randint(key, (episodes,), 0, 2), 2)

    def score(
        self, state: Any, data: Trajectory, rivals: References, progress: Array | float
    ) -> Score:
        score = super().score(state, data, rivals, progress)
        own = data.action[0] == data.view.latent[0].argmax(-1)
        return score._replace(reward=score.reward.at[0, ..., 0].add(self.bonus * own))


class Case:
    """A method, how many strategies it is asked for, and the world for it."""

    def __init__(self, method: Method, count: int) -> None:
        self.env = Rooms(doors=count, depth=1)
        learner = PPO(batch=256, updates=UPDATES, learning_rate=3e-2, hidden=16, layers=1)
        self.config = Config(
            "rooms",
            count,
            method=method,
            ppo=learner,
            judge=Judge(episodes=32),
        )

    def run(self, folder: Path) -> Path:
        rspo.discover(self.env, config=self.config, out=folder, quiet=True)
        return folder


CASES = {
    "population": Case(METHODS.make("pbt-ce"), 3),
    "latents": Case(Doors(name="doors"), 2),
}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """A run folder names its method: whoever opens it makes the method by that name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS._entries, "doors", METHODS._entries["pg"])
        METHODS.register("doors", Doors, "a test's")
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a case, played once."""
    home, made = tmp_path_factory.mktemp("rounds"), dict[str, Path]()

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = CASES[name].run(home / name)
        return made[name]

    return folder


def rows(folder: Path, index: int) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (folder / f"strategies/{index:03d}/metrics.jsonl").read_text().splitlines()
    ]


@pytest.mark.slow
def test_a_population_gives_a_strategy_a_member(finished: Callable[[str], Path]) -> None:
    folder = finished("population")
    archive = rspo.load(folder)
    assert [(s.index, s.round, s.member, s.latent) for s in archive] == [
        (0, 0, 0, 0),
        (1, 0, 1, 0),
        (2, 0, 2, 0),
    ]
    assert [len(s.evaluation.distance) for s in archive] == [0, 1, 2]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not same(archive[one].policy, archive[other].policy)
        assert rows(folder, one) != rows(folder, other)
    for index in range(3):
        own = rows(folder, index)
        assert [row["update"] for row in own] == list(range(1, UPDATES + 1))
        for row in own:  # to each member, and to oneself there is none
            assert [distance > 0 for distance in row["distance_to"]] == [
                i != index for i in range(3)
            ]
    assert archive[2].evaluation.greedy_return_mean == 1.0


@pytest.mark.slow
def test_each_latent_is_a_strategy_that_plays_by_itself(finished: Callable[[str], Path]) -> None:
    archive = rspo.load(finished("latents"))
    assert [(s.index, s.round, s.member, s.latent) for s in archive] == [(0, 0, 0, 0), (1, 0, 0, 1)]
    assert [s.descriptor for s in archive] == ["door 0", "door 1"]
    assert same(archive[0].policy.actor, archive[1].policy.actor)
    start, env = np.eye(3, dtype=np.float32)[0], CASES["latents"].env
    for strategy in archive:
        np.testing.assert_array_equal(strategy.policy.context, np.eye(2)[strategy.latent])
        assert strategy.observed == env.spec.obs_size == 3
        assert strategy.act(start, greedy=True) == strategy.latent
        drawn = strategy.act(np.broadcast_to(start, (200, 3)), rng=0)
        assert (drawn == strategy.latent).mean() > 0.9
        assert strategy.evaluation.greedy_return_mean == 1.0
    again = rspo.evaluate(finished("latents"), env=env)
    assert [s.evaluation for s in again] == [s.evaluation for s in archive]


class Killed(BaseException):
    """As a signal that nobody can catch: nothing is saved after it."""


def killed_in(patch: pytest.MonkeyPatch, method: str, moment: int, after: bool) -> None:
    """At the `moment`-th call of a method of `Run`'s, from 1, before it does anything or after it
    has."""
    original, calls = getattr(Run, method), []

    def fatal(self: Run, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == moment and not after:
            raise Killed
        given = original(self, *arguments)
        if len(calls) == moment:
            raise Killed
        return given

    patch.setattr(Run, method, fatal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method", "moment", "after", "kept"),
    [
        ("population", "_save_checkpoint", 2, True, 0),  # in the middle of training
        ("population", "_save_strategy", 1, False, 0),
        ("population", "_save_strategy", 1, True, 1),
        ("population", "_save_strategy", 2, True, 2),
        ("latents", "_save_checkpoint", 2, True, 0),
        ("latents", "_save_strategy", 1, True, 1),
    ],
)
def test_a_run_that_is_killed_within_a_round_goes_on_to_the_same_bytes(
    finished: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    method: str,
    moment: int,
    after: bool,
    kept: int,
) -> None:
    case, folder = CASES[name], tmp_path / "run"
    monkeypatch.setattr(api, "CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        killed_in(patch, method, moment, after)
        with pytest.raises(Killed):
            case.run(folder)
    assert (folder / "checkpoint.safetensors").exists()
    assert len(rspo.load(folder)) == kept
    rspo.resume(folder, env=case.env, quiet=True)
    assert results(folder) == results(finished(name))
    assert not (folder / "checkpoint.safetensors").exists()


@pytest.mark.slow
def test_what_a_method_learns_on_the_side_goes_on_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A discriminator is part of the checkpoint."""
    case, folder = Case(METHODS.make("smerl"), 2), tmp_path / "run"
    monkeypatch.setattr(api, "CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        killed_in(patch, "_save_checkpoint", 2, after=True)
        with pytest.raises(Killed):
            case.run(folder)
    rspo.resume(folder, env=case.env, quiet=True)
    assert results(folder) == results(case.run(tmp_path / "whole"))
    start = np.eye(5, dtype=np.float32)[0][: case.env.spec.obs_size]
    for strategy in rspo.load(folder):
        assert strategy.act(start, greedy=True) in (0, 1)


@pytest.mark.slow
def test_what_is_trained_is_not_trained_again(
    finished: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other strategies of a round come from its checkpoint."""
    case, folder = CASES["population"], tmp_path / "run"
    in_one_go = results(finished("population"))
    with monkeypatch.context() as patch:
        killed_in(patch, "_save_strategy", 1, after=True)
        with pytest.raises(Killed):
            case.run(folder)
    monkeypatch.setattr(
        "rspo.search.loop.make_trainer", lambda *_: pytest.fail("it is trained again")
    )
    rspo.resume(folder, env=case.env, quiet=True)
    assert results(folder) == in_one_go


@pytest.mark.slow
def test_a_round_of_several_cannot_be_extended(finished: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="side by side"):
        rspo.resume(finished("population"), env=CASES["population"].env, iterations=4)


@pytest.mark.slow
def test_a_kept_policy_plays_its_own_latent_whatever_others_are_given(
    finished: Callable[[str], Path],
) -> None:
    """As a rival of policies in training: episodes have latents of theirs, which are not the kept
    one's."""
    archive = rspo.load(finished("latents"))
    obs = jnp.broadcast_to(jnp.eye(3)[0], (4, 1, 3))
    for strategy in archive:
        policy = jax.tree.map(jnp.asarray, strategy.policy)
        alone = policy(View(obs))
        for latent in jnp.eye(2):
            given = policy(View(obs, latent=jnp.broadcast_to(latent, (4, 1, 2))))
            np.testing.assert_array_equal(given.logits, alone.logits)
