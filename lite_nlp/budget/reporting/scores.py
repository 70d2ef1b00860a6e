"""Figures in records, and what people call the scores. Imports no torch."""

from typing import Final, TypeGuard

__all__ = ["LOWER_IS_BETTER", "is_figure", "metric_label"]

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


def is_figure(value: object) -> TypeGuard[int | float]:
    """Whether a value in a record is a number that can be drawn: finite, zero or of an ordinary size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or _LEAST <= abs(value) <= _LARGEST


def metric_label(name: str) -> str:
    """The name for people of a score with this key."""
    return _LABELS.get(name.lower(), name.replace("_", " "))
