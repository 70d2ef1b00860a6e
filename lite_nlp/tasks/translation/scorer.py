"""What a task on sentence pairs is scored by: one record for translations, one for summaries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lite_nlp.compress.metric import Metric

__all__ = ["PairScorer", "PairScores"]


class PairScores(Protocol):
    """Scores of a test set, 0 to 100, with intervals and signatures."""

    @property
    def sentences(self) -> int:
        """Pairs compared."""

    def as_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""


@dataclass(frozen=True, kw_only=True)
class PairScorer:
    """How outputs are compared with references.

    Attributes:
        name: Its name in ``--metric``.
        metric: The score that a compressed model is judged by, and training validates by.
        columns: The fields of the scores, by the names that people know.
        signatures: Likewise, the fields that say how the scores were computed.
        score: Compares outputs with as many references; takes ``bootstrap`` and, where case can be left out of
            account, ``lowercase``.
        regards_case: Whether it can compare with regard to case.
    """

    name: str
    metric: Metric
    columns: Mapping[str, str]
    signatures: Mapping[str, str]
    score: Callable[..., PairScores]
    regards_case: bool = True
