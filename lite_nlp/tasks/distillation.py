"""Distillation: its options, and what a task offers for it. Imports no torch."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from lite_nlp.core.bounds import MAX_BEAM, check_range
from lite_nlp.core.errors import UsageError
from lite_nlp.core.progress import Progress
from lite_nlp.training.interruption import TimeLimit
from lite_nlp.training.soft_targets import SoftTargets

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.training.objective import Objective

__all__ = ["BEAM", "LEVELS", "Lesson", "Level", "SequenceTargets", "TeacherModel", "Teaching", "check_vocabulary"]

#: What the student learns from: the teacher's distribution of every target, its own outputs, or both.
Level = Literal["word", "sequence", "both"]

LEVELS: Final[tuple[Level, ...]] = ("word", "sequence", "both")

#: Hypotheses of the teacher's search, as many as in Kim and Rush 2016.
BEAM: Final = 5


@dataclass(frozen=True, kw_only=True)
class SequenceTargets:
    """The targets of sequence-level distillation (Kim and Rush 2016, sections 3.2 and 3.3).

    Attributes:
        beam: Hypotheses that the teacher keeps per source, 1 to 256.
        n_best: How many of the finished ones are used, 1 to ``beam``.
        interpolation: Learn from the one of them that is nearest to the reference, by sentence BLEU; else from all,
            each weighted by its probability.
        reference_weight: Weight of the data's own target, from 0 (the teacher alone) to less than 1.

    Raises:
        UsageError: If a value is out of range.
    """

    beam: int = BEAM
    n_best: int = 1
    interpolation: bool = False
    reference_weight: float = 0.0

    def __post_init__(self) -> None:
        check_range("--beam", self.beam, 1, MAX_BEAM)
        check_range("--n-best", self.n_best, 1, self.beam)
        if self.interpolation and self.n_best == 1:
            option = "--beam" if self.beam == 1 else "--n-best"
            raise UsageError(f"--interpolation: expected {option} of at least 2 to choose from, found 1")
        if not 0.0 <= self.reference_weight < 1.0:
            raise UsageError(
                "--reference-weight: expected 0 to less than 1, which would be training without a teacher, found "
                f"{self.reference_weight}"
            )


@dataclass(frozen=True, kw_only=True)
class TeacherModel:
    """A loaded teacher.

    Attributes:
        model: The model.
        source: Where it was read from, for runtimes other than torch; the loaded model itself if it was not.
        sha256: Hash of its weights, config and tokenizer.
    """

    model: "LoadedModel"
    source: "str | Path | LoadedModel"
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A teacher or an ensemble of them, what the student is to learn, and what that may take.

    Attributes:
        teachers: The teachers, at least one; several of one vocabulary translate together, and have no ``soft``.
        runtime: Runtime of their search.
        soft: How the teacher's distribution is mixed with the labels; None leaves the distribution out.
        targets: The teachers' outputs as targets; None leaves them out.
        hypotheses: Directory of these outputs.
        resume: Whether a run is resumed, with which ``force`` cannot be asked for.
        force: Whether outputs of another teacher, data or search, or damaged ones, may be overwritten there.
        first: Whether this is the first of the processes.
        threads: Threads of the search; None is one per core.
        limit: The time that is left.
        progress: Receives the progress of the search.
        say: Receives remarks.
        warn: Receives warnings, which the run records too.
    """

    teachers: tuple[TeacherModel, ...]
    runtime: str
    soft: SoftTargets | None
    targets: SequenceTargets | None
    hypotheses: Path
    resume: bool
    force: bool
    first: bool
    threads: int | None
    limit: TimeLimit
    progress: Progress
    say: Callable[[str], None]
    warn: Callable[[str], None]

    @property
    def teacher(self) -> "LoadedModel":
        """The first teacher, or the only one."""
        return self.teachers[0].model

    @property
    def name(self) -> str:
        """The names of all teachers."""
        return " + ".join(teacher.model.name for teacher in self.teachers)

    @property
    def sha256(self) -> str:
        """The hashes of all teachers."""
        return "+".join(teacher.sha256 for teacher in self.teachers)

    @property
    def level(self) -> Level:
        """The level that ``soft`` and ``targets`` amount to."""
        if self.soft is None:
            return "sequence"
        return "word" if self.targets is None else "both"

    @property
    def identity(self) -> dict[str, Any]:
        """Teachers and options, as JSON values."""
        options = {**(asdict(self.soft) if self.soft else {}), **(asdict(self.targets) if self.targets else {})}
        return {"teacher_sha256": self.sha256, "level": self.level, **options}


class Teaching(Protocol):
    """What a task offers to distillation, for an opened data directory."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which its students learn."""

    def check_teacher(self, teacher: "LoadedModel") -> None:
        """Refuse a teacher of another task, or of other languages or labels than the data.

        Raises:
            ModelError: If its architecture is another one.
            DataError: If the data is not what it was trained for.
        """

    def refuses_words(self, teacher: "LoadedModel", student: "Config", *, outputs: bool = False) -> str | None:
        """Why the student cannot learn from the teacher's distribution on its own batches; None if it can.

        Args:
            teacher: The teacher.
            student: The config of the student.
            outputs: Whether outputs of a teacher are among the targets, whose lengths nobody knows yet.
        """

    def objective(self, lesson: Lesson) -> "Callable[[Config], Objective[Any]]":
        """Makes the training objective of a config's model; what it takes of the teacher's outputs is made first.

        Raises:
            TrainingError: If a signal or the end of the time stopped that; the outputs so far are kept.
        """


def check_vocabulary(teacher: "LoadedModel", tokenizer: "Tokenizer", data: Path) -> str | None:
    """Why distributions of a teacher and of a student on ``data`` cannot be compared; None if they can."""
    if teacher.tokenizer.to_json() == tokenizer.to_json():
        return None
    return (
        f"expected a teacher with the vocabulary of {data}, found {teacher.name} with another ("
        f"{teacher.tokenizer.vocab_size} types, the data {tokenizer.vocab_size}): prepare the data with the teacher's "
        "tokenizer (data prepare --tokenizer)"
    )
