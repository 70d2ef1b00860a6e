"""Axes with round ticks, labels that stay apart, and SVG files that a browser can read."""

import re
from xml.etree import ElementTree

import pytest

from lite_nlp.budget.reporting.axes import Axis
from lite_nlp.budget.reporting.plots import MarkedPoint, Panel, Series, draw_marks, draw_series, render_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("values", "zero", "texts"),
    [
        ([2.2, 8.9], False, ["2", "4", "6", "8", "10"]),
        ([0.0, 37.4], True, ["0", "10", "20", "30", "40"]),
        ([45.2, 45.42], False, ["45.20", "45.25", "45.30", "45.35", "45.40", "45.45"]),
        ([800.0, 5100.0], True, ["0", "2K", "4K", "6K"]),
    ],
)
def test_an_axis_has_round_ticks_that_hold_all_values(values: list[float], zero: bool, texts: list[str]) -> None:
    axis = Axis.over(values, start=200.0, end=0.0, zero=zero)
    assert [tick.text for tick in axis.ticks()] == texts
    assert all(0.0 <= axis.position(value) <= 200.0 for value in values)
    assert (axis.ticks()[0].position, axis.ticks()[-1].position) == pytest.approx((200.0, 0.0))


def test_values_that_are_all_alike_get_an_axis_too() -> None:
    for value in (0.0, 5.0, -3.0):
        axis = Axis.over([value], start=0.0, end=100.0, zero=False)
        assert axis.low < value < axis.high


def draw_loss(title: str = "loss") -> Panel:
    series = [
        Series(name="training", slot=1, points=[(1.0, 8.0), (50.0, 4.0), (100.0, 3.0)]),
        Series(name="validation", slot=7, points=[(100.0, 3.5)], dots=True),
    ]
    return draw_series("loss", series, title=title, summary="down", x_title="step", x_end=100.0, zero=False, digits=2)


def test_lines_reach_from_the_first_figure_to_the_last() -> None:
    panel = draw_loss()
    left, top, right, bottom = panel.plot
    corners = [tuple(map(float, corner.split(","))) for corner in panel.lines[0].path.split()]
    # 8 to 3 nats on an axis from 3 to 8: from the top to the bottom.
    assert corners[0] == pytest.approx((left + 0.01 * (right - left), top), abs=0.1)
    assert corners[-1] == pytest.approx((right, bottom), abs=0.1)
    assert [dot.text for dot in panel.lines[1].dots] == ["validation at step 100: 3.50"]


def test_labels_of_near_points_cover_neither_each_other_nor_a_point() -> None:
    points = [
        MarkedPoint(x=x, y=y, name=name, detail=f"{x} MB, BLEU {y}")
        for name, x, y in (
            ("original", 18.6, 46.78),
            ("pruned", 13.16, 45.23),
            ("finetuned", 13.16, 45.37),
            ("kmeans", 4.76, 45.42),
            ("entropy-coded", 3.67, 45.42),
        )
    ]
    panel = draw_marks("p", points, title="t", summary="s", x_title="megabytes", least_span=4.7)
    boxes = []
    for mark in panel.marks:
        width = 6.5 * max(len(mark.name), len(mark.detail))
        left = {"start": mark.label_x, "middle": mark.label_x - width / 2, "end": mark.label_x - width}[mark.anchor]
        boxes.append((left, mark.label_y - 11, left + width, mark.label_y + 17))
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= panel.width
        for other in boxes[:index]:
            assert right < other[0] or left > other[2] or bottom < other[1] or top > other[3]
        assert not any(left < mark.x < right and top < mark.y < bottom for mark in panel.marks)
    assert len(panel.trail.split()) == 5


def test_a_picture_is_well_formed_loads_nothing_and_is_the_same_each_time() -> None:
    hostile = '</text><script>"&'
    picture = render_svg([draw_loss(hostile)], title=hostile)
    assert picture == render_svg([draw_loss(hostile)], title=hostile)
    root = ElementTree.fromstring(picture)  # noqa: S314 - our own
    assert root.tag == f"{SVG}svg"
    assert [title.text for title in root.findall(f"{SVG}title")] == [hostile]
    assert root.find(f".//{SVG}script") is None
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]
    assert len(root.findall(f".//{SVG}polyline")) == 2
