"""The graphs of language models and classifiers as ONNX files that share one file of weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, cast

from torch.export import ExportedProgram

from lite_nlp.export.onnx_graphs import ENTRY, OPSET, _convert, share_weights
from lite_nlp.export.runtime.layout import StateTensor
from lite_nlp.export.runtime.programs import OnnxPrograms
from lite_nlp.export.runtime.signatures import Signature

__all__ = ["OnnxTaskFiles", "export_task_onnx", "onnx_versions"]

#: Graphs that share a file of weights; of one alone, both are the same.
_SHARED: Final = 2


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


@dataclass(frozen=True)
class _Input:
    """A named input; the conversion looks at its name and shape."""

    name: str
    shape: tuple[int | str | None, ...]


def export_task_onnx(programs: Mapping[str, ExportedProgram], signatures: Mapping[str, Signature]) -> OnnxTaskFiles:
    """Convert one or two graphs, optimized and checked."""
    models = []
    for name, program in programs.items():
        signature = signatures[name]
        inputs = [cast(StateTensor, _Input(key, form.shape)) for key, form in signature.inputs.items()]
        models.append(_convert(program, inputs, list(signature.outputs)))
    shared = share_weights(*(models * _SHARED)[:_SHARED])
    graphs = dict(zip(programs, (shared.encode, shared.decode_step), strict=False))
    names = {name: f"{name}.onnx" for name in graphs}
    files = {names[name]: content for name, content in graphs.items()} | {ENTRY.weights: shared.weights}
    return OnnxTaskFiles(OnnxPrograms(graphs=names, weights=ENTRY.weights), graphs, files)


def onnx_versions() -> dict[str, str]:
    """Packages that made the files, and the opset."""
    return {"onnx": version("onnx"), "onnxruntime": version("onnxruntime"), "opset": str(OPSET)}
