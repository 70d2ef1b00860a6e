"""The room of classification. Imports no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from lite_nlp.core.errors import UsageError
from lite_nlp.tasks.room import Evaluation, EvaluationRequest, TrainingData
from lite_nlp.tasks.usefulness import accuracy_warnings

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.models.build import Model
    from lite_nlp.tasks.calibration import Guidance
    from lite_nlp.tasks.classification.teaching import ClassTeacher
    from lite_nlp.tasks.classification.training import ClassificationObjective

__all__ = ["evaluate", "guide", "open_training_data"]


def open_training_data(path: Path, *, vectors: Path | None = None) -> TrainingData:
    """See :class:`lite_nlp.tasks.room.Room`."""
    from lite_nlp.core.files import sha256_file
    from lite_nlp.data.labelled.directory import open_labelled
    from lite_nlp.tasks.classification.teaching import LabelTeaching

    data = open_labelled(path)
    labels = data.info.labels

    def objective(config: "Config", *, teacher: "ClassTeacher | None" = None) -> "ClassificationObjective":
        from lite_nlp.tasks.classification.training import ClassificationObjective

        return ClassificationObjective(
            config=config,
            train=data.split("train"),
            valid=data.split("valid"),
            labels=labels,
            vectors_sha256=None if vectors is None else sha256_file(vectors),
            teacher=teacher,
        )

    def inspect(config: "Config", model: "Model") -> list[str]:
        from lite_nlp.tasks.classification.evaluate import longest_sentence, score_classifier
        from lite_nlp.tasks.classification.predict import torch_classifier

        _, scores = score_classifier(
            torch_classifier(model),
            data.split("valid"),
            known=labels,
            labels=labels,
            max_tokens=longest_sentence(config),
        )
        return accuracy_warnings(scores)

    return TrainingData(
        path=path,
        tokenizer=data.tokenizer,
        objective=objective,
        overrides=(f"model.num_classes={len(labels)}",),
        notes=(f"labels: {', '.join(labels)}",),
        inspect=inspect,
        teaching=LabelTeaching(data, objective),
    )


def evaluate(request: EvaluationRequest) -> Evaluation:
    """See :class:`lite_nlp.tasks.room.Room`: accuracy on a split of labelled examples."""
    if request.data is None:
        raise UsageError("a classifier is evaluated on labelled examples: --data is required")
    from lite_nlp.tasks.classification.evaluate import evaluate_labelled

    return evaluate_labelled(request, request.data)


def guide(loaded: "LoadedModel", data: Path | None) -> "Guidance":
    """See :class:`lite_nlp.tasks.room.Room`."""
    if data is None:
        raise UsageError("a classifier is compressed, and scored in int8, on labelled examples: --data is required")
    from lite_nlp.tasks.classification.calibration import guide_by_labels

    return guide_by_labels(loaded, data)
