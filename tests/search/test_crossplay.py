"""Cross-play: against a loop in plain Python, a game whose payoffs are known, and the evaluation of
each strategy."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import rspo
from host_worlds import Wrapped, share_noise
from plain_games import PlainEscalation, PlainMonsterHunt, spawn
from rspo.core.distributions import Gaussian
from rspo.core.policies import Memoryless, init_policy
from rspo.core.spaces import Discrete
from rspo.core.types import Spec, Step, View
from rspo.envs.base import Env
from rspo.envs.escalation import Escalation
from rspo.envs.monster_hunt import MonsterHunt
from rspo.errors import InputError
from rspo.rollout.collector import collector
from rspo.runs.run import Run
from rspo.search.archive import Archive
from rspo.search.crossplay import CrossPlay, SideBySide, make_cross_play, usual_episodes
from worlds import Tabular

EPISODES = 12


# ---- a loop in plain Python


def monster_hunt(first: np.ndarray) -> PlainMonsterHunt:
    one, two, monster, *apples = spawn(first)
    return PlainMonsterHunt([one, two], monster, apples)


def escalation(first: np.ndarray) -> PlainEscalation:
    one, two, light = spawn(first)
    return PlainEscalation([one, two], light)


def sampled(weights: np.ndarray, obs: list[float], uniform: float) -> int:
    """The action whose slice of [0, 1) holds the number."""
    logits = np.asarray(obs, np.float32) @ weights
    odds = np.exp(logits - logits.max())
    edges = np.cumsum(odds / odds.sum())[:-1]
    return sum(uniform >= edge for edge in edges)


def played(
    start: Any, pair: tuple[np.ndarray, np.ndarray], draws: list[np.ndarray], n: int
) -> list[float]:
    """The returns of both agents in the n-th episode."""
    first, numbers, uniform = draws
    game, total = start(first[n]), [0.0, 0.0]
    for t in range(50):
        if getattr(game, "over", False):
            break
        seen = game.observe()
        actions = [sampled(pair[agent], seen[agent], uniform[t, n, agent]) for agent in (0, 1)]
        rewards = game.step(actions, numbers[t, n])
        total = [total[0] + rewards[0], total[1] + rewards[1]]
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "start", "scale"),
    [(MonsterHunt(), monster_hunt, 0.4), (Escalation(), escalation, 0.3)],
    ids=["hunt", "light"],
)
def test_every_pair_plays_as_in_plain_python(env: Env, start: Any, scale: float) -> None:
    """The strategy of the row is agent 0, that of the column agent 1, all with the same chances."""
    spec, key = env.spec, jax.random.key(5)
    weights = np.random.default_rng(0).normal(0, scale, (3, spec.obs_size, 5)).astype(np.float32)
    if isinstance(env, Escalation):
        weights[0, 5, 1:3], weights[0, 6, 3:5] = (
            (2, -2),
            (2, -2),
        )  # the first one goes for the light
    keys = jax.random.split(key, 3)  # as `collect` draws
    shapes = ((EPISODES, spec.reset_noise), (50, EPISODES, spec.step_noise), (50, EPISODES, 2))
    draws = [
        np.asarray(jax.random.uniform(k, shape)) for k, shape in zip(keys, shapes, strict=True)
    ]
    expected = [
        [
            np.mean([played(start, (one, two), draws, n) for n in range(EPISODES)], axis=0)
            for two in weights
        ]
        for one in weights
    ]
    returns = make_cross_play(collector(env), EPISODES)(Tabular(jnp.asarray(weights)), key)
    np.testing.assert_allclose(returns, expected, rtol=1e-4, atol=1e-5)
    assert np.std(expected, axis=(0, 1)).min() > 0.1  # pairs differ, so the test could fail


# ---- a game with known payoffs


class Bimatrix(Env):
    """One choice each; what agent 0 and agent 1 get is a table of its own."""

    first: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    second: tuple[tuple[float, ...], ...] = eqx.field(static=True)

    @property
    def spec(self) -> Spec:
        return Spec(1, Discrete(2), horizon=1, agents=2)

    def reset(self, noise: Array) -> tuple[tuple[()], Array]:
        return (), jnp.ones((2, 1))

    def step(self, state: tuple[()], action: Array, noise: Array) -> tuple[tuple[()], Step]:
        reward = jnp.stack(
            [jnp.asarray(table)[action[0], action[1]] for table in (self.first, self.second)]
        )
        return (), Step(jnp.ones((2, 1)), reward, jnp.asarray(True))


def test_the_payoff_is_of_the_row_in_both_roles() -> None:
    game = Bimatrix(((1, 2), (3, 4)), ((10, 20), (30, 40)))
    pure = Tabular(
        jnp.asarray([[[100.0, 0.0]], [[0.0, 100.0]]])
    )  # the first always chooses 0, the second 1
    roles = np.asarray(make_cross_play(collector(game), 4)(pure, jax.random.key(0)))
    np.testing.assert_array_equal(roles, [[[1, 10], [2, 20]], [[3, 30], [4, 40]]])
    result = CrossPlay(("0", "1"), 4, roles)
    np.testing.assert_allclose(
        result.payoff, [[(1 + 10) / 2, (2 + 30) / 2], [(3 + 20) / 2, (4 + 40) / 2]]
    )
    np.testing.assert_allclose(
        result.mean, [[5.5, (2 + 30 + 3 + 20) / 4], [(2 + 30 + 3 + 20) / 4, 22]]
    )


def test_the_mean_is_symmetric_and_agrees_with_the_roles() -> None:
    roles = np.random.default_rng(0).normal(size=(4, 4, 2))
    result = CrossPlay(("a", "b", "c", "d"), 1, roles)
    np.testing.assert_allclose(result.mean, result.mean.T)
    np.testing.assert_allclose(result.mean, (roles.mean(-1) + roles.mean(-1).T) / 2)
    np.testing.assert_allclose(np.diag(result.payoff), np.diag(result.mean))


# ---- other worlds


@pytest.mark.slow
def test_the_host_plays_the_same_game(monkeypatch: pytest.MonkeyPatch) -> None:
    key, random = jax.random.key(3), np.random.default_rng(0)
    share_noise(monkeypatch, EPISODES, key)
    policies = Tabular(jnp.asarray(random.normal(size=(2, 10, 5)), jnp.float32))
    worlds = MonsterHunt(), Wrapped(MonsterHunt(), EPISODES, key)
    ours, theirs = (make_cross_play(collector(world), EPISODES)(policies, key) for world in worlds)
    np.testing.assert_allclose(theirs, ours, rtol=1e-6)


class Straight(Memoryless):
    """Real numbers, around a multiple of what is observed, with a deviation of its own."""

    weight: Array
    log_std: Array

    def act(self, view: View) -> Gaussian:
        return Gaussian(view.obs @ self.weight, self.log_std)


def test_each_agent_keeps_its_own_deviation() -> None:
    one, two = (
        Straight(jnp.eye(3, 2) * scale, jnp.asarray([scale, -scale])) for scale in (0.5, 2.0)
    )
    obs, noise = np.random.default_rng(0).normal(size=(2, 7, 2, 3)).astype(np.float32)
    pair = SideBySide(one, two)
    _, both = pair.step(pair.initial(7, 2), View(jnp.asarray(obs)))
    noise = jnp.asarray(noise[..., :2])
    for agent, policy in enumerate((one, two)):
        alone, drawn = policy(jnp.asarray(obs[:, agent])), both.sample(noise)
        np.testing.assert_allclose(drawn[:, agent], alone.sample(noise[:, agent]), rtol=1e-6)
        np.testing.assert_allclose(
            both.log_prob(drawn)[:, agent], alone.log_prob(drawn[:, agent]), rtol=1e-5
        )


def test_many_pairs_of_a_host_environment_play_fewer_episodes() -> None:
    world = collector(Wrapped(MonsterHunt(), 1, jax.random.key(0)))
    assert usual_episodes(collector(MonsterHunt()), 20, 512) == 512
    assert usual_episodes(world, 2, 512) == 512
    assert usual_episodes(world, 10, 512) == 200_000 // (100 * 50)
    assert usual_episodes(world, 100, 512) == 4
    assert usual_episodes(world, 100, 2) == 2


@pytest.mark.slow
def test_a_run_of_a_pettingzoo_world_ends_with_cross_play(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "iterations": 2,
        "ppo": {"updates": 1, "batch": 200},
        "judge": {"episodes": 4},
    }
    archive = rspo.discover(
        "pettingzoo:mpe2.simple_reference_v3", out=tmp_path / "run", quiet=True, **settings
    )
    kept = Run.open(tmp_path / "run").load_cross_play()
    assert kept is not None
    assert kept.payoff.shape == (2, 2)
    np.testing.assert_array_equal(rspo.crossplay(archive).roles, kept.roles)


# ---- strategies of a run


@pytest.fixture(scope="module")
def found(hunt: Path) -> tuple[Archive, Path]:
    return rspo.load(hunt), hunt


def test_a_strategy_with_itself_earns_what_its_evaluation_says(found: tuple[Archive, Path]) -> None:
    """Both are means of as many sampled episodes, so five standard errors apart at most."""
    archive, _ = found
    diagonal = np.diag(rspo.crossplay(archive).payoff)
    for strategy, own in zip(archive, diagonal, strict=True):
        evaluation = strategy.evaluation
        assert abs(own - evaluation.return_mean) < 5 * evaluation.return_std * np.sqrt(2 / 256)


def test_the_same_strategy_earns_the_same(found: tuple[Archive, Path]) -> None:
    """All pairs have the same chances, so the copy of a strategy has its rows and columns,
    exactly."""
    archive, _ = found
    roles = rspo.crossplay(Archive(archive.config, [archive[0], archive[1], archive[0]])).roles
    np.testing.assert_array_equal(roles[0], roles[2])
    np.testing.assert_array_equal(roles[:, 0], roles[:, 2])
    assert not np.array_equal(roles[0], roles[1])


@pytest.mark.slow
def test_the_folder_the_archive_and_python_agree(found: tuple[Archive, Path]) -> None:
    archive, folder = found
    kept = Run.open(folder).load_cross_play()
    assert kept is not None
    assert kept.strategies == tuple(f"{s.index} {s.descriptor}" for s in archive)
    assert kept.episodes == 256
    for other in (rspo.crossplay(archive), rspo.crossplay(folder), rspo.crossplay(str(folder))):
        np.testing.assert_array_equal(other.roles, kept.roles)
    assert not np.array_equal(rspo.crossplay(folder, seed=8).roles, kept.roles)
    assert rspo.crossplay(folder, episodes=16).episodes == 16


@pytest.mark.slow
def test_one_agent_has_nobody_to_play_with() -> None:
    archive = rspo.discover(
        "four-goals-easy", iterations=1, quiet=True, ppo={"updates": 1, "batch": 64}
    )
    with pytest.raises(InputError, match="two agents, but four-goals-easy has 1"):
        rspo.crossplay(archive)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"episodes": 0}, "judge.episodes is 0"), ({"seed": -1}, "seed is -1")],
    ids=str,
)
def test_bad_settings_are_refused(
    found: tuple[Archive, Path], settings: dict[str, int], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        rspo.crossplay(found[1], **settings)


def test_no_strategies_are_refused(found: tuple[Archive, Path]) -> None:
    with pytest.raises(InputError, match="no strategies for monster-hunt yet"):
        rspo.crossplay(Archive(found[0].config))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_networks_play_with_themselves_as_alone(memory: Any) -> None:
    """Compiled, and with what they remember of the episode."""
    env, key = Escalation(), jax.random.key(3)
    one = lambda key: init_policy(env.spec, 1, 8, 1, True, key, memory)
    policies = jax.vmap(one)(jax.random.split(key, 2))
    collect = collector(env)
    found = make_cross_play(collect, EPISODES)(policies, key)
    assert found.shape == (2, 2, 2)
    for i in range(2):
        alone = collect(jax.tree.map(lambda leaf, i=i: leaf[i], policies), EPISODES, key)
        np.testing.assert_allclose(found[i, i], alone.reward.sum(0).mean(0), rtol=1e-4, atol=1e-4)
