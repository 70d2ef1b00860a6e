"""Scorers of tasks on sentence pairs: one record for translations, one for summaries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lite_nlp.compress.metric import Metric
from lite_nlp.compress.significance import Measure

__all__ = ["PairScorer", "PairScores"]


class PairScores(Protocol):
    """Scores of a test set, 0 to 100, with intervals and signatures."""

    @property
    def sentences(self) -> int:
        """Number of pairs compared."""

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""


@dataclass(frozen=True, kw_only=True)
class PairScorer:
    """Comparison of outputs with references.

    Attributes:
        name: Its name in ``--metric``.
        metric: The score by which compression and validation compare models.
        columns: The fields of the scores, by display name.
        signatures: The fields with the signatures, by display name.
        score: Compares outputs with as many references; takes ``bootstrap`` and, if case matters, ``lowercase``.
        measures: The statistics of outputs and as many references, by the fields of ``columns``: compression computes
            scores, intervals and paired tests from them.
        regards_case: Whether it can compare with regard to case.
    """

    name: str
    metric: Metric
    columns: Mapping[str, str]
    signatures: Mapping[str, str]
    score: Callable[..., PairScores]
    measures: Callable[[Sequence[str], Sequence[str]], dict[str, Measure]]
    regards_case: bool = True
