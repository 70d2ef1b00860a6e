"""Conversion of traced programs to ONNX files that share one file of weights."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import Any, Final
from unittest.mock import patch

import torch
from onnx import TensorProto, checker, external_data_helper
from torch.export import ExportedProgram
from torch.fx import Interpreter
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.onnx._internal.fx.passes.type_promotion import _TypePromotionInterpreter, get_type_promotion_rule

from lite_nlp.core.errors import ModelError
from lite_nlp.export.contrib import OLDEST_RUNTIME
from lite_nlp.export.decomposing import decompose_program, known_operators
from lite_nlp.export.runtime.quiet import quiet_libraries

__all__ = [
    "OPSET",
    "WEIGHTS",
    "all_graphs",
    "convert_program",
    "oldest_runtime",
    "onnx_versions",
    "refuse_unsafe_operators",
    "runtime_operators",
    "share_weights",
]

#: Old enough for every ONNX Runtime of the last years, new enough for all that the models need.
OPSET: Final = 20

#: The first ONNX Runtime that reads this opset and the files' version of ONNX's format.
_PORTABLE_RUNTIME: Final = "1.18"

#: Name of the file of weights.
WEIGHTS: Final = "weights.bin"

#: Names of the domain of ONNX's own operators.
_STANDARD_DOMAINS: Final = ("", "ai.onnx")

#: Attention that version 1.24.3 of ONNX Runtime runs wrongly.
_UNSAFE: Final = "DecoderMaskedMultiHeadAttention"

#: Smaller constants, such as shapes, stay in the graphs, where ONNX Runtime folds them.
_MIN_SHARED_BYTES: Final = 1024

_read_registry: Final = ONNXRegistry.from_torchlib

#: Alignment of a tensor in the file of weights, a cache line.
_ALIGNMENT: Final = 64


def convert_program(
    program: ExportedProgram, inputs: Mapping[str, Sequence[int | str | None]], outputs: Sequence[str]
) -> Any:
    """Convert a traced program, optimized and checked.

    Args:
        program: The program.
        inputs: Names of its inputs, with their shapes: a string names a dimension.
        outputs: Names of its outputs.

    Returns:
        A ``ModelProto``.
    """
    with quiet_libraries(), known_operators(), _one_registry(), _known_values(), torch.no_grad():
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


@contextmanager
def _one_registry() -> Iterator[None]:
    """Let torch look up how operators are converted once in a process.

    It parses the source of some thousand functions for that at every export, a sixth of the time of a small model's.
    """
    with patch.object(ONNXRegistry, "from_torchlib", staticmethod(_registry)):
        yield


@cache
def _registry(opset_version: int) -> ONNXRegistry:
    return _read_registry(opset_version=opset_version)


@contextmanager
def _known_values() -> Iterator[None]:
    """Let the exporter take what is known of the values of a graph as it is.

    It runs a graph three times otherwise: twice to decompose it, and to find where types are mixed.
    """
    with (
        patch.object(ExportedProgram, "run_decompositions", decompose_program),
        patch.object(_TypePromotionInterpreter, "run_node", _promote),
    ):
        yield


def _promote(interpreter: Any, node: Any) -> Any:
    """Make the changes of types around a node explicit, and give its value."""
    with interpreter._set_current_node(node):
        rule = get_type_promotion_rule(node, interpreter.type_promotion_table)
        if rule is not None:
            interpreter._maybe_promote_node(node, rule)
    known = node.meta.get("val") if node.op == "call_function" else None
    return Interpreter.run_node(interpreter, node) if known is None else known


def _name_dimensions(model: Any, inputs: Mapping[str, Sequence[int | str | None]]) -> None:
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


def share_weights(models: Mapping[str, Any]) -> tuple[dict[str, bytes], bytes]:
    """Move the large constants of ONNX models into one file, equal ones once.

    Args:
        models: Any number of ``ModelProto``, by name; changed.

    Returns:
        The files of the models by name, and the content of ``WEIGHTS``, their external data.
    """
    weights = bytearray()
    places: dict[bytes, int] = {}
    for model in models.values():
        for tensor in _tensors(model):
            if len(tensor.raw_data) < _MIN_SHARED_BYTES:
                continue
            digest = hashlib.sha256(tensor.raw_data).digest()
            if digest not in places:
                weights.extend(bytes(-len(weights) % _ALIGNMENT))
                places[digest] = len(weights)
                weights.extend(tensor.raw_data)
            external_data_helper.set_external_data(tensor, WEIGHTS, offset=places[digest], length=len(tensor.raw_data))
            tensor.data_location = TensorProto.EXTERNAL
            tensor.ClearField("raw_data")
    return {name: _serialize(model) for name, model in models.items()}, bytes(weights)


def _tensors(model: Any) -> Iterator[Any]:
    """The constants of an ONNX model: initializers, and values of ``Constant`` nodes."""
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def all_graphs(graph: Any) -> Iterator[Any]:
    """A graph and those within its nodes, such as the body of a loop."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from all_graphs(inner)


def runtime_operators(models: Iterable[Any]) -> tuple[str, ...]:
    """The operators of ``ModelProto`` that are not of the ONNX standard, ``domain::name``, sorted."""
    nodes = (node for model in models for graph in all_graphs(model.graph) for node in graph.node)
    return tuple(sorted({f"{node.domain}::{node.op_type}" for node in nodes if node.domain not in _STANDARD_DOMAINS}))


def oldest_runtime(operators: Collection[str]) -> str:
    """The oldest ONNX Runtime, ``major.minor``, that runs files with these operators beside the standard's."""
    return OLDEST_RUNTIME if operators else _PORTABLE_RUNTIME


def refuse_unsafe_operators(models: Mapping[str, Any]) -> None:
    """Refuse graphs with an operator that ONNX Runtime 1.24, the app's, runs wrongly.

    Args:
        models: Any number of ``ModelProto``, by name.

    Raises:
        ModelError: If one has such a node, of whatever domain, also within another node.
    """
    for name, model in models.items():
        for graph in all_graphs(model.graph):
            found = next((node for node in graph.node if node.op_type == _UNSAFE), None)
            if found is not None:
                raise ModelError(
                    f"{name}: node {found.name or 'without a name'}: expected operators that ONNX Runtime 1.24, the "
                    f"app's, runs rightly, found {_UNSAFE}, which damages its memory on buffers that past and present "
                    "share; write the attention as GroupQueryAttention, or in operators of the ONNX standard "
                    "(--portable)"
                )


def onnx_versions() -> dict[str, str]:
    """Packages that made the files, and the opset."""
    return {"onnx": version("onnx"), "onnxruntime": version("onnxruntime"), "opset": str(OPSET)}
