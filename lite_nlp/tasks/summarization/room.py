"""The room of summarization: that of translation with other scores. Imports no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from lite_nlp.tasks.room import Evaluation, EvaluationRequest, TrainingData

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.tasks.calibration import Guidance

__all__ = ["evaluate", "guide", "open_training_data"]


def open_training_data(path: Path, *, vectors: Path | None = None) -> TrainingData:
    """See :class:`lite_nlp.tasks.room.Room`."""
    del vectors
    from lite_nlp.tasks.summarization.rouge import SUMMARY_SCORER
    from lite_nlp.tasks.translation.training import open_pairs

    return open_pairs(path, SUMMARY_SCORER)


def evaluate(request: EvaluationRequest) -> Evaluation:
    """See :class:`lite_nlp.tasks.room.Room`: ROUGE."""
    from lite_nlp.tasks.summarization.rouge import SUMMARY_SCORER
    from lite_nlp.tasks.translation.evaluate import evaluate_pairs

    return evaluate_pairs(request, SUMMARY_SCORER)


def guide(loaded: "LoadedModel", data: Path | None) -> "Guidance":
    """See :class:`lite_nlp.tasks.room.Room`."""
    from lite_nlp.tasks.summarization.rouge import SUMMARY_SCORER
    from lite_nlp.tasks.translation.calibration import guide_by_pairs

    return guide_by_pairs(loaded, data, SUMMARY_SCORER)
