"""The search for a tolerance, on curves whose answer is known."""

import pytest

from lite_nlp.compress.tolerance import largest_tolerance


@pytest.mark.parametrize("exact", [0.002, 0.009, 0.015, 0.02, 0.05, 0.3, 0.9])
def test_the_answer_is_near_the_exact_one_from_below(exact: float) -> None:
    measured: list[float] = []

    def lost(tolerance: float) -> float:
        measured.append(tolerance)
        return 2.0 * tolerance / exact

    found = largest_tolerance(lost, start=0.015, max_loss=2.0)
    assert found is not None
    assert exact / 1.5 < found <= exact
    assert len(measured) == len(set(measured)) <= 6


def test_the_range_of_the_search_is_bounded() -> None:
    assert largest_tolerance(lambda _: 0.0, start=0.5, max_loss=0.0) == 32.0
    assert largest_tolerance(lambda _: 1.0, start=0.5, max_loss=0.5) is None


def test_noise_does_not_make_an_answer_that_was_refused() -> None:
    losses = {1.0: 0.1, 4.0: 0.9, 2.0: 0.8, 2.0**0.5: 0.3}
    assert largest_tolerance(lambda tolerance: losses[tolerance], start=1.0, max_loss=0.5) == 2.0**0.5
