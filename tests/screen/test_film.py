"""Films of strategies: one picture a moment, in the order they were played."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from product import assert_refused, here
from rspo.core.types import Shape
from rspo.screen.draw import EXTENT, Episode
from rspo.screen.film import SIDE, save_film


def filmed(
    path: Path, *scenes: Sequence[Shape], backdrop: Sequence[Shape] = (), speed: float = 10.0
) -> Image.Image:
    assert save_film(path, ["title"], [[Episode(scenes, 1.0)]], backdrop, speed) == len(scenes)
    return Image.open(path)


def middle(picture: Image.Image, colour: tuple[int, int, int]) -> tuple[float, float]:
    """Where the pixels of about this colour lie, in the coordinates of the scene."""
    pixels = np.asarray(picture.convert("RGB"), int)
    rows, columns = np.nonzero(np.abs(pixels - colour).sum(-1) < 30)
    # The median: smooth edges of other things may have that colour too.
    return np.median(columns) / SIDE * 2 * EXTENT - EXTENT, EXTENT - np.median(
        rows
    ) / SIDE * 2 * EXTENT


def test_the_agent_is_where_it_was(tmp_path: Path) -> None:
    places = [(-0.5, 0.25), (0.0, 0.0), (0.75, -0.5)]
    film = filmed(tmp_path / "film.gif", *([Shape("agent", x, y, 0.1)] for x, y in places))
    assert film.n_frames == 3  # type: ignore[attr-defined]
    for t, place in enumerate(places):
        film.seek(t)
        assert film.size == (SIDE, SIDE)
        assert film.info["duration"] == (100 if t < 2 else 1000)
        np.testing.assert_allclose(middle(film, (0, 114, 178)), place, atol=0.02)
    film.close()


def test_limbs_and_what_is_behind_everything(tmp_path: Path) -> None:
    limb, ground = (
        Shape("limb", -0.4, 0.0, 0.05, end=(0.4, 0.4)),
        Shape("line", -1, -0.5, 0.02, end=(1, -0.5)),
    )
    with filmed(tmp_path / "film.gif", [limb], backdrop=[ground]) as film:
        np.testing.assert_allclose(middle(film, (0, 114, 178)), (0.0, 0.2), atol=0.03)
        np.testing.assert_allclose(middle(film, (217, 222, 230)), (0.0, -0.5), atol=0.03)


def test_discs_differ_in_more_than_their_colour(tmp_path: Path) -> None:
    """A monster has eyes, an apple a stem, an agent its number: what one would see in black and
    white."""
    seen = set()
    for role, label in (
        ("monster", ""),
        ("apple", ""),
        ("agent", "1"),
        ("agent", "2"),
        ("light", "L=3"),
        ("other", ""),
    ):
        with filmed(tmp_path / "film.gif", [Shape(role, 0.0, 0.0, 0.2, label)]) as film:
            pixels = np.asarray(film.convert("RGB"), int)[40:]  # below the title
        own = pixels[pixels.shape[0] // 2 + 8, SIDE // 2 - 25]
        seen.add((np.abs(pixels - own).sum(-1) < 60).tobytes())
    assert len(seen) == 6


def test_the_command_films_a_strategy(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    outcome = here("play", finished, "1", "--gif", path, "--episodes", "2", "--speed", "5")
    assert (outcome.code, outcome.err) == (0, "")
    with Image.open(path) as film:
        moments = int(outcome.out.split()[1])
        assert 2 < film.n_frames <= moments  # type: ignore[attr-defined]  (what stands still is one picture)
        assert film.info["duration"] == 200
    assert path.stat().st_size < 500_000


def test_what_cannot_be_filmed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "film.gif"
    assert_refused(
        here("play", finished, "--gif", path, "--svg", tmp_path / "picture.svg"),
        "only one of --svg, --gif and --mp4",
    )
    assert_refused(
        here("play", finished, "--gif", tmp_path / "absent" / "film.gif"), "film.gif", code=1
    )
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert_refused(here("play", finished, "--gif", path), "rspo[gif]")
    assert list(tmp_path.iterdir()) == []


def frames_of(path: Path) -> tuple[str, np.ndarray]:
    """What ffmpeg says of an MP4, and its pictures."""
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-i",
        path,
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stderr.decode(), np.frombuffer(done.stdout, np.uint8).reshape(-1, SIDE, SIDE, 3)


@pytest.mark.parametrize(
    ("speed", "pace", "each"), [(10.0, 10, 1), (4.0, 12, 3), (1000.0, 50, 1), (0.5, 10, 20)]
)
def test_an_mp4_is_one(tmp_path: Path, speed: float, pace: float, each: int) -> None:
    """Each moment stays as long as the speed says, the last for a second or more."""
    places = [(-0.5, 0.25), (0.0, 0.0), (0.75, -0.5)]
    scenes = [[Shape("agent", x, y, 0.1)] for x, y in places]
    path = tmp_path / "film.mp4"
    assert save_film(path, ["title"], [[Episode(scenes, 1.0)]], (), speed) == 3
    facts, frames = frames_of(path)
    assert "Video: h264" in facts
    assert f" {pace} fps" in facts
    assert len(frames) == 2 * each + max(each, pace)
    for moment, place in zip((0, each, len(frames) - 1), places, strict=True):
        picture = Image.fromarray(frames[moment])
        np.testing.assert_allclose(middle(picture, (0, 114, 178)), place, atol=0.03)


def test_the_command_writes_an_mp4(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "film.MP4"
    outcome = here("play", finished, "1", "--mp4", path)
    assert (outcome.code, outcome.err) == (0, "")
    assert b"ftyp" in path.read_bytes()[:16]
    assert len(frames_of(path)[1]) >= int(outcome.out.split()[1])


def test_an_mp4_without_ffmpeg(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    path = tmp_path / "film.mp4"
    assert_refused(
        here("play", finished, "0", "--mp4", path), "ffmpeg could not write the film", code=1
    )
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert_refused(here("play", finished, "0", "--mp4", path), "pip install 'rspo[mp4]'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verb", "flag", "name", "words"),
    [
        (
            "play",
            "--gif",
            "x.mp4",
            "--gif is 'x.mp4', but its name must end with .gif. Did you mean --mp4?",
        ),
        (
            "play",
            "--mp4",
            "x.gif",
            "--mp4 is 'x.gif', but its name must end with .mp4. Did you mean --gif?",
        ),
        ("play", "--svg", "x.png", "--svg is 'x.png', but its name must end with .svg."),
        ("play", "--gif", "film", "--gif is 'film', but its name must end with .gif."),
        (
            "report",
            "--out",
            "page.pdf",
            "--out is 'page.pdf', but its name must end with .html or .htm.",
        ),
        ("report", "--out", "/dev/stdout", "must end with .html or .htm."),
    ],
)
def test_a_name_that_says_another_kind_of_file(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    flag: str,
    name: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(here(verb, finished, flag, name), words)
    assert list(tmp_path.iterdir()) == []
