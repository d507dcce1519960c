"""Recorded episodes as a film: drawn by Pillow (the extra `gif`), an MP4 encoded by ffmpeg (the
extra `mp4`)."""

import contextlib
import io
import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rspo.core.roles import STRIPS
from rspo.core.svg import COLOURS
from rspo.core.types import Shape
from rspo.errors import InputError, RspoError
from rspo.runs import store
from rspo.screen.draw import EXTENT, Episode

# Pixels of the picture, and the supersampling factor for smooth edges.
SIDE, FINE = 320, 3
PHOTO, CAPTION = 480, 24  # maximum pixels of a rendered frame, and of the caption above it
BACKGROUND, EDGE, WORDS = "#ffffff", "#d9dee6", "#1b2330"
FILLS = {
    "goal": "#8a93a0",
    "monster": COLOURS[3],
    "apple": COLOURS[2],
    "light": COLOURS[4],
    "line": EDGE,
    "ground": "#eee9dc",
    "plateau": "#d6cbb0",
    "ramp": "#e3dac5",
    "cliff": "#8a7f6a",
    "enemy": COLOURS[3],
    "health": COLOURS[2],
    "shield": COLOURS[5],
    "shot": COLOURS[4],
    "splash": "#f2c14e",
}
FINE_LINES = ("line", "health", "shield", "shot")
SMALL = ("enemy",)
LAST = 1000  # milliseconds that the last frame of an episode is shown
SLOWEST, FASTEST = 60_000, 20  # milliseconds per step that GIF viewers respect
SLOWEST_TICK = 100  # for an MP4: players do not handle lower frame rates well


def save_film(
    path: Path,
    titles: Sequence[str],
    episodes: Sequence[Sequence[Episode]],
    backdrop: Sequence[Shape],
    speed: float,
) -> int:
    """One film of all episodes in sequence, `speed` steps per second, in the format of the file
    name; returns the number of frames."""
    _pillow()
    encode = {".gif": _gif, ".mp4": _mp4}[path.suffix.lower()]
    ends, frames = [], []
    for title, shown in zip(titles, episodes, strict=True):
        for episode in shown:
            draw = _photo if episode.pictures else partial(_frame, backdrop)
            frames += [draw(shown, f"{title}, {moment}") for shown, moment in _told(episode)]
            ends.append(len(frames) - 1)
    step = min(max(round(1000 / speed), FASTEST), SLOWEST)
    durations = [max(step, LAST) if i in set(ends) else step for i in range(len(frames))]
    store.write(path, encode(frames, durations))
    return len(frames)


def _gif(frames: Sequence[Any], durations: Sequence[int]) -> bytes:
    buffer = io.BytesIO()
    frames[0].save(
        buffer, "GIF", save_all=True, append_images=frames[1:], duration=list(durations), loop=0
    )
    return buffer.getvalue()


def _mp4(frames: Sequence[Any], durations: Sequence[int]) -> bytes:
    """H.264, which browsers and slides play. The frame rate is constant, so each picture is
    repeated for its duration."""
    step = min(durations)
    each = math.ceil(step / SLOWEST_TICK)
    size, pace = "{}x{}".format(*frames[0].size), f"{1000 * each}/{step}"
    read = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", pace, "-i", "-"]
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        write = [
            "-c:v",
            "libx264",
            "-crf",
            "18",
            "-pix_fmt",
            "yuv420p",
            "-movflags",
            "+faststart",
            str(film),
        ]
        with subprocess.Popen(
            [_ffmpeg(), "-v", "error", *read, *write], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # its error output says why
                for frame, duration in zip(frames, durations, strict=True):
                    process.stdin.write(
                        frame.convert("RGB").tobytes() * round(each * duration / step)
                    )
            said = process.communicate()[1].decode(errors="replace")
        if process.returncode:
            raise RspoError(
                f"ffmpeg could not write the film: {said.strip() or 'it gave no reason'}."
            )
        return film.read_bytes()


def _ffmpeg() -> str:
    needed = "An MP4 film needs ffmpeg, which is not installed: pip install 'rspo[mp4]'."
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise InputError(needed) from error
    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:  # no ffmpeg in the package for this machine, nor installed
        raise InputError(f"{needed} ({error})") from error


def _pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise InputError(
            "A film needs Pillow, which is not installed: pip install 'rspo[gif]'."
        ) from error


def _told(episode: Episode) -> Iterator[tuple[Any, str]]:
    """Each scene or picture with a caption: its number, and the return at the end."""
    shown: Sequence[Any] = episode.pictures or episode.scenes
    last = len(shown) - 1
    for t, scene in enumerate(shown):
        yield scene, f"step {t}" + (f", return {episode.reward:.2f}" if t == last else "")


def _photo(picture: np.ndarray, title: str) -> Any:
    """A rendered frame below a line of text; MP4 sizes must be even."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    image.thumbnail((PHOTO, PHOTO), Image.Resampling.LANCZOS)
    width, height = (length + length % 2 for length in image.size)
    small = Image.new("RGB", (width, height + CAPTION), BACKGROUND)
    small.paste(image, (0, CAPTION))
    ImageDraw.Draw(small).text((8, 6), title, fill=WORDS)
    return small.quantize(256, dither=Image.Dither.NONE)


def _frame(backdrop: Sequence[Shape], scene: Sequence[Shape], title: str) -> Any:
    from PIL import Image, ImageDraw

    large = Image.new("RGB", (SIDE * FINE, SIDE * FINE), BACKGROUND)
    pen = ImageDraw.Draw(large)
    agents, limbs = 0, list(dict.fromkeys(shape.label for shape in scene if shape.role == "limb"))
    for shape in [*backdrop, *scene]:
        if not math.isfinite(shape.x):
            continue  # nowhere
        rank = limbs.index(shape.label) % len(COLOURS) if shape.role == "limb" else agents % 2
        agents += shape.role == "agent"
        _draw(pen, shape, FILLS.get(shape.role, COLOURS[rank]))
    small = large.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    ImageDraw.Draw(small).text((8, 6), title, fill=WORDS)
    return small.quantize(64, dither=Image.Dither.NONE)


def _draw(pen: Any, shape: Shape, colour: str) -> None:
    scale = SIDE * FINE / 2 / EXTENT
    place = lambda x, y: ((x + EXTENT) * scale, (EXTENT - y) * scale)
    if shape.role in STRIPS and shape.end:
        left, right = (
            place(shape.x, shape.y + shape.size),
            place(shape.end[0], shape.y - shape.size),
        )
        pen.rectangle((*left, *right), fill=colour)
        return
    least = 0.5 if shape.role in FINE_LINES else 1.0 if shape.role in SMALL else 3.0
    radius = max(shape.size * scale, least * FINE)
    ends = [place(shape.x, shape.y)]
    if shape.end is not None:
        ends.append(place(*shape.end))
        pen.line(ends, fill=colour, width=round(2 * radius))
    for x, y in ends:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    if shape.end is None:
        _adorn(pen, shape, *ends[0], radius)


def _adorn(pen: Any, shape: Shape, x: float, y: float, radius: float) -> None:
    """Marks that distinguish discs without colour: eyes, a stem, a label."""
    if shape.role == "monster":
        for eye in (x - 0.4 * radius, x + 0.4 * radius):
            for part, fill in ((0.25, BACKGROUND), (0.12, WORDS)):
                side = part * radius
                pen.ellipse(
                    (eye - side, y - 0.2 * radius - side, eye + side, y - 0.2 * radius + side),
                    fill=fill,
                )
    elif shape.role == "apple":
        pen.line(
            [(x, y - 0.7 * radius), (x + 0.4 * radius, y - 1.6 * radius)],
            fill=WORDS,
            width=2 * FINE,
        )
    elif shape.label:
        inside = shape.role in ("agent", "light") and radius > 5 * FINE
        ink = BACKGROUND if inside and shape.role == "agent" else WORDS
        below = y if inside else y + radius + 9 * FINE
        pen.text((x, below), shape.label, fill=ink, anchor="mm", font_size=11 * FINE)
