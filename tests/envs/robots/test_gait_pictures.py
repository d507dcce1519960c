"""A robot's run: names in its summary, drawings in its folder and on its page; photographs where
OpenGL works."""

import io
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import product
import rspo
from product import Outcome, results
from robots import HOP, MOMENTS, SWING, model, recording
from rspo.core.png import png
from rspo.envs.robots import offscreen
from rspo.envs.robots.gait import describe
from rspo.envs.robots.gait_descriptor import Episode
from rspo.envs.robots.gait_drawing import shots
from rspo.envs.robots.gait_pictures import HEIGHT, WIDTH, photographs, portrait
from rspo.envs.robots.linkage import Linkage
from rspo.errors import NoRendererError
from rspo.report import write_report

TINY = (
    "--iterations",
    "2",
    "--ppo.updates",
    "1",
    "--ppo.batch",
    "1024",
    "--ppo.epochs",
    "1",
    "--judge.episodes",
    "3",
)


def hop() -> Linkage:
    return recording("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP)


def kneel() -> Linkage:
    return recording("hopper", {4: -1.57, 3: 0.1 * SWING}, speed=0.5)


# ---- what is drawn


def test_the_episode_that_shows_the_named_gait_is_drawn() -> None:
    episodes = [
        Episode(kneel(), False),
        Episode(hop(), False),
        Episode(hop().between(0, 200), False),
    ]
    drawn = portrait("3 hopping", "hopping", episodes)
    assert drawn.title == "3 hopping"
    np.testing.assert_array_equal(drawn.robot.qpos, hop().qpos)


def test_a_drawing_says_that_its_episode_ends_in_a_fall() -> None:
    assert (
        portrait("3 hopping", "hopping", [Episode(hop(), True)]).title == "3 hopping, then a fall"
    )


@pytest.mark.parametrize("label", ["mixed", None])
def test_without_a_named_gait_the_longest_episode_is_drawn_and_named(label: str | None) -> None:
    episodes = [
        Episode(hop().between(0, 300), True),
        Episode(kneel(), False),
        Episode(hop().between(0, 200), True),
    ]
    drawn = portrait("0 mixed", label, episodes)
    assert drawn.title == "0 mixed: kneeling"
    assert len(drawn.robot.ends) == MOMENTS


def test_a_robot_that_falls_at_once_is_drawn_too() -> None:
    drawn = portrait("0 falling", "falling", [Episode(hop().between(0, 2), True)])
    assert drawn.title.startswith("0 falling: ")
    assert drawn.title.endswith(", then a fall")


# ---- photographs


def test_a_png_file_has_the_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as image:
        image.load()
        assert image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_photographs_are_of_the_moments_of_the_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a renderer that paints its positions, every moment must be in its place."""
    robots = [hop(), kneel().between(0, 150)]

    def paint(model: object, qpos: np.ndarray, width: int, height: int) -> np.ndarray:
        shade = (np.abs(qpos[:, 0]) * 40).astype(np.uint8)
        return np.broadcast_to(shade[:, None, None, None], (len(qpos), height, width, 3))

    monkeypatch.setattr(offscreen, "render", paint)
    for robot, picture in zip(robots, photographs(model("hopper"), robots), strict=True):
        with Image.open(io.BytesIO(picture)) as image:
            found = np.asarray(image)
        frames = shots(robot, describe(robot)).frames
        assert found.shape == (HEIGHT, WIDTH * len(frames), 3)
        np.testing.assert_array_equal(
            found[5, ::WIDTH, 0], (np.abs(robot.qpos[frames, 0]) * 40).astype(np.uint8)
        )


# ---- a whole run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """On a machine without OpenGL."""
    folder = tmp_path_factory.mktemp("robots") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUJOCO_GL", "disabled")
        patch.chdir(folder.parent)
        return product.here("discover", "hopper", *TINY, "--out", folder), folder


def test_every_gait_is_drawn_in_the_run_folder(whole: tuple[Outcome, Path]) -> None:
    outcome, folder = whole
    assert outcome.code == 0, outcome
    assert f"Pictures: {folder}/000-gait.svg, {folder}/001-gait.svg\n" in outcome.out
    for strategy in rspo.load(folder):
        root = ET.fromstring((folder / f"00{strategy.index}-gait.svg").read_text())
        title = next(root.iter("{http://www.w3.org/2000/svg}text")).text
        assert title is not None
        assert title.startswith(f"{strategy.index} {strategy.descriptor}")


def test_nothing_stray_is_left_beside_the_run(whole: tuple[Outcome, Path]) -> None:
    assert [path.name for path in whole[1].parent.iterdir()] == ["run"]


def test_without_opengl_the_run_says_so_in_a_sentence(whole: tuple[Outcome, Path]) -> None:
    outcome, folder = whole
    assert outcome.err.count("MuJoCo cannot render on this machine") == 1
    assert "Traceback" not in outcome.err
    assert not list(folder.glob("*.png"))


@pytest.mark.slow
def test_the_name_and_its_numbers_are_in_the_summary(whole: tuple[Outcome, Path]) -> None:
    outcome, folder = whole
    summary = json.loads((folder / "summary.json").read_text())
    for strategy in summary["strategies"]:
        assert strategy["descriptor"]
        assert strategy["stats"]["falls"] == 1  # nobody learns to hop in one update
        assert sum(
            share for name, share in strategy["stats"].items() if name.startswith("P(")
        ) == pytest.approx(1)
        assert strategy["descriptor"] in outcome.out
    evaluated = product.here("evaluate", folder, "--json")
    assert json.loads(evaluated.out) == summary


def test_the_report_shows_names_numbers_and_drawings(
    whole: tuple[Outcome, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(whole[1], tmp_path / "run")
    page = (folder / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 2
    for strategy in rspo.load(folder):
        assert f"{strategy.index}: {strategy.descriptor}</h3>" in page
    assert '<th scope="row">falls</th>' in page
    for drawing in [*folder.glob("*.svg"), *folder.glob("*.png")]:
        drawing.unlink()
    write_report(folder)
    assert '<img src="data:image' not in (folder / "report.html").read_text()


@pytest.mark.slow
def test_resuming_draws_anew_and_photographs_where_it_can(
    whole: tuple[Outcome, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    try:
        offscreen.render(model("hopper"), model("hopper").qpos0[None], 32, 32)
    except NoRendererError as error:
        pytest.skip(str(error))
    folder = shutil.copytree(whole[1], tmp_path / "run")
    (folder / "000-gait.svg").unlink()
    outcome = product.here("resume", folder)
    assert outcome.code == 0, outcome
    assert (folder / "000-gait.svg").read_bytes() == (whole[1] / "000-gait.svg").read_bytes()
    assert results(folder) == results(whole[1])
    assert "001-gait.png" in outcome.out
    with Image.open(folder / "001-gait.png") as image:
        assert image.size[1] == HEIGHT
        assert np.asarray(image).std() > 5
