"""The traced graphs as two ONNX files that share one file of weights."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import torch
from torch.export import ExportedProgram

from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.exporter import Exporter, RuntimeGraphs
from lite_nlp.export.runtime.layout import StateTensor
from lite_nlp.export.runtime.onnx import OnnxEntry
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.tracing import TracedModel

__all__ = ["ENTRY", "ONNX_EXPORTER", "OPSET", "OnnxFiles", "export_onnx", "graph_tensors", "share_weights"]

#: Old enough for every ONNX Runtime of the last years, new enough for all that the models need.
OPSET: Final = 20

#: Names in the bundle. The prefix is there since a graph may not use one name twice.
ENTRY: Final = OnnxEntry(encode="encode.onnx", decode_step="decode_step.onnx", weights="weights.bin", new_prefix="new.")

#: Smaller constants, such as shapes, stay in the graphs, where ONNX Runtime folds them.
_MIN_SHARED_BYTES: Final = 1024

#: Alignment of a tensor in the file of weights, a cache line.
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class OnnxFiles:
    """The ONNX part of a bundle.

    Attributes:
        encode: The encoder's graph.
        decode_step: The decoder step's graph.
        weights: External data of both; a tensor that both use is stored once.
    """

    encode: bytes
    decode_step: bytes
    weights: bytes


def export_onnx(traced: TracedModel) -> OnnxFiles:
    """Convert both graphs, optimized and checked."""
    encoded = [tensor for tensor in traced.state if tensor.origin == "encode"]
    changing = [tensor for tensor in traced.state if tensor.changes]
    sources = _input("src_tokens", "int64", ("batch", "source")), _input("src_mask", "bool", ("batch", "source"))
    encode = _convert(traced.encode, sources, [tensor.name for tensor in encoded])
    decode_step = _convert(
        traced.decode_step,
        [_input("tokens", "int64", ("batch",)), *traced.state],
        ["logits", *(ENTRY.new_prefix + tensor.name for tensor in changing)],
    )
    return share_weights(encode, decode_step)


def share_weights(encode: Any, decode_step: Any) -> OnnxFiles:
    """Move the large constants of two ONNX models into one file, equal ones once."""
    from onnx import TensorProto, external_data_helper

    weights = bytearray()
    places: dict[bytes, int] = {}
    for model in (encode, decode_step):
        for tensor in graph_tensors(model):
            if len(tensor.raw_data) < _MIN_SHARED_BYTES:
                continue
            digest = hashlib.sha256(tensor.raw_data).digest()
            if digest not in places:
                weights.extend(bytes(-len(weights) % _ALIGNMENT))
                places[digest] = len(weights)
                weights.extend(tensor.raw_data)
            external_data_helper.set_external_data(
                tensor, ENTRY.weights, offset=places[digest], length=len(tensor.raw_data)
            )
            tensor.data_location = TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
    return OnnxFiles(_serialize(encode), _serialize(decode_step), bytes(weights))


def graph_tensors(model: Any) -> Iterator[Any]:
    """The constants of an ONNX model: initializers, and values of ``Constant`` nodes."""
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _input(name: str, dtype: str, shape: tuple[str, ...]) -> StateTensor:
    return StateTensor.model_validate(
        {"name": name, "dtype": dtype, "shape": shape, "origin": "encode", "changes": False}
    )


def _convert(program: ExportedProgram, inputs: Sequence[StateTensor], outputs: Sequence[str]) -> Any:
    """An ONNX model of ``program`` with named inputs, outputs and dimensions."""
    with quiet_libraries(), torch.no_grad():
        converted = torch.onnx.export(
            program,
            (),
            dynamo=True,
            opset_version=OPSET,
            input_names=[tensor.name for tensor in inputs],
            output_names=list(outputs),
            optimize=True,
            verbose=False,
        )
        if converted is None:
            raise RuntimeError("torch.onnx.export with dynamo=True is documented to return a program, found None")
        model = converted.model_proto
    _name_dimensions(model, inputs)
    _strip_traces(model)
    from onnx import checker

    checker.check_model(model, full_check=True)
    return model


def _name_dimensions(model: Any, inputs: Sequence[StateTensor]) -> None:
    """Replace the exporter's symbols, such as ``s13``, by ours, also inside expressions."""
    names: dict[str, str] = {}
    by_name = {value.name: value for value in model.graph.input}
    for tensor in inputs:
        for size, dim in zip(tensor.shape, by_name[tensor.name].type.tensor_type.shape.dim, strict=True):
            if isinstance(size, str):
                names[dim.dim_param] = size
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(r"\w+", lambda word: names.get(word.group(), word.group()), dim.dim_param)


def _strip_traces(model: Any) -> None:
    """Drop the Python stack that made each node: it names the exporting machine's files and differs between runs."""
    model.doc_string = ""
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for item in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info):
        item.doc_string = ""
        del item.metadata_props[:]
    for tensor in model.graph.initializer:
        tensor.doc_string = ""
        del tensor.metadata_props[:]


def _serialize(model: Any) -> bytes:
    serialized: bytes = model.SerializeToString(deterministic=True)
    return serialized


def _export(traced: TracedModel) -> RuntimeGraphs:
    files = export_onnx(traced)
    return RuntimeGraphs(
        entry=ENTRY,
        files={ENTRY.encode: files.encode, ENTRY.decode_step: files.decode_step, ENTRY.weights: files.weights},
        work=count_onnx_work(encode=files.encode, decode_step=files.decode_step, bounds=traced.bounds),
    )


def _versions() -> dict[str, str]:
    return {"onnx": version("onnx"), "onnxruntime": version("onnxruntime"), "opset": str(OPSET)}


ONNX_EXPORTER: Final = Exporter(task="converting to ONNX", export=_export, versions=_versions)
