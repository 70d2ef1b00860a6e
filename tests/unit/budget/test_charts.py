import itertools

import pytest

from lite_nlp.budget.reporting.charts import LogAxis, draw_curves, short_count, stack

BOX = (50.0, 10.0, 350.0, 310.0)


def test_a_bar_is_as_wide_as_its_sum_and_each_segment_as_its_share() -> None:
    segments = stack({"a": 100, "b": 0, "c": 300}, most=800, width=400.0)
    assert [(segment.name, segment.slot, segment.value, segment.share) for segment in segments] == [
        ("a", 0, 100, 0.25),
        ("c", 2, 300, 0.75),
    ]
    # 800 is 400 wide, so 100 is 50 and 300 is 150; two units of each are the gap to the next one.
    assert [(segment.x, segment.width) for segment in segments] == [(0.0, 48.0), (50.0, 148.0)]


def test_a_sliver_is_drawn_without_a_gap() -> None:
    (_, sliver) = stack({"a": 399, "b": 1}, most=400, width=400.0)
    assert (sliver.x, sliver.width) == (399.0, 1.0)


def test_a_logarithmic_axis_gives_every_decade_the_same_room() -> None:
    axis = LogAxis(low=1, high=1000, start=50.0, end=350.0)
    assert [axis.position(value) for value in (1, 10, 100, 1000)] == pytest.approx([50.0, 150.0, 250.0, 350.0])
    assert [(tick.position, tick.text) for tick in axis.ticks()] == [
        (pytest.approx(50.0), "1"),
        (pytest.approx(150.0), "10"),
        (pytest.approx(250.0), "100"),
        (pytest.approx(350.0), "1K"),
    ]


def test_an_axis_that_ends_between_powers_of_ten_has_ticks_at_those_inside() -> None:
    axis = LogAxis(low=1, high=256, start=0.0, end=100.0)
    assert [tick.text for tick in axis.ticks()] == ["1", "10", "100"]


def test_curves_share_axes_that_hold_all_of_them() -> None:
    lengths = [1, 10, 100]
    series = {"linear": [20, 200, 2000], "none": [0, 0, 0], "quadratic": [3, 300, 30_000], "total": [23, 500, 32_000]}
    chart = draw_curves(series, lengths, total="total", most=32_000, box=BOX)
    assert (chart.y_axis.low, chart.y_axis.high) == (1, 100_000)
    curves = {curve.name: curve for curve in chart.curves}
    assert set(curves) == {"linear", "quadratic", "total"}
    # The colour belongs to the place among all names, also to those without work.
    assert [(name, curve.slot) for name, curve in curves.items()] == [("linear", 0), ("quadratic", 2), ("total", None)]
    # Five decades share 300 units upwards: a decade of length is worth 60 for linear work and 120 for quadratic.
    for name, rise in (("linear", 60.0), ("quadratic", 120.0)):
        heights = [point.y for point in curves[name].points]
        assert heights[0] - heights[1] == pytest.approx(rise)
        assert heights[1] - heights[2] == pytest.approx(rise)
    assert [point.x for point in curves["linear"].points] == pytest.approx([50.0, 200.0, 350.0])
    assert curves["linear"].path.startswith("50.0,")


def test_labels_of_curves_that_end_together_do_not_overlap() -> None:
    series = {f"curve {index}": [1, 1000 + index] for index in range(12)}
    chart = draw_curves({**series, "total": [12, 12_066]}, [1, 1000], total="total", most=12_066, box=BOX)
    lines = sorted(curve.label.y for curve in chart.curves)
    assert all(below - above >= 15.0 - 1e-9 for above, below in itertools.pairwise(lines))
    assert lines[-1] <= BOX[3]
    low = draw_curves({"a": [1, 1], "b": [1, 1], "total": [2, 2]}, [1, 2], total="total", most=1000, box=BOX)
    lines = sorted(curve.label.y for curve in low.curves)
    assert lines[-1] <= BOX[3]
    assert lines[2] - lines[1] == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (30, "30"),
        (999, "999"),
        (1000, "1K"),
        (1_020_000_000, "1.02G"),
        (90_132_000, "90.1M"),
        (500_000_000, "500M"),
        (527_436_480, "527M"),
        (999_499, "999K"),
        (999_500, "1M"),
        (999_999_999, "1G"),
        (12_471_205_760, "12.5G"),
        (2_000_000_000_000, "2T"),
    ],
)
def test_short_counts_have_three_digits(value: int, text: str) -> None:
    assert short_count(value) == text
