"""The export of a language model or classifier to one runtime: what it takes, and what it makes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch.export import ExportedProgram

from lite_nlp.budget.traced.graphs import TaskWork
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.programs import ExecuTorchPrograms, OnnxPrograms
from lite_nlp.export.runtime.signatures import Signature

__all__ = ["TaskExport", "TaskFiles"]


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


class TaskExport(Protocol):
    """Makes the graphs for one runtime."""

    def __call__(
        self,
        programs: Mapping[str, ExportedProgram],
        signatures: Mapping[str, Signature],
        bounds: Bounds,
        rounding: Rounding,
    ) -> TaskFiles:
        """Make them.

        Args:
            programs: The traced graphs.
            signatures: Of the graphs.
            bounds: Largest sizes.
            rounding: Of the weights of products and tables.

        Raises:
            ModelError: If the runtime cannot run them.
            CountError: If their work cannot be told.
        """
        ...
