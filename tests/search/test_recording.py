"""Recorded episodes: what is unpacked is what was played, and little is kept."""

import functools
import json
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rspo
from pages import Linkage, Undrawn
from rspo.core.policies import uniform_policy
from rspo.core.spaces import Box
from rspo.core.types import Shape, Trajectory
from rspo.envs.base import Env, at
from rspo.runs import store
from rspo.search.recording import (
    BINS,
    EPISODES,
    FRAMES,
    UNIT,
    Recording,
    histogram,
    pack_scenes,
    record,
)
from worlds import collect


class Played(NamedTuple):
    env: Env
    greedy: Trajectory
    sampled: Trajectory
    recording: Recording

    def moments(self, n: int, trajectory: Trajectory) -> list[Any]:
        """Every state of an episode, the first before any action."""
        steps = int(trajectory.live[:, n].sum())
        return [at(trajectory.start, n), *(at(trajectory.state, t, n) for t in range(steps))]


@functools.cache
def play(env: Env, episodes: int = 6) -> Played:
    policy = uniform_policy(env.spec.action_space.n)
    greedy, sampled = (
        jax.device_get(
            collect(env, policy, episodes, jax.random.key(i), greedy=greedy, record=True)
        )
        for i, greedy in enumerate((True, False))
    )
    return Played(env, greedy, sampled, record(env, greedy, sampled))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["four-goals-hard", "monster-hunt", "escalation"])
def test_scenes_come_back_to_within_a_unit(name: str) -> None:
    played = play(rspo.make(name))
    arrays, facts = played.recording.arrays, played.recording.record["episodes"]
    assert [fact["mode"] for fact in facts].count("sampled") == EPISODES
    first = next(i for i, fact in enumerate(facts) if fact["mode"] == "sampled")
    for n in range(EPISODES):
        fact = facts[first + n]
        states = played.moments(n, played.sampled)
        assert fact["steps"] == len(states) - 1
        np.testing.assert_allclose(
            fact["return"], played.sampled.reward[:, n].sum(0).mean(), rtol=1e-6
        )
        place, size, kind = (arrays[f"{first + n}.{part}"] for part in ("place", "size", "kind"))
        assert len(place) == len(states)
        for t, state in enumerate(states):
            scene = played.env.scene(state)
            for s, shape in enumerate(scene):
                moment = min(t, len(kind) - 1)
                np.testing.assert_allclose(place[t, s] / UNIT, (shape.x, shape.y), atol=0.5 / UNIT)
                np.testing.assert_allclose(
                    size[min(t, len(size) - 1), s] / UNIT, shape.size, atol=0.5 / UNIT
                )
                assert tuple(fact["kinds"][kind[moment, s] - 1]) == (shape.role, shape.label)
        total = arrays[f"{first + n}.total"]
        assert total[0] == 0
        np.testing.assert_allclose(total[-1], fact["return"], rtol=1e-5, atol=1e-6)


def test_greedy_episodes_that_are_all_the_same_are_kept_once() -> None:
    facts = play(rspo.make("four-goals-easy")).recording.record["episodes"]
    assert [fact["mode"] for fact in facts].count("greedy") == 1


def test_long_episodes_keep_their_first_and_last_moment_and_some_between() -> None:
    played = play(Linkage(limbs=2, horizon=3 * FRAMES))
    place, end = played.recording.arrays["0.place"], played.recording.arrays["0.end"]
    fact = played.recording.record["episodes"][0]
    assert len(place) <= FRAMES
    assert fact["stride"] == 4  # 256 moments are 255 steps, and 3 * 255 < 3 * 256
    states = played.moments(0, played.greedy)
    for frame, t in [(0, 0), (1, 4), (-1, -1)]:
        for s, shape in enumerate(played.env.scene(states[t])):
            np.testing.assert_allclose(place[frame, s] / UNIT, (shape.x, shape.y), atol=0.5 / UNIT)
            np.testing.assert_allclose(end[frame, s] / UNIT, shape.end, atol=0.5 / UNIT)
    assert played.recording.record["backdrop"] == [["line", -1.0, -0.6, 0.01, "", (1.0, -0.6)]]


def test_without_a_drawing_observations_and_actions_are_kept() -> None:
    played = play(Undrawn())
    arrays, facts = played.recording.arrays, played.recording.record["episodes"]
    n = next(i for i, fact in enumerate(facts) if fact["mode"] == "sampled")
    steps = facts[n]["steps"]
    assert steps == 9  # it terminates before the horizon of 12
    assert f"{n}.place" not in arrays
    np.testing.assert_array_equal(arrays[f"{n}.obs"], played.sampled.obs[: steps + 1, 0])
    np.testing.assert_array_equal(arrays[f"{n}.action"], played.sampled.action[:steps, 0])


def test_heat_maps_are_of_the_greedy_episodes() -> None:
    played = play(rspo.make("monster-hunt"))
    assert played.recording.record["maps"] == ["where the agents meet"]
    meetings = np.zeros((5, 5))
    for t in range(10, 50):
        for n in range(6):
            one, two = played.greedy.state.agents[t, n]
            if tuple(one) == tuple(two):
                meetings[one[1], one[0]] += 1
    np.testing.assert_allclose(
        played.recording.arrays["map.0"], meetings / max(meetings.sum(), 1), rtol=1e-6
    )


def test_actions_are_counted_while_the_episode_lives() -> None:
    played = play(Undrawn())
    count = np.zeros(4)
    for t in range(12):
        for n in range(6):
            for agent in range(2):
                count[played.sampled.action[t, n, agent]] += played.sampled.live[t, n]
    np.testing.assert_allclose(played.recording.arrays["actions"], count / count.sum(), rtol=1e-6)


def test_continuous_actions_get_a_histogram_for_each_dimension() -> None:
    action = np.full((2, 1, 1, 2), 0.5, np.float32)
    action[1, 0, 0] = (-7.0, 0.999)
    blank = np.zeros((2, 1))
    trajectory = Trajectory(blank, action, blank, blank, blank, np.ones((2, 1), bool), blank, blank)
    shares = histogram(Box((-1.0,) * 2, (1.0,) * 2), trajectory)
    assert shares.shape == (2, BINS)
    assert (shares[0, 0], shares[0, 15], shares[1, 15], shares[1, -1]) == (0.5, 0.5, 0.5, 0.5)
    np.testing.assert_allclose(shares.sum(-1), 1)


@given(
    st.lists(
        st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=3),
        min_size=1,
        max_size=4,
    )
)
def test_any_scene_can_be_packed(scenes: list[list[tuple[float, float, float]]]) -> None:
    """What is nowhere is not there; what is far away is at the edge of what can be said."""
    shapes = [[Shape("agent", x, y, size) for x, y, size in scene] for scene in scenes]
    arrays, kinds = pack_scenes(shapes)
    kind = np.broadcast_to(arrays["kind"], arrays["place"].shape[:2])
    for t, scene in enumerate(shapes):
        for s, shape in enumerate(scene):
            there = np.isfinite(shape.x) and np.isfinite(shape.y)
            assert (kind[t, s] > 0) == there
            if there:
                kept = np.clip((shape.x, shape.y), -8, 8 - 1 / UNIT)
                np.testing.assert_allclose(arrays["place"][t, s] / UNIT, kept, atol=0.5 / UNIT)
    assert kinds in ([], [("agent", "")])


def test_the_file_names_its_parts(tmp_path: Any) -> None:
    played = play(rspo.make("escalation"))
    path = tmp_path / "episodes.safetensors"
    recording = played.recording
    path.write_bytes(store.pack_arrays(recording.arrays, {"rspo": json.dumps(recording.record)}))
    arrays, metadata = store.read_arrays(path)
    assert set(arrays) == set(played.recording.arrays)
    assert json.loads(metadata["rspo"])["unit"] == UNIT
    assert path.stat().st_size < 40_000


def test_an_observation_of_the_next_episode_is_not_the_end_of_this_one() -> None:
    """Undrawn ends after nine of its twelve steps, and another episode begins there."""
    env, policy = Undrawn(), uniform_policy(4)
    for padding in ("count", "restart"):
        played = jax.device_get(
            collect(env, policy, 2, jax.random.key(0), padding=padding, record=True)
        )
        obs = record(env, played, played).arrays["0.obs"]
        assert obs.shape == (10, 2, 3)
        np.testing.assert_array_equal(obs[:-1], played.obs[:9, 0])
        assert np.isnan(obs[-1]).all() == (padding == "restart")
        if padding == "count":
            np.testing.assert_array_equal(obs[-1], played.last.obs[0])
