"""The graphs of language models and classifiers as one ExecuTorch program, a method for each or for two."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from lite_nlp.budget.traced.graphs import TaskWork
from lite_nlp.export.counting.task_graphs import count_lowered, count_read_in_place
from lite_nlp.export.counting.torch_programs import count_in_place_work
from lite_nlp.export.executorch_program import ENTRY, make_program, refuse_loops
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.runtime.programs import READING, ExecuTorchPrograms, graph_sizes, kept_signatures
from lite_nlp.export.runtime.signatures import READ_IN_PLACE, ROWS_IN_PLACE
from lite_nlp.export.tasks.files import TaskFiles, TracedTask

__all__ = ["export_task_executorch"]


def export_task_executorch(traced: TracedTask, rounding: Rounding) -> TaskFiles:
    """Lower graphs to one program, most of it to XNNPACK; see :class:`~lite_nlp.export.tasks.files.TaskExport`.

    Recurrent layers, and operators that the runtime has no kernel for, are refused.
    """
    refuse_loops(traced.programs.values())
    programs = dict(traced.programs)
    if traced.read_in_place is not None:
        programs = {name: program for name, program in programs.items() if name not in READING}
        programs[READ_IN_PLACE] = traced.read_in_place
        if traced.rows_in_place is not None:
            programs[ROWS_IN_PLACE] = traced.rows_in_place
    kept = {name: signature for name, signature in traced.signatures.items() if name in programs}

    def count(lowered: Mapping[str, ExportedProgram]) -> tuple[TaskWork, TaskWork | None]:
        graphs = dict(count_lowered(lowered, kept, traced.bounds).graphs)
        if READ_IN_PLACE in lowered:
            graphs |= count_read_in_place(lowered[READ_IN_PLACE], traced.bounds)
        if ROWS_IN_PLACE not in lowered:
            return TaskWork(graphs), None
        signature = kept_signatures(traced.signatures, traced.bounds)[ROWS_IN_PLACE]
        step = count_in_place_work(lowered[ROWS_IN_PLACE], signature, traced.bounds.of_rows)
        return TaskWork(graphs), TaskWork(graphs | {"decode_step": step})

    content, calls, (work, rows_work) = make_program(
        programs, rounding, count=count, rows={name: graph_sizes(name, traced.bounds)["batch"] for name in kept}
    )
    return TaskFiles(
        ExecuTorchPrograms(program=ENTRY.program, calls=calls), {ENTRY.program: content}, work, rows_work=rows_work
    )
