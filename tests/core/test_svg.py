"""The one place that writes SVG."""

from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rspo.core import svg


@given(st.text(), st.text())
@example("</text><script>", '"><script>')
@example("\x00\x1b\ufffe", "\x00\n\t")
def test_whatever_is_written_is_well_formed_and_only_text(words: str, value: str) -> None:
    root = ElementTree.fromstring(svg.document(10, 10, svg.text(words, 1, 2, id=value)))
    (only,) = root
    assert only.tag == "{http://www.w3.org/2000/svg}text"
    if words.isprintable() and words:
        assert only.text == words
    if value.isprintable():
        assert only.get("id") == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.1 + 0.2, "0.3"),
        (-1e-9, "0"),
        (1234.5678, "1234.568"),
        (20000000.0, "20000000"),
    ],
)
def test_lengths_are_short(value: float, text: str) -> None:
    assert svg.length(value) == text


def test_attributes_are_spelled_as_svg_does_and_none_is_left_out() -> None:
    assert svg.element("rect", class_="a", stroke_width=2, fill=None) == (
        '<rect class="a" stroke-width="2"/>'
    )
    assert svg.group(1, 2.5, svg.title("<")) == (
        '<g transform="translate(1 2.5)"><title>&lt;</title></g>'
    )


def test_points_that_are_no_numbers_are_left_out() -> None:
    nan, inf = float("nan"), float("inf")
    assert svg.points([(0, 1), (nan, 1), (2, inf), (3.5, -2)]) == "0,1 3.5,-2"
