"""The graphs of language models and classifiers as ONNX files that share one file of weights."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from lite_nlp.export.contrib import OLDEST_RUNTIME
from lite_nlp.export.counting.task_graphs import count_onnx_graphs
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.onnx_conversion import (
    PORTABLE_RUNTIME,
    WEIGHTS,
    convert_program,
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
    """Convert graphs, optimized and checked.

    Args:
        programs: The traced graphs.
        signatures: Of the graphs.
        bounds: Largest sizes.
        rounding: Of the weights of products and tables.

    Raises:
        ModelError: If a graph has an operator that the app's ONNX Runtime runs wrongly.
        CountError: If the work of a graph cannot be told.
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
    operators = sorted(set[str]().union(*map(runtime_operators, models.values())))
    graphs, weights = share_weights(models)
    names = {name: f"{name}.onnx" for name in graphs}
    files = {names[name]: content for name, content in graphs.items()} | {WEIGHTS: weights}
    entry = OnnxPrograms(
        graphs=names,
        weights=WEIGHTS,
        operators=tuple(operators),
        oldest_runtime=OLDEST_RUNTIME if operators else PORTABLE_RUNTIME,
    )
    return TaskFiles(entry, files, count_onnx_graphs(graphs, signatures, bounds))
