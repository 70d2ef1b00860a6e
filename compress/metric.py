"""The score that a compressed model is judged by. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Metric"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A score of a model.

    Attributes:
        name: Its key among the scores.
        label: What people call it.
        unit: Of a loss, as it stands after the number.
        lower_is_better: Whether smaller scores are better.
    """

    name: str
    label: str
    unit: str
    lower_is_better: bool = False

    def lost(self, before: Mapping[str, float], after: Mapping[str, float]) -> float:
        """How much worse the scores ``after`` are than those ``before``; negative if they are better."""
        worse = before[self.name] - after[self.name]
        return -worse if self.lower_is_better else worse
