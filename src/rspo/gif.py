"""Recorded episodes as an animated GIF, drawn by Pillow (the extra `gif`)."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rspo import store
from rspo.draw import COLOURS, EXTENT, Episode
from rspo.errors import InputError
from rspo.types import Shape

SIDE, FINE = 320, 3  # pixels of the picture; it is drawn this many times as large and made smaller, for smooth edges
BACKGROUND, EDGE, WORDS = "#ffffff", "#d9dee6", "#1b2330"
FILLS = {"goal": "#8a93a0", "monster": COLOURS[3], "apple": COLOURS[2], "light": COLOURS[4], "line": EDGE}
LAST = 1000  # milliseconds that the end of an episode stays
SLOWEST, FASTEST = 60_000, 20  # milliseconds a step that viewers of GIFs keep to


def save_gif(
    path: Path, titles: Sequence[str], episodes: Sequence[Sequence[Episode]], backdrop: Sequence[Shape], speed: float
) -> int:
    """One film of all episodes after another, `speed` steps a second; gives the number of moments."""
    _pillow()
    frames, durations = [], []
    step = min(max(round(1000 / speed), FASTEST), SLOWEST)
    for title, shown in zip(titles, episodes, strict=True):
        for episode in shown:
            pictures = [_frame(backdrop, scene, f"{title}, {moment}") for scene, moment in _told(episode)]
            frames += pictures
            durations += [step] * (len(pictures) - 1) + [max(step, LAST)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    store.write(path, buffer.getvalue())
    return len(frames)


def _pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise InputError("A GIF needs Pillow, which is not installed: pip install 'rspo[gif]'.") from error


def _told(episode: Episode) -> Iterator[tuple[Sequence[Shape], str]]:
    """Each scene with its number, and with the return at the end."""
    last = len(episode.scenes) - 1
    for t, scene in enumerate(episode.scenes):
        yield scene, f"step {t}" + (f", return {episode.reward:.2f}" if t == last else "")


def _frame(backdrop: Sequence[Shape], scene: Sequence[Shape], title: str) -> Any:
    from PIL import Image, ImageDraw

    large = Image.new("RGB", (SIDE * FINE, SIDE * FINE), BACKGROUND)
    pen = ImageDraw.Draw(large)
    agents, limbs = 0, list(dict.fromkeys(shape.label for shape in scene if shape.role == "limb"))
    for shape in [*backdrop, *scene]:
        rank = limbs.index(shape.label) % len(COLOURS) if shape.role == "limb" else agents % 2
        agents += shape.role == "agent"
        _draw(pen, shape, FILLS.get(shape.role, COLOURS[rank]))
    small = large.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    ImageDraw.Draw(small).text((8, 6), title, fill=WORDS)
    return small.quantize(64, dither=Image.Dither.NONE)


def _draw(pen: Any, shape: Shape, colour: str) -> None:
    scale = SIDE * FINE / 2 / EXTENT
    place = lambda x, y: ((x + EXTENT) * scale, (EXTENT - y) * scale)  # noqa: E731
    radius = max(shape.size * scale, (0.5 if shape.role == "line" else 3.0) * FINE)
    ends = [place(shape.x, shape.y)]
    if shape.end is not None:
        ends.append(place(*shape.end))
        pen.line(ends, fill=colour, width=round(2 * radius))
    for x, y in ends:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    if shape.end is None:
        _adorn(pen, shape, *ends[0], radius)


def _adorn(pen: Any, shape: Shape, x: float, y: float, radius: float) -> None:
    """What tells one disc from another for those who see no colours: eyes, a stem, a label."""
    if shape.role == "monster":
        for eye in (x - 0.4 * radius, x + 0.4 * radius):
            for part, fill in ((0.25, BACKGROUND), (0.12, WORDS)):
                side = part * radius
                pen.ellipse((eye - side, y - 0.2 * radius - side, eye + side, y - 0.2 * radius + side), fill=fill)
    elif shape.role == "apple":
        pen.line([(x, y - 0.7 * radius), (x + 0.4 * radius, y - 1.6 * radius)], fill=WORDS, width=2 * FINE)
    elif shape.label:
        inside = shape.role in ("agent", "light") and radius > 5 * FINE
        ink = BACKGROUND if inside and shape.role == "agent" else WORDS
        below = y if inside else y + radius + 9 * FINE
        pen.text((x, below), shape.label, fill=ink, anchor="mm", font_size=11 * FINE)
