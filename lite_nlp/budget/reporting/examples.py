"""Outputs of a model beside the references, for a report. Imports no torch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Example", "Examples"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """One example of a test set.

    Attributes:
        source: What the model read.
        output: What it made of it.
        reference: What was expected.
        score: How near the output is to the reference, 0 to 100; None if it was not measured.
    """

    source: str
    output: str
    reference: str
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Examples of one test set.

    Attributes:
        test_set: What they are taken from.
        metric: Name for people of the score of each.
        rows: The examples.
        total: How many examples the test set has.
    """

    test_set: str
    metric: str
    rows: Sequence[Example]
    total: int

    @property
    def scored(self) -> bool:
        """Whether the examples have scores."""
        return any(row.score is not None for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The examples for scripts."""
        return {
            "test_set": self.test_set,
            "metric": self.metric,
            "total": self.total,
            "rows": [asdict(row) for row in self.rows],
        }
