"""Weights of ONNX graphs as 8-bit integers.

Every output channel has a scale, and the inputs are quantized anew at every call (``DynamicQuantizeMatMul``), which a
processor without dot-product instructions runs as integers too. ``MatMulNBits`` is faster where there are such
instructions, but elsewhere turns the whole matrix into fp32 at every call.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.export.contrib import DOMAIN

__all__ = ["MIN_OUTPUTS", "quantize_rows", "quantize_weights"]

#: Fewer output channels save nothing: the kernels of a convolution, which also are sensitive.
MIN_OUTPUTS: Final = 64

#: The largest integer, so that the range is symmetric.
_LARGEST: Final = 127

_QUANTIZED, _SCALE = "/int8", "/scale"


def quantize_rows(values: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each row of a matrix to multiples of a 127th of its largest magnitude.

    Args:
        values: (N, K) fp32.

    Returns:
        (N, K) integers, -127 to 127, and the scale (N,) by which they become the values again.
    """
    scales = np.abs(values).max(axis=1).astype(np.float32) / np.float32(_LARGEST)
    # A row of zeros has any scale.
    scales[scales == 0] = 1
    return np.rint(values / scales[:, None]).astype(np.int8), scales


class _Weight(NamedTuple):
    """A weight in a product.

    Attributes:
        name: Of the initializer.
        transposed: Whether it is stored as (outputs, inputs).
    """

    name: str
    transposed: bool


def quantize_weights(model: Any) -> None:
    """Replace the products with constant weights, and the tables that tokens are looked up in, of a ``ModelProto``.

    Graphs within its nodes are included; their weights are those of the graph around them.
    """
    _Quantizer(model).run()


class _Quantizer:
    """One pass over a model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._graphs = list(_all_graphs(model.graph))
        self._weights = {tensor.name: tensor for graph in self._graphs for tensor in graph.initializer}
        self._made: set[str] = set()

    def run(self) -> None:
        """Replace the nodes, drop what they no longer need."""
        for graph in self._graphs:
            uses = Counter(name for node in graph.node for name in node.input)
            uses.update(value.name for value in graph.output)
            by_input = {name: node for node in graph.node for name in node.input}
            absorbed: set[str] = set()
            nodes = []
            for node in graph.node:
                if node.name not in absorbed:
                    nodes += self._replaced(node, by_input, uses, absorbed)
            del graph.node[:]
            graph.node.extend(nodes)
        needed = {name for graph in self._graphs for node in graph.node for name in node.input}
        for graph in self._graphs:
            kept = [tensor for tensor in graph.initializer if tensor.name in needed]
            del graph.initializer[:]
            graph.initializer.extend(kept)
        if all(opset.domain != DOMAIN for opset in self._model.opset_import):
            self._model.opset_import.append(helper.make_opsetid(DOMAIN, 1))

    def _replaced(self, node: Any, by_input: dict[str, Any], uses: Counter[str], absorbed: set[str]) -> list[Any]:
        """The nodes in place of one; of a sum that is done with it, the name is added to ``absorbed``."""
        if (weight := self._weight(node)) is not None:
            bias, output = (node.input[2] if len(node.input) > 2 else ""), node.output[0]
            follower = by_input.get(output)
            if not bias and follower is not None and follower.op_type == "Add" and uses[output] == 1:
                other = next((name for name in follower.input if name != output), "")
                if other in self._weights and len(self._weights[other].dims) == 1:
                    bias, output = other, follower.output[0]
                    absorbed.add(follower.name)
            quantized, scale = self._quantize(weight)
            inputs = [node.input[0], quantized, scale, "", bias]
            return [
                helper.make_node(
                    "DynamicQuantizeMatMul", inputs if bias else inputs[:3], [output], name=node.name, domain=DOMAIN
                )
            ]
        if node.op_type == "Gather" and self._is_table(node) and (rank := self._rank(node.input[1])) is not None:
            return self._look_up(node, rank)
        return [node]

    def _weight(self, node: Any) -> _Weight | None:
        """The weight of a product that is worth quantizing; None if the node is none."""
        if node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2 or node.input[1] not in self._weights:
            return None
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA")
        transposed = bool(attributes.get("transB", 0))
        tensor = self._weights[node.input[1]]
        if not plain or len(tensor.dims) != 2 or tensor.data_type != TensorProto.FLOAT:
            return None
        outputs = tensor.dims[0 if transposed else 1]
        return _Weight(node.input[1], transposed) if outputs >= MIN_OUTPUTS else None

    def _quantize(self, weight: _Weight) -> tuple[str, str]:
        """Names of the integers (inputs, outputs) and their scales (outputs,)."""
        tensor = self._weights[weight.name]
        names = weight.name + _QUANTIZED, weight.name + _SCALE
        if weight.name not in self._made:
            self._made.add(weight.name)
            values = numpy_helper.to_array(tensor)
            rows, scales = quantize_rows(values if weight.transposed else values.T)
            self._add(names[0], np.ascontiguousarray(rows.T))
            self._add(names[1], scales)
        return names

    def _is_table(self, node: Any) -> bool:
        tensor = self._weights.get(node.input[0])
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
        if tensor is None or axis != 0 or len(tensor.dims) != 2:
            return False
        return bool(tensor.data_type == TensorProto.FLOAT and tensor.dims[0] >= MIN_OUTPUTS)

    def _look_up(self, node: Any, rank: int) -> list[Any]:
        """Rows of a table, of which every graph has the integers as the output's product would have them."""
        table, tokens = node.input
        quantized, scale = self._quantize(_Weight(table, transposed=True))
        name = node.name
        columns, moved, values, factors, factor = (f"{name}/{part}" for part in ("columns", "rows", "values", "s", "f"))
        axes = f"{name}/axes"
        self._add(axes, np.array([-1], np.int64))
        return [
            helper.make_node("Gather", [quantized, tokens], [columns], name=columns, axis=1),
            helper.make_node("Transpose", [columns], [moved], name=moved, perm=[*range(1, rank + 1), 0]),
            helper.make_node("Cast", [moved], [values], name=values, to=TensorProto.FLOAT),
            helper.make_node("Gather", [scale, tokens], [factors], name=factors, axis=0),
            helper.make_node("Unsqueeze", [factors, axes], [factor], name=factor),
            helper.make_node("Mul", [values, factor], [node.output[0]], name=name),
        ]

    def _rank(self, name: str) -> int | None:
        """Dimensions of a value; None if the model does not say."""
        values = [value for graph in self._graphs for value in (*graph.input, *graph.value_info)]
        found = next((value for value in values if value.name == name), None)
        return None if found is None else len(found.type.tensor_type.shape.dim)

    def _add(self, name: str, values: NDArray[Any]) -> None:
        self._model.graph.initializer.append(numpy_helper.from_array(values, name))


def _all_graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_graphs(attribute.g)
