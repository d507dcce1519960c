"""The colours of the pages: told apart by every kind of eye, and from what is behind them."""

import itertools
import re

import numpy as np
import pytest

from rspo.report.render import own

# What is left of linear RGB without one kind of cone: Machado, Oliveira and Fernandes (2009),
# severity 1.
EYES = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def scheme(name: str) -> dict[str, str]:
    """The colours of the style sheet by their names."""
    light, dark = re.findall(r":root(?::not\(\.paper\))? \{(.*?)\}", own("style.css"), re.DOTALL)[
        :2
    ]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", light if name == "light" else dark))


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB, in which a distance of about 2 can just be seen."""
    x, y, z = np.cbrt(TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3)))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """WCAG 2's."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize("eye", EYES)
def test_every_eye_tells_the_seven_colours_apart(name: str, eye: str) -> None:
    seen = [lab(EYES[eye] @ linear(scheme(name)[f"c{i}"])) for i in range(7)]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


@pytest.mark.parametrize("name", ["light", "dark"])
def test_lines_stand_out_from_the_panel(name: str) -> None:
    """WCAG's 3 for what is not text."""
    colours = scheme(name)
    assert min(contrast(colours[f"c{i}"], colours["panel"]) for i in range(7)) >= 3


def test_the_measure_knows_what_is_hard_to_tell_apart() -> None:
    red, green = (lab(EYES["deuteranopia"] @ linear(colour)) for colour in ("#c35a3a", "#8a7a2e"))
    assert (
        np.linalg.norm(red - green)
        < 15
        < np.linalg.norm(lab(linear("#c35a3a")) - lab(linear("#8a7a2e")))
    )
