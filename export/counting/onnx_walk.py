"""Mult-Adds of an ONNX graph, counted node by node with all sizes known.

The sizes come from ONNX's own shape inference, node by node, given the sizes of the inputs and the values of whatever
shape arithmetic the graph does on them; what the exporter noted about shapes is not trusted. Neither are the weights
needed: only their shapes are.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from math import prod
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, inliner, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from lite_nlp.budget.traced.graphs import GraphWork, Work, fit_graphs
from lite_nlp.budget.traced.work import Entry, WorkCount
from lite_nlp.core.errors import CountError, UnknownOperatorError
from lite_nlp.export.counting.onnx_operators import (
    CACHED,
    FORMULAS,
    FREE_REASONS,
    NESTED,
    RUNTIME_OPERATORS,
    NodeCall,
    Shape,
)
from lite_nlp.export.counting.onnx_products import Products
from lite_nlp.export.runtime.layout import Bounds

__all__ = ["count_onnx", "count_onnx_work"]

#: Names of ONNX's own operators' domain.
_DOMAINS: Final = ("", "ai.onnx")

#: The domain of ONNX Runtime's own.
_RUNTIME_DOMAIN: Final = "com.microsoft"

#: Most elements of a tensor that is followed by value: shapes, ranges of positions, indices.
_MAX_VALUES: Final = 1 << 14

_VALUE_TYPES: Final = frozenset({onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL})


def count_onnx(model: Any, sizes: Mapping[str, int]) -> WorkCount:
    """Count one run of an ONNX model.

    Args:
        model: The ``ModelProto``, or its bytes; tensors kept in another file are not read.
        sizes: The size for each symbol in the shapes of its inputs.

    Returns:
        The work by operator type and, in place of a module, name of the node.

    Raises:
        UnknownOperatorError: If a node's work cannot be told: an operator that is in no table, or one that runs graphs
            of its own.
        CountError: If a size is missing, or a shape cannot be inferred.
    """
    if isinstance(model, bytes):
        model = onnx.load_from_string(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
    return _Walk(model, sizes).count()


def count_onnx_work(*, encode: bytes, decode_step: bytes, bounds: Bounds, recorded: Work | None = None) -> GraphWork:
    """Count the Mult-Adds of a bundle's two ONNX graphs.

    Args:
        encode: The encoder's graph, without its weights.
        decode_step: The decoder step's graph, likewise.
        bounds: Largest sizes of the bundle.
        recorded: What an earlier count found, held against a count at two sizes instead of made anew.

    Raises:
        CountError: As ``count_onnx``, or if the work is no polynomial of the sizes.
    """
    models = onnx.load_from_string(encode), onnx.load_from_string(decode_step)

    def count_encode(source: int) -> Any:
        return count_onnx(models[0], {"batch": 1, "source": source}).by_kind()

    def count_step(source: int, capacity: int) -> Any:
        return count_onnx(models[1], {"batch": 1, "source": source, "capacity": capacity}).by_kind()

    return fit_graphs(
        encode=count_encode,
        decode_step=count_step,
        max_source=bounds.source,
        max_capacity=bounds.capacity,
        recorded=recorded,
    )


class _Walk:
    """One pass over the nodes, which ONNX keeps in topological order.

    Args:
        model: Without local functions.
        sizes: For the symbols of the inputs.
    """

    def __init__(self, model: Any, sizes: Mapping[str, int]) -> None:
        self._graph = model.graph
        self._opsets = list(model.opset_import)
        self._version = {opset.domain: opset.version for opset in self._opsets}
        self._ir_version = model.ir_version
        self._types: dict[str, Any] = {}
        self._values: dict[str, NDArray[Any]] = {}
        self._products = Products()
        self._read_constants()
        #: Caches with place for the tokens that attention adds; others become longer.
        self._roomy: set[str] = set()
        for value in self._graph.input:
            if value.name not in self._types:
                self._types[value.name] = _bind(value, sizes)
            if any(dim.dim_param == "capacity" for dim in value.type.tensor_type.shape.dim):
                self._roomy.add(value.name)

    def count(self) -> WorkCount:
        """The work of all nodes."""
        return WorkCount.from_entries(entry for node in self._graph.node for entry in self._visit(node))

    def _visit(self, node: Any) -> Iterator[Entry]:
        if node.op_type == "Scan" and node.domain in _DOMAINS:
            yield from self._visit_loop(node)
            return
        if node.op_type in NESTED:
            raise UnknownOperatorError(
                f"{node.op_type} {node.name}: expected nodes that run once, found one that runs graphs of its own as "
                "often as the data say"
            )
        if node.op_type in RUNTIME_OPERATORS and node.domain == _RUNTIME_DOMAIN:
            yield self._visit_product(node)
            return
        known = node.op_type in FORMULAS or node.op_type in FREE_REASONS
        if node.domain not in _DOMAINS or not known:
            domain = f"{node.domain}::" if node.domain else ""
            raise UnknownOperatorError(
                f"{domain}{node.op_type} {node.name}: expected an operator whose Mult-Adds are known, found one that "
                "is in no table of export/onnx_operators.py"
            )
        self._infer(node)
        self._evaluate(node)
        call = NodeCall(
            operator=node.op_type,
            name=node.name,
            inputs=[self._shape(node, name) if name else None for name in node.input],
            outputs=[self._shape(node, name) for name in node.output if name],
            attributes={attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
        )
        if node.op_type in FORMULAS:
            kind, formula = FORMULAS[node.op_type]
            yield Entry(operator=node.op_type, module=node.name, kind=kind, macs=formula(call), calls=1)
        contracted = self._products.follow(node, {name: self._tensor(name) for name in (*node.input, *node.output)})
        if contracted:
            yield Entry(operator=node.op_type, module=node.name, kind="contraction", macs=contracted, calls=1)

    def _visit_product(self, node: Any) -> Entry:
        """An operator of ONNX Runtime's own, whose outputs have the type of its first input."""
        formula, shape_outputs = RUNTIME_OPERATORS[node.op_type]
        inputs = [self._shape(node, name) if name else None for name in node.input]
        if node.op_type == CACHED and node.input[3] in self._roomy:
            _, tokens, _ = self._shape(node, node.input[0])
            rows, heads, slots, width = self._shape(node, node.input[3])
            # As of the last tokens of that capacity.
            inputs[3] = rows, heads, slots - tokens, width
        outputs = list(shape_outputs([shape or () for shape in inputs]))[: len(node.output)]
        kind = self._types[node.input[0]].tensor_type.elem_type
        for name, shape in zip(node.output, outputs, strict=True):
            self._types[name] = helper.make_tensor_type_proto(kind, shape)
        call = NodeCall(operator=node.op_type, name=node.name, inputs=inputs, outputs=outputs, attributes={})
        return Entry(operator=node.op_type, module=node.name, kind="matmul", macs=formula(call), calls=1)

    def _visit_loop(self, node: Any) -> Iterator[Entry]:
        """A loop over the first dimension of its last inputs: the work of one step, as often as it is made.

        Raises:
            UnknownOperatorError: If it runs over another dimension.
        """
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if any(any(attributes.get(name, ())) for name in ("scan_input_axes", "scan_output_axes")):
            raise UnknownOperatorError(f"Scan {node.name}: expected a loop over first dimensions, found another one")
        body, scanned = attributes["body"], attributes["num_scan_inputs"]
        carried = len(node.input) - scanned
        step = copy(self)
        step._graph, step._types, step._values, step._products = body, dict(self._types), dict(self._values), Products()
        shapes = [self._shape(node, name)[place >= carried :] for place, name in enumerate(node.input)]
        for value, name, shape in zip(body.input, node.input, shapes, strict=True):
            step._types[value.name] = helper.make_tensor_type_proto(self._types[name].tensor_type.elem_type, shape)
        step._read_constants()
        times = self._shape(node, node.input[carried])[0]
        yield from step.count().scaled(times).entries
        for place, (name, value) in enumerate(zip(node.output, body.output, strict=True)):
            found = step._shape(node, value.name)
            kind = step._types[value.name].tensor_type.elem_type
            self._types[name] = helper.make_tensor_type_proto(kind, found if place < carried else (times, *found))

    def _read_constants(self) -> None:
        for tensor in self._graph.initializer:
            self._types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            self._keep_constant(tensor.name, tensor)

    def _tensor(self, name: str) -> tuple[Shape, bool]:
        """Shape, and whether the elements are floating-point numbers; an input left out has neither."""
        if not name:
            return (), False
        tensor = self._types[name].tensor_type
        return tuple(dim.dim_value for dim in tensor.shape.dim), tensor.elem_type in _FLOATS

    def _infer(self, node: Any) -> None:
        """Types of the node's outputs.

        Raises:
            CountError: If ONNX cannot tell one, or an input has none.
        """
        missing = [name for name in node.input if name and name not in self._types]
        if missing:
            raise CountError(f"{node.op_type} {node.name}: expected inputs made before it, found none named {missing}")
        domain = "" if node.domain in _DOMAINS else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self._version[domain], domain)
            inferred = shape_inference.infer_node_outputs(
                schema,
                node,
                {name: self._types[name] for name in node.input if name},
                {
                    name: numpy_helper.from_array(self._values[name], name)
                    for name in node.input
                    if name in self._values
                },
                opset_imports=self._opsets,
                ir_version=self._ir_version,
            )
        except (onnx.defs.SchemaError, shape_inference.InferenceError, ValueError, RuntimeError, KeyError) as error:
            raise CountError(f"{node.op_type} {node.name}: expected shapes that fit it, found: {error}") from error
        self._types.update(inferred)
        for name in node.output:
            if name:
                self._shape(node, name)

    def _shape(self, node: Any, name: str) -> Shape:
        tensor = self._types[name].tensor_type if name in self._types else None
        if (
            tensor is None
            or not tensor.HasField("shape")
            or any(not dim.HasField("dim_value") for dim in tensor.shape.dim)
        ):
            raise CountError(
                f"{node.op_type} {node.name}: expected {name} to have a shape that follows from those of the graph's "
                "inputs, found one that does not"
            )
        return tuple(dim.dim_value for dim in tensor.shape.dim)

    def _evaluate(self, node: Any) -> None:
        """Values of the outputs, as far as they follow from sizes and small constants."""
        if node.op_type == "Shape":
            sizes = self._shape(node, node.input[0])
            attributes = {attribute.name: attribute.i for attribute in node.attribute}
            kept = sizes[attributes.get("start", 0) : attributes.get("end", len(sizes))]
            self._values[node.output[0]] = np.array(kept, np.int64)
        elif node.op_type == "Size":
            self._values[node.output[0]] = np.array(prod(self._shape(node, node.input[0])), np.int64)
        elif node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._keep_constant(node.output[0], attribute.t)
                elif attribute.name in ("value_int", "value_ints"):
                    self._values[node.output[0]] = np.array(helper.get_attribute_value(attribute), np.int64)
        elif node.op_type in FREE_REASONS and self._computable(node):
            inputs = [helper.make_value_info(name, self._types[name]) for name in dict.fromkeys(node.input) if name]
            outputs = [helper.make_value_info(name, self._types[name]) for name in node.output if name]
            single = helper.make_model(
                helper.make_graph([node], "single", inputs, outputs),
                opset_imports=self._opsets,
                ir_version=self._ir_version,
            )
            found = ReferenceEvaluator(single).run(None, {value.name: self._values[value.name] for value in inputs})
            self._values.update(zip((value.name for value in outputs), map(np.asarray, found), strict=True))

    def _computable(self, node: Any) -> bool:
        """Whether every input's value is known and the outputs are integers or truth values, and few."""
        if not all(name in self._values for name in node.input if name):
            return False
        return all(
            self._types[name].tensor_type.elem_type in _VALUE_TYPES and prod(self._shape(node, name)) <= _MAX_VALUES
            for name in node.output
            if name
        )

    def _keep_constant(self, name: str, tensor: Any) -> None:
        """Remember the value of a constant if it is small and lies in the graph itself."""
        if (
            tensor.data_type in _VALUE_TYPES
            and tensor.data_location != onnx.TensorProto.EXTERNAL
            and prod(tensor.dims) <= _MAX_VALUES
        ):
            self._values[name] = numpy_helper.to_array(tensor)


_FLOATS: Final = frozenset(
    {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
)


def _bind(value: Any, sizes: Mapping[str, int]) -> Any:
    """The type of a graph's input with its symbols replaced.

    Raises:
        CountError: If there is no size for a symbol.
    """
    tensor = value.type.tensor_type
    shape = []
    for dim in tensor.shape.dim:
        if not dim.HasField("dim_value") and dim.dim_param not in sizes:
            raise CountError(
                f"input {value.name}: expected the sizes {', '.join(sizes)}, "
                f"found {dim.dim_param or 'one without name'}"
            )
        shape.append(dim.dim_value if dim.HasField("dim_value") else sizes[dim.dim_param])
    return helper.make_tensor_type_proto(tensor.elem_type, shape)
