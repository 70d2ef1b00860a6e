"""Accuracy of classifications, with a confidence interval and the counts of every class."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lite_nlp.core.errors import DataError

__all__ = ["AccuracyScores", "ClassScores", "score_classifications", "wilson_interval"]

#: The 97.5 % quantile of the standard normal distribution.
_QUANTILE: Final = 1.959963984540054


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Counts of one class.

    Attributes:
        label: Its name.
        examples: Examples of the class.
        predicted: Examples that were classified as the class.
        correct: Examples of the class that were classified as such.
    """

    label: str
    examples: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float | None:
        """Fraction of the class among examples classified as the class, 0 to 1; None if there are none."""
        return self.correct / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Fraction classified as the class among its examples, 0 to 1; None if there are none."""
        return self.correct / self.examples if self.examples else None


@dataclass(frozen=True, kw_only=True)
class AccuracyScores:
    """Scores of one set of examples.

    Attributes:
        accuracy: Percentage of the examples that are classified correctly.
        accuracy_low: Lower end of its 95 % interval, percent.
        accuracy_high: Upper end.
        majority: Accuracy of always predicting the most frequent class, percent.
        examples: Number of examples.
        correct: Number of examples that are classified correctly.
        classes: Counts of each class, in the order of the labels.
    """

    accuracy: float
    accuracy_low: float
    accuracy_high: float
    majority: float
    examples: int
    correct: int
    classes: tuple[ClassScores, ...]

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them, with precision and recall of each class."""
        rates = [{"precision": found.precision, "recall": found.recall} for found in self.classes]
        classes = [asdict(found) | rate for found, rate in zip(self.classes, rates, strict=True)]
        return asdict(self) | {"classes": classes}


def score_classifications(
    predicted: npt.NDArray[np.integer], expected: npt.NDArray[np.integer], *, labels: Sequence[str]
) -> AccuracyScores:
    """Score classifications against the true labels.

    Args:
        predicted: (examples,) indices of ``labels``.
        expected: (examples,) indices of ``labels``.
        labels: Names of the classes.

    Raises:
        DataError: If there are no examples, the shapes differ, or an index is out of range.
    """
    if predicted.shape != expected.shape or predicted.ndim != 1 or not len(expected):
        raise DataError(
            "classifications: expected one for each of one or more examples, found shapes "
            f"{predicted.shape} and {expected.shape}"
        )
    for name, places in (("classifications", predicted), ("labels", expected)):
        if not 0 <= int(places.min()) <= int(places.max()) < len(labels):
            raise DataError(f"{name}: expected 0 to {len(labels) - 1}, found {places.min()} to {places.max()}")
    size = len(labels)
    examples = np.bincount(expected, minlength=size).tolist()
    said = np.bincount(predicted, minlength=size).tolist()
    right = np.bincount(expected[predicted == expected], minlength=size).tolist()
    low, high = wilson_interval(sum(right), len(expected))
    return AccuracyScores(
        accuracy=100.0 * sum(right) / len(expected),
        accuracy_low=100.0 * low,
        accuracy_high=100.0 * high,
        majority=100.0 * max(examples) / len(expected),
        examples=len(expected),
        correct=sum(right),
        classes=tuple(
            ClassScores(label=label, examples=examples[place], predicted=said[place], correct=right[place])
            for place, label in enumerate(labels)
        ),
    )


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % score interval of a proportion (Wilson, 1927), within 0 to 1.

    It holds the proportions p whose distance from the observed one is at most 1.96 standard errors of p. Unlike the
    normal approximation it is valid for few trials and for proportions near 0 and 1.

    Raises:
        DataError: If there are no trials, or the successes are not within 0 to ``trials``.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise DataError(f"proportion: expected 0 to {trials} successes of at least one trial, found {successes}")
    # The roots of (successes / trials - p)^2 = quantile^2 p (1 - p) / trials.
    square = _QUANTILE**2
    middle = (successes + square / 2) / (trials + square)
    spread = _QUANTILE / (trials + square) * math.sqrt(successes * (trials - successes) / trials + square / 4)
    return max(0.0, middle - spread), min(1.0, middle + spread)
