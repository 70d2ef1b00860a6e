"""Weights of ONNX graphs as integers of 8 or 4 bits.

In 8 bits every output channel has a scale, and the inputs are quantized anew at every call (``DynamicQuantizeMatMul``),
which a processor without dot-product instructions runs as integers too. In 4 bits every block of a channel has one
(``MatMulNBits``), and half the bytes are read; ONNX Runtime's kernels for that are fast where a processor has
instructions for it, and for few rows.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from lite_nlp.export.contrib import DOMAIN
from lite_nlp.export.matrices import Form, Matrix, Rounding, array_digest
from lite_nlp.export.onnx_conversion import all_graphs
from lite_nlp.export.rounding import MIN_OUTPUTS, PAIRS, quantize_blocks, quantize_rows
from lite_nlp.export.runtime.rounded import BLOCK, pack_levels

__all__ = ["find_matrices", "quantize_weights", "round_weights"]

#: Inputs are quantized to 8 bits for the product with 4 bits: the kernel with fp32 inputs takes three times as long.
_INTEGER_INPUTS: Final = 4


class _Weight(NamedTuple):
    """A weight in a product.

    Attributes:
        name: Of the initializer, or of what joins several.
        transposed: Whether it is stored as (outputs, inputs).
        parts: The initializers, one below the other as (outputs, inputs): one, mostly.
    """

    name: str
    transposed: bool
    parts: tuple[str, ...]


def find_matrices(model: Any) -> list[Matrix]:
    """The matrices of a ``ModelProto`` that are worth quantizing, each once, in the order of their use."""
    return list(_Quantizer(model, {}).matrices().values())


def quantize_weights(model: Any, forms: Mapping[bytes, Form]) -> None:
    """Replace the products with constant weights, and the tables that tokens are looked up in, of a ``ModelProto``.

    Graphs within its nodes are included; their weights are those of the graph around them.

    Args:
        model: Changed.
        forms: The form of each matrix by its key; a matrix without one stays in fp32.
    """
    _Quantizer(model, forms).run()


def round_weights(models: Iterable[Any], rounding: Rounding) -> None:
    """Give the matrices of ``ModelProto`` the forms of a rounding, in place."""
    for model in models if rounding.is_needed else ():
        quantize_weights(model, {matrix.key: rounding.form(matrix.key) for matrix in find_matrices(model)})


class _Quantizer:
    """One pass over a model."""

    def __init__(self, model: Any, forms: Mapping[bytes, Form]) -> None:
        self._model = model
        self._forms = forms
        self._graphs = list(all_graphs(model.graph))
        self._weights = {tensor.name: tensor for graph in self._graphs for tensor in graph.initializer}
        nodes = [node for graph in self._graphs for node in graph.node]
        # The gates of an LSTM are one product, of weights that are joined first: by the name of the result, theirs.
        self._joined = {
            node.output[0]: tuple(node.input)
            for node in nodes
            if node.op_type == "Concat" and _axis(node) == 0 and all(map(self._is_matrix, node.input))
        }
        # A product of three dimensions with a table turns it first: by the name of the result, that of the table.
        self._turned = {
            node.output[0]: node.input[0]
            for node in nodes
            if node.op_type == "Transpose"
            and (node.input[0] in self._weights or node.input[0] in self._joined)
            and _is_turn(node)
        }
        values = (value for graph in self._graphs for value in (*graph.input, *graph.value_info))
        self._ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
        self._keys: dict[_Weight, bytes] = {}
        self._made: set[str] = set()
        self._first: list[Any] = []

    def matrices(self) -> dict[bytes, Matrix]:
        """What can be replaced, by its key."""
        found: dict[bytes, Matrix] = {}
        for graph in self._graphs:
            for node in graph.node:
                weight = self._weight(node) or self._table(node)
                if weight is not None:
                    outputs, inputs = self._rows(weight).shape
                    key = self._key(weight)
                    joined = tuple(map(self._key, _split(weight)))
                    looped = graph is not self._graphs[0]
                    found.setdefault(key, Matrix(key, weight.name, outputs, inputs, joined, looped))
        return found

    def run(self) -> None:
        """Replace the nodes, drop what they no longer need."""
        uses = self._uses()
        self._rewrite(lambda graph: self._quantized(graph, uses))
        # What is turned may have been joined before.
        for made in (self._turned, self._joined):
            self._drop(made, self._uses())
        uses = self._uses()
        for graph in self._graphs:
            kept = [tensor for tensor in graph.initializer if uses[tensor.name]]
            del graph.initializer[:]
            graph.initializer.extend(kept)
        if all(opset.domain != DOMAIN for opset in self._model.opset_import):
            self._model.opset_import.append(helper.make_opsetid(DOMAIN, 1))

    def _rewrite(self, nodes_of: Callable[[Any], Iterable[Any]]) -> None:
        """Give every graph other nodes: those within nodes first, since a graph takes copies of its nodes."""
        for graph in reversed(self._graphs):
            nodes = list(nodes_of(graph))
            del graph.node[:]
            graph.node.extend(nodes)
        self._graphs = list(all_graphs(self._model.graph))

    def _drop(self, made: Collection[str], uses: Counter[str]) -> None:
        """Drop the nodes that make these values where they are not used."""
        self._rewrite(lambda graph: [node for node in graph.node if node.output[0] not in made or uses[node.output[0]]])

    def _quantized(self, graph: Any, uses: Counter[str]) -> list[Any]:
        """The nodes of a graph, replaced; the outermost, which is the last, begins with what all need once."""
        by_input = {name: node for node in graph.node for name in node.input}
        absorbed: set[str] = set()
        nodes = []
        for node in graph.node:
            if node.name not in absorbed:
                nodes += self._replaced(node, by_input, uses, absorbed)
        return [*self._first, *nodes] if graph is self._graphs[0] else nodes

    def _uses(self) -> Counter[str]:
        """How often each value is used, graphs within nodes included."""
        uses = Counter(name for graph in self._graphs for node in graph.node for name in node.input)
        uses.update(value.name for graph in self._graphs for value in graph.output)
        return uses

    def _replaced(self, node: Any, by_input: dict[str, Any], uses: Counter[str], absorbed: set[str]) -> list[Any]:
        """The nodes in place of one; of a sum that is done with it, the name is added to ``absorbed``."""
        if (weight := self._weight(node)) is not None and (form := self._form(weight)) != "fp32":
            bias, output = (node.input[2] if len(node.input) > 2 else ""), node.output[0]
            follower = by_input.get(output)
            if not bias and follower is not None and follower.op_type == "Add" and uses[output] == 1:
                other = next((name for name in follower.input if name != output), "")
                if other in self._weights and len(self._weights[other].dims) == 1:
                    bias, output = other, follower.output[0]
                    absorbed.add(follower.name)
            make = self._int8_product if form == "int8" else self._int4_product
            return make(node, weight, bias, output)
        if (table := self._table(node)) is not None and (form := self._form(table)) != "fp32":
            return self._int8_rows(node, table) if form == "int8" else self._int4_rows(node, table)
        return [node]

    def _int8_product(self, node: Any, weight: _Weight, bias: str, output: str) -> list[Any]:
        quantized, scale = self._int8(weight)
        inputs = [node.input[0], quantized, scale, *(("", bias) if bias else ())]
        return [helper.make_node("DynamicQuantizeMatMul", inputs, [output], name=node.name, domain=DOMAIN)]

    def _int4_product(self, node: Any, weight: _Weight, bias: str, output: str) -> list[Any]:
        outputs, inputs = self._rows(weight).shape
        quantized, scale = self._int4(weight, looked_up=False)
        product = f"{node.name}/product" if bias else output
        made = helper.make_node(
            "MatMulNBits",
            [node.input[0], quantized, scale],
            [product],
            name=node.name,
            domain=DOMAIN,
            K=inputs,
            N=outputs,
            bits=4,
            block_size=BLOCK,
            accuracy_level=_INTEGER_INPUTS,
        )
        # An addition of its own: not every version of the operator takes a bias.
        return [made, helper.make_node("Add", [product, bias], [output], name=f"{node.name}/bias")] if bias else [made]

    def _weight(self, node: Any) -> _Weight | None:
        """The weight of a product that is worth quantizing; None if the node is none."""
        if node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2:
            return None
        turned = node.input[1] in self._turned
        name = self._turned.get(node.input[1], node.input[1])
        parts = self._joined.get(name, (name,))
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA")
        transposed = bool(attributes.get("transB", 0)) != turned
        # Joined along the inputs it would be no matrix of these rows.
        if not plain or not all(map(self._is_matrix, parts)) or (name in self._joined and not transposed):
            return None
        outputs = sum(self._weights[part].dims[0 if transposed else 1] for part in parts)
        return _Weight(name, transposed, parts) if outputs >= MIN_OUTPUTS else None

    def _table(self, node: Any) -> _Weight | None:
        """The table that a node looks up rows of; None if it is none that is worth quantizing."""
        name = node.input[0] if node.op_type == "Gather" and _axis(node) == 0 else ""
        if not self._is_matrix(name) or node.input[1] not in self._ranks:
            return None
        many = self._weights[name].dims[0] >= MIN_OUTPUTS
        return _Weight(name, transposed=True, parts=(name,)) if many else None

    def _is_matrix(self, name: str) -> bool:
        tensor = self._weights.get(name)
        return tensor is not None and len(tensor.dims) == 2 and tensor.data_type == TensorProto.FLOAT

    def _rows(self, weight: _Weight) -> NDArray[Any]:
        """The weight as (outputs, inputs)."""
        if parts := _split(weight):
            return np.concatenate([self._rows(part) for part in parts])
        values: NDArray[Any] = numpy_helper.to_array(self._weights[weight.parts[0]])
        return values if weight.transposed else values.T

    def _key(self, weight: _Weight) -> bytes:
        if weight not in self._keys:
            self._keys[weight] = array_digest(np.ascontiguousarray(self._rows(weight)))
        return self._keys[weight]

    def _form(self, weight: _Weight) -> Form:
        return self._forms.get(self._key(weight), "fp32")

    def _int8(self, weight: _Weight) -> tuple[str, str]:
        """Names of the integers (inputs, outputs) and their scales (outputs,)."""
        names = f"{weight.name}/int8", f"{weight.name}/scale"
        if names[0] not in self._made:
            self._made.add(names[0])
            if parts := _split(weight):
                self._join(names, [self._int8(part) for part in parts], axes=(1, 0))
                return names
            rounded = quantize_rows(self._rows(weight))
            self._add(names[0], np.ascontiguousarray(rounded.integers().T))
            self._add(names[1], rounded.scales)
        return names

    def _int4(self, weight: _Weight, *, looked_up: bool) -> tuple[str, str]:
        """Names of the bytes (outputs, blocks, BLOCK / 2) and the scales of blocks.

        The scales are (outputs * blocks,) for a product and (outputs, blocks, 1) for look-ups: the same bytes, which
        the file of weights has once.
        """
        use = "row" if looked_up else "product"
        names = f"{weight.name}/int4", f"{weight.name}/scale/{use}"
        if names[1] not in self._made:
            if parts := _split(weight):
                self._made.update(names)
                self._join(names, [self._int4(part, looked_up=looked_up) for part in parts], axes=(0, 0))
                return names
            rounded = quantize_blocks(self._rows(weight))
            if names[0] not in self._made:
                self._add(names[0], pack_levels(rounded.integers()).reshape(*rounded.scales.shape, BLOCK // 2))
            self._add(names[1], rounded.scales[:, :, None] if looked_up else rounded.scales.reshape(-1))
            self._made.update(names)
        return names

    def _join(self, names: Sequence[str], parts: Sequence[Sequence[str]], *, axes: Sequence[int]) -> None:
        """Make integers and scales of those of the parts, once, when a graph is opened: the file has what it had."""
        for name, inputs, axis in zip(names, zip(*parts, strict=True), axes, strict=True):
            self._first.append(helper.make_node("Concat", list(inputs), [name], name=name, axis=axis))

    def _int8_rows(self, node: Any, table: _Weight) -> list[Any]:
        """Rows of a table, of which every graph has the integers as the output's product would have them.

        ONNX Runtime transposes them once, when it opens the graph: columns would be gathered byte by byte.
        """
        tokens = node.input[1]
        quantized, scale = self._int8(table)
        name, rows = node.name, f"{table.name}/rows"
        integers, values, factors, factor = (f"{name}/{part}" for part in ("rows", "values", "s", "f"))
        axes = f"{name}/axes"
        self._add(axes, np.array([-1], np.int64))
        if rows not in self._made:
            self._made.add(rows)
            self._first.append(helper.make_node("Transpose", [quantized], [rows], name=rows, perm=[1, 0]))
        return [
            helper.make_node("Gather", [rows, tokens], [integers], name=integers, axis=0),
            helper.make_node("Cast", [integers], [values], name=values, to=TensorProto.FLOAT),
            helper.make_node("Gather", [scale, tokens], [factors], name=factors, axis=0),
            helper.make_node("Unsqueeze", [factors, axes], [factor], name=factor),
            helper.make_node("Mul", [values, factor], [node.output[0]], name=name),
        ]

    def _int4_rows(self, node: Any, table: _Weight) -> list[Any]:
        """Rows of a table in 4 bits: the two levels of a byte are looked up too."""
        tokens = node.input[1]
        quantized, scale = self._int4(table, looked_up=True)
        name, (_, inputs) = node.name, self._rows(table).shape
        packed, places, pairs, blocks, factors, scaled = (
            f"{name}/{part}" for part in ("bytes", "places", "pairs", "blocks", "factors", "scaled")
        )
        rank = self._ranks[tokens]
        levels, split, joined = f"{name}/levels", f"{name}/split", f"{name}/joined"
        self._add(levels, PAIRS)
        # Zeros keep the sizes of the tokens.
        self._add(split, np.array([*[0] * rank, inputs // BLOCK, BLOCK], np.int64))
        self._add(joined, np.array([*[0] * rank, inputs], np.int64))
        return [
            helper.make_node("Gather", [quantized, tokens], [packed], name=packed, axis=0),
            helper.make_node("Cast", [packed], [places], name=places, to=TensorProto.INT32),
            helper.make_node("Gather", [levels, places], [pairs], name=pairs, axis=0),
            helper.make_node("Reshape", [pairs, split], [blocks], name=blocks),
            helper.make_node("Gather", [scale, tokens], [factors], name=factors, axis=0),
            helper.make_node("Mul", [blocks, factors], [scaled], name=scaled),
            helper.make_node("Reshape", [scaled, joined], [node.output[0]], name=name),
        ]

    def _add(self, name: str, values: NDArray[Any]) -> None:
        self._model.graph.initializer.append(numpy_helper.from_array(values, name))


def _split(weight: _Weight) -> list[_Weight]:
    """The parts of a joined weight; none of one that is an initializer itself."""
    joined = len(weight.parts) > 1
    return [_Weight(part, weight.transposed, (part,)) for part in weight.parts] if joined else []


def _axis(node: Any) -> int:
    """The axis of a node; 0 where it names none."""
    return next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)


def _is_turn(node: Any) -> bool:
    """Whether a ``Transpose`` swaps two dimensions."""
    order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), [1, 0])
    return order == [1, 0]
