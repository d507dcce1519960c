"""Drawings: the start is the one that was played, everything is where it should be, any name makes
a picture."""

import dataclasses
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import product
import rspo
from product import here
from rspo.core.types import Shape
from rspo.screen import draw
from rspo.screen.draw import Episode
from rspo.search.archive import Archive, Strategy

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def archive(finished: Path) -> Archive:
    return rspo.load(finished)


def lines(*shapes: Shape) -> list[str]:
    """What is inside the frame."""
    top, *inside, bottom = draw.text(shapes).splitlines()
    assert top == bottom == "+" + "-" * draw.WIDTH + "+"
    assert len(inside) == draw.HEIGHT
    assert all(len(line) == draw.WIDTH + 2 and line[0] == line[-1] == "|" for line in inside)
    return [line[1:-1] for line in inside]


def test_up_is_up_and_right_is_right() -> None:
    edge = draw.EXTENT
    drawn = lines(Shape("agent", edge, edge, 0.01), Shape("goal", -edge, -edge, 0.01))
    assert drawn[0] == " " * (draw.WIDTH - 1) + "@"
    assert drawn[-1] == "o" + " " * (draw.WIDTH - 1)
    assert set(drawn[1:-1]) == {" " * draw.WIDTH}
    assert lines(Shape("agent", 0.0, 0.0, 0.0))[draw.HEIGHT // 2][draw.WIDTH // 2] == "@"


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 0.5))
def test_a_shape_is_a_disc_that_is_never_too_small_to_see(x: float, y: float, size: float) -> None:
    drawn = lines(Shape("something", x, y, size))
    cells = [
        (row, column)
        for row in range(draw.HEIGHT)
        for column in range(draw.WIDTH)
        if drawn[row][column] == "*"
    ]
    assert cells
    width, height = 2 * draw.EXTENT / (draw.WIDTH - 1), 2 * draw.EXTENT / (draw.HEIGHT - 1)
    for row, column in cells:
        distance = np.hypot(column * width - draw.EXTENT - x, draw.EXTENT - row * height - y)
        assert distance <= max(size, np.hypot(width, height)) + 1e-9


def test_a_limb_is_drawn_from_end_to_end() -> None:
    """Every character within its half thickness of the line between its ends, and no other."""
    limb = Shape("limb", -0.6, -0.2, 0.1, end=(0.5, 0.7))
    drawn = lines(limb)
    parts = np.linspace(0, 1, 2001)[:, None]
    along = (1 - parts) * (limb.x, limb.y) + parts * limb.end
    for row in range(draw.HEIGHT):
        for column in range(draw.WIDTH):
            x = (column / (draw.WIDTH - 1) * 2 - 1) * draw.EXTENT
            y = (1 - row / (draw.HEIGHT - 1) * 2) * draw.EXTENT
            distance = np.hypot(*(along - (x, y)).T).min()
            if abs(distance - 0.1) > 1e-3:
                assert (drawn[row][column] == "*") == (distance < 0.1)


@pytest.mark.parametrize(
    "place", [(2.0, 0.0), (0.0, -2.0), (np.nan, 0.0), (0.0, np.nan), (np.inf, 0.0)]
)
def test_what_is_outside_is_not_drawn(place: tuple[float, float]) -> None:
    assert set("".join(lines(Shape("agent", *place, 0.1)))) == {" "}


@pytest.mark.parametrize("name", ["four-goals-easy", "four-goals-medium"])
def test_a_recording_begins_where_the_episode_began(archive: Archive, name: str) -> None:
    """Landmarks do not move, and the agent starts in the middle; the medium game places them by its
    noise."""
    env = rspo.make(name)
    episodes = draw.record(env, archive[0], episodes=3, seed=5, greedy=False)
    assert len(episodes) == 3
    for episode in episodes:
        assert 2 <= len(episode.scenes) <= env.spec.horizon + 1
        goals = [[s for s in scene if s.role == "goal"] for scene in episode.scenes]
        assert all(goal == goals[0] for goal in goals)
        agent = [next((s.x, s.y) for s in scene if s.role == "agent") for scene in episode.scenes]
        assert agent[0] == (0, 0)
        assert len(set(agent)) > 1
        touching = (
            min(np.hypot(s.x - agent[-1][0], s.y - agent[-1][1]) - s.size - 0.02 for s in goals[0])
            < 0
        )
        assert episode.reward == (1.0 if touching else 0.0)
    if name == "four-goals-medium":
        assert episodes[0].scenes[0] != episodes[1].scenes[0]


def test_the_same_seed_gives_every_strategy_the_same_start(archive: Archive) -> None:
    env = rspo.make("four-goals-medium")
    first, second = (draw.record(env, strategy, 2, seed=5, greedy=True) for strategy in archive[:2])
    assert [e.scenes[0] for e in first] == [e.scenes[0] for e in second]
    again = draw.record(env, archive[0], 2, seed=5, greedy=True)
    assert [e.scenes for e in again] == [e.scenes for e in first]


def test_play_draws_all_strategies_as_a_picture(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    outcome = here("play", finished, "--svg", path, "--episodes", "2")
    assert (outcome.code, outcome.err) == (0, "")
    assert str(path) in outcome.out
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    assert len(root.findall(f"{SVG}g")) == 3
    assert len(root.findall(f".//{SVG}polyline")) == 3 * 2
    assert [p.name for p in tmp_path.iterdir()] == ["picture.svg"]
    assert here("play", finished, "1", "--svg", path).code == 0  # an old picture is replaced
    assert len(ElementTree.parse(path).getroot().findall(f"{SVG}g")) == 1


@pytest.mark.parametrize(
    ("place", "code"), [("folder.svg", 2), ("absent/picture.svg", 1), ("file/picture.svg", 1)]
)
def test_a_picture_that_cannot_be_written_is_said(
    finished: Path, tmp_path: Path, place: str, code: int
) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").write_bytes(b"mine")
    before = product.contents(tmp_path)
    outcome = here("play", finished, "0", "--svg", tmp_path / place)
    product.assert_refused(outcome, place, code=code)
    assert product.contents(tmp_path) == before


def panel(tmp_path: Path, strategy: Strategy, *episodes: Episode) -> ElementTree.Element:
    path = tmp_path / "panel.svg"
    draw.save_svg(path, [strategy], [episodes])
    return ElementTree.parse(path).getroot()


STILL = Episode([[Shape("goal", 0.5, 0.5, 0.1), Shape("agent", 0.0, 0.0, 0.02)]], 1.0)


@given(st.text(min_size=1))
@example('</text><script>alert("1")</script>&amp;')
@example("\x00\x1b[31m\x7f\ufffe")
@example("'\"<>&]]>")
def test_any_name_makes_a_well_formed_picture(
    archive: Archive, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    named = dataclasses.replace(archive[0].evaluation, descriptor=name)
    root = panel(
        tmp_path_factory.getbasetemp(), dataclasses.replace(archive[0], evaluation=named), STILL
    )
    assert root.find(f".//{SVG}script") is None
    title = root.findall(f".//{SVG}text")[0].text
    assert title is not None
    assert title.startswith("0: ")
    if name.isprintable() and len(name) < 100:  # of a longer one the middle is left out
        assert title == f"0: {name}"


def test_every_agent_has_a_path_of_its_own(archive: Archive, tmp_path: Path) -> None:
    scenes = [[Shape("agent", -1.0, t, 0.1), Shape("agent", 1.0, t, 0.1)] for t in (-1.0, 0.0, 1.0)]
    lines = panel(tmp_path, archive[0], Episode(scenes, 0.0)).findall(f".//{SVG}polyline")
    assert len(lines) == 2
    for line in lines:
        assert (
            len({point.split(",")[0] for point in line.attrib["points"].split()}) == 1
        )  # straight up


def test_a_world_without_a_drawing_makes_an_empty_picture(archive: Archive, tmp_path: Path) -> None:
    assert len(panel(tmp_path, archive[0], Episode([(), ()], 0.0)).findall(f".//{SVG}text")) == 2
    assert set("".join(lines())) == {" "}


def test_a_hostile_name_does_not_reach_the_terminal(finished: Path, tmp_path: Path) -> None:
    """A run folder may come from anywhere: its names must not move the cursor or change colours."""
    folder = shutil.copytree(finished, tmp_path / "run")
    with product.rewritten(folder / "strategies" / "000" / "strategy.json") as record:
        record["evaluation"]["descriptor"] = "\x1b[2J\x07[red]x[/red]"
    for arguments in (("play", folder, "0"), ("resume", folder)):
        outcome = here(*arguments)
        assert outcome.code == 0, outcome
        assert "\x1b" not in outcome.out
        assert "[red]x[/red]" in outcome.out
