"""Keys of the training section that are of sentence pairs alone."""

from typing import Final

from lite_nlp.config.preset import TrainingConfig
from lite_nlp.core.errors import TrainingError

__all__ = ["refuse_pair_keys"]

_PAIR_KEYS: Final = ("truncate", "bpe_dropout")


def refuse_pair_keys(training: TrainingConfig) -> None:
    """Refuse what a task without sentence pairs would pass over.

    Raises:
        TrainingError: If a key of pairs is set.
    """
    for key in _PAIR_KEYS:
        plain, found = TrainingConfig.model_fields[key].default, getattr(training, key)
        if found != plain:
            raise TrainingError(
                f"training.{key}: expected {str(plain).lower()} for data other than sentence pairs, found "
                f"{str(found).lower()}"
            )
