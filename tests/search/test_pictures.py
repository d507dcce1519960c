"""The end of a run with two agents: cross-play and pictures in its folder, whatever happened on the
way."""

import json
import re
import shutil
import signal
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import product
import rspo
from product import Outcome, assert_refused, results, rewritten, rigged
from rspo.core import charts
from rspo.search.archive import Archive
from rspo.search.crossplay import CrossPlay
from rspo.search.pictures import cross_play_picture

# Those of product.ESCALATION, as flags.
TINY = ("--iterations", "2", "--ppo.updates", "4", "--ppo.batch", "400", "--judge.episodes", "16")
DISCOVER = ("discover", "escalation", *TINY)
END = ("crossplay.json", "crossplay.svg", "cooperation.svg")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("pictures") / "run"
    return product.here(*DISCOVER, "--out", folder), folder


@pytest.fixture
def run(whole: tuple[Outcome, Path], tmp_path: Path) -> Path:
    return shutil.copytree(whole[1], tmp_path / "run")


def end_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in END}


# ---- in the folder


def test_the_command_says_where_the_pictures_are(whole: tuple[Outcome, Path]) -> None:
    outcome, folder = whole
    assert outcome.code == 0, outcome
    assert f"Pictures: {folder}/cooperation.svg, {folder}/crossplay.svg\n" in outcome.out
    assert "playing every strategy with every other one" in outcome.err


def test_the_numbers_are_in_the_folder(whole: tuple[Outcome, Path]) -> None:
    record = json.loads((whole[1] / "crossplay.json").read_text())
    archive = rspo.load(whole[1])
    assert record["strategies"] == [f"{s.index} {s.descriptor}" for s in archive]
    assert record["episodes"] == 16
    assert np.shape(record["payoff"]) == np.shape(record["mean"]) == (2, 2)
    assert np.shape(record["roles"]) == (2, 2, 2)
    np.testing.assert_allclose(record["payoff"], rspo.crossplay(archive).payoff)


@pytest.mark.slow
def test_one_agent_has_neither(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {"iterations": 1, "ppo": {"updates": 1, "batch": 64}, "judge": {"episodes": 4}}
    rspo.discover("four-goals-easy", out=folder, quiet=True, **settings)
    assert not (folder / "crossplay.json").exists()
    assert not list(folder.glob("*.svg"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment"), [("crossplay.json", 2), ("crossplay.svg", 1)]
)  # before renaming, writing
def test_a_run_killed_at_its_end_gets_it_all_by_resuming(
    whole: tuple[Outcome, Path], tmp_path: Path, name: str, moment: int
) -> None:
    folder = tmp_path / "run"
    outcome = rigged("KILL", moment, folder / f".{name}", *DISCOVER, "--out", folder)
    assert outcome.code == -signal.SIGKILL, outcome
    assert not (folder / name).exists()
    assert product.here("resume", folder).code == 0
    assert end_of(folder) == end_of(whole[1])
    assert results(folder) == results(whole[1])
    assert not list(folder.rglob("*.tmp"))


@pytest.mark.slow
def test_an_interruption_at_the_end_is_one_like_any_other(
    whole: tuple[Outcome, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    outcome = rigged("INT", 1, folder / ".crossplay.json", *DISCOVER, "--out", folder)
    assert outcome.code == 130, outcome
    assert f"rspo resume {folder}" in outcome.out
    assert "Traceback" not in outcome.err
    assert product.here("resume", folder).code == 0
    assert end_of(folder) == end_of(whole[1])


def test_what_was_deleted_is_made_anew(whole: tuple[Outcome, Path], run: Path) -> None:
    for name in END:
        (run / name).unlink()
    assert product.here("resume", run).code == 0
    assert end_of(run) == end_of(whole[1])


def test_what_is_there_is_not_played_again(run: Path) -> None:
    outcome = product.here("resume", run)
    assert outcome.code == 0
    assert "playing every" not in outcome.err


def test_a_changed_file_is_refused(run: Path) -> None:
    path = run / "crossplay.json"
    path.write_text(path.read_text().replace('"episodes": 16', '"episodes": 17'))
    assert_refused(product.here("resume", run), "crossplay.json", "changed after it was written")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", "another"),
        ("strategies", ["0 one"]),
        ("strategies", [0, 1]),
        ("episodes", "16"),
        ("roles", [[1.0, 2.0], [3.0, 4.0]]),
        ("roles", [[[1.0, 2.0]]]),
        ("roles", [[[1.0, 2.0], [1.0, "2"]], [[1.0, 2.0], [1.0, 2.0]]]),
        ("roles", [[[1.0, 2.0], [1.0]], [[1.0, 2.0], [1.0, 2.0]]]),
    ],
)
def test_a_forged_file_is_refused(run: Path, name: str, value: object) -> None:
    with rewritten(run / "crossplay.json") as record:
        record[name] = value
    assert_refused(product.here("resume", run), "crossplay.json")


# ---- the pictures


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_the_matrix_shows_every_number_and_every_name_twice() -> None:
    roles = np.arange(18.0).reshape(3, 3, 2) - 4
    played = CrossPlay(("0 Apple", "1 Corner", "2 Chase"), 4, roles)
    shown = texts(cross_play_picture(played))
    for name in played.strategies:
        assert shown.count(name) == 2
    assert shown[-9:] == [charts.short(value) for value in played.payoff.ravel()]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-1e-7, "0"), (12.345, "12.3"), (-0.5, "-0.5"), (104.6, "105"), (0.049, "0.049")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert charts.short(value) == text


def test_one_strategy_or_equal_payoffs_make_a_picture() -> None:
    for roles in (np.zeros((1, 1, 2)), np.full((2, 2, 2), 3.0)):
        names = tuple(f"{i} same" for i in range(len(roles)))
        ElementTree.fromstring(cross_play_picture(CrossPlay(names, 1, roles)))


def test_hostile_names_make_well_formed_pictures(whole: tuple[Outcome, Path]) -> None:
    name = '0 </text><script>alert("\x1b[31m")</script>&'
    picture = cross_play_picture(CrossPlay((name, "1"), 1, np.zeros((2, 2, 2))))
    assert "<script>" not in picture
    assert any("<script>" in text for text in texts(picture))  # as text
    assert "\x1b" not in picture


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2."""
    parts = np.array([int(code, 16) / 255 for code in re.findall("[0-9a-f]{2}", colour)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_more_is_lighter_whatever_colours_one_can_see() -> None:
    levels = [luminance(charts.shade(share)) for share in np.linspace(0, 1, 41)]
    assert (np.diff(levels) > 0).all()
    assert charts.shade(-1) == charts.shade(0)
    assert charts.shade(2) == charts.shade(1)


def test_numbers_stand_out_from_their_cells() -> None:
    """The contrast that WCAG asks of text."""
    for share in np.linspace(0, 1, 101):
        text = {"over-dark": 1.0, "over-light": 0.0}[charts.ink(share)]
        light, dark = sorted((text, luminance(charts.shade(share))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_a_grid_is_drawn_with_y_upwards() -> None:
    grid = np.zeros((5, 5))
    grid[0, 0], grid[4, 3] = 0.25, 0.75  # [y, x]
    root = ElementTree.fromstring(charts.grids("where", {"0 name": (grid, "below")}))
    cells = {
        (e.get("x"), e.get("y")): e.get("fill")
        for e in root.iter(f"{SVG}rect")
        if e.get("class") is None
    }
    assert len(cells) == 25
    assert cells["90", "0"] == charts.shade(
        1
    )  # the top row, fourth column: the panel's own maximum
    assert cells["0", "120"] == charts.shade(1 / 3)
    assert {"0 name", "below", "25", "75"} <= set(
        texts(charts.grids("where", {"0 name": (grid, "below")}))
    )


def test_bars_are_as_high_as_their_shares() -> None:
    shares = np.array([0.0, 0.25, 0.75])
    root = ElementTree.fromstring(charts.bars("how long", {"0 name": shares}, axis="L"))
    found = [
        (float(e.get("x")), float(e.get("height")))
        for e in root.iter(f"{SVG}rect")
        if e.get("class") == "bar"
    ]
    assert found == [(4, 20), (8, 60)]
    assert "L = 2 in 75%" in texts(charts.bars("how long", {"0 name": shares}, axis="L"))


def test_every_strategy_has_its_panel(whole: tuple[Outcome, Path]) -> None:
    archive: Archive = rspo.load(whole[1])
    shown = texts((whole[1] / "cooperation.svg").read_text())
    for strategy in archive:
        assert shown.count(f"{strategy.index} {strategy.descriptor}") == 1
