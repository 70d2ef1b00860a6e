import pytest

from lite_nlp.budget.reporting.scores import decimals


@pytest.mark.parametrize(
    ("figures", "whole", "expected"),
    [
        ((41.14, 39.57), 1.0, 2),
        ((0.0,), 1.0, 2),
        ((), 1.0, 2),
        ((0.985, 0.981), 1.0, 3),
        ((1.0,), 1.0, 3),
        ((0.085,), 1.0, 4),
        ((1.23e-8,), 1.0, 10),
        ((-0.05, -0.2, 0.1), 0.1, 2),
        ((-0.007, -0.011, -0.0035), 0.1, 3),
        ((5e-324,), 1.0, 15),
    ],
)
def test_three_digits_are_told_of_figures_in_small_units(
    figures: tuple[float, ...], whole: float, expected: int
) -> None:
    assert decimals(*figures, whole=whole) == expected
