"""The contract that every registered method keeps, and what `check_method` says of those that do
not."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest

import rspo
from rspo.core.policies import uniform_policy
from rspo.errors import InputError
from rspo.methods.base import Method, Plan
from rspo.registry import METHODS
from rspo.search import check_method as checker
from rspo.search.probes import Probe
from worlds import Rooms, Toll, collect

BUILT_IN = [name for name in METHODS.summaries() if isinstance(METHODS._entries[name].target, str)]


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_keeps_the_contract_in_its_shapes(name):
    assert rspo.check_method(name, train=False).name == name


# Everything at once, and for methods without memory all but that.
TRAINED = [checker.Trial(Probe(agents=2, continuous=True), memory) for memory in ("gru", "none")]
ABLATIONS = {"no-switch", "no-intrinsic", "behaviour-only"}  # RSPO's code with other settings


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in ABLATIONS])
def test_every_method_keeps_the_contract_in_training(name, monkeypatch):
    """Its own tests train it with one agent and discrete actions."""
    method = METHODS.make(name)
    accepted = (trial for trial in TRAINED if checker._config(method, trial, refuse=False))
    monkeypatch.setattr(checker, "TRIALS", (next(accepted),))
    assert rspo.check_method(name).name == name


@pytest.mark.slow
def test_the_probes_are_environments_with_all_that_a_method_may_need():
    for trial in checker.TRIALS:
        assert rspo.check_env(trial.env) == trial.env.spec
        played = collect(
            trial.env, uniform_policy(trial.env.spec.action_space), 256, jax.random.key(0)
        )
        assert played.terminated.any()
        assert not played.terminated[-1].all()
        behaviour = trial.env.behaviour(played)
        assert behaviour.shape == (256,)
        assert 0 <= behaviour.min() < behaviour.max() <= 1


# ---- what is wrong with others


@dataclasses.dataclass(frozen=True)
class Wrong(Method):
    """A method that is right; others change one thing."""

    name: str = "wrong"
    size: int = 2

    def init(self, setup, key):
        return jnp.zeros(self.size)


def wrong(**body: Any) -> type[Method]:
    """One with these functions or constants in the place of its own."""
    return dataclasses.dataclass(frozen=True)(type("Wrong", (Wrong,), body))


def scoring(**changes: Any) -> Any:
    def score(self, state, data, rivals, progress):
        given = Method.score(self, state, data, rivals, progress)
        return given._replace(**{name: change(data) for name, change in changes.items()})

    return score


FLAT = scoring(reward=lambda data: data.reward)
NARROW = scoring(weight=lambda data: jnp.ones((*data.reward.shape, 2)))
PROBLEMS = {
    "reward": (
        wrong(score=FLAT),
        "its score gives a reward of shape (4, 8, 1), but it must be (4, 8, 1, 1)",
    ),
    "weight": (wrong(score=NARROW), "its score gives a weight of shape (4, 8, 1, 2)"),
    "channels": (
        wrong(channels=lambda self, capacity: ("episodic",) * 2),
        "a reward of shape (4, 8, 1, 1), but it must be (4, 8, 1, 2): steps, episodes, agents, and its 2",
    ),
    "stream": (
        wrong(channels=lambda self, capacity: ("eternal",)),
        "its channels are ('eternal',)",
    ),
    "score": (
        wrong(score=lambda self, *given: None),
        "its score gives NoneType, but it must give a Score",
    ),
    "extra": (wrong(score=scoring(extra=lambda data: jnp.ones(3))), "the extra of shape (3,)"),
    "metric": (
        wrong(score=scoring(metrics=lambda data: {"mood": "good"})),
        "its metric 'mood' is of type str, but it must be an array of numbers",
    ),
    "metric shape": (
        wrong(score=scoring(metrics=lambda data: {"mood": jnp.ones(3)})),
        "its metric 'mood' is of shape (3,), but it must be one number, or one for each of 8",
    ),
    "metric name": (
        wrong(score=scoring(metrics=lambda data: {"loss": jnp.ones(())})),
        "its metric 'loss' has a name that training uses itself",
    ),
    "raises": (
        wrong(score=lambda self, *given: 1 / 0),
        "its score in a probe with discrete actions and 1 agent fails (ZeroDivisionError",
    ),
    "loss": (
        wrong(loss=lambda self, states, policies, minibatch, rivals, key: minibatch.reward),
        "its loss is of shape",
    ),
    "update": (
        wrong(update=lambda self, states, data, rivals, key: states[:, :1]),
        "its update changes its own learners from float32 of shape (1, 2) to float32 of shape (1, 1)",
    ),
    "memory": (
        wrong(remember=lambda self, state, policy, play, key: jnp.ones(3)),
        "what it remembers of a policy differs from what its memory says, from nothing to float32",
    ),
    "context": (
        wrong(
            plan=lambda self, policies: Plan(latents=policies),
            latent_size=lambda self, plan: 2,
            latents=lambda self, plan: jnp.zeros((plan.latents, 2)),
        ),
        "its context gives latents none, but they must be (8, 2)",
    ),
    "plan": (
        wrong(plan=lambda self, policies: Plan(members=4)),
        "its plan for 1 policies gives 4",
    ),
    "latents": (
        wrong(
            plan=lambda self, policies: Plan(latents=policies),
            latents=lambda self, plan: jnp.zeros((1, 1)),
        ),
        "its latents for 2 policies are of shape (1, 1), but they must be (2, 0)",
    ),
    "kind": (wrong(kind="mystical"), "its kind is 'mystical', but allowed are: iterative"),
    "needs": (wrong(needs=("luck",)), "it needs 'luck', but allowed are: features"),
}


@pytest.mark.parametrize(("method", "words"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_wrong_is_said_in_plain_words(method, words):
    with pytest.raises(InputError) as refused:
        rspo.check_method(method, train=False)
    assert words in str(refused.value)
    assert str(refused.value).startswith("The method wrong cannot be used: ")


def test_a_method_that_is_right_passes_as_a_class_and_as_an_object():
    assert rspo.check_method(Wrong, train=False) == Wrong()
    assert rspo.check_method(Wrong(size=3), train=False).size == 3


@pytest.mark.parametrize("given", [7, rspo.Env, "no-such"])
def test_what_is_no_method_is_refused(given):
    with pytest.raises(InputError, match=r"is not a method|Unknown method 'no-such'"):
        rspo.check_method(given)


@dataclasses.dataclass(frozen=True)
class Callable(Method):
    shape: Any = print


@dataclasses.dataclass(frozen=True)
class Loose(Method):
    pairs: Any = ((1, 2),)


class Bare(Method):
    beta: float = 1.0


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Callable, "its settings do not come back from JSON (TypeError"),
        (Loose, "its setting pairs does not come back from JSON"),
        (Bare, "Bare must be decorated with @dataclass(frozen=True)"),
    ],
)
def test_settings_must_be_those_of_a_file(method, words):
    with pytest.raises(InputError) as refused:
        rspo.check_method(method, train=False)
    assert words in str(refused.value)


@dataclasses.dataclass(frozen=True)
class Costly(Method):
    """Takes more steps than others."""

    def plan(self, policies):
        return Double(rounds=policies)


class Double(Plan):
    def updates(self, each: int) -> int:
        return 2 * each


def test_no_method_gets_more_steps_than_others():
    with pytest.raises(
        InputError, match="for 1 policies takes 60 environment steps, but every meth"
    ):
        rspo.check_method(Costly, train=False)


# ---- seen in training only


@dataclasses.dataclass(frozen=True)
class Infinite(Method):
    needs: ClassVar = ("features",)

    def score(self, state, data, rivals, progress):
        given = super().score(state, data, rivals, progress)
        return given._replace(metrics={"ratio": jnp.log(-jnp.ones(()) * rivals.mask.sum())})


@pytest.mark.slow
def test_numbers_that_are_not_finite_are_found():
    with pytest.raises(InputError, match=r"not all numbers in its metrics \(\['ratio'\]\) are"):
        rspo.check_method(Infinite, env=Toll())


def test_a_method_that_says_where_it_cannot_be_used_is_tried_elsewhere():
    with pytest.raises(InputError, match="cannot be used in Rooms: its reward is not given as"):
        rspo.check_method("rpg", env=Rooms())


@dataclasses.dataclass(frozen=True)
class Weak(Method):
    """Its state is a Python number, whose type is settled only by the first update."""

    def init(self, setup, key):
        return jnp.asarray(0.0)

    def update(self, states, data, rivals, key):
        return states + jnp.ones(1)


@pytest.mark.slow
def test_updates_are_compiled_once_whatever_a_method_begins_with():
    assert rspo.check_method(Weak, env=Probe()) == Weak()
