"""The interface of a task to training, evaluation and compression. Imports no torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lite_nlp.artifacts.translators import SearchChoices
from lite_nlp.core.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from lite_nlp.artifacts.models import LoadedModel
    from lite_nlp.config.preset import Config
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.models.build import Model
    from lite_nlp.tasks.calibration import Guidance
    from lite_nlp.tasks.distillation import Teaching
    from lite_nlp.training.objective import Objective

__all__ = ["Evaluation", "EvaluationRequest", "Room", "Table", "TrainingData"]


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """An opened data directory, for training.

    Attributes:
        path: The directory.
        tokenizer: Its tokenizer.
        objective: Makes the training objective of a config's model on the directory.
        overrides: Config keys beside the vocabulary that the data determines, as ``section.key=value``.
        notes: Messages to print before training starts.
        inspect: Warnings about what a trained model in evaluation mode says of validation examples; None if it says
            nothing that could be judged.
        teaching: What the task offers to distillation; None if nothing.
        warnings: What is wrong with what is learned from, for the metrics of the run.
    """

    path: Path
    tokenizer: "Tokenizer"
    objective: "Callable[[Config], Objective[Any]]"
    overrides: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    inspect: "Callable[[Config, Model], Sequence[str]] | None" = None
    teaching: "Teaching | None" = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """A model, a test set and the options of an evaluation; None stands for the task's default.

    Attributes:
        model: A MODEL argument or a loaded model.
        data: Data directory of the test set.
        split: Split of the data directory.
        source: Text file of sources, in place of a data directory.
        reference: Text file of references to ``source``, line by line.
        runtime: Runtime of the model.
        threads: Threads of the runtime.
        batch: Sentences decoded at once.
        choices: Search options.
        lowercase: Compare without regard to case.
        window: Tokens that a language model reads at once.
        context: Least context of a scored token of a language model.
        progress: Receives the progress.
        warn: Receives warnings about lines of text.
    """

    model: "str | Path | LoadedModel | None"
    data: Path | None = None
    split: str | None = None
    source: Path | None = None
    reference: Path | None = None
    runtime: str | None = None
    threads: int | None = None
    batch: int = 64
    choices: SearchChoices = field(default_factory=SearchChoices)
    lowercase: bool = False
    window: int | None = None
    context: int | None = None
    progress: Progress = field(default_factory=SilentProgress)
    warn: Callable[[str], None] | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table for display; all cells are text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of a model on a test set.

    Attributes:
        facts: The JSON object that ``lite-nlp evaluate --json`` prints; ``scores`` among its keys.
        predictions: The model's outputs as lines of text, one for each example; empty where it has none.
        tables: The scores for display.
        notes: Lines below the tables, such as signatures.
        warnings: What is wrong with the model by these scores and outputs, and what to try.
    """

    facts: Mapping[str, Any]
    predictions: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def scores(self) -> Mapping[str, Any]:
        """The scores by name."""
        scores: Mapping[str, Any] = self.facts["scores"]
        return scores


class Room(Protocol):
    """The functions that define a task; a module with these three functions is a room."""

    def open_training_data(self, path: Path, *, vectors: Path | None = None) -> TrainingData:
        """Open a data directory of the task's kind.

        Args:
            path: The directory.
            vectors: File of pretrained word vectors at which the embeddings are frozen; only if the task takes them.

        Raises:
            DataError: If the directory is damaged.
        """

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a model.

        Raises:
            DataError: If the test set is damaged or does not fit the model.
            UsageError: If the request names no test set, or options that exclude each other.
        """

    def guide(self, loaded: "LoadedModel", data: Path | None) -> "Guidance":
        """The data, losses and scores by which compression works.

        Args:
            loaded: The model to be compressed.
            data: Data directory; None for the data that comes with the package, where the task has some.

        Raises:
            DataError: If the directory is damaged or does not fit the model.
            UsageError: If no directory is given and the task requires one.
        """
