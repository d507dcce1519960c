"""Processes that play: the same episodes as here, and what happens when they cannot."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import gymnasium
import jax
import numpy as np
import pytest

import rspo
from host_worlds import Rows
from rspo.core.policies import init_policy
from rspo.envs.robots.mujoco import Mujoco
from rspo.errors import EnvironmentFailure, InputError, RspoError, RspoWarning
from rspo.registry import ENVIRONMENTS
from rspo.rollout.collector import collector
from rspo.rollout.patience import VARIABLE, patience, watching
from rspo.rollout.worker import Player

KEY = jax.random.key(3)
pytestmark = pytest.mark.skipif(jax.device_count() == 1, reason="one core plays by itself")
WORLD = """
    import os
    import subprocess
    import time

    import gymnasium
    import numpy as np

    class World(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, ({size},))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            print("an environment that talks")
            return np.zeros({size}, np.float32), {{}}

        def step(self, action):
            if {trouble!r} == "raises":
                raise OSError("the robot is unplugged")
            if {trouble!r} == "exits":
                raise SystemExit(3)
            if {trouble!r} == "hangs" and os.path.exists(os.environ["HANGS"]):
                try:
                    os.remove(os.environ["HANGS"])
                    time.sleep(1.6)
                except FileNotFoundError:  # another thread was first, and hangs
                    pass
            if {trouble!r} == "slow":
                time.sleep(0.05)
            if {trouble!r} == "reads":
                subprocess.run(["cat"], check=True)
            last = np.nan if {trouble!r} == "nan" else 0.5
            reward = {{}} if {trouble!r} == "dict" else 1.0
            return np.linspace(0, last, {size}, dtype=np.float32), reward, False, False, {{}}

    gymnasium.register(f"{{__name__}}-v0", f"{{__name__}}:World", max_episode_steps=20)
"""


def played(play, episodes=7, **settings):
    policy = init_policy(play.spec, 1, 8, 2, True, jax.random.key(0))
    return play(policy, episodes, KEY, **settings)


def processes(play):
    return play._players or []


@pytest.fixture
def staged():
    """Makes collectors, and lets go of them after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda env: stack.enter_context(collector(env))


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Makes an environment of a package that is installed below a folder on Python's path."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(trouble="", size=2):
        name = f"world_{trouble or 'fine'}_{size}"
        (tmp_path / f"{name}.py").write_text(
            textwrap.dedent(WORLD).format(trouble=trouble, size=size)
        )
        about = tmp_path / f"{name}-1.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: gymnasium\n"
        )
        (about / "top_level.txt").write_text(f"{name}\n")
        return rspo.make(f"gym:{name}:{name}-v0")

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("hopper", {"padding": "restart"}),
        ("gym:CartPole-v1", {"greedy": True}),
        ("pettingzoo:mpe2.simple_spread_v3", {"padding": "restart"}),
    ],
)
def test_processes_play_the_same_episodes_as_threads(name, settings, staged):
    env, here = rspo.make(name), rspo.make(name)
    here.name = None
    there, here = staged(env), staged(here)
    theirs, ours = played(there, **settings), played(here, **settings)
    assert len(processes(there)) == jax.device_count() > 1
    assert not processes(here)
    for one, other in zip(jax.tree.leaves(theirs), jax.tree.leaves(ours), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.slow
def test_wide_observations_round_alike(world, staged):
    """Large products may be split over threads: both must do so in the same way."""
    env, here = world(size=600), world(size=600)
    here.name = None
    there = staged(env)
    np.testing.assert_array_equal(played(there, 128).action, played(staged(here), 128).action)
    assert processes(there)


@pytest.mark.slow
def test_an_environment_that_only_this_process_knows_plays_in_threads(world, staged):
    ENVIRONMENTS.register("rows-here", Rows, "a test's")
    fine = world()
    gymnasium.register("Here-v0", "world_fine_2:World", max_episode_steps=20)
    gymnasium.register(
        "Class-v0",
        type(gymnasium.make(fine.name.removeprefix("gym:")).unwrapped),
        max_episode_steps=20,
    )
    for name in ("rows-here", "gym:Here-v0", "gym:Class-v0"):
        play = staged(rspo.make(name))
        assert played(play).live.any()
        assert processes(play) == []


def test_another_environment_of_the_same_name_plays_in_threads(world, staged, monkeypatch):
    env = world()
    monkeypatch.setattr(env, "_spec", env.spec._replace(step_noise=7))
    play = staged(env)
    assert played(play).live.any()
    assert processes(play) == []
    assert Mujoco("hopper", fall="continue").name is None


def test_what_an_environment_prints_is_no_answer_and_what_it_reads_no_question(
    world, staged, capfd, monkeypatch
):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    play = staged(world("reads"))
    assert (played(play).reward == 1).any()
    assert processes(play)
    _, err = capfd.readouterr()
    assert "an environment that talks" in err


@pytest.mark.slow
def test_an_environments_own_error_comes_through_and_the_next_try_starts_anew(world, staged):
    env = world("raises")
    play = staged(env)
    for _ in range(2):
        with pytest.raises(EnvironmentFailure) as failed:
            played(play)
        assert not processes(play)
        head, *trace = str(failed.value).splitlines()
        assert (
            head
            == f"{env.name} cannot be played: its step failed (OSError: the robot is unplugged)."
        )
        assert trace[0] == "Traceback (most recent call last):"
        assert "rspo/" not in str(trace)
        assert str(trace).count("world_raises_2.py") == 1
        assert trace[-1] == "OSError: the robot is unplugged"


@pytest.mark.parametrize("far", [True, False])
def test_so_it_does_from_more_shares_than_cores(world, staged, far):
    env = world("raises")
    if not far:
        env.name = None
    with pytest.raises(
        EnvironmentFailure, match=r"its step failed \(OSError: the robot is unplugged\)"
    ):
        played(staged(env), episodes=300)


@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
@pytest.mark.parametrize("far", [True, False])
def test_what_does_not_fit_is_one_sentence(world, staged, far):
    env = world("dict")
    if not far:
        env.name = None
    with pytest.raises(
        InputError,
        match=r"^\S+ cannot be played: its step gives .* \(dict\) as the reward, which must",
    ):
        played(staged(env))


def test_so_does_what_it_must_not_give(world, staged):
    with pytest.raises(InputError, match="not finite"):
        played(staged(world("nan")))


@pytest.mark.slow
def test_a_process_that_dies_is_said_and_the_next_try_starts_anew(staged):
    play = staged(rspo.make("gym:CartPole-v1"))
    before = played(play)
    processes(play)[0].process.kill()
    with pytest.raises(
        RspoError, match=r"process that played gym:CartPole-v1 died \(exit code -9\)"
    ):
        played(play)
    np.testing.assert_array_equal(played(play).obs, before.obs)


@pytest.mark.parametrize("far", [True, False])
def test_an_environment_that_would_end_the_program_has_failed(world, staged, far):
    env = world("exits")
    if not far:
        env.name = None
    with pytest.raises(EnvironmentFailure, match=r"its step failed \(SystemExit: 3\)"):
        played(staged(env))


def test_an_environment_that_only_fails_there_is_said_once(world, staged, tmp_path):
    play = staged(world())
    (tmp_path / "world_fine_2.py").write_text("raise OSError('only one may play')")
    with pytest.raises(
        EnvironmentFailure,
        match=r"cannot be played: making it failed \(OSError: only one may play\)",
    ):
        played(play)
    assert not processes(play)


# ---- one that hangs


@pytest.fixture
def hang_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HANGS", str(tmp_path / "hangs"))
    return (tmp_path / "hangs").touch


@pytest.mark.slow
@pytest.mark.parametrize("far", [True, False])
def test_an_environment_that_hangs_is_named_and_the_run_goes_on_when_it_answers(
    world, staged, far, hang_once, monkeypatch
):
    env = world("hangs")
    if not far:
        env.name = None
    play = staged(env)
    with warnings.catch_warnings(action="ignore", category=RspoWarning):
        monkeypatch.setenv(VARIABLE, "1")
        assert played(play).live.all()  # whatever it takes to start
    hang_once()
    # For 1.6 seconds in a single step: said after one, and not again before two.
    with pytest.warns(
        RspoWarning, match=rf"^{env.title} has not answered for 1 seconds, at .* its step .* Ctrl-C"
    ) as warned:
        assert played(play).live.all()
    assert len(warned) == 1


@pytest.mark.slow
@pytest.mark.parametrize("far", [True, False])
def test_one_that_is_only_slow_is_not(world, staged, far, monkeypatch):
    """Its episodes take four seconds, but none of their steps one."""
    env = world("slow")
    if not far:
        env.name = None
    monkeypatch.setenv(VARIABLE, "2")
    play = staged(env)
    with warnings.catch_warnings(action="ignore", category=RspoWarning):
        played(play, 2)
    with warnings.catch_warnings(record=True) as warned:
        begun = time.monotonic()
        played(play, 8)
        assert time.monotonic() - begun > 3
    assert not warned


def test_patience_is_said_to_last_twice_as_long_each_time(monkeypatch):
    monkeypatch.setenv(VARIABLE, "0.1")
    with (
        pytest.warns(RspoWarning, match="the maze has not answered") as warned,
        watching("the maze"),
    ):
        time.sleep(1.0)
    assert 2 <= len(warned) <= 4  # after 0.1, 0.2, 0.4, 0.8 seconds, if this machine is not busy


@pytest.mark.parametrize(
    ("said", "seconds"), [("5", 5), ("", 60), ("soon", 60), ("-1", 60), ("nan", 60), ("inf", 60)]
)
def test_how_long_is_said_by_a_variable(said, seconds, monkeypatch):
    monkeypatch.setenv(VARIABLE, said)
    assert patience() == seconds


def test_checking_names_one_that_hangs_too(world, hang_once, monkeypatch):
    env = world("hangs")
    monkeypatch.setenv(VARIABLE, "0.7")
    hang_once()
    with pytest.warns(RspoWarning, match=r"world_hangs\S* has not answered for 1 seconds"):
        rspo.check_env(env)


def test_processes_end_with_their_collector():
    play = collector(rspo.make("gym:CartPole-v1"))
    played(play)
    ids = [player.process.pid for player in processes(play)]
    assert all(map(_runs, ids))
    del play
    gc.collect()
    assert not any(_runs(pid) for pid in ids)


def test_or_when_they_are_let_go_of_by_callers_who_took_turns():
    with collector(rspo.make("gym:CartPole-v1")) as play:
        one = played(play)
        ids = [player.process.pid for player in processes(play)]
        with ThreadPoolExecutor(3) as pool:
            for other in pool.map(lambda _: played(play), range(6)):
                np.testing.assert_array_equal(one.obs, other.obs)
        assert all(map(_runs, ids))
    assert not any(map(_runs, ids))


def test_an_interrupt_while_they_start_leaves_none(staged, monkeypatch):
    play = staged(rspo.make("gym:CartPole-v1"))
    with monkeypatch.context() as patch:
        patch.setattr(Player, "knows", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            played(play)
    assert processes(play) == []
    assert played(play).live.any()


@pytest.mark.slow
def test_and_with_the_one_who_asked_even_if_that_one_is_killed():
    code = """
        import jax, rspo, time
        from rspo.core.devices import use_cores
        use_cores(2)
        from test_worker import played, processes
        from rspo.rollout.collector import collector
        play = collector(rspo.make("gym:CartPole-v1"))
        played(play)
        print(*[player.process.pid for player in processes(play)], flush=True)
        time.sleep(60)
    """
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | paths
    ) as asking:
        ids = [int(pid) for pid in asking.stdout.readline().split()]
        assert len(ids) == 2
        assert all(map(_runs, ids))
        asking.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(map(_runs, ids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, ids))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
