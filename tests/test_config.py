"""Settings: what goes in comes out, and what could not run is refused by name before anything is
written."""

import dataclasses
import json
import typing
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from rspo.config import Config, from_dict, merge, to_dict, validate
from rspo.core.types import Spec
from rspo.errors import InputError, suggestion
from rspo.presets import preset
from rspo.registry import ENVIRONMENTS, METHODS, make
from worlds import Corridor

BASE = preset("four-goals-easy")
SPEC = make("four-goals-easy").spec


def settings(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every single setting with its type, such as `ppo.batch`, int."""
    hints = typing.get_type_hints(type(group))
    for name in (field.name for field in dataclasses.fields(group)):
        hint = hints[name]
        value = getattr(group, name)
        if dataclasses.is_dataclass(value):
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", hint


ALL = dict(settings(BASE))
NUMBERS = [name for name, hint in ALL.items() if hint in (int, float, float | None)]


def nested(name: str, value: Any) -> dict[str, Any]:
    """`ppo.batch` as {"ppo": {"batch": value}}."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def changed(name: str, value: Any) -> Config:
    return merge(BASE, nested(name, value), "test")


def test_there_are_settings() -> None:
    assert {
        "env",
        "seed",
        "ppo.batch",
        "measure.cap",
        "judge.attempts",
        "method.lambda_b",
    } <= ALL.keys()


@pytest.mark.parametrize("env", ENVIRONMENTS.summaries())
@pytest.mark.parametrize("method", METHODS.summaries())
def test_every_preset_can_run_and_comes_back_from_json(env: str, method: str) -> None:
    config = preset(env, method)
    validate(config, make(env).spec)
    assert from_dict(json.loads(json.dumps(to_dict(config))), "test") == config
    assert (config.env, config.method.name) == (env, method)


@pytest.mark.parametrize(
    "name", [name for name in NUMBERS if name not in ("measure.delta", "judge.quality")]
)
def test_a_negative_number_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        validate(changed(name, -1), SPEC)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", [name for name in NUMBERS if ALL[name] is not int])
def test_a_number_that_is_not_finite_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        validate(changed(name, value), SPEC)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iterations", 0),
        ("seed", 2**32),  # would be the same as 0
        ("seed", 10**400),
        ("ppo.updates", 0),
        ("ppo.updates", 10**20),
        ("ppo.epochs", 0),
        ("ppo.minibatches", 0),
        ("ppo.hidden", 0),
        ("ppo.layers", 0),
        ("ppo.batch", 0),
        ("ppo.batch", SPEC.horizon - 1),
        ("ppo.batch", SPEC.horizon + 1),
        ("ppo.batch", SPEC.horizon * 10**11),  # beyond any memory
        ("ppo.hidden", 10**9),
        ("ppo.minibatches", 3),
        ("ppo.learning_rate", 0),
        ("ppo.clip", 0),
        ("ppo.gradient_clip", 0),
        ("ppo.gamma", 1.01),
        ("ppo.gae_lambda", 1.01),
        ("ppo.momentum", 1.0),
        ("ppo.decay", [0.5, 0.25]),
        ("ppo.decay", [-1, 1]),
        ("ppo.entropy_decay", [0, float("nan")]),
        ("measure.alpha", 0),
        ("measure.cap", 0),
        ("measure.discount", 1.5),
        ("judge.episodes", 0),
        ("judge.episodes", 10**12),
        ("judge.attempts", 0),
        ("judge.accept", 1.5),
        ("method.release", 1.5),
        ("method.ungated", -0.5),
        ("method.ungated_every", 0),
        ("iterations", 10**9),
    ],
)
def test_what_cannot_run_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        validate(changed(name, value), SPEC)


def test_a_game_that_ends_at_the_horizon_is_not_restarted_before_it() -> None:
    with pytest.raises(InputError, match=r"ppo\.horizon is 'end' and ppo\.padding is 'restart'"):
        validate(merge(BASE, {"ppo": {"horizon": "end", "padding": "restart"}}, "test"), SPEC)
    validate(merge(BASE, {"ppo": {"horizon": "cut", "padding": "restart"}}, "test"), SPEC)
    validate(merge(BASE, {"ppo": {"horizon": "end", "padding": "drop"}}, "test"), SPEC)


@pytest.mark.parametrize(
    ("measure", "padding"),
    [
        ({"delta": 1.0, "least": 1.0}, "count"),
        ({"of": "return", "delta": 0.0}, "count"),
        ({"of": "return"}, "restart"),
    ],
)
def test_measures_that_make_no_sense_are_refused(measure: dict[str, Any], padding: str) -> None:
    with pytest.raises(InputError, match=r"measure\."):
        validate(merge(BASE, {"measure": measure, "ppo": {"padding": padding}}, "test"), SPEC)
    validate(merge(BASE, {"measure": {"of": "return", "least": 1.0}}, "test"), SPEC)


@pytest.mark.parametrize("horizon", [7, 16, 25])
@pytest.mark.parametrize("batch", [1, 100, 1000, 8191])
def test_the_suggested_batch_is_good(horizon: int, batch: int) -> None:
    spec = SPEC._replace(horizon=horizon)
    config = merge(BASE, {"ppo": {"batch": batch * horizon + 1, "minibatches": 1}}, "test")
    with pytest.raises(InputError, match="try ") as error:
        validate(config, spec)
    tip = int(str(error.value).rsplit("try ", 1)[1].rstrip("."))
    validate(merge(config, {"ppo": {"batch": tip}}, "test"), spec)


@pytest.mark.parametrize("length", [12, 496, 20_000])
def test_an_environment_of_ones_own_plays_whole_episodes_by_default(length: int) -> None:
    world = Corridor(length)
    validate(preset("mine", world=world), world.spec)


def test_minibatches_must_divide_the_samples_of_all_agents() -> None:
    config = merge(BASE, {"ppo": {"batch": 16, "minibatches": 3}}, "test")
    with pytest.raises(InputError, match=r"ppo\.minibatches"):
        validate(config, SPEC)
    validate(config, Spec(obs_size=1, action_space=SPEC.action_space, horizon=16, agents=3))


def wrong(hint: Any) -> list[Any]:
    """Values that do not fit a type."""
    if typing.get_origin(hint) is Literal:
        return ["something else", None, 3, ["x"], {}]
    if typing.get_origin(hint) is tuple:
        return ["0.5 1", None, 0.5, [], [0.5], [0.1, 0.2, 0.3], ["0.5", 1], [None, True]]
    values = {
        int: ["3", 3.0, None, True, [3]],
        float: ["3", None, True, [3]],
        bool: [0, 1, "true", None],
        str: [3, None],
    }
    return values.get(hint, ["3", False, [3], {}])


@pytest.mark.parametrize(("name", "hint"), ALL.items(), ids=ALL)
def test_a_wrong_type_is_refused_by_name(name: str, hint: Any) -> None:
    for value in wrong(hint):
        with pytest.raises(InputError) as error:
            changed(name, value)
        assert str(error.value).startswith(f"test sets '{name}' to {value!r}, but ")


@pytest.mark.parametrize(("name", "hint"), ALL.items(), ids=ALL)
def test_a_right_type_is_put_in_and_nothing_else_changes(name: str, hint: Any) -> None:
    if typing.get_origin(hint) is Literal:
        value: Any = typing.get_args(hint)[-1]
    elif typing.get_origin(hint) is tuple:
        value = (0.25, 0.75)
    else:
        value = {int: 7, bool: True, str: "x"}.get(hint, 7)
    if name == "method.name":  # another one's settings would be others
        value = "rspo"
    config = changed(name, value)
    flat = {key: _get(config, key) for key in ALL}
    assert flat == {key: _get(BASE, key) for key in ALL} | {name: value}
    assert type(_get(config, name)) is (float if hint in (float, float | None) else type(value))


def _get(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def test_nothing_is_a_value_where_it_is_allowed() -> None:
    assert merge(changed("measure.cap", 3), {"measure": {"cap": None}}, "test").measure.cap is None


@pytest.mark.parametrize("name", ["ppo", "measure", "judge", "method"])
@pytest.mark.parametrize("value", [3, "x", None, []])
def test_a_group_takes_no_value(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"'{name}' to .*a group of settings|give only one"):
        changed(name, value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("iteration", "unknown setting 'iteration'. Did you mean 'iterations'?"),
        ("ppo.learningrate", "unknown setting 'ppo.learningrate'. Did you mean 'learning_rate'?"),
        ("measure.zzz", "unknown setting 'measure.zzz'. Allowed: alpha,"),
        ("method.lambda", "unknown setting 'method.lambda'. Did you mean 'lambda_"),
    ],
)
def test_an_unknown_setting_gets_a_suggestion(name: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        changed(name, 1)
    assert words in str(error.value)


def test_a_configuration_holds_the_method_it_names() -> None:
    assert Config("four-goals-easy").method == METHODS.make("rspo")


def test_a_method_has_its_own_settings_only() -> None:
    with pytest.raises(InputError, match=r"unknown setting 'method\.lambda_b'"):
        merge(preset("four-goals-easy", "pg"), {"method": {"lambda_b": 1.0}}, "test")


@pytest.mark.parametrize("data", [{}, {"method": None}, {"method": 3}, {"method": "rsop"}])
def test_a_record_without_a_method_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="method"):
        from_dict(data, "test")


def test_suggestions() -> None:
    assert suggestion("discvoer", ["discover", "resume"]) == "Did you mean 'discover'?"
    assert suggestion("qqqq", ["b", "a"]) == "Allowed: a, b."


def test_attempts_are_for_methods_that_train_one_policy_at_a_time() -> None:
    config = merge(preset("four-goals-easy", "pbt-ce"), {"judge": {"attempts": 2}}, "test")
    with pytest.raises(InputError, match=r"judge\.attempts is 2"):
        validate(config, make("four-goals-easy").spec)
