"""The graphs of language models and classifiers as ONNX files that share one file of weights."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch.export import ExportedProgram

from lite_nlp.export.onnx_conversion import WEIGHTS, convert_program, refuse_unsafe_operators, share_weights
from lite_nlp.export.runtime.programs import OnnxPrograms
from lite_nlp.export.runtime.signatures import Signature

__all__ = ["OnnxTaskFiles", "export_task_onnx"]


@dataclass(frozen=True)
class OnnxTaskFiles:
    """The ONNX part of a bundle.

    Attributes:
        entry: Of the manifest.
        graphs: Each graph by its name.
        files: Each file by its name.
    """

    entry: OnnxPrograms
    graphs: Mapping[str, bytes]
    files: Mapping[str, bytes]


def export_task_onnx(programs: Mapping[str, ExportedProgram], signatures: Mapping[str, Signature]) -> OnnxTaskFiles:
    """Convert graphs, optimized and checked.

    Raises:
        ModelError: If a graph has an operator that the app's ONNX Runtime runs wrongly.
    """
    models = {
        name: convert_program(
            program,
            {key: form.shape for key, form in signatures[name].inputs.items()},
            list(signatures[name].outputs),
        )
        for name, program in programs.items()
    }
    refuse_unsafe_operators(models)
    graphs, weights = share_weights(models)
    names = {name: f"{name}.onnx" for name in graphs}
    files = {names[name]: content for name, content in graphs.items()} | {WEIGHTS: weights}
    return OnnxTaskFiles(OnnxPrograms(graphs=names, weights=WEIGHTS), graphs, files)
