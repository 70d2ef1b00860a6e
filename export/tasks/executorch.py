"""The graphs of language models and classifiers as one ExecuTorch program, a method for each."""

from lite_nlp.export.counting.task_graphs import count_lowered
from lite_nlp.export.executorch_program import ENTRY, make_program, refuse_loops
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.runtime.programs import ExecuTorchPrograms, graph_sizes
from lite_nlp.export.tasks.files import TaskFiles, TracedTask

__all__ = ["export_task_executorch"]


def export_task_executorch(traced: TracedTask, rounding: Rounding) -> TaskFiles:
    """Lower graphs to one program, most of it to XNNPACK; see :class:`~lite_nlp.export.tasks.files.TaskExport`.

    Recurrent layers, and operators that the runtime has no kernel for, are refused.
    """
    refuse_loops(traced.programs.values())
    content, calls, work = make_program(
        traced.programs,
        rounding,
        count=lambda lowered: count_lowered(lowered, traced.signatures, traced.bounds),
        rows={name: graph_sizes(name, traced.bounds)["batch"] for name in traced.programs},
    )
    return TaskFiles(ExecuTorchPrograms(program=ENTRY.program, calls=calls), {ENTRY.program: content}, work)
