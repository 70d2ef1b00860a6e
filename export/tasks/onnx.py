"""The graphs of language models and classifiers as ONNX files that share one file of weights."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from lite_nlp.export.counting.task_graphs import count_onnx_graphs
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.onnx_conversion import (
    WEIGHTS,
    convert_program,
    oldest_runtime,
    refuse_unsafe_operators,
    runtime_operators,
    share_weights,
)
from lite_nlp.export.onnx_integers import round_weights
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.programs import OnnxPrograms
from lite_nlp.export.runtime.signatures import Signature
from lite_nlp.export.tasks.files import TaskFiles

__all__ = ["export_task_onnx"]


def export_task_onnx(
    programs: Mapping[str, ExportedProgram], signatures: Mapping[str, Signature], bounds: Bounds, rounding: Rounding
) -> TaskFiles:
    """Convert graphs, optimized and checked; see :class:`~lite_nlp.export.tasks.files.TaskExport`.

    An operator that the app's ONNX Runtime runs wrongly is refused.
    """
    models = {
        name: convert_program(
            program,
            {key: form.shape for key, form in signatures[name].inputs.items()},
            list(signatures[name].outputs),
        )
        for name, program in programs.items()
    }
    round_weights(models.values(), rounding)
    refuse_unsafe_operators(models)
    operators = runtime_operators(models.values())
    graphs, weights = share_weights(models)
    names = {name: f"{name}.onnx" for name in graphs}
    files = {names[name]: content for name, content in graphs.items()} | {WEIGHTS: weights}
    entry = OnnxPrograms(graphs=names, weights=WEIGHTS, operators=operators, oldest_runtime=oldest_runtime(operators))
    return TaskFiles(entry, files, count_onnx_graphs(graphs, signatures, bounds))
