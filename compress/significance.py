"""Confidence intervals and paired tests by bootstrap, from sufficient statistics of every example. Imports no torch.

A test set is resampled by drawing as many examples as it has, with replacement. A metric that is computed from sums
over the examples (BLEU, a mean, perplexity) needs no more for that than its statistics of each example: outputs are
neither made nor compared a second time. Resamples are drawn with one seed, so that those of two models hold the same
examples: the interval of their difference is then far smaller than those of their scores (Koehn 2004, "Statistical
significance tests for machine translation evaluation": paired bootstrap resampling).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "RESAMPLES",
    "SEED",
    "Change",
    "Measure",
    "Scored",
    "changes_between",
    "interval_of",
    "mean_measure",
    "paired_test",
]

#: Resamples of a bootstrap, and the seed that draws them: sacreBLEU's.
RESAMPLES: Final = 1000
SEED: Final = 12345

#: Examples drawn at once, which bounds memory at about 100 MB.
_BLOCK: Final = 1 << 22

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measure:
    """A metric of one model on a test set, as the statistics of each example.

    Attributes:
        statistics: (examples, K) sufficient statistics, whose sums over the examples determine the score.
        compute: The score, from the (K,) sums.
    """

    statistics: FloatArray
    compute: Callable[[FloatArray], float]

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self.statistics)

    @property
    def value(self) -> float:
        """The score of the test set."""
        return float(self.compute(self.statistics.sum(axis=0)))

    @cached_property
    def resampled(self) -> FloatArray:
        """(1000,) scores of resampled test sets, in an order that is the same for all models."""
        return self.resample(RESAMPLES, SEED)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the middle 95 % of the resampled scores."""
        return interval_of(self.resampled)

    def resample(self, count: int, seed: int) -> FloatArray:
        """Scores of resampled test sets.

        Args:
            count: How many.
            seed: Of the resampling; with equal seeds, the resamples of two models hold the same examples.

        Returns:
            (count,).
        """
        sums = (sums for block in _draw(self.examples, count, seed) for sums in block @ self.statistics)
        return np.array([float(self.compute(row)) for row in sums])


def mean_measure(values: Sequence[float] | NDArray[np.generic]) -> Measure:
    """The mean of a score of each example.

    Args:
        values: (examples,) the score of each; at least one.
    """
    columns = np.asarray(values, dtype=np.float64)
    return Measure(statistics=np.stack([columns, np.ones_like(columns)], axis=1), compute=_mean)


def interval_of(scores: FloatArray) -> tuple[float, float]:
    """The ends of the middle 95 % of resampled scores, at least two, as sacreBLEU cuts them off."""
    ordered = np.sort(scores)
    tail = len(ordered) // 40
    return float(ordered[tail]), float(ordered[len(ordered) - 1 - tail])


def _rounded(value: float) -> float:
    """Four decimals, or four digits of what is smaller than one: scores may be in any unit."""
    return round(value, 4) if abs(value) >= 1 else float(f"{value:.4g}")


@dataclass(frozen=True, kw_only=True)
class Change:
    """The difference between two models on the same examples.

    Attributes:
        difference: The second score minus the first.
        low: Lower end of the 95 % interval of the difference.
        high: Its upper end.
        p: Probability of a difference as large as this, in either direction, between models that are equally good.
    """

    difference: float
    low: float
    high: float
    p: float

    def as_dict(self) -> dict[str, float]:
        """The figures, rounded."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def paired_test(before: Measure, after: Measure) -> Change:
    """Paired bootstrap test of two models on the same examples.

    The differences of resampled test sets, moved so that their mean is zero, stand for those of equally good models.
    ``p`` is the fraction of them that is at least as large as the observed difference, in either direction; 1 for
    equal outputs. sacreBLEU's ``PairedTest`` counts one direction of a clear difference, so that its ``p`` is about
    half of this one.

    Args:
        before: The first model.
        after: The second.

    Raises:
        ValueError: If they have different numbers of examples.
    """
    if before.examples != after.examples:
        raise ValueError(f"paired test: expected as many examples, found {before.examples} and {after.examples}")
    difference = after.value - before.value
    differences = after.resampled - before.resampled
    low, high = interval_of(differences)
    reached = np.abs(differences - differences.mean()) >= abs(difference)
    p = (int(np.count_nonzero(reached)) + 1) / (len(differences) + 1)
    return Change(difference=difference, low=low, high=high, p=p)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """What a model was scored by.

    Attributes:
        scores: By metric.
        measures: By metric, what intervals and paired tests are computed from; of some metrics or none.
        outputs: The model's output for each scored example, in order; None where outputs are no text.
    """

    scores: Mapping[str, float]
    measures: Mapping[str, Measure] = field(default_factory=dict)
    outputs: Sequence[str] | None = None

    @classmethod
    def of(cls, found: "Mapping[str, float] | Scored") -> "Scored":
        """What a score returned, which may be the scores alone."""
        return found if isinstance(found, Scored) else cls(scores=found)

    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals by metric, rounded as differences are; of metrics with at least two examples."""
        found = {name: measure.interval for name, measure in self.measures.items() if measure.examples > 1}
        return {name: (_rounded(low), _rounded(high)) for name, (low, high) in found.items()}


def changes_between(before: Scored, after: Scored) -> dict[str, Change]:
    """Paired tests of two models, by metric; of metrics that both have for the same examples, at least two."""
    return {
        name: paired_test(measure, after.measures[name])
        for name, measure in before.measures.items()
        if name in after.measures and after.measures[name].examples == measure.examples > 1
    }


def _draw(examples: int, count: int, seed: int) -> Iterator[FloatArray]:
    """How often each resample holds each example: blocks of (resamples, examples)."""
    rng = np.random.default_rng(seed)
    most = max(1, _BLOCK // examples)
    for start in range(0, count, most):
        rows = min(most, count - start)
        drawn = rng.choice(examples, size=(rows, examples), replace=True)
        drawn += np.arange(rows)[:, None] * examples
        times = np.bincount(drawn.ravel(), minlength=rows * examples)
        yield times.reshape(rows, examples).astype(np.float64)


def _mean(sums: FloatArray) -> float:
    return float(sums[0] / sums[1])
