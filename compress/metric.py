"""The measure of a model's quality. Imports no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Metric"]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A measure of a model's quality.

    Attributes:
        name: Its key among the scores.
        label: Its name in tables.
        unit: The unit of a loss of quality, as written after the number.
        lower_is_better: Whether smaller scores are better.
    """

    name: str
    label: str
    unit: str
    lower_is_better: bool = False

    def lost(self, before: Mapping[str, float], after: Mapping[str, float]) -> float:
        """How much worse the scores ``after`` are than those ``before``; negative if they are better.

        Infinite where the score after is not finite, whichever sign it has.
        """
        if not math.isfinite(after[self.name]):
            return math.inf
        worse = before[self.name] - after[self.name]
        return -worse if self.lower_is_better else worse
