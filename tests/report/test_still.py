"""Still pictures: what of an episode they show, and where."""

import dataclasses
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from pages import Linkage, Undrawn, make_run
from rspo.core.types import Shape
from rspo.report.reading import Found, read_run
from rspo.report.still import still
from rspo.search.recording import UNIT, pack_scenes


def found(index: int, *scenes: list[Shape], backdrop: Any = ()) -> Found:
    arrays, kinds = pack_scenes(scenes)
    episode = {"mode": "greedy", "return": 1.0, "steps": len(scenes), "stride": 1, "kinds": kinds}
    record = {"unit": UNIT, "episodes": [episode], "backdrop": backdrop, "maps": []}
    own = {f"0.{name}": array for name, array in arrays.items()}
    return Found(index, "novel", "", 1, index, 0.0, {}, [], record, own)


def drawn(strategy: Found, extent: float = 1.0) -> ElementTree.Element:
    made = still(strategy, extent)
    assert made is not None
    return ElementTree.fromstring(made.drawing)


def of(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [e for e in root.iter() if e.get("class") == kind]


def test_the_way_of_an_agent_lies_where_it_went() -> None:
    walk = [
        [Shape("goal", 0.5, 0.5, 0.1, "up"), Shape("agent", 0.25 * t, 0.0, 0.1)] for t in (0, 1, 2)
    ]
    root = drawn(found(8, *walk))
    assert root.get("class") == "c1"
    assert [e.get("points") for e in of(root, "way")] == ["140,140 175,140 210,140"]
    (end,) = of(root, "own")
    assert (end.get("cx"), end.get("cy"), end.get("r")) == ("210", "140", "14")
    (start,) = of(root, "start")
    assert start.get("cx") == "140"
    (goal,) = of(root, "landmark")
    assert (goal.get("cx"), goal.get("cy")) == ("210", "70")
    assert [e.text for e in root.iter("text")] == ["up"]


def test_a_jump_is_no_way_and_a_rest_adds_nothing() -> None:
    places = [(-1.0, 0.0), (-0.9, 0.0), (-0.9, 0.0), (0.9, 0.0), (1.0, 0.0)]
    root = drawn(found(0, *([Shape("agent", x, y, 0.1)] for x, y in places)))
    assert [e.get("points") for e in of(root, "way")] == ["0,140 14,140", "266,140 280,140"]


def test_every_agent_has_its_way_and_the_first_is_told_apart() -> None:
    walk = [[Shape("agent", 0.1 * t, y, 0.1) for y in (0.0, 0.5)] for t in range(3)]
    root = drawn(found(0, *walk))
    assert [e.get("stroke-dasharray") for e in of(root, "way")] == [None, "5 4"]
    assert len(of(root, "own")) == len(of(root, "other")) == 1


def test_without_agents_all_that_moves_has_a_way() -> None:
    walk = [[Shape("car", 0.1 * t, 0.0, 0.1), Shape("tree", 0.5, 0.5, 0.1)] for t in range(3)]
    root = drawn(found(0, *walk))
    assert len(of(root, "way")) == len(of(root, "landmark")) == 1


@pytest.mark.slow
def test_limbs_are_shown_in_key_frames(tmp_path: Path) -> None:
    strategy = read_run(make_run(tmp_path / "run", Linkage(), 1)).strategies[0]
    limbs = of(drawn(strategy), "limb")
    assert len(limbs) == 6 * 3
    frames = list(drawn(strategy).iter("svg"))
    width, height = float(frames[0].get("width", "")), float(frames[0].get("height", ""))
    assert {frame.get("x") for frame in frames} in ({"0", "140"}, {"0", "93.333", "186.667"})
    # All of them are within their frame, one of their sides fills it, and lengths are kept.
    ends = np.array([[float(e.get(n, "")) for n in ("x1", "y1", "x2", "y2")] for e in limbs])
    assert ends.min() >= 0
    assert ends[:, ::2].max() <= width
    assert ends[:, 1::2].max() <= height
    fills = np.ptp(ends[:, ::2]) / width, np.ptp(ends[:, 1::2]) / height
    assert 0.7 < max(fills) < 1
    lengths = np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])
    recorded = (strategy.arrays["0.end"] - strategy.arrays["0.place"])[0] / UNIT
    np.testing.assert_allclose(
        lengths[:3] / lengths[0], np.hypot(*recorded.T) / np.hypot(*recorded[0]), rtol=0.02
    )


def test_where_nothing_is_drawn_lanes_show_what_was_observed_and_done(tmp_path: Path) -> None:
    strategy = read_run(make_run(tmp_path / "run", Undrawn(), 1)).strategies[0]
    root = drawn(strategy)
    assert [e.text for e in root.iter("text")] == ["o0", "o1", "o2", "a0"]
    assert len(of(root, "way")) == 4 * 2  # two agents
    names = {"obs": ("speed", "a name that is longer than its room"), "actions": (), "choices": ()}
    named = dataclasses.replace(strategy, episodes={**strategy.episodes, "names": names})
    first, second, *rest = (e.text for e in drawn(named).iter("text"))
    assert first == "speed"
    assert second.startswith("a name")
    assert len(second) <= 18
    assert rest == ["o2", "a0"]
    assert "nan" not in ElementTree.tostring(root).decode()


@pytest.mark.parametrize(
    "episodes", [None, {"episodes": (), "unit": 1, "backdrop": (), "maps": ()}]
)
def test_without_episodes_there_is_no_picture(episodes: Any) -> None:
    assert still(Found(0, "novel", "", 1, 0, 0.0, {}, [], episodes, {}), 1.0) is None
