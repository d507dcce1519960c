"""Drawings show the model's own geometry where kinematics puts it; MuJoCo's renderer draws too, or
says why not."""

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robots import DT, HOP, SWING, driven_cheetah, recording
from rspo.envs.robots.gait import describe
from rspo.envs.robots.gait_drawing import GHOSTS, WIDTH, numbers, shots, strip
from rspo.envs.robots.linkage import Linkage, far_to_near

SVG = "{http://www.w3.org/2000/svg}"
ROBOTS = ["half-cheetah", "hopper", "walker2d", "humanoid"]


def standing(robot: str) -> Linkage:
    return recording(robot, {}, speed=0.0)


def capsules(picture: str) -> list[np.ndarray]:
    """Of the frames, not their ghosts: the ends of each capsule and its width, [x1, y1, x2, y2,
    width]."""
    found = []
    for shape in ET.fromstring(picture):
        if (
            shape.tag == f"{SVG}line"
            and shape.get("stroke-linecap")
            and shape.get("stroke") != "#ffffff"
        ):
            found.append(
                [float(shape.get(key)) for key in ("x1", "y1", "x2", "y2", "stroke-width")]
            )
        if shape.tag == f"{SVG}circle" and shape.get("fill") != "#ffffff":
            x, y, radius = (float(shape.get(key)) for key in ("cx", "cy", "r"))
            found.append([x, y, x, y, 2 * radius])
    return np.array(found)


def ground(picture: str) -> float:
    return next(
        float(line.get("y1")) for line in ET.fromstring(picture) if line.tag == f"{SVG}line"
    )


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_picture_has_the_models_geometry(robot: str) -> None:
    """All capsules of all frames, in one scale, as long, as thick and as high as the linkage
    says."""
    shown = standing(robot)
    picture = strip(shown, robot, frames=4)
    drawn, parts = capsules(picture), len(shown.parts)
    assert len(drawn) == 4 * parts
    order = far_to_near(shown)
    scale = drawn[:parts, 4] / (2 * shown.radius[order])
    assert scale.max() / scale.min() == pytest.approx(1, rel=0.02)  # widths are rounded to a tenth
    scale = scale.mean()
    flat = shown.ends[0, order][..., [0, 2]]
    lengths = np.linalg.norm(flat[:, 0] - flat[:, 1], axis=1)
    drawn_lengths = np.hypot(
        drawn[:parts, 0] - drawn[:parts, 2], drawn[:parts, 1] - drawn[:parts, 3]
    )
    np.testing.assert_allclose(drawn_lengths, scale * lengths, atol=1.0)
    heights = (ground(picture) - drawn[:parts, [1, 3]]) / scale
    np.testing.assert_allclose(heights, flat[..., 1], atol=0.02)
    lowest = drawn[:, [1, 3]].max(1) + drawn[:, 4] / 2
    assert lowest.max() == pytest.approx(ground(picture), abs=0.5)  # it stands on the ground
    for column in (0, 2):
        assert ((drawn[:, column] >= 0) & (drawn[:, column] <= WIDTH)).all()


def test_frames_are_equally_spaced_over_the_strides() -> None:
    robot = recording("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP)
    gait = describe(robot)
    for frames, strides in ((8, 2), (5, 1)):
        shown = shots(robot, gait, frames, strides)
        assert set(np.diff(shown.frames)) == {shown.step}
        assert shown.count == frames
        assert shown.count * shown.step * DT == pytest.approx(
            strides / gait.stride_frequency, abs=frames * DT / 2
        )
        before, landing = robot.clearance.min(1)[shown.start - 1 : shown.start + 1]
        assert landing <= 0.005 < before  # a strip begins as a foot lands
        assert shown.frames[-1] < len(robot.ends)


def test_ghosts_show_the_moments_before() -> None:
    robot = recording("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP)
    shown = shots(robot, describe(robot))
    for frame in shown.frames:
        trail = shown.trail(frame)
        assert 1 <= len(trail) <= GHOSTS
        assert all(frame - shown.step < moment < frame for moment in trail)
    ghosts = ET.fromstring(strip(robot, "hop")).findall(f"{SVG}g")
    assert len(ghosts) == sum(len(shown.trail(frame)) for frame in shown.frames)


def test_bars_show_when_a_foot_is_down() -> None:
    robot = recording("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP)
    picture = ET.fromstring(strip(robot, "hop"))
    bars = [shape for shape in picture.findall(f"{SVG}rect") if shape.get("height") == "9"]
    width = {
        paint: sum(float(bar.get("width")) for bar in bars if bar.get("fill") == paint)
        for paint in ("#eeeeee", "#d55e00")
    }
    assert width["#d55e00"] / width["#eeeeee"] == pytest.approx(0.52, abs=0.05)


@pytest.mark.parametrize("moments", [2, 3, 10, 60])
def test_short_recordings_are_drawn_too(moments: int) -> None:
    robot = driven_cheetah(3.0, steps=moments)
    assert len(capsules(strip(robot, "short"))) >= len(robot.parts)


def test_titles_are_text_and_nothing_else() -> None:
    picture = strip(standing("hopper"), "<script>&\x1b[31m")
    assert "<script>" not in picture
    assert "\x1b" not in picture
    assert "<script>&" in next(text.text for text in ET.fromstring(picture).iter(f"{SVG}text"))


def test_the_numbers_below_the_title() -> None:
    hopping = numbers(describe(recording("hopper", {3: -0.3 + 0.2 * SWING}, lift=HOP)))
    for words in ("1.0 m/s", "stride 2.0 Hz, 0.50 m", "foot 52%", "in the air 48%"):
        assert words in hopping
    assert "no regular stride" in numbers(describe(standing("hopper")))
    assert "tilt 180°" in numbers(describe(recording("half-cheetah", {2: math.pi})))


def test_the_example_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo logs what it thinks of the model
    page = Path(__file__).parents[3] / "docs" / "gaits.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    shown: dict[str, Any] = {}
    exec(code, shown)
    assert shown["gait"].stride_frequency == pytest.approx(3.0, rel=0.01)
    saved = capsules((page.parent / "gait.svg").read_text())
    assert (
        capsules(shown["picture"]).shape == saved.shape
    )  # the picture on the page is of this kind
