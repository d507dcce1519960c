"""The library from Python: any environment object, settings as dictionaries, a result that reads
like a list."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import product
import rspo
from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Spec, Step, Trajectory
from rspo.errors import DivergedError, InputError
from rspo.presets import preset
from rspo.runs.run import Run
from rspo.search.archive import Archive
from rspo.search.judge import Verdict
from rspo.search.loop import Position
from worlds import Ladder

SMALL: dict[str, Any] = {
    "iterations": 2,
    "ppo": {"updates": 10, "batch": 64, "hidden": 8},
    "judge": {"episodes": 16},
}


class Doors(rspo.Env):
    """Two agents in front of two doors, three times: a point for going through the same one."""

    prize: float = 1.0

    @property
    def spec(self) -> Spec:
        return Spec(
            obs_size=3, action_space=Discrete(2), horizon=4, agents=2, reset_noise=1, step_noise=1
        )

    def reset(self, noise: Array) -> tuple[Array, Array]:
        return jnp.zeros((), jnp.int32), self._observe(jnp.zeros((), jnp.int32))

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        reward = jnp.where(action[0] == action[1], self.prize, 0.0)
        return state + 1, Step(self._observe(state + 1), jnp.full(2, reward), state + 1 == 3)

    def _observe(self, state: Array) -> Array:
        return jnp.stack(
            [jnp.asarray([state / 3, 1.0, agent], jnp.float32) for agent in (0.0, 1.0)]
        )

    def describe(self, trajectory: Trajectory) -> Descriptor:
        left = float((np.asarray(trajectory.action) == 0).mean())
        return Descriptor("left" if left > 0.5 else "right", {"left": left})


class Corridor(Doors):
    """Another world: it shows more."""

    @property
    def spec(self) -> Spec:
        return super().spec._replace(obs_size=4)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Archive, Path]:
    """Strategies for an environment object, with a folder."""
    folder = tmp_path_factory.mktemp("doors") / "run"
    return rspo.discover(Doors(), out=folder, quiet=True, seed=3, **SMALL), folder


def same(one: Archive, other: Archive) -> bool:
    """Whether two archives hold the same strategies, bit by bit."""
    inputs = np.random.default_rng(0).normal(size=(50, one[0].observed))
    logits = [
        [strategy.policy(inputs.astype(np.float32)).logits for strategy in archive]
        for archive in (one, other)
    ]
    return [s.evaluation for s in one] == [s.evaluation for s in other] and np.array_equal(*logits)


# ---- importing


def test_importing_is_instant_and_touches_no_device() -> None:
    code = "import sys, rspo; print([name for name in ('jax', 'numpy', 'rich', 'tyro') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_importing_everything_starts_no_device() -> None:
    names = ", ".join(f"rspo.{name}" for name in rspo.__all__)
    code = f"import rspo; {names}\nimport jax; assert not jax._src.xla_bridge.backends_are_initialized()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_public_names_are_there_whatever_is_imported() -> None:
    """A submodule of the same name would take the function's place."""
    code = (
        "import importlib, pkgutil, rspo\n"
        "for module in pkgutil.walk_packages(rspo.__path__, 'rspo.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert all(callable(getattr(rspo, name)) for name in rspo.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'dicsover'"):
        rspo.dicsover  # noqa: B018


# ---- discover


@pytest.mark.slow
def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive = rspo.discover(Doors(), quiet=True, seed=3, **SMALL)
    assert len(archive) == 2
    assert not archive.interrupted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_and_no_folder_give_the_same(found: tuple[Archive, Path]) -> None:
    archive, folder = found
    assert same(archive, rspo.load(folder))
    assert same(archive, rspo.discover(Doors(), quiet=True, seed=3, **SMALL))
    assert not same(archive, rspo.discover(Doors(), quiet=True, seed=4, **SMALL))


def test_a_path_may_be_text(found: tuple[Archive, Path]) -> None:
    assert same(rspo.load(str(found[1])), found[0])


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds nothing at once: for tests of the settings alone."""
    monkeypatch.setattr("rspo.api.search", lambda *_: iter(()))


@pytest.mark.usefixtures("idle")
def test_settings_go_over_the_configuration_and_it_over_the_preset() -> None:
    config = dataclasses.replace(preset("Doors", "pg"), seed=3, iterations=1)
    archive = rspo.discover(Doors(), config=config, quiet=True, seed=4, ppo={"batch": 64})
    expected = dataclasses.replace(config, seed=4, ppo=dataclasses.replace(config.ppo, batch=64))
    assert archive.config == expected
    assert rspo.discover(Doors(), quiet=True).config == preset("Doors")
    assert rspo.discover(Doors(), method="pg", quiet=True).config == preset("Doors", "pg")


@pytest.mark.usefixtures("idle")
def test_a_method_beside_another_configuration_is_not_ignored() -> None:
    config = preset("Doors", "pg")
    with pytest.raises(InputError, match="method"):
        rspo.discover(Doors(), config=config, method="no-switch", quiet=True)
    assert rspo.discover(Doors(), config=config, method="pg", quiet=True).config == config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"iteration": 3}, "unknown setting 'iteration'. Did you mean 'iterations'?"),
        ({"ppo": {"update": 3}}, "unknown setting 'ppo.update'. Did you mean 'updates'?"),
        ({"ppo": 3}, "'ppo' to 3, but it is a group of settings"),
        ({"iterations": 2.5}, "'iterations' to 2.5, but it must be of type int"),
        ({"ppo": {"batch": 63}}, "must be a multiple of the episode length 4: try 64"),
        ({"method": "rsop"}, "Did you mean 'rspo'?"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as error:
        rspo.discover(Doors(), out=tmp_path / "run", quiet=True, **settings)
    assert words in str(error.value)
    assert not (tmp_path / "run").exists()


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(InputError, match="Did you mean 'four-goals-easy'"):
        rspo.discover("four-goal-easy")
    with pytest.raises(InputError, match="Did you mean 'four-goals-easy'"):
        rspo.make("four-goal-easy")


def test_rewards_that_are_not_finite_are_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="Doors cannot be trained in: it gave a reward that is not a finite number"
    ):
        rspo.discover(Doors(np.nan), out=tmp_path / "run", quiet=True, **SMALL)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_so_are_those_that_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rspo.api, "check_env", lambda env: None
    )  # which plays too little to meet them
    with pytest.raises(DivergedError, match="diverged in iteration 1 at update 1"):
        rspo.discover(Doors(np.nan), out=tmp_path / "run", quiet=True, **SMALL)
    assert len(rspo.load(tmp_path / "run")) == 0


@pytest.mark.slow
def test_a_policy_without_numbers_is_no_strategy() -> None:
    """The one and only update ends beyond all numbers; the loss, measured before it, does not
    tell."""
    ppo = {**SMALL["ppo"], "updates": 1, "epochs": 1, "learning_rate": 3e38}
    with pytest.raises(DivergedError, match="iteration 1 at update 1"):
        rspo.discover(Doors(), quiet=True, **{**SMALL, "iterations": 1, "ppo": ppo})


def test_an_interruption_gives_what_was_found(tmp_path: Path, found: tuple[Archive, Path]) -> None:
    """Ctrl-C while the second strategy is described, in a notebook, say."""

    class Interrupting(Doors):
        def describe(self, trajectory: Trajectory) -> Descriptor:
            if (tmp_path / "run" / "strategies" / "000").exists():
                os.kill(os.getpid(), signal.SIGINT)
            return super().describe(trajectory)

    Interrupting.__name__ = "Doors"
    archive = rspo.discover(Interrupting(), out=tmp_path / "run", quiet=True, seed=3, **SMALL)
    assert archive.interrupted
    assert len(archive) == len(rspo.load(tmp_path / "run")) == 1
    resumed = rspo.resume(tmp_path / "run", env=Doors(), quiet=True)
    assert not resumed.interrupted
    assert same(resumed, found[0])
    assert product.results(tmp_path / "run") == product.results(found[1])


# ---- what one does with a run


def test_an_archive_reads_like_a_list(found: tuple[Archive, Path]) -> None:
    archive = rspo.load(found[1])
    assert len(archive) == 2
    assert [strategy.index for strategy in archive] == [0, 1]
    assert archive[0] is next(iter(archive))
    assert archive[-1] is archive[1]
    assert archive[:1] == [archive[0]]
    assert archive[1] in archive
    assert [strategy.index for strategy in reversed(archive)] == [1, 0]
    with pytest.raises(IndexError):
        archive[2]
    assert archive.distinct == sum(strategy.status == "novel" for strategy in archive)
    assert repr(archive) == f"<Archive of 2 strategies for Doors, {archive.distinct} distinct>"


def test_a_strategy_acts_on_any_batch(finished: Path) -> None:
    strategy = rspo.load(finished)[0]
    obs = np.random.default_rng(1).normal(size=(4, 5, 10))
    assert strategy.act(obs[0, 0]).shape == ()
    assert strategy.act(obs[0].tolist()).shape == (5,)
    actions = strategy.act(obs, rng=np.random.default_rng(2))
    assert actions.shape == (4, 5)
    assert actions.dtype == np.int32
    assert set(actions.ravel()) <= set(range(5))
    assert type(actions) is np.ndarray
    np.testing.assert_array_equal(actions, strategy.act(obs, rng=np.random.default_rng(2)))
    np.testing.assert_array_equal(
        strategy.act(obs, greedy=True)[1, 2], strategy.act(obs[1, 2], greedy=True)
    )
    np.testing.assert_array_equal(
        strategy.act(obs, greedy=True), strategy.policy(obs.astype("f4")).logits.argmax(-1)
    )


@pytest.mark.parametrize("shape", [(), (9,), (11,), (10, 1)])
def test_a_strategy_refuses_other_observations(finished: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="10 observed numbers"):
        rspo.load(finished)[0].act(np.zeros(shape))


def test_sampled_actions_follow_the_policy(finished: Path) -> None:
    strategy = rspo.load(finished)[0]
    obs = np.tile(np.random.default_rng(3).normal(size=10), (20_000, 1))
    share = np.bincount(strategy.act(obs, rng=np.random.default_rng(4)), minlength=5) / len(obs)
    expected = np.exp(strategy.policy(obs[:1].astype(np.float32)).log_probs[0])
    assert np.abs(share - expected).max() < 5 * np.sqrt(0.25 / len(obs))


def test_evaluate_repeats_the_run_s_own_numbers(found: tuple[Archive, Path]) -> None:
    archive, folder = found
    before = product.contents(folder)
    again = rspo.evaluate(folder, env=Doors())
    assert [s.evaluation for s in again] == [s.evaluation for s in archive]
    other = rspo.evaluate(folder, env=Doors(), seed=9)
    assert [s.evaluation for s in other] != [s.evaluation for s in archive]
    assert [s.status for s in other] == [s.status for s in archive]
    assert product.contents(folder) == before


@pytest.mark.slow
def test_evaluate_leaves_what_a_kept_policy_s_return_was(tmp_path: Path) -> None:
    """Of few new episodes its mean would be another, and no longer the one that its threshold goes
    with."""
    settings: Any = {
        "ppo": {"batch": 80, "updates": 2, "hidden": 4},
        "measure": {"of": "return", "delta": 1.0},
    }
    archive = rspo.discover(
        Ladder(), iterations=2, out=tmp_path / "run", judge={"episodes": 64}, quiet=True, **settings
    )
    assert [s.evaluation for s in rspo.evaluate(tmp_path / "run", env=Ladder())] == [
        s.evaluation for s in archive
    ]
    first, second = rspo.evaluate(tmp_path / "run", env=Ladder(), episodes=1, seed=1)
    assert first.evaluation.return_mean != archive[0].evaluation.return_mean
    whole = second.evaluation.return_mean  # of one episode
    assert second.evaluation.distance == pytest.approx(
        [abs(whole - archive[0].evaluation.return_mean)]
    )


@pytest.mark.parametrize("verb", ["resume", "evaluate", "play"])
def test_an_environment_without_a_name_is_needed_from_python(
    found: tuple[Archive, Path], verb: str
) -> None:
    product.assert_refused(product.here(verb, found[1]), "Doors", "env=...")


@pytest.mark.parametrize("use", [rspo.resume, rspo.evaluate])
def test_another_environment_than_the_run_s_is_refused(
    found: tuple[Archive, Path], use: Any
) -> None:
    before = product.contents(found[1])
    with pytest.raises(InputError, match=str(found[1])):
        use(found[1], env=Corridor())
    assert product.contents(found[1]) == before


def test_resume_of_a_finished_run_gives_it_back(found: tuple[Archive, Path]) -> None:
    before = product.contents(found[1])
    assert same(rspo.resume(found[1], env=Doors(), quiet=True), found[0])
    assert product.contents(found[1]) == before


@pytest.mark.slow
def test_further_attempts_survive_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No policy is ever judged good, so every iteration takes both attempts; the kill hits a second
    one."""
    monkeypatch.setattr(
        "rspo.search.loop.judge", lambda *_: Verdict(good=False, distant=False, new=False)
    )
    settings = {**SMALL, "judge": {"episodes": 16, "attempts": 2}}
    whole = rspo.discover(Doors(), out=tmp_path / "whole", quiet=True, **settings)
    assert [(strategy.status, strategy.attempt) for strategy in whole] == [
        ("failed", 2),
        ("failed", 2),
    ]
    keep = Run._save_checkpoint

    class Killed(BaseException):
        pass

    def keep_and_kill(run: Run, position: Position) -> None:
        keep(run, position)
        if (position.round, position.attempt) == (1, 2):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("rspo.api.CHECKPOINT_SECONDS", -1.0)
        patch.setattr(Run, "_save_checkpoint", keep_and_kill)
        with pytest.raises(Killed):
            rspo.discover(Doors(), out=tmp_path / "run", quiet=True, **settings)
    rspo.resume(tmp_path / "run", env=Doors(), quiet=True)
    assert product.results(tmp_path / "run") == product.results(tmp_path / "whole")


def test_a_copied_run_is_a_run(found: tuple[Archive, Path], tmp_path: Path) -> None:
    """Nothing in a folder knows where it is."""
    shutil.copytree(found[1], tmp_path / "copy")
    assert same(rspo.load(tmp_path / "copy"), found[0])
