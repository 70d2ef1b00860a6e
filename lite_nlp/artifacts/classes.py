"""What a classifier's files say of its input and its classes."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from lite_nlp.core.errors import DataError

__all__ = ["SENTENCES", "read_labels"]

#: Sentences that a model of each architecture reads.
SENTENCES: Final[Mapping[str, Literal[1, 2]]] = {
    "sequence-classifier": 1,
    "lstm-classifier": 1,
    "pair-classifier": 2,
}


def read_labels(metrics: Mapping[str, Any], num_classes: int, *, name: str) -> list[str]:
    """The labels that a classifier records.

    Args:
        metrics: Content of its ``metrics.json``.
        num_classes: Number of its classes.
        name: Of the model.

    Raises:
        DataError: If it does not record as many names.
    """
    labels = metrics.get("labels")
    named = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not isinstance(labels, list) or not named or not len(labels) == len(set(labels)) == num_classes:
        raise DataError(f"{name}: expected the names of {num_classes} labels in metrics.json, found {labels!r}")
    return labels
