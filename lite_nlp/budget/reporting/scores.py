"""Figures in records, and what people call the scores. Imports no torch."""

import math
from typing import Final, TypeGuard

__all__ = ["LOWER_IS_BETTER", "decimals", "is_figure", "metric_label"]

_LABELS: Final = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougel": "ROUGE-L",
    "rougelsum": "ROUGE-Lsum",
}

#: Scores of which a smaller one is better.
LOWER_IS_BETTER: Final = frozenset(("perplexity", "loss", "nll"))

#: Sizes of figures that a measurement may give; beyond them the arithmetic of axes overflows or loses everything.
_LEAST, _LARGEST = 1e-12, 1e18
_MOST_DECIMALS: Final = 15


def is_figure(value: object) -> TypeGuard[int | float]:
    """Whether a value in a record is a number that can be drawn: finite, zero or of an ordinary size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or _LEAST <= abs(value) <= _LARGEST


def metric_label(name: str) -> str:
    """The name for people of a score with this key."""
    return _LABELS.get(name.lower(), name.replace("_", " "))


def decimals(*figures: float, whole: float = 1.0) -> int:
    """Decimals that figures of one unit are written with: two, and more where all of them are at most ``whole``.

    Scores may be percentages, fractions or errors of any size; three digits of the largest are told.
    """
    largest = max(map(abs, figures), default=0.0)
    if not 0 < largest <= whole:
        return 2
    # A difference of logarithms: the quotient may be beyond the largest float.
    return min(3 + math.floor(math.log10(whole) - math.log10(largest)), _MOST_DECIMALS)
