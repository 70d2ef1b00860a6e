"""The export of a language model or classifier to one runtime: what it takes, and what it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch.export import ExportedProgram

from lite_nlp.budget.traced.graphs import TaskWork
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.programs import ExecuTorchPrograms, OnnxPrograms
from lite_nlp.export.runtime.signatures import Signature

__all__ = ["TaskExport", "TaskFiles", "TracedTask"]


@dataclass(frozen=True, kw_only=True)
class TracedTask:
    """The traced graphs of a model.

    Attributes:
        programs: By the name of the graph.
        signatures: Of the graphs.
        bounds: Sizes for which they are valid.
        read: Of a language model, ``read`` in operators of ONNX Runtime, of one token too, so that it takes the place
            of ``decode_step``; None for those of the model itself.
        read_in_place: Of a language model, the reading of one text whose state stays in the program
            (:func:`~lite_nlp.export.searches.in_place_step.trace_read_in_place`), which takes the place of
            ``decode_step`` and ``read`` in ExecuTorch; None for those.
        rows_in_place: Beside it, the step of several texts
            (:func:`~lite_nlp.export.searches.in_place_step.trace_text_rows_in_place`); None for one text at a time.
        conversions: What the graphs have been converted to, by name, so that none is converted twice.
    """

    programs: Mapping[str, ExportedProgram]
    signatures: Mapping[str, Signature]
    bounds: Bounds
    read: ExportedProgram | None = None
    read_in_place: ExportedProgram | None = None
    rows_in_place: ExportedProgram | None = None
    conversions: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class TaskFiles:
    """One runtime's part of a bundle.

    Attributes:
        entry: Of the manifest.
        files: Each file by its name.
        work: Mult-Adds of the graphs.
        rows_work: The same with a step of several texts as ``decode_step``; None if that has no graph of its own.
    """

    entry: OnnxPrograms | ExecuTorchPrograms
    files: Mapping[str, bytes]
    work: TaskWork
    rows_work: TaskWork | None = None


class TaskExport(Protocol):
    """Makes the graphs for one runtime."""

    def __call__(self, traced: TracedTask, rounding: Rounding) -> TaskFiles:
        """Make them.

        Args:
            traced: The model.
            rounding: Of the weights of products and tables.

        Raises:
            ModelError: If the runtime cannot run them.
            CountError: If their work cannot be told.
        """
        ...
