"""Line charts and their axes."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rspo.core import charts
from rspo.core.axes import bounds, nice_ticks, tick
from rspo.core.lines import Line, Mark, chart


def path(drawing: str) -> str:
    line = ElementTree.fromstring(f"<g>{drawing}</g>").find("polyline")
    assert line is not None
    return line.attrib["points"]


@example(-488979299502.0, 6.103515625e-05)
@example(-45035996274.0, 6.103515625e-05)
@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_ticks_are_few_and_enclose_what_is_drawn(low: float, span: float) -> None:
    high = low + span
    low, high = bounds([np.array([low, high])])
    ticks = nice_ticks(low, high)
    assert 2 <= len(ticks) <= 4
    slack = 1e-6 * (high - low) + 1e-9
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert (np.diff(ticks) > 0).all()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.25, "0.25"),
        (-2000.0, "\N{MINUS SIGN}2000"),
        (250000.0, "2.5e5"),
        (-4e6, "\N{MINUS SIGN}4e6"),
    ],
)
def test_what_stands_beside_an_axis_is_short(value: float, text: str) -> None:
    assert tick(value) == text


def test_a_long_line_is_thinned_to_means() -> None:
    y = np.arange(1200.0)
    drawn = chart("test", [Line("line", 0, np.arange(1, 1201), y)])
    points = [tuple(map(float, point.split(","))) for point in path(drawn.drawing).split()]
    assert len(points) == 120
    heights = np.array([point[1] for point in points])
    means = y.reshape(120, 10).mean(1)
    scale = (heights[-1] - heights[0]) / (means[-1] - means[0])
    np.testing.assert_allclose(heights, heights[0] + scale * (means - means[0]), atol=0.11)


@pytest.mark.parametrize(
    "values", [[], [np.nan], [np.inf, 1.0], [3.0], [0.0, 0.0], [-2.0], [-1.0, 1e300]]
)
def test_any_values_make_a_chart(values: list[float]) -> None:
    drawn = chart("test", [Line("line", 0, np.arange(len(values)), np.array(values))])
    assert ("polyline" in drawn.drawing) == (len(values) > 1)
    assert drawn.drawing.count("circle ") == (len(values) == 1 and np.isfinite(values[0]))
    assert "nan" not in drawn.drawing
    assert "inf" not in drawn.drawing


def test_one_value_is_a_dot_and_its_place_is_written_once() -> None:
    drawn = chart("test", [Line("line", 2, np.array([77.0]), np.array([3.0]))])
    root = ElementTree.fromstring(f"<g>{drawn.drawing}</g>")
    (dot,) = root.iter("circle")
    assert dot.attrib["class"] == "c2"
    assert [e.text for e in root.iter("text")].count("77") == 1


def test_lines_marks_and_bands_lie_where_their_values_are() -> None:
    x, y = np.array([0.0, 10.0]), np.array([0.0, 1.0])
    lines = [Line("one", 0, x, y, y - 1, y + 1), Line("eighth", 7, x, y)]
    drawn = chart("test", lines, [Mark("half", 5.0)], (-1.0, 2.0), width=138, height=118)
    root = ElementTree.fromstring(f"<g>{drawn.drawing}</g>")
    assert [e.attrib["points"] for e in root.iter("polyline")] == ["38,68 130,38"] * 2
    assert [e.get("stroke-dasharray") for e in root.iter("polyline")] == [None, "6 2"]
    assert [e.attrib["class"] for e in root.iter("polyline")] == ["line c0", "line c0"]
    assert [e.attrib["points"] for e in root.iter("polygon")] == ["38,38 130,8 130,68 38,98"]
    assert [e.attrib["x1"] for e in root.iter("line") if e.attrib["class"] == "mark"] == ["84"]


def test_a_picture_of_lines_has_one_entry_of_its_key_for_each_label() -> None:
    x = np.arange(3.0)
    drawn = [Line(name, i, x, x) for i, name in enumerate(["a", "a <b>"])]
    picture = charts.lines("how it went", [*drawn, drawn[0]])
    texts = [
        e.text for e in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts.count("a") == texts.count("a <b>") == 1
    assert "how it went" in texts
