"""The room of language modelling. Imports no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from lite_nlp.core.errors import UsageError
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, TrainingData

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.tasks.calibration import Guidance
    from lite_nlp.tasks.language_modelling.teaching import TextTeacher
    from lite_nlp.tasks.language_modelling.training import LanguageModellingObjective

__all__ = ["evaluate", "guide", "open_training_data"]


def open_training_data(path: Path, *, vectors: Path | None = None) -> TrainingData:
    """See :class:`lite_nlp.tasks.room.Room`."""
    del vectors
    from lite_nlp.data.text.directory import open_running_text
    from lite_nlp.tasks.language_modelling.teaching import TextTeaching

    data = open_running_text(path)

    def objective(config: "Config", *, teacher: "TextTeacher | None" = None) -> "LanguageModellingObjective":
        from lite_nlp.tasks.language_modelling.training import LanguageModellingObjective

        train, valid = data.stream("train"), data.stream("valid")
        return LanguageModellingObjective(config=config, train=train, valid=valid, teacher=teacher)

    return TrainingData(
        path=path, tokenizer=data.tokenizer, objective=objective, teaching=TextTeaching(data, objective)
    )


def evaluate(request: EvaluationRequest) -> Evaluation:
    """See :class:`lite_nlp.tasks.room.Room`: perplexity on a split of running text."""
    if request.data is None:
        raise UsageError("a language model is evaluated on running text: --data is required")
    from lite_nlp.tasks.language_modelling.evaluate import evaluate_text

    return evaluate_text(request, request.data)


def guide(loaded: "LoadedModel", data: Path | None) -> "Guidance":
    """See :class:`lite_nlp.tasks.room.Room`."""
    if data is None:
        raise UsageError("a language model is compressed, and scored in int8, on running text: --data is required")
    from lite_nlp.tasks.language_modelling.calibration import guide_by_text

    return guide_by_text(loaded, data)
