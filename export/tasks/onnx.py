"""The graphs of language models and classifiers as ONNX files that share one file of weights."""

from collections import Counter
from typing import Any

import onnx
from torch.export import ExportedProgram

from lite_nlp.export.counting.onnx_operators import CACHED
from lite_nlp.export.counting.task_graphs import count_onnx_graphs, reads_alone
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
from lite_nlp.export.runtime.programs import CHANGED_PREFIX, READING, OnnxPrograms
from lite_nlp.export.tasks.files import TaskFiles, TracedTask

__all__ = ["convert_task", "export_task_onnx"]


def convert_task(traced: TracedTask) -> dict[str, Any]:
    """The ``ModelProto`` of each graph, in fp32; they may be changed.

    Where caches can be written in place, ``read`` takes single tokens too, and there is no ``decode_step``.
    """
    if not traced.conversions:
        programs = dict(traced.programs)
        if traced.read is not None:
            read = _convert(traced, "read", traced.read)
            if _written_caches(read.graph):
                programs = {name: program for name, program in programs.items() if name not in READING}
                traced.conversions["read"] = read.SerializeToString()
        for name, program in programs.items():
            traced.conversions[name] = _convert(traced, name, program).SerializeToString()
    return {name: onnx.load_from_string(content) for name, content in traced.conversions.items()}


def _convert(traced: TracedTask, name: str, program: ExportedProgram) -> Any:
    signature = traced.signatures[name]
    return convert_program(
        program, {key: form.shape for key, form in signature.inputs.items()}, list(signature.outputs)
    )


def export_task_onnx(traced: TracedTask, rounding: Rounding) -> TaskFiles:
    """Convert graphs, optimized and checked; see :class:`~lite_nlp.export.tasks.files.TaskExport`.

    An operator that the app's ONNX Runtime runs wrongly is refused.
    """
    models = convert_task(traced)
    round_weights(models.values(), rounding)
    refuse_unsafe_operators(models)
    operators = runtime_operators(models.values())
    graphs, weights = share_weights(models)
    names = {name: f"{name}.onnx" for name in graphs}
    files = {names[name]: content for name, content in graphs.items()} | {WEIGHTS: weights}
    entry = OnnxPrograms(
        graphs=names,
        weights=WEIGHTS,
        operators=operators,
        oldest_runtime=oldest_runtime(operators),
        caches=_written_caches(models["read"].graph) if reads_alone(models) else (),
    )
    return TaskFiles(entry, files, count_onnx_graphs(graphs, traced.signatures, traced.bounds))


def _written_caches(graph: Any) -> tuple[str, ...]:
    """Inputs of a graph that become outputs by attention alone, which may write them where they are."""
    # A node that asks for sizes reads none of the numbers.
    readers = Counter(name for node in graph.node if node.op_type != "Shape" for name in node.input)
    given, made = {value.name for value in graph.input}, {value.name for value in graph.output}
    caches = [
        before
        for node in graph.node
        if node.op_type == CACHED
        for before, after in zip(node.input[3:5], node.output[1:3], strict=True)
        if before in given and after == CHANGED_PREFIX + before and after in made and readers[before] == 1
    ]
    return tuple(caches)
