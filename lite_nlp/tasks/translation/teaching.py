"""Distillation of encoder-decoders: by distributions of target tokens, by translations of the teacher, or both."""

from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol, TypeAlias, cast

import numpy as np
from torch import Tensor

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import DataError
from lite_nlp.data.languages import language_code
from lite_nlp.data.pairs.batches import Batch
from lite_nlp.data.pairs.directory import PairDirectory
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.tasks.distillation import LEVELS, Lesson, Level, check_vocabulary
from lite_nlp.tasks.translation.candidates import Candidates, DrawnBatches, choose_candidates
from lite_nlp.tasks.translation.teacher_outputs import make_hypotheses
from lite_nlp.training.batching import EpochBatches, SplitRows
from lite_nlp.training.mixed_loss import TeacherOutput
from lite_nlp.training.objective import Batches, Objective
from lite_nlp.training.taught import TaughtObjective
from lite_nlp.training.teacher import Teacher

__all__ = ["PairTeacher", "PairTeaching", "read_pairs"]

#: The part of the sources above which it is worth a warning that they are left out.
_LEFT_OUT: Final = 0.1

#: A teacher of target tokens, for the inputs of an encoder-decoder.
PairTeacher: TypeAlias = Teacher[EncoderDecoder, TeacherOutput]


class _MakeObjective(Protocol):
    """Makes the objective of the task, on the training pairs and with the teacher that are given."""

    def __call__(
        self, config: Config, *, train: SplitRows | None = None, teacher: PairTeacher | None = None
    ) -> Objective[Batch]: ...


class PairTeaching:
    """See :class:`~lite_nlp.tasks.distillation.Teaching`.

    Args:
        data: The sentence pairs.
        make_objective: Makes the objective of the task.
    """

    levels: ClassVar[tuple[Level, ...]] = LEVELS

    def __init__(self, data: PairDirectory, make_objective: _MakeObjective) -> None:
        self._data = data
        self._make_objective = make_objective

    def check_teacher(self, teacher: LoadedModel) -> None:
        """See ``Teaching``; languages that are not known are not compared."""
        _ = teacher.encoder_decoder
        recorded = teacher.metrics.get("languages")
        found = recorded if isinstance(recorded, dict) else {}
        wanted = self._data.info.languages.model_dump()
        codes = [(language_code(str(found.get(side))), language_code(wanted[side])) for side in ("src", "tgt")]
        if any(None not in pair and pair[0] != pair[1] for pair in codes):
            raise DataError(
                f"{self._data.path}: expected the languages of the teacher {teacher.name}, {found.get('src')} to "
                f"{found.get('tgt')}, found {wanted['src']} to {wanted['tgt']}"
            )

    def refuses_words(self, teacher: LoadedModel, student: Config, *, outputs: bool = False) -> str | None:
        """See ``Teaching``."""
        positions, training = teacher.config.model.max_positions - 1, student.training
        train = self._data.split("train")
        longest = int(max(train.src_lengths.max(), train.tgt_lengths.max()))
        read = min(training.max_tokens, student.model.max_positions - 1)
        if not training.bpe_dropout and not outputs:
            read = min(longest, read)
        if read > positions:
            return (
                f"expected a teacher that reads as many tokens as the student ({read}), found one of {positions}: set "
                f"training.max_tokens={positions}"
            )
        return check_vocabulary(teacher, self._data.tokenizer, self._data.path)

    def objective(self, lesson: Lesson) -> Callable[[Config], Objective[Any]]:
        """See ``Teaching``."""
        teacher = None
        if lesson.soft is not None:
            teacher = PairTeacher(lesson.teacher.encoder_decoder, read_pairs, lesson.soft)
        candidates = self._candidates(lesson)
        facts: dict[str, Any] = {"teacher": lesson.name}
        choose = None
        if candidates is not None:
            facts |= {"sources": len(np.unique(candidates.sources)), "targets": len(candidates)}
            choose = _draw_from(candidates)

        def make(config: Config) -> Objective[Any]:
            task = self._make_objective(config, train=candidates, teacher=teacher)
            return TaughtObjective(task, identity=lesson.identity, facts=facts, choose=choose)

        return make

    def _candidates(self, lesson: Lesson) -> Candidates | None:
        if lesson.targets is None:
            return None
        split = self._data.split("train")
        hypotheses = make_hypotheses(split, lesson, lesson.targets)
        none = sum(not alternatives for alternatives in hypotheses)
        if none:
            kept = "have their reference alone" if lesson.targets.reference_weight else "are left out"
            text = f"{none:,} of {len(split):,} sources {kept}: the teacher has no translation of them in one piece"
            if none > _LEFT_OUT * len(split) and not lesson.targets.reference_weight:
                lesson.warn(
                    f"{text}, and the student learns nothing of such long ones; take a teacher that reads more tokens, "
                    "or keep their references by --reference-weight"
                )
            else:
                lesson.say(text)
        return choose_candidates(split, hypotheses, self._data.tokenizer, lesson.targets, progress=lesson.progress)


def _draw_from(candidates: Candidates) -> Callable[[Batches[Batch]], Batches[Batch]]:
    """A function that lets each epoch draw one candidate of each source."""
    return lambda batches: DrawnBatches(every=cast(EpochBatches, batches), candidates=candidates)


def read_pairs(model: EncoderDecoder, src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> TeacherOutput:
    """What gives the logits of the target tokens."""
    return TeacherOutput(model.hidden(src_tokens, src_mask, tgt_tokens), model.output_table)
