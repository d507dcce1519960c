"""SMAC's interface on the simulator, and the adapter for the real game, through that interface."""

import json
import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

import rspo
from rspo.envs.adapters.smac import LAUNCHES, Games, Smac, from_map
from rspo.envs.skirmish.facade import DEFAULTS, StarCraft2Env
from rspo.envs.skirmish.skirmish import Skirmish
from rspo.errors import EnvironmentFailure, InputError, RspoWarning

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
    assert told["enemy_features"] == ["health", "x", "y", "shield"]
    observations, state = facade.reset()
    assert [one.shape for one in observations] == [(16,), (16,)]
    assert state.shape == (26,)
    assert facade.seed() == 3


def test_a_loop_written_for_smac_runs_on_it(facade: StarCraft2Env) -> None:
    """As PyMARL plays: until it is over, by the masks, then the statistics."""
    random, before = np.random.default_rng(0), facade.get_stats()["battles_game"]
    facade.reset()
    steps, terminated = 0, False
    while not terminated:
        steps += 1
        reward, terminated, info = facade.step(drawn(facade.get_avail_actions(), random))
        assert np.isfinite(reward)
        assert facade.get_obs()[0].shape == (facade.get_obs_size(),)
    assert {"battle_won", "dead_allies", "dead_enemies"} <= info.keys()
    assert info.get("episode_limit", False) == (steps == 150 and info["dead_allies"] < 2)
    assert facade.get_stats()["battles_game"] == before + 1


def test_an_action_that_is_not_allowed_fails_as_in_smac(facade: StarCraft2Env) -> None:
    facade.reset()
    with pytest.raises(AssertionError, match="Agent 0 cannot perform action 0"):
        facade.step([0, 1])


def test_settings_other_than_smacs_own_are_refused() -> None:
    StarCraft2Env("2m_vs_1z", **DEFAULTS, debug=True)
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
    with pytest.raises(InputError, match=r"needs SMAC, which .* does not have .*oxwhirl/smac"):
        Smac("2m_vs_1z", module="no_such_module")
    with pytest.raises(InputError, match=r"cannot be made by SMAC \(InputError: There is no map"):
        Smac("nowhere", module=FACADE)
    with pytest.raises(InputError, match="cannot run 'no-such-python'"):
        Smac("2m_vs_1z", python="no-such-python")
    with pytest.raises(InputError, match="names no map"):
        from_map("../2m")


def test_the_game_that_is_not_there_is_named(tmp_path: object) -> None:
    """A package that has everything but the game, as SMAC does where StarCraft II is missing."""
    folder = str(tmp_path)
    with open(f"{folder}/gameless.py", "w") as file:
        file.write(
            "class StarCraft2Env:\n"
            "    def __init__(self, map_name, seed): pass\n"
            "    def get_env_info(self):\n"
            f"        return {json.dumps(StarCraft2Env('2m_vs_1z').get_env_info())}\n"
            "    def reset(self): raise FileNotFoundError('StarCraftII/Versions')\n"
            "    def close(self): pass\n"
        )
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, before)))
    try:
        games = Smac("2m_vs_1z", module="gameless").batch(1)
        with pytest.raises(InputError, match="SC2PATH must name the game's folder"):
            games.reset(np.array([0]), np.array([0]))
    finally:
        os.environ["PYTHONPATH"] = before


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
