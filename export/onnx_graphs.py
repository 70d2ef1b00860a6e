"""The traced graphs as ONNX files that share one file of weights: the encoder, a decoder step, and a whole search."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, checker, external_data_helper, numpy_helper
from torch import nn
from torch.export import ExportedProgram

from lite_nlp.export.contrib import OLDEST_RUNTIME
from lite_nlp.export.counting.onnx_search import count_search_work
from lite_nlp.export.counting.onnx_walk import count_onnx_work
from lite_nlp.export.exporter import Exporter, RuntimeGraphs
from lite_nlp.export.greedy.loop import build_search
from lite_nlp.export.greedy.step import INPUTS, OUTPUTS, TracedStep, trace_greedy_step
from lite_nlp.export.onnx_int8 import quantize_weights
from lite_nlp.export.runtime.layout import Precision, StateTensor
from lite_nlp.export.runtime.onnx import OnnxEntry
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.tracing import TracedModel

__all__ = ["ENTRY", "ONNX_EXPORTER", "OPSET", "OnnxFiles", "export_onnx", "graph_tensors", "share_weights"]

#: Old enough for every ONNX Runtime of the last years, new enough for all that the models need.
OPSET: Final = 20

#: The first ONNX Runtime that reads this opset and the files' version of ONNX's format.
PORTABLE_RUNTIME: Final = "1.18"

#: What a bundle of standard operators holds. The prefix is there since a graph may not use one name twice.
ENTRY: Final = OnnxEntry(
    encode="encode.onnx",
    decode_step="decode_step.onnx",
    greedy="greedy.onnx",
    weights="weights.bin",
    new_prefix="new.",
    operators=(),
    oldest_runtime=PORTABLE_RUNTIME,
)

#: Smaller constants, such as shapes, stay in the graphs, where ONNX Runtime folds them.
_MIN_SHARED_BYTES: Final = 1024

_ROWS: Final = ("batch",)

#: Alignment of a tensor in the file of weights, a cache line.
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class OnnxFiles:
    """The ONNX part of a bundle.

    Attributes:
        encode: The encoder's graph.
        decode_step: The decoder step's graph.
        greedy: The graph of a whole greedy search.
        weights: External data of all; a tensor that several use is stored once.
    """

    encode: bytes
    decode_step: bytes
    greedy: bytes
    weights: bytes


def export_onnx(traced: TracedModel, step: TracedStep, *, precision: Precision = "fp32") -> OnnxFiles:
    """Convert all graphs, optimized and checked.

    Args:
        traced: The model.
        step: One step of greedy search with it.
        precision: Of the weights of products and tables.
    """
    sources = {"src_tokens": ("batch", "source"), "src_mask": ("batch", "source")}
    encode = _convert(traced.encode, sources, [tensor.name for tensor in traced.state if tensor.origin == "encode"])
    decode_step = _convert(
        traced.decode_step,
        {"tokens": _ROWS, **{tensor.name: tensor.shape for tensor in traced.state}},
        ["logits", *_new_names(traced.state)],
    )
    body = _convert(step.program, {**INPUTS, **step.shapes}, [*OUTPUTS, *_new_names(step.state)])
    _lay_out_alike(body, decode_step)
    if precision == "int8":
        for model in (encode, decode_step, body):
            quantize_weights(model)
    greedy = build_search(encode, body, step, new_prefix=ENTRY.new_prefix)
    return share_weights({"encode": encode, "decode_step": decode_step, "greedy": greedy})


def _lay_out_alike(model: Any, pattern: Any) -> None:
    """Transpose the weights that another graph holds transposed, so that both can share them."""
    known = {_digest(numpy_helper.to_array(tensor)) for tensor in pattern.graph.initializer}
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        transposition = next((attribute for attribute in node.attribute if attribute.name == "transB"), None)
        if node.op_type != "Gemm" or transposition is None or node.input[1] not in weights:
            continue
        tensor = weights[node.input[1]]
        transposed = np.ascontiguousarray(numpy_helper.to_array(tensor).T)
        alone = sum(list(other.input).count(tensor.name) for other in model.graph.node) == 1
        if alone and _digest(transposed) in known:
            tensor.CopyFrom(numpy_helper.from_array(transposed, tensor.name))
            transposition.i = 1 - transposition.i


def _digest(values: NDArray[Any]) -> bytes:
    return hashlib.sha256(str(values.shape).encode() + values.tobytes()).digest()


def _new_names(state: Sequence[StateTensor]) -> list[str]:
    return [ENTRY.new_prefix + tensor.name for tensor in state if tensor.changes]


def share_weights(models: Mapping[str, Any]) -> OnnxFiles:
    """Move the large constants of ONNX models, named as the fields of the result, into one file, equal ones once."""
    weights = bytearray()
    places: dict[bytes, int] = {}
    for model in models.values():
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
    return OnnxFiles(**{name: _serialize(model) for name, model in models.items()}, weights=bytes(weights))


def graph_tensors(model: Any) -> Iterator[Any]:
    """The constants of an ONNX model: initializers, and values of ``Constant`` nodes."""
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _convert(program: ExportedProgram, inputs: Mapping[str, Sequence[int | str]], outputs: Sequence[str]) -> Any:
    """An ONNX model of ``program`` with named inputs (by shape), outputs and dimensions."""
    with quiet_libraries(), torch.no_grad():
        converted = torch.onnx.export(
            program,
            (),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            optimize=True,
            verbose=False,
        )
        if converted is None:
            raise RuntimeError("torch.onnx.export with dynamo=True is documented to return a program, found None")
        model = converted.model_proto
    _name_dimensions(model, inputs)
    _strip_traces(model)
    checker.check_model(model, full_check=True)
    return model


def _name_dimensions(model: Any, inputs: Mapping[str, Sequence[int | str]]) -> None:
    """Replace the exporter's symbols, such as ``s13``, by ours, also inside expressions."""
    names: dict[str, str] = {}
    by_name = {value.name: value for value in model.graph.input}
    for name, shape in inputs.items():
        for size, dim in zip(shape, by_name[name].type.tensor_type.shape.dim, strict=True):
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


def _export(traced: TracedModel, search_form: nn.Module, precision: Precision) -> RuntimeGraphs:
    files = export_onnx(traced, trace_greedy_step(search_form, traced.bounds), precision=precision)
    graphs = {ENTRY.encode: files.encode, ENTRY.decode_step: files.decode_step, ENTRY.greedy: files.greedy}
    operators = sorted({name for graph in graphs.values() for name in _own_operators(graph)})
    oldest = OLDEST_RUNTIME if operators else PORTABLE_RUNTIME
    return RuntimeGraphs(
        entry=ENTRY.model_copy(update={"operators": tuple(operators), "oldest_runtime": oldest}),
        files={**graphs, ENTRY.weights: files.weights},
        work=count_onnx_work(encode=files.encode, decode_step=files.decode_step, bounds=traced.bounds),
        search_work=count_search_work(files.greedy, traced.bounds),
    )


def _own_operators(content: bytes) -> Iterator[str]:
    """The operators of a graph and those within it that the standard does not have."""
    graphs = [onnx.load_from_string(content).graph]
    while graphs:
        graph = graphs.pop()
        yield from (f"{node.domain}::{node.op_type}" for node in graph.node if node.domain not in ("", "ai.onnx"))
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def _versions() -> dict[str, str]:
    return {"onnx": version("onnx"), "onnxruntime": version("onnxruntime"), "opset": str(OPSET)}


ONNX_EXPORTER: Final = Exporter(
    task="converting to ONNX", export=_export, precisions=("fp32", "int8"), versions=_versions
)
