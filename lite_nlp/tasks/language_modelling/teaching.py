"""Distillation of language models: by the distribution of every token."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias, cast

from torch import Tensor

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.config.preset import Config
from lite_nlp.data.text.directory import TextBlocks, TextDirectory
from lite_nlp.models.build import as_language_model
from lite_nlp.models.embeddings import PlainVocabulary
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.tasks.distillation import Lesson, Level, check_vocabulary
from lite_nlp.training.mixed_loss import TeacherOutput
from lite_nlp.training.objective import Objective
from lite_nlp.training.taught import TaughtObjective
from lite_nlp.training.teacher import Teacher

__all__ = ["TextTeacher", "TextTeaching", "read_text"]

#: A teacher of the tokens of a text.
TextTeacher: TypeAlias = Teacher[LanguageModel, TeacherOutput]


class _MakeObjective(Protocol):
    """Makes the objective of the task, with the teacher that is given."""

    def __call__(self, config: Config, *, teacher: TextTeacher | None = None) -> Objective[TextBlocks]: ...


class TextTeaching:
    """See :class:`~lite_nlp.tasks.distillation.Teaching`.

    Args:
        data: The running text.
        make_objective: Makes the objective of the task.
    """

    levels: ClassVar[tuple[Level, ...]] = ("word",)

    def __init__(self, data: TextDirectory, make_objective: _MakeObjective) -> None:
        self._data = data
        self._make_objective = make_objective

    def check_teacher(self, teacher: LoadedModel) -> None:
        """See ``Teaching``."""
        as_language_model(teacher.model, source=teacher.name)

    def refuses_words(self, teacher: LoadedModel, student: Config, *, outputs: bool = False) -> str | None:
        """See ``Teaching``: also if one of the models has an adaptive softmax, which has no logits of all types."""
        for name, config in (("teacher", teacher.config), ("student", student)):
            if isinstance(config.model, LanguageModelConfig) and config.model.embedding == "adaptive":
                return (
                    f"expected a {name} that has the logits of all types, found one with an adaptive softmax "
                    "(model.embedding = 'adaptive')"
                )
        positions, block = teacher.config.model.max_positions, student.training.block_tokens
        if block > positions:
            return (
                f"expected a teacher that reads blocks of training.block_tokens = {block}, found one of "
                f"{positions} tokens: set training.block_tokens={positions}"
            )
        return check_vocabulary(teacher, self._data.tokenizer, self._data.path)

    def objective(self, lesson: Lesson) -> Callable[[Config], Objective[Any]]:
        """See ``Teaching``."""
        teacher = None
        if lesson.soft is not None:
            model = as_language_model(lesson.teacher.model, source=lesson.teacher.name)
            teacher = TextTeacher(model, read_text, lesson.soft)
        facts = {"teacher": lesson.name}
        return lambda config: TaughtObjective(
            self._make_objective(config, teacher=teacher), identity=lesson.identity, facts=facts
        )


def read_text(model: LanguageModel, tokens: Tensor) -> TeacherOutput:
    """What gives the logits of the next tokens of ``tokens`` (B, T), of a model without an adaptive softmax."""
    vocabulary = cast(PlainVocabulary, model.vocabulary)
    return TeacherOutput(vocabulary.to_table(model.hidden(tokens)), vocabulary.output_table)
