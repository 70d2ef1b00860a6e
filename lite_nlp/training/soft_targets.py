"""How a teacher's distribution and the labels are mixed. Imports no torch."""

from dataclasses import dataclass

from lite_nlp.core.bounds import MAX_TEMPERATURE, MIN_TEMPERATURE, check_range
from lite_nlp.core.errors import UsageError

__all__ = ["SoftTargets"]


@dataclass(frozen=True, kw_only=True)
class SoftTargets:
    """Temperature and weight of the mixed loss (:mod:`lite_nlp.training.mixed_loss`).

    Attributes:
        temperature: T, by which the logits of both models are divided, 0.1 to 100. 1 leaves the distributions as they
            are; more shows more of what the teacher thinks of unlikely types.
        label_weight: w, from 0 (the teacher alone) to less than 1, which would be training without a teacher.

    Raises:
        UsageError: If a value is out of range.
    """

    temperature: float = 1.0
    label_weight: float = 0.5

    def __post_init__(self) -> None:
        check_range("--temperature", self.temperature, MIN_TEMPERATURE, MAX_TEMPERATURE)
        if not 0.0 <= self.label_weight < 1.0:
            raise UsageError(
                "--label-weight: expected 0 to less than 1, which would be training without a teacher, found "
                f"{self.label_weight}"
            )
