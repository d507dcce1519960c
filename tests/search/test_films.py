"""Real pictures of episodes: those of the recorded ones, small, in the folder, the page and
films."""

import base64
import io
import json
import re
import shutil

import jax
import numpy as np
import pytest
from PIL import Image

import rspo
from picture_worlds import STEPS, Walk, make_walk, place_in
from product import assert_refused, here
from rspo.core.png import COLOURS, png, size_of, strip
from rspo.core.policies import uniform_policy
from rspo.envs.adapters.gymnasium import GymEnv
from rspo.envs.adapters.pettingzoo import from_module
from rspo.envs.decoration import LeftOut
from rspo.report import write_report
from rspo.rollout.filming import film
from rspo.runs import store
from rspo.search.films import BYTES, PICTURES, SIDE, packed, shrink
from rspo.search.recording import record
from worlds import collect

KEY = jax.random.key(3)
WALK = GymEnv(make_walk, horizon=STEPS)


def played(env=WALK, episodes=3):
    return collect(env, uniform_policy(env.spec.action_space), episodes, KEY, record=True)


def test_a_film_is_of_the_recorded_episode():
    """Every picture shows what was observed at its moment."""
    trajectory, camera = played(), WALK.camera()
    for n in range(3):
        pictures = film(WALK, camera, trajectory, n, range(STEPS + 1))
        places = np.append(trajectory.obs[:, n, 0, 0], trajectory.last.obs[n, 0, 0])
        np.testing.assert_allclose([place_in(one) - 0.5 for one in pictures], places, atol=0.05)
    some = film(WALK, camera, trajectory, 0, [0, 3, 6])
    assert len(some) == 3


def test_a_recording_keeps_a_few_small_pictures():
    trajectory = played()
    recording = record(WALK, trajectory, trajectory)
    assert [e["mode"] for e in recording.record["episodes"]] == ["greedy"] * 2 + ["sampled"] * 2
    for n, episode in enumerate(recording.record["episodes"]):
        facts = episode["film"]
        image = Image.open(io.BytesIO(recording.arrays[f"{n}.film"].tobytes()))
        assert image.size == (facts["width"], facts["height"] * facts["pictures"])
        assert facts == {"pictures": STEPS + 1, "width": 133, "height": 20}
        rows = np.asarray(image.convert("RGB")).reshape(-1, facts["height"], facts["width"], 3)
        seen = recording.arrays[f"{n}.obs"][:, 0, 0]
        np.testing.assert_allclose([place_in(row) - 0.5 for row in rows], seen, atol=0.1)
    assert recording.record["names"]["obs"] == ["place", "time"]
    assert recording.record["names"]["choices"] == ["left", "right"]


def test_a_renderer_that_fails_is_said_and_numbers_are_shown_instead():
    env = GymEnv(lambda render_mode=None: Walk(render_mode, broken=True), horizon=STEPS)
    trajectory = played(env)
    with pytest.warns(LeftOut, match="render failed .OSError: no paint; .*numbers instead"):
        recording = record(env, trajectory, trajectory)
    assert all("film" not in episode for episode in recording.record["episodes"])
    assert "0.obs" in recording.arrays


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        (lambda: GymEnv(Walk, horizon=STEPS), True),
        (lambda: GymEnv(lambda: Walk("rgb_array"), horizon=STEPS), True),
        (lambda: GymEnv(lambda: Walk(None), horizon=STEPS), False),
        (lambda: GymEnv(lambda: Walk(None), horizon=STEPS, render=lambda: Walk("rgb_array")), True),
        (lambda: rspo.make("gym:CartPole-v1"), True),
        (lambda: from_module("mpe2.simple_spread_v3"), True),
    ],
    ids=["class", "already", "cannot", "by render", "gym", "pettingzoo"],
)
def test_who_can_be_filmed(env, shown):
    assert env().filmed == shown


@pytest.mark.parametrize(
    "name", ["gym:CartPole-v1", "gym:FrozenLake-v1", "pettingzoo:mpe2.simple_spread_v3"]
)
def test_real_environments_show_themselves(name):
    env = rspo.make(name)
    camera = env.camera()
    camera.instances.reset(np.zeros(1, int), np.array([5]))
    picture = camera.look()
    camera.close()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.std() > 0
    assert env.pace > 0


def test_noise_is_made_to_fit():
    """The worst there is to compress."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (PICTURES, 400, 600, 3), np.uint8)
    data, facts = packed(list(noise))
    assert len(data) <= BYTES
    assert facts["pictures"] >= 8
    assert max(facts["width"], facts["height"]) <= SIDE
    assert size_of(data.tobytes()) == (facts["width"], facts["height"] * facts["pictures"])


def test_pictures_of_different_sizes_are_brought_together():
    data, facts = packed([np.zeros((9, 9, 3), np.uint8), np.full((20, 5, 3), 255, np.uint8)])
    assert facts == {"pictures": 2, "width": 9, "height": 9}
    assert size_of(data.tobytes()) == (9, 18)


def test_shrinking_is_the_mean():
    picture = np.random.default_rng(1).integers(0, 256, (6, 9, 3), np.uint8)
    small = shrink(picture, 3)
    assert small.shape == (2, 3, 3)
    np.testing.assert_array_equal(small[1, 2], picture[3:, 6:].mean((0, 1)).round())
    assert shrink(picture, 100) is not None
    np.testing.assert_array_equal(shrink(picture, 100), picture)


def test_few_colours_are_kept_as_they_are_and_many_nearly():
    rng = np.random.default_rng(2)
    few = rng.choice(np.array([[0, 0, 0], [255, 255, 255], [200, 30, 40]], np.uint8), (2, 5, 7))
    again = np.asarray(Image.open(io.BytesIO(strip(few))).convert("RGB"))
    np.testing.assert_array_equal(again.reshape(few.shape), few)
    many = rng.integers(0, 256, (1, 64, 64, 3), np.uint8)
    image = Image.open(io.BytesIO(strip(many)))
    assert len(image.getpalette()) <= 3 * COLOURS
    off = np.abs(np.asarray(image.convert("RGB")).astype(int) - many[0])
    assert off.mean() < 32
    assert size_of(png(many[0])) == (64, 64)
    assert size_of(b"no picture at all, but long enough") is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk") / "run"
    settings = {
        "iterations": 2,
        "ppo": {"updates": 2, "epochs": 1, "minibatches": 1, "batch": 48, "hidden": 8},
        "judge": {"episodes": 4},
    }
    rspo.discover(make_walk, name="a walk", horizon=STEPS, out=folder, quiet=True, **settings)
    return folder


def data_in(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def test_the_page_shows_pictures_and_calls_the_environment_by_its_name(run):
    page = (run / "report.html").read_text()
    assert "for a walk" in page
    assert "make_walk" not in page
    assert "environment&#39;s own" in page
    assert "left</th>" in page
    for strategy in data_in(page)["strategies"]:
        for episode in strategy["episodes"]:
            assert set(episode["packed"]) == {"total"}
            film = episode["film"]
            named = re.search(rf'id="{film.get("id")}" href="data:image/png;base64,([^"]*)"', page)
            data = base64.b64decode(film["data"] if "data" in film else named[1])
            assert size_of(data)[0] == film["width"]
    assert len(page) < 5e6


def test_films_by_the_command_line(run, tmp_path):
    flags = ("--env", "picture_worlds:make_walk")
    assert_refused(here("play", run, "0"), "does not decide what is imported")
    assert_refused(here("play", run, "0", *flags), "use --gif FILE.gif or --mp4 FILE.mp4")
    assert here("play", run, "0", "--gif", tmp_path / "a.gif", *flags).code == 0
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == STEPS + 1
        assert image.size == (400, 84)
        assert image.info["duration"] == 100  # the environment's own pace
        image.seek(2)
        assert place_in(np.asarray(image.convert("RGB"))[24:]) > 0
    assert here("play", run, "--mp4", tmp_path / "a.mp4", *flags).code == 0
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize("damage", ["size", "bytes", "missing"])
def test_a_film_that_was_tampered_with_is_refused(run, tmp_path, damage):
    folder = shutil.copytree(run, tmp_path / "run")
    home = folder / "strategies" / "000"
    arrays, metadata = store.read_arrays(home / "episodes.safetensors")
    record = json.loads(metadata["rspo"])
    if damage == "size":
        record["episodes"][0]["film"]["width"] += 1
    elif damage == "bytes":
        arrays["0.film"] = np.zeros(99, np.uint8)
    else:
        del arrays["0.film"]
    data = store.pack_arrays(arrays, {"rspo": json.dumps(record)})
    (home / "episodes.safetensors").write_bytes(data)
    facts = store.read_json(home / "strategy.json")
    facts["files"]["episodes.safetensors"] = store.sha256(data)
    (home / "strategy.json").write_bytes(store.pack_json(facts))
    with pytest.raises(rspo.errors.RspoError, match="is damaged"):
        write_report(folder)
