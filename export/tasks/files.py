"""What the export of a language model or classifier to one runtime makes."""

from collections.abc import Mapping
from dataclasses import dataclass

from lite_nlp.budget.traced.graphs import TaskWork
from lite_nlp.export.runtime.programs import ExecuTorchPrograms, OnnxPrograms

__all__ = ["TaskFiles"]


@dataclass(frozen=True)
class TaskFiles:
    """One runtime's part of a bundle.

    Attributes:
        entry: Of the manifest.
        files: Each file by its name.
        work: Mult-Adds of the graphs.
    """

    entry: OnnxPrograms | ExecuTorchPrograms
    files: Mapping[str, bytes]
    work: TaskWork
