"""PNGs have their letters, or are not made."""

from collections.abc import Iterator
from typing import Any

import pytest

from rspo.bench import pixels

TEXT = pixels.LETTERS.format("<text x='2' y='15' font-family='sans-serif'>abc</text>")


class OneFont:
    """resvg on a machine with one font: other letters are left out without a word."""

    def __init__(self, name: str) -> None:
        self.name = name

    def svg_to_bytes(self, svg_string: str, zoom: int, **families: Any) -> bytes:
        there = self.name in families.values()
        return f"{zoom} {'abc' if there and 'abc' in svg_string else ''}".encode()


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    pixels.family.cache_clear()
    yield
    pixels.family.cache_clear()


@pytest.mark.parametrize("name", ["Arial", "DejaVu Sans"])
def test_the_font_that_a_machine_has_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_resvg", lambda: OneFont(name))
    assert pixels.family() == name
    assert pixels.png(TEXT) == b"2 abc"
    assert pixels.why_not() is None


def test_without_a_font_there_is_no_png_and_a_sentence_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_resvg", lambda: OneFont("Wingdings"))
    assert pixels.png(TEXT) is None
    assert pixels.why_not() == pixels.NO_FONT
    monkeypatch.setattr(pixels, "_resvg", lambda: None)
    assert pixels.png(TEXT) is None
    assert pixels.why_not() == pixels.NO_RESVG


def test_letters_are_drawn_here() -> None:
    pytest.importorskip("resvg_py")
    if pixels.family() is None:
        pytest.skip("this machine has no font")
    assert pixels.png(TEXT) != pixels.png(pixels.LETTERS.format(""))
