"""Distillation of classifiers: by the distribution of the classes (soft labels)."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias

import torch
from torch import Tensor

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.config.preset import Config
from lite_nlp.data.labelled.directory import LabelledBatch, LabelledDirectory
from lite_nlp.models.build import as_classifier
from lite_nlp.models.lstm_classifiers import LSTMReader
from lite_nlp.models.sequence_classifier import SequenceClassifier
from lite_nlp.tasks.classification.evaluate import check_fit
from lite_nlp.tasks.distillation import Lesson, Level, check_vocabulary
from lite_nlp.training.objective import Objective
from lite_nlp.training.taught import TaughtObjective
from lite_nlp.training.teacher import Teacher

__all__ = ["ClassTeacher", "LabelTeaching"]

_Classifier: TypeAlias = SequenceClassifier | LSTMReader

#: A teacher of classes, whose output is their logits (B, C).
ClassTeacher: TypeAlias = Teacher[_Classifier, Tensor]


class _MakeObjective(Protocol):
    """Makes the objective of the task, with the teacher that is given."""

    def __call__(self, config: Config, *, teacher: ClassTeacher | None = None) -> Objective[LabelledBatch]: ...


class LabelTeaching:
    """See :class:`~lite_nlp.tasks.distillation.Teaching`.

    Args:
        data: The labelled examples.
        make_objective: Makes the objective of the task.
    """

    levels: ClassVar[tuple[Level, ...]] = ("word",)

    def __init__(self, data: LabelledDirectory, make_objective: _MakeObjective) -> None:
        self._data = data
        self._make_objective = make_objective

    def check_teacher(self, teacher: LoadedModel) -> None:
        """See ``Teaching``; the teacher may know more labels than the data has."""
        as_classifier(teacher.model, source=teacher.name)
        check_fit(teacher, self._data)

    def refuses_words(self, teacher: LoadedModel, student: Config, *, outputs: bool = False) -> str | None:
        """See ``Teaching``."""
        positions = teacher.config.model.max_positions - 1
        read = min(student.training.max_tokens, student.model.max_positions - 1)
        train = self._data.split("train")
        longest = min(read, int(max(train.first_lengths.max(), train.second_lengths.max())))
        if longest > positions:
            return (
                f"expected a teacher that reads as many tokens as the student ({longest}), found one of {positions}: "
                f"set training.max_tokens={positions}"
            )
        return check_vocabulary(teacher, self._data.tokenizer, self._data.path)

    def objective(self, lesson: Lesson) -> Callable[[Config], Objective[Any]]:
        """See ``Teaching``."""
        teacher = None
        if lesson.soft is not None:
            known = check_fit(lesson.teacher, self._data)
            # The teacher's classes in the order of the data's, those that the data has not left out.
            classes = torch.tensor([known.index(label) for label in self._data.info.labels])

            def read(model: _Classifier, *inputs: Tensor) -> Tensor:
                logits: Tensor = model(*inputs)
                return logits.index_select(1, classes.to(logits.device))

            model = as_classifier(lesson.teacher.model, source=lesson.teacher.name)
            teacher = ClassTeacher(model, read, lesson.soft)
        facts = {"teacher": lesson.name}
        return lambda config: TaughtObjective(
            self._make_objective(config, teacher=teacher), identity=lesson.identity, facts=facts
        )
