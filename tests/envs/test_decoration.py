"""Names, drawings, heat maps and pictures that fail: said in one line and left out, and what was
trained is kept."""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import product
import rspo
from rspo.core.members import member
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Shape, Spec, Step
from rspo.envs.base import HostEnv, HostStep, Instances
from rspo.envs.decoration import LeftOut
from rspo.errors import InputError
from rspo.search.archive import Archive
from rspo.search.check import check_env

SMALL = {
    "iterations": 2,
    "ppo": {"updates": 3, "batch": 64, "hidden": 8, "minibatches": 1},
    "judge": {"episodes": 8},
    "quiet": True,
}


class Decorated:
    """All optional additions. The one named `broken` raises, or returns `instead`, once `when` is
    true."""

    broken, instead, when = "", ValueError, staticmethod(lambda: True)

    def _give(self, method, value):
        if method != self.broken or not self.when():
            return value
        if isinstance(self.instead, type) and issubclass(self.instead, Exception):
            raise self.instead(f"no {method}\ntoday")
        return self.instead

    def describe(self, trajectory):
        first = float(np.asarray(trajectory.action)[0].mean())
        return self._give(
            "describe", Descriptor("left" if first < 0.5 else "right", {"first": first})
        )

    def scene(self, state):
        return self._give("scene", [Shape("agent", float(state), 0.0, 0.1)])

    def backdrop(self):
        return self._give("backdrop", [Shape("line", -1.0, 0.0, 0.01, end=(1.0, 0.0))])

    def heatmaps(self, trajectory):
        return self._give("heatmaps", {"where": np.eye(2)})

    def pictures(self, strategies):
        return self._give("pictures", {"mine.svg": "<svg/>"})


class World(Decorated, rspo.Env):
    """In JAX: two doors, for four steps."""

    @property
    def spec(self):
        return Spec(1, Discrete(2), horizon=4)

    def reset(self, noise):
        return jnp.zeros(()), jnp.zeros((1, 1))

    def step(self, state, action, noise):
        state = state + action[0] - 0.5
        return state, Step(jnp.full((1, 1), state), jnp.abs(state)[None], jnp.asarray(False))


class HostWorld(Decorated, HostEnv):
    """The same on the CPU."""

    @property
    def spec(self):
        return Spec(1, Discrete(2), horizon=4)

    def batch(self, size):
        return Worlds(size)

    def photographs(self, strategies):
        return self._give("photographs", {"mine.png": b"not really"})


class Worlds(Instances):
    def __init__(self, size):
        self.states = np.zeros(size)

    def reset(self, which, seeds):
        self.states[which] = 0
        return np.zeros((len(which), 1, 1))

    def step(self, which, action):
        self.states[which] += action[:, 0] - 0.5
        state, never = self.states[which][:, None], np.zeros(len(which), bool)
        return HostStep(state[:, None], np.abs(state), never, never)

    def state(self):
        return self.states.copy()


def rigged(kind, broken, instead=ValueError, when=lambda: True):
    """Under the same name, so that its run is one of the same settings."""
    members = {
        "broken": broken,
        "instead": instead,
        "when": staticmethod(when),
        "__doc__": "",
        "__module__": __name__,
    }
    return type(kind.__name__, (kind,), members)()


@pytest.fixture(scope="module", params=[World, HostWorld])
def whole(request, tmp_path_factory):
    """A run in which nothing fails."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return request.param, rspo.discover(request.param(), out=folder, **SMALL), folder


def recorded(folder, index=0):
    from rspo.runs import store

    arrays, metadata = store.read_arrays(folder / f"strategies/{index:03d}/episodes.safetensors")
    return arrays, json.loads(metadata["rspo"])


METHODS = ["describe", "scene", "backdrop", "heatmaps", "pictures", "photographs"]


# Whatever plays, what it played is described and drawn in the same way.
BROKEN = [(World, "describe"), (World, "scene"), *((HostWorld, method) for method in METHODS)]


@pytest.mark.slow
@pytest.mark.parametrize(("whole", "broken"), BROKEN, indirect=["whole"])
def test_what_fails_after_training_is_one_line_and_left_out(whole, broken, tmp_path):
    kind, archive, usual = whole
    folder = tmp_path / "run"
    env = rigged(kind, broken, when=lambda: folder.exists())
    with pytest.warns(LeftOut) as warned:
        found = rspo.discover(env, out=folder, **SMALL)
    lines = {str(w.message) for w in warned}
    so = "the strategy is kept without a name" if broken == "describe" else "it is left out"
    assert len(lines) == 1
    assert re.fullmatch(
        rf"{kind.__name__}: {broken} failed \(ValueError: no {broken} today; test_decoration.py, "
        rf"line \d+\): {so}\.",
        lines.pop(),
    )
    # All else is there, and the same to the last bit.
    assert product.same([s.policy for s in found], [s.policy for s in archive])
    assert (folder / "report.html").exists()
    assert [s.descriptor for s in rspo.load(folder)] == [
        None if broken == "describe" else s.descriptor for s in archive
    ]
    arrays, record = recorded(folder)
    usual_arrays, usual_record = recorded(usual)
    assert ("0.place" in arrays) == (broken != "scene")
    assert ("map.0" in arrays) == (broken != "heatmaps")
    assert bool(record["backdrop"]) == (broken != "backdrop")
    assert (folder / "mine.svg").exists() == (broken != "pictures")
    assert (folder / "mine.png").exists() == (kind is HostWorld and broken != "photographs")
    if broken not in ("scene", "heatmaps", "backdrop"):
        assert record == usual_record
        assert product.same(arrays, usual_arrays)


@pytest.mark.slow
def test_without_a_name_distance_decides_as_where_there_are_none(whole):
    """The verdict is that of the same environment without `describe`."""
    kind, *_ = whole
    nameless = type(
        kind.__name__, (kind,), {"describe": lambda self, trajectory: None, "__doc__": ""}
    )()
    wanted = rspo.discover(nameless, **SMALL)
    calls = iter(range(1000))
    with pytest.warns(LeftOut):
        found = rspo.discover(rigged(kind, "describe", when=lambda: next(calls) > 1), **SMALL)
    assert [(s.status, s.evaluation) for s in found] == [(s.status, s.evaluation) for s in wanted]


@pytest.mark.parametrize(
    ("broken", "instead", "words"),
    [
        *((method, KeyError, f"KeyError: 'no {method}") for method in METHODS[:5]),
        (
            "describe",
            "left",
            "TypeError: it must give a rspo.core.types.Descriptor with a label, or None, not "
            "'left'",
        ),
        (
            "describe",
            Descriptor("left", {"x": "far"}),
            "ValueError: could not convert string to float: 'far'",
        ),
        ("describe", Descriptor("left", {3: 1.0}), "TypeError: a name must be text, not 3"),
        ("scene", [("agent", 0.0, 0.0)], "AttributeError: 'tuple' object has no attribute 'x'"),
        (
            "heatmaps",
            {"where": np.ones(3)},
            r"ValueError: 'where' has shape \(3,\), but a grid is \[y, x\]",
        ),
        ("heatmaps", [np.eye(2)], "AttributeError: 'list' object has no attribute 'items'"),
        (
            "backdrop",
            [Shape("line", np.nan, 0.0, 0.1)],
            "ValueError: a shape of it has a number that is not finite",
        ),
        (
            "pictures",
            {"run.json": "{}"},
            r"ValueError: 'run.json' is not a file name that ends in .svg",
        ),
        ("pictures", {"../mine.svg": "<svg/>"}, r"ValueError: '../mine.svg' is not a file name"),
        ("pictures", {"mine.svg": b"<svg/>"}, "TypeError: 'mine.svg' must be str, not bytes"),
    ],
)
@pytest.mark.parametrize("kind", [World, HostWorld])
def test_they_are_tried_before_training(kind, broken, instead, words, tmp_path):
    env = rigged(kind, broken, instead)
    for look in (check_env, lambda env: rspo.discover(env, out=tmp_path / "run", **SMALL)):
        with pytest.raises(
            InputError,
            match=rf"^{kind.__name__} cannot be trained in: its {broken} failed \({words}",
        ):
            look(env)
    assert not (tmp_path / "run").exists()


def test_their_tracebacks_are_shown_then():
    with pytest.raises(
        InputError, match=r"(?s)its scene failed .*\nTraceback .*test_decoration.py.*in scene"
    ):
        check_env(rigged(World, "scene"))


@pytest.mark.slow
def test_numbers_of_numpys_are_numbers(tmp_path):
    class Numpys(World):
        def describe(self, trajectory):
            return Descriptor(
                "left", {"x": np.float32(0.5), "n": np.int64(3)}, clear=np.bool_(True)
            )

    archive = rspo.discover(Numpys(), out=tmp_path / "run", **SMALL | {"iterations": 1})
    assert rspo.load(tmp_path / "run")[0].evaluation == archive[0].evaluation
    assert archive[0].evaluation.stats == {"x": 0.5, "n": 3.0}


@pytest.mark.slow
def test_the_command_line_says_it_in_one_line(tmp_path):
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import rspo.registry
        from rspo.envs.four_goals import FourGoals
        from rspo.cli.main import main

        class Goals(FourGoals):
            def heatmaps(self, trajectory):
                raise ValueError("no map")

        easy = rspo.make("four-goals-easy")
        Goals.__module__ = FourGoals.__module__
        rspo.registry.ENVIRONMENTS.register("four-goals-easy", lambda: Goals(easy.mode), "rigged")
        sys.argv = ["rspo", *{[*product.DISCOVER, "--out", str(tmp_path / "run")]!r}]
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=product.environment(),
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "no map" in line]
    assert lines == [
        "rspo: Goals: heatmaps failed (ValueError: no map; <string>, line 10): it is left out."
    ]
    assert "Warning" not in done.stderr


# ---- what was trained is on disk by then


def checkpoint(folder):
    run = rspo.runs.run.Run.open(folder)
    return run.load_checkpoint(run.load())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whole", "method"), [(World, "describe"), (HostWorld, "scene")], indirect=["whole"]
)
def test_a_kill_while_it_is_described_or_drawn_costs_no_training(
    method, whole, tmp_path, monkeypatch
):
    """The process ends in the decoration itself, as a kill would have it; resuming trains nothing
    again."""
    monkeypatch.setattr(rspo.api, "CHECKPOINT_SECONDS", math.inf)
    kind, archive, usual = whole
    folder = tmp_path / "run"

    def die():
        if folder.exists():
            raise SystemExit("killed")

    with pytest.raises(SystemExit):
        rspo.discover(rigged(kind, method, when=die), out=folder, **SMALL)
    assert not any((folder / "strategies").iterdir())
    trained = checkpoint(folder)
    assert [len(rows) for rows in trained.rows] == [SMALL["ppo"]["updates"]]
    policy = dataclasses.replace(member(trained.state.policy, 0), critic=None)
    assert product.same(policy, archive[0].policy)
    resumed: Archive = rspo.resume(folder, env=kind(), quiet=True)
    assert product.results(folder) == product.results(usual)
    assert not resumed.interrupted


@pytest.mark.slow
def test_so_it_does_in_a_process_that_is_really_killed(tmp_path):
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import math, os, signal, rspo.api
        from test_decoration import SMALL, World, rigged
        rspo.api.CHECKPOINT_SECONDS = math.inf
        kill = lambda: os.path.exists("run/strategies") and os.kill(os.getpid(), signal.SIGKILL)
        rspo.discover(rigged(World, "describe", when=kill), out="run", **SMALL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env=product.environment(PYTHONPATH=_paths()),
    )
    assert done.returncode == -signal.SIGKILL
    assert len(checkpoint(tmp_path / "run").rows[0]) == SMALL["ppo"]["updates"]


def _paths():
    return os.pathsep.join(sys.path)


@pytest.mark.slow
def test_an_environment_that_only_fails_when_it_is_evaluated_keeps_its_training(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(rspo.api, "CHECKPOINT_SECONDS", math.inf)

    class Late(Worlds):
        def state(self):
            if (tmp_path / "run").exists():
                raise OSError("no state")
            return super().state()

    class LateWorld(HostWorld):
        def batch(self, size):
            return Late(size)

    with pytest.raises(
        rspo.errors.EnvironmentFailure,
        match=r"^LateWorld cannot be played: its state failed \(OSErr",
    ):
        rspo.discover(LateWorld(), out=tmp_path / "run", **SMALL)
    assert len(checkpoint(tmp_path / "run").rows[0]) == SMALL["ppo"]["updates"]


@pytest.mark.slow
def test_checking_touches_no_device_of_a_host_environment():
    """The number of devices is not yet known."""
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import rspo, test_decoration
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
        rspo.check_env(test_decoration.HostWorld())
        assert not xla_bridge.backends_are_initialized()
    """
    environment = product.environment(PYTHONPATH=_paths())
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment)
