"""The graphs of language models and classifiers as one ExecuTorch program, a method for each."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from lite_nlp.export.counting.task_graphs import count_lowered
from lite_nlp.export.executorch_program import ENTRY, make_program, refuse_loops
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.programs import ExecuTorchPrograms
from lite_nlp.export.runtime.signatures import Signature
from lite_nlp.export.tasks.files import TaskFiles

__all__ = ["export_task_executorch"]


def export_task_executorch(
    programs: Mapping[str, ExportedProgram], signatures: Mapping[str, Signature], bounds: Bounds, rounding: Rounding
) -> TaskFiles:
    """Lower graphs to one program, most of it to XNNPACK; see :class:`~lite_nlp.export.tasks.files.TaskExport`.

    Recurrent layers, and operators that the runtime has no kernel for, are refused.
    """
    refuse_loops(programs.values())
    content, calls, work = make_program(
        programs, rounding, count=lambda lowered: count_lowered(lowered, signatures, bounds)
    )
    return TaskFiles(ExecuTorchPrograms(program=ENTRY.program, calls=calls), {ENTRY.program: content}, work)
