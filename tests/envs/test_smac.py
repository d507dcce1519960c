"""SMAC's interface on the simulator, and the adapter for the real game, through that interface."""

import ast
import copy
import dataclasses
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import rspo
from rspo.config import validate
from rspo.core.policies import uniform_policy
from rspo.envs.adapters import smac_server
from rspo.envs.adapters.smac import LAUNCHES, Games, Smac, from_map
from rspo.envs.skirmish.facade import DEFAULTS, StarCraft2Env
from rspo.envs.skirmish.maps import MAPS
from rspo.envs.skirmish.skirmish import Skirmish
from rspo.errors import EnvironmentFailure, InputError, RspoWarning
from rspo.presets import preset
from rspo.registry import METHODS
from rspo.rollout.collector import collector

FACADE = "rspo.envs.skirmish.facade"


def drawn(masks: list[list[int]], random: np.random.Generator) -> list[int]:
    return [int(random.choice(np.flatnonzero(mask))) for mask in masks]


@pytest.fixture(scope="module")
def facade() -> StarCraft2Env:
    return StarCraft2Env(map_name="2m_vs_1z", seed=3)


def test_it_tells_what_smac_tells(facade: StarCraft2Env) -> None:
    told = facade.get_env_info()
    assert (told["obs_shape"], told["state_shape"]) == (16, 26)
    assert (told["n_actions"], told["n_agents"], told["episode_limit"]) == (7, 2, 150)
    assert told["agent_features"] == ["health", "energy/cooldown", "rel_x", "rel_y"]
    assert told["enemy_features"] == ["health", "rel_x", "rel_y", "shield"]
    observations, state = facade.reset()
    assert [one.shape for one in observations] == [(16,), (16,)]
    assert state.shape == (26,)
    assert facade.seed() == 3


@pytest.mark.parametrize("name", MAPS)
def test_its_parts_add_up_to_its_sizes(name: str) -> None:
    env = StarCraft2Env(name)
    many = np.prod([env.get_obs_enemy_feats_size(), env.get_obs_ally_feats_size()], axis=1).sum()
    assert env.get_obs_move_feats_size() + many + env.get_obs_own_feats_size() == env.get_obs_size()
    units = env.n_agents * env.get_ally_num_attributes()
    units += env.n_enemies * env.get_enemy_num_attributes()
    assert units + env.n_agents * env.n_actions == env.get_state_size()
    assert env.n_actions_no_attack + env.n_enemies == env.get_total_actions()


def test_it_tells_the_state_by_its_parts_and_who_sees_whom() -> None:
    facade = StarCraft2Env("3m")
    _, state = facade.reset()
    parts = facade.get_state_dict()
    assert {name: part.shape for name, part in parts.items()} == {
        "allies": (3, 4),
        "enemies": (3, 3),
        "last_action": (3, 9),
    }
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in parts.values()]), state)
    places = np.concatenate([parts["allies"][:, 2:4], parts["enemies"][:, 1:3]]) * 32  # cells
    apart = np.linalg.norm(places[:3, None] - places, axis=-1)
    np.testing.assert_array_equal(
        facade.get_visibility_matrix(), (apart < facade.unit_sight_range(0)) & (apart > 0)
    )
    assert facade.get_visibility_matrix().sum(0).tolist() == [2, 2, 2, 0, 0, 0]


def test_a_loop_written_for_smac_runs_on_it(facade: StarCraft2Env) -> None:
    """As PyMARL plays: until it is over, by the masks, then the statistics."""
    random, before = np.random.default_rng(0), facade.get_stats()["battles_game"]
    facade.reset()
    terminated = False
    while not terminated:
        reward, terminated, info = facade.step(drawn(facade.get_avail_actions(), random))
        assert np.isfinite(reward)
        assert facade.get_obs()[0].shape == (facade.get_obs_size(),)
    assert {"battle_won", "dead_allies", "dead_enemies"} <= info.keys()
    assert facade.get_stats()["battles_game"] == before + 1


def test_a_timeout_is_told_only_if_asked_for_as_in_smac() -> None:
    for continuing in (False, True):
        env = StarCraft2Env("2m_vs_1z", continuing_episode=continuing)
        env.episode_limit = 1
        env.reset()
        _, terminated, info = env.step([1, 1])
        assert terminated
        assert ("episode_limit" in info) == continuing
        assert env.get_stats()["timeouts"] == 1


def test_an_action_that_is_not_allowed_fails_as_in_smac(facade: StarCraft2Env) -> None:
    facade.reset()
    for action in (0, -1, 7):
        with pytest.raises(AssertionError, match=f"Agent 0 cannot perform action {action}"):
            facade.step([action, 1])


def test_a_step_that_makes_no_sense_is_refused(facade: StarCraft2Env) -> None:
    facade.reset()
    for actions in ([], [1], [1, 1, 1]):
        with pytest.raises(InputError, match=f"step needs 2 actions, .* not {len(actions)}"):
            facade.step(actions)
    with pytest.raises(InputError, match="call reset before step"):
        StarCraft2Env("2m_vs_1z").step([1, 1])


def test_settings_other_than_smacs_own_are_refused() -> None:
    StarCraft2Env("2m_vs_1z", **DEFAULTS, heuristic_rest=True, debug=True)
    with pytest.raises(InputError, match="reward_sparse is True"):
        StarCraft2Env("2m_vs_1z", reward_sparse=True)
    with pytest.raises(InputError, match="no setting 'stepmul'"):
        StarCraft2Env("2m_vs_1z", stepmul=8)
    with pytest.raises(InputError, match="no map '2m_vs_2z'"):
        StarCraft2Env("2m_vs_2z")


@pytest.fixture(scope="module")
def world() -> Smac:
    return Smac("2m_vs_1z", module=FACADE)


@pytest.fixture(scope="module")
def games(world: Smac) -> Iterator[Games]:
    games = world.batch(1)
    yield games
    del games


def test_its_spec_is_the_simulators(world: Smac) -> None:
    expected = Skirmish("2m_vs_1z").spec
    assert world.spec == expected._replace(reset_noise=0, step_noise=0, features=0)


def test_it_is_made_by_its_name(world: Smac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSPO_SMAC_MODULE", FACADE)
    made = rspo.make("smac:2m_vs_1z", world.spec.horizon)
    assert (made.name, made.spec) == ("smac:2m_vs_1z", world.spec)
    with pytest.raises(InputError, match="episodes of smac:2m_vs_1z have 150 steps, not 7"):
        rspo.make("smac:2m_vs_1z", 7)


def test_its_settings_are_the_papers_for_smac(world: Smac) -> None:
    """Those of the simulator's map; for a map that has none, at least policies with memory, except
    with methods that cannot train one."""
    for paper in (False, True):
        simulated = preset("2m_vs_1z", "rspo", paper=paper)
        assert preset("smac:2m_vs_1z", "rspo", world, paper) == dataclasses.replace(
            simulated, env="smac:2m_vs_1z"
        )
    assert preset("smac:elsewhere", "rspo", world).ppo.memory == "gru"
    for method in METHODS.summaries():
        validate(preset("smac:elsewhere", method, world), world.spec)


@pytest.mark.slow
def test_few_games_play_many_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one StarCraft II for each of them."""
    monkeypatch.setenv("RSPO_SMAC_GAMES", "2")
    few, sizes = Smac("2m_vs_1z", module=FACADE), []
    monkeypatch.setattr(few, "batch", lambda size: sizes.append(size) or Games(few, size))
    play = collector(few)
    for episodes in (5, 3):
        played = play(uniform_policy(7), episodes, jax.random.key(0), padding="drop")
        assert played.returns.shape == (episodes, 2)
    assert sizes == [2]


@pytest.mark.parametrize("given", ["0", "-1", "many"])
def test_a_number_of_games_that_is_none_is_refused(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSPO_SMAC_GAMES", given)
    with pytest.raises(InputError, match=f"RSPO_SMAC_GAMES is '{given}', but it must be a whole"):
        Smac("2m_vs_1z", module=FACADE)


@pytest.mark.slow
def test_what_comes_over_the_pipe_is_what_the_game_says(games: Games) -> None:
    own, random, all_of_them = StarCraft2Env("2m_vs_1z", seed=0), np.random.default_rng(1), [0]
    which = np.array(all_of_them)
    view = games.reset(which, which)
    observations, state = own.reset()
    np.testing.assert_array_equal(view.obs[0], observations)
    np.testing.assert_array_equal(view.state[0, 1], state)
    for _ in range(20):
        action = drawn(own.get_avail_actions(), random)
        reward, terminated, info = own.step(action)
        step = games.step(which, np.array([action]))
        np.testing.assert_array_equal(step.obs.obs[0], own.get_obs())
        np.testing.assert_array_equal(step.obs.mask[0], own.get_avail_actions())
        assert step.reward[0].tolist() == [pytest.approx(reward)] * 2
        assert (step.terminated[0], step.truncated[0]) == (terminated, False)
        assert step.alive is not None
        assert 2 - step.alive[0].sum() == info["dead_allies"]
        if terminated:
            break


@pytest.mark.slow
def test_a_game_that_dies_is_launched_anew_and_its_episode_cut_short(games: Games) -> None:
    which = np.array([0])
    games.reset(which, which)
    os.kill(games.games[0].process.pid, signal.SIGKILL)
    games.games[0].process.wait()
    step = games.step(which, np.array([[1, 1]]))
    assert (step.terminated[0], step.truncated[0]) == (False, True)
    assert step.reward.tolist() == [[0.0, 0.0]]
    start, _ = StarCraft2Env("2m_vs_1z", seed=0).reset()  # as a new game with this seed begins
    np.testing.assert_array_equal(step.obs.obs[0], start)
    step = games.step(which, np.array([[1, 1]]))
    assert not step.truncated[0]
    assert games.failures[0] == 0


def test_a_game_that_dies_again_and_again_is_given_up(games: Games) -> None:
    games.failures[0] = LAUNCHES
    os.kill(games.games[0].process.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match="died 3 times in a row"):
        games.step(np.array([0]), np.array([[1, 1]]))


def test_what_is_missing_is_said_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"needs SMAC, which .* cannot import .*oxwhirl/smac"):
        Smac("2m_vs_1z", module="no_such_module")
    with pytest.raises(InputError, match=r"cannot be made by SMAC \(InputError: There is no map"):
        Smac("nowhere", module=FACADE)
    with pytest.raises(InputError, match="cannot run 'no-such-python'"):
        Smac("2m_vs_1z", python="no-such-python")
    with pytest.raises(InputError, match="names no map"):
        from_map("../2m")


Installed = Callable[[str, str], None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Puts a module where the processes of games find it."""
    found = filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(found))
    monkeypatch.delenv("RSPO_SMAC_MODULE", raising=False)

    def install(path: str, code: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code)

    return install


def test_the_game_that_is_not_there_is_named(installed: Installed) -> None:
    """A package that has everything but the game, as SMAC does where StarCraft II is missing."""
    installed(
        "gameless.py",
        "class StarCraft2Env:\n"
        "    def __init__(self, map_name, seed, continuing_episode): pass\n"
        "    def get_env_info(self):\n"
        f"        return {json.dumps(StarCraft2Env('2m_vs_1z').get_env_info())}\n"
        "    def reset(self): raise FileNotFoundError('StarCraftII/Versions')\n"
        "    def close(self): pass\n",
    )
    games = Smac("2m_vs_1z", module="gameless").batch(1)
    with pytest.raises(InputError, match="SC2PATH must name the game's folder"):
        games.reset(np.array([0]), np.array([0]))


def test_the_build_of_the_game_is_among_the_numbers(installed: Installed) -> None:
    """Results differ between versions of StarCraft II."""
    installed(
        "versioned.py",
        f"from {FACADE} import StarCraft2Env as Simulated\n"
        "class StarCraft2Env(Simulated):\n"
        "    base_build = 75689\n"
        "    _controller = property(lambda self: self)\n"
        "    def ping(self): return self\n",
    )
    versioned = Smac("2m_vs_1z", module="versioned")
    played = SimpleNamespace(state=np.array([[True]]))
    assert versioned.describe(played).stats == {"won": 1.0}
    versioned.batch(1).reset(np.array([0]), np.array([0]))
    assert versioned.describe(played).stats == {"won": 1.0, "game build": 75689.0}


def test_a_game_is_closed_before_its_process_ends(installed: Installed, tmp_path: Path) -> None:
    """Killed, its process would leave StarCraft II running."""
    installed(
        "closing.py",
        f"from {FACADE} import StarCraft2Env as Simulated\n"
        "class StarCraft2Env(Simulated):\n"
        f"    def close(self): open({str(tmp_path / 'closed')!r}, 'w').close()\n",
    )
    Smac("2m_vs_1z", module="closing")  # asks a game what it is, and ends it
    assert (tmp_path / "closed").exists()


def test_the_installed_package_is_found_although_a_file_of_rspo_has_its_name(
    installed: Installed,
) -> None:
    installed("smac/__init__.py", "")
    installed("smac/env/__init__.py", f"from {FACADE} import StarCraft2Env")
    assert rspo.make("smac:2m_vs_1z").spec.obs_size == 16


@pytest.mark.slow
def test_a_battle_that_runs_out_of_time_is_truncated(installed: Installed) -> None:
    """SMAC tells a timeout only if asked to."""
    installed("smac/__init__.py", "")
    installed(
        "smac/env/__init__.py",
        f"from {FACADE} import StarCraft2Env as Simulated\n"
        "class StarCraft2Env(Simulated):\n"
        "    def __init__(self, **settings):\n"
        "        super().__init__(**settings)\n"
        "        self.episode_limit = 2\n",
    )
    games, which = rspo.make("smac:2m_vs_1z").batch(1), np.array([0])
    games.reset(which, which)
    steps = [games.step(which, np.array([[1, 1]])) for _ in range(2)]
    assert [bool(step.terminated[0]) for step in steps] == [False, False]
    assert [bool(step.truncated[0]) for step in steps] == [False, True]


def test_a_package_that_cannot_be_imported_is_named_with_the_reason(installed: Installed) -> None:
    """Whatever error it raises, and also by an interpreter that has not even NumPy."""
    installed("numpy.py", "raise ImportError('no numbers here')")
    installed("smac/__init__.py", "")
    installed("smac/env/__init__.py", "raise TypeError('Descriptors cannot be made.\\nSee x')")
    wanted = r"cannot import \(smac.env: TypeError: Descriptors cannot be made.; smacv2.env: Module"
    with pytest.raises(InputError, match=wanted):
        Smac("2m_vs_1z")


DYING = """
import os
def StarCraft2Env(**settings):
    os.write(1, b'Version: B75689\\n')
    os.write(2, b'libGL is missing\\n \\n')
    os._exit(3)
"""


def test_the_last_words_of_a_game_that_dies_at_its_start_are_quoted(
    installed: Installed, capfd: pytest.CaptureFixture[str]
) -> None:
    installed("dying.py", DYING)
    wanted = r"^smac:2m_vs_1z ended before it described itself; .* is: libGL is missing$"
    with pytest.raises(InputError, match=wanted):
        Smac("2m_vs_1z", module="dying")
    assert capfd.readouterr() == ("", "")  # the game's own output stays off the screen


def test_the_last_words_of_a_game_that_dies_later_are_quoted(
    world: Smac, installed: Installed
) -> None:
    installed("dying.py", DYING)
    now_dying = copy.copy(world)
    now_dying.modules = ("dying",)
    with pytest.raises(EnvironmentFailure, match=r"died at its start; .*: libGL is missing"):
        now_dying.batch(1)


def test_the_server_is_written_for_the_pythons_that_smac_was_written_for() -> None:
    """By its syntax, and no annotation is evaluated."""
    ast.parse(Path(smac_server.__file__).read_text(), feature_version=(3, 7))
    for function in (smac_server.send, smac_server.made, smac_server.seen, smac_server.serve):
        assert all(isinstance(kind, str) for kind in function.__annotations__.values())


@pytest.mark.slow
def test_a_policy_with_memory_is_trained_over_the_pipe(world: Smac) -> None:
    with pytest.warns(RspoWarning, match="begins differently from the same seed"):
        archive = rspo.discover(
            world,
            method="pg",
            iterations=1,
            ppo={
                "batch": 300,
                "updates": 1,
                "epochs": 1,
                "minibatches": 1,
                "memory": "gru",
                "hidden": 8,
                "padding": "drop",
            },
            judge={"episodes": 2},
            quiet=True,
        )
    assert 0 <= archive[0].evaluation.stats["won"] <= 1
