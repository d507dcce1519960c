"""An environment in a module of the user's own, by its name on the command line: what imports it, and
what does not."""

import json
import sys

import pytest

import rspo
from product import assert_refused, here
from rspo.errors import EnvironmentRefused, InputError
from rspo.rollout.adapt import adapt, label

MODULE = """
import gymnasium
import numpy as np


class Count(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.full(1, self.time, np.float32), float(action), self.time >= 4, False, {}


def make_count():
    return Count()


def broken():
    raise OSError("unplugged")


class Shelf:
    made = Count
"""
FLAGS = "--horizon 5 --iterations 1 --ppo.updates 1 --ppo.batch 40 --judge.episodes 2"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the folder that the command is given in."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


@pytest.mark.slow
def test_discovered_played_evaluated_and_resumed_by_naming_it_again(module, tmp_path):
    own = f"{module}:make_count"
    done = here("discover", own, *FLAGS.split())
    assert done.code == 0, done.err
    folder = f"runs/{module}-make_count-rspo-seed0"
    assert folder in done.out
    sys.modules.pop(module)
    for verb in ("evaluate", "resume", "play"):
        assert_refused(
            here(verb, folder), f"does not decide what is imported: name it with --env {own}"
        )
        assert module not in sys.modules
    with pytest.raises(InputError, match="does not decide what is imported"):
        rspo.evaluate(folder)
    with pytest.raises(InputError, match="Unknown environment"):
        rspo.crossplay(rspo.load(folder))
    assert module not in sys.modules
    summary = here("evaluate", folder, "--env", own, "--json")
    assert json.loads(summary.out)["env"] == own
    again = here("resume", folder, "--env", own, "--iterations", "2")
    assert again.code == 0, again.err
    assert len(rspo.load(folder)) == 2
    page = (tmp_path / folder / "report.html").read_text()
    assert own in page


def test_a_file_does_not_decide_what_is_imported(module, tmp_path):
    (tmp_path / "settings.toml").write_text(f'env = "{module}:make_count"')
    assert_refused(here("discover", "--config", "settings.toml"), "name it on the command line")
    assert module not in sys.modules


def test_what_is_wrong_with_the_name_is_said(module):
    assert_refused(here("discover", f"{module}:nothing"), "has no 'nothing'")
    assert_refused(here("discover", f"no_{module}:make"), f"There is no module 'no_{module}'")
    assert_refused(here("discover", f"{module}:make_count"), "has no time limit", "--horizon 200")
    with pytest.raises(EnvironmentRefused, match=r"making it failed \(OSError: unplugged"):
        adapt(f"{module}:broken")
    assert adapt(f"{module}:Shelf.made", 5).spec.horizon == 5


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("CartPole-v1", "gym:CartPole-v1"),
        ("ALE/Pong-v5", "gym:ALE/Pong-v5"),
        ("mpe2.simple_spread_v3", "pettingzoo:mpe2.simple_spread_v3"),
        ("four-goal-easy", "four-goals-easy"),
    ],
)
def test_a_name_of_another_library_is_answered_with_its_prefix(given, meant):
    assert_refused(here("discover", given), f"Did you mean '{meant}'?")


def test_the_list_shows_how_other_environments_are_named():
    shown = here("list").out
    for words in ("gym:ID", "gym:CartPole-v1", "pettingzoo:MODULE", "mypackage.module:make_env"):
        assert words in shown


def test_names_of_objects():
    import gymnasium

    from rspo.envs.adapters.gymnasium import GymEnv

    def hopper():
        return gymnasium.make("CartPole-v1")

    assert label(GymEnv(hopper)) == "CartPole-v1"
    assert label(hopper()) == "CartPole-v1"
    assert label(hopper) == "my-hopper"  # not the robot, whose preset and name it has not
    assert label(rspo.make("gym:CartPole-v1")) == "gym:CartPole-v1"
    assert label(lambda: 3) == "environment"
    for name in ("four-goals-easy", "gym:x", "a.b:c", "", 3, "a\nb"):
        with pytest.raises(InputError, match="name is"):
            rspo.discover(hopper, name=name)
    with pytest.raises(InputError, match="already has a name"):
        rspo.discover("gym:CartPole-v1", name="mine")
    with pytest.raises(InputError, match="horizon is 'x', but it must be a whole number"):
        rspo.discover(hopper, horizon="x")
    with pytest.raises(InputError, match="have 16 steps, not 3"):
        rspo.discover("four-goals-easy", horizon=3)
