"""The search for the largest tolerance of a plan that keeps within a loss of quality. No torch.

Planning is guided by a divergence, a user by a metric: how much of the one costs how much of the other is measured.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["largest_tolerance"]

#: Tolerances to begin with, as factors of the first: up while they are kept, or else down until one is.
_UP: Final = (4.0, 16.0, 64.0)
_DOWN: Final = (0.25, 0.0625, 0.015625)
#: Halvings, in the logarithm, of the interval between the last that is kept and the first that is not.
_HALVINGS: Final = 2


def largest_tolerance(lost: Callable[[float], float], *, start: float, max_loss: float) -> float | None:
    """The largest tolerance found at which a measured loss is allowed.

    Args:
        lost: Loss of quality with a plan within a tolerance, more or less rising; it is measured at most 6 times.
        start: Tolerance to begin with, above 0.
        max_loss: Largest loss allowed.

    Returns:
        The tolerance; None if the loss is too large even at the smallest that is tried, ``start / 64``.
    """
    kept: float | None = None
    refused: float | None = None
    if lost(start) <= max_loss:
        kept = start
        for factor in _UP:
            if lost(factor * start) > max_loss:
                refused = factor * start
                break
            kept = factor * start
    else:
        refused = start
        for factor in _DOWN:
            if lost(factor * start) <= max_loss:
                kept = factor * start
                break
            refused = factor * start
    if kept is None or refused is None:
        return kept
    for _ in range(_HALVINGS):
        middle = (kept * refused) ** 0.5
        if lost(middle) <= max_loss:
            kept = middle
        else:
            refused = middle
    return kept
