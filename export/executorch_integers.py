"""Weights of a graph for ExecuTorch as integers of 8 or 4 bits, in the form that XNNPACK takes whole.

In 8 bits every output channel has a scale, in 4 bits every block of a channel. The input of a product is quantized at
every call, each row, which is a token, to a range of its own: its result does not depend on what else is in the batch.
Rows of a table that tokens are looked up in become fp32 in ExecuTorch's general kernels, since not every runtime has
its kernel for quantized tables.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

import torch
from numpy.typing import NDArray
from torch.export import ExportedProgram
from torch.fx import Node

from lite_nlp.export.executorch_edits import add_constant, call_operator, constant_values, shape_rows
from lite_nlp.export.matrices import Form, Rounding, array_digest
from lite_nlp.export.rounding import LEVELS, MIN_OUTPUTS, PAIRS, quantize_blocks, quantize_rows
from lite_nlp.export.runtime.rounded import BLOCK, pack_levels

__all__ = ["quantize_program", "separate_weights", "weight_forms"]

_ATEN: Final = torch.ops.aten

#: Of the integers of 8 bits; those of weights are symmetric and leave out the first.
_RANGE: Final = (-128, 127)


class _Integers(NamedTuple):
    """Placeholders of a quantized matrix: integers (N, K), scales and zero points, which are zero.

    Of 8 bits there are (N,) scales, of 4 bits (N, K / BLOCK).
    """

    values: Node
    scales: Node
    zeros: Node


def weight_forms(program: ExportedProgram, rounding: Rounding) -> dict[str, Form]:
    """The forms of a program's matrices, by the names of their placeholders.

    Those of fewer than ``MIN_OUTPUTS`` output channels, or rows of a table, are left out.
    """
    forms = {}
    for node in program.graph.nodes:
        values = constant_values(program, node)
        if values is None or values.dim() != 2 or values.dtype != torch.float32 or len(values) < MIN_OUTPUTS:
            continue
        forms[node.name] = rounding.form(array_digest(values.numpy()))
    return forms


def quantize_program(program: ExportedProgram, forms: Mapping[str, Form]) -> None:
    """Replace the products with constant weights, and the tables that tokens are looked up in, in place.

    Args:
        program: In the operators of ATen, ``linear`` and ``embedding`` among them. No other program shares its state.
        forms: Of its weights, by the names of their placeholders; those without one stay in fp32.
    """
    _Quantizer(program, forms).run()


def separate_weights(program: ExportedProgram) -> None:
    """Give each product with an integer matrix the reading of it to itself, in place; the integers are stored once.

    XNNPACK's partitioner puts products that share one into one part, and those of layers with shared weights have other
    parts between them: each would wait for the other.
    """
    library = torch.ops.quantized_decomposed
    readings = (library.dequantize_per_channel.default, library.dequantize_per_channel_group.default)
    graph = program.graph
    for node in list(graph.nodes):
        if node.target in readings:
            for user in list(node.users)[1:]:
                with graph.inserting_before(node):
                    user.replace_input_with(node, graph.node_copy(node))
    graph.lint()
    program.graph_module.recompile()


class _Quantizer:
    """One pass over a program."""

    def __init__(self, program: ExportedProgram, forms: Mapping[str, Form]) -> None:
        # Registers the operators.
        import_module("torch.ao.quantization.fx._decomposed")
        self._program = program
        self._forms = forms
        self._graph = program.graph
        self._first: Node = next(iter(program.graph.nodes))
        self._made: dict[Node, _Integers] = {}
        # What is stored for look-ups, by what it is.
        self._stored: dict[str, Node] = {}

    def run(self) -> None:
        """Replace the nodes, drop the weights that none needs any more."""
        from executorch.backends.transforms.utils import delete_constant_placeholder

        replaced = {_ATEN.linear.default: (1, self._multiply), _ATEN.embedding.default: (0, self._look_up)}
        for node in list(self._graph.nodes):
            place, write = replaced.get(node.target, (None, None))
            if place is None or write is None or self._form(node.args[place]) == "fp32":
                continue
            integers = self._quantize(node.args[place])
            with self._graph.inserting_before(node):
                node.replace_all_uses_with(write(integers, *node.args))
            self._graph.erase_node(node)
        # A table that is looked up alone has no zero points, and its levels are packed.
        for placeholder in (*self._made, *(made for integers in self._made.values() for made in integers)):
            if not placeholder.users:
                delete_constant_placeholder(self._program, placeholder)
        self._graph.lint()
        self._program.graph_module.recompile()

    def _form(self, weight: Any) -> Form:
        return self._forms.get(weight.name, "fp32")

    def _quantize(self, weight: Node) -> _Integers:
        if weight not in self._made:
            values = self._values(weight)
            add = partial(add_constant, self._program, before=weight)
            if self._form(weight) == "int8":
                rounded = quantize_rows(values)
                zeros = torch.zeros(len(values), dtype=torch.int64)
            else:
                rounded = quantize_blocks(values)
                zeros = torch.zeros(rounded.scales.shape)
            self._made[weight] = _Integers(
                values=add(f"{weight.name}_integers", torch.from_numpy(rounded.integers())),
                scales=add(f"{weight.name}_scales", torch.from_numpy(rounded.scales)),
                zeros=add(f"{weight.name}_zeros", zeros),
            )
        return self._made[weight]

    def _multiply(self, integers: _Integers, x: Node, weight: Node, *bias: Node) -> Node:
        """``linear`` of the rounded input and the integers, each times its scale: one product in XNNPACK."""
        library = torch.ops.quantized_decomposed
        chosen = self._call(library.choose_qparams_per_token_asymmetric.default, x, torch.int8)
        form = (self._call(operator.getitem, chosen, 0), self._call(operator.getitem, chosen, 1), *_RANGE, torch.int8)
        rounded = self._call(library.quantize_per_token.default, x, *form)
        restored = self._call(library.dequantize_per_token.default, rounded, *form, torch.float32)
        if self._form(weight) == "int8":
            matrix = self._call(library.dequantize_per_channel.default, *integers, 0, *_RANGE, torch.int8)
        else:
            group = (*LEVELS, torch.int8, BLOCK, torch.float32)
            matrix = self._call(library.dequantize_per_channel_group.default, *integers, *group)
        return self._call(_ATEN.linear.default, restored, matrix, *bias)

    def _look_up(self, integers: _Integers, table: Node, tokens: Node, *options: Any) -> Node:
        """Rows of integers, each times its scale."""
        if self._form(table) == "int4":
            return self._look_up_blocks(integers, table, tokens)
        rows = self._call(_ATEN.embedding.default, integers.values, tokens)
        # Stored in the shape (N, 1): to change it would be an instruction of every step, of constants alone, and so
        # none that XNNPACK may take.
        column = self._store(f"{table.name}_column", lambda: self._values(integers.scales).reshape(-1, 1))
        factors = self._call(_ATEN.embedding.default, column, tokens)
        return self._call(_ATEN.mul.Tensor, self._call(_ATEN._to_copy.default, rows, dtype=torch.float32), factors)

    def _look_up_blocks(self, integers: _Integers, table: Node, tokens: Node) -> Node:
        """Rows of levels: two in a byte, which are looked up too."""
        inputs = table.meta["val"].shape[1]
        packed = self._store(f"{table.name}_packed", lambda: pack_levels(self._values(integers.values)))
        pairs = self._store("pairs_of_levels", lambda: PAIRS)
        looked_up = self._call(_ATEN.embedding.default, packed, tokens)
        places = self._call(_ATEN._to_copy.default, looked_up, dtype=torch.int64)
        levels = self._call(_ATEN.embedding.default, pairs, places)
        blocks = self._call(_ATEN.view.default, levels, [-1, inputs // BLOCK, BLOCK])
        factors = self._call(_ATEN.embedding.default, integers.scales, tokens)
        factors = self._call(_ATEN.view.default, factors, [-1, inputs // BLOCK, 1])
        scaled = self._call(_ATEN.mul.Tensor, blocks, factors)
        return shape_rows(self._graph, scaled, tokens, inputs)

    def _store(self, name: str, make: Callable[[], NDArray[Any]]) -> Node:
        """The placeholder of what is stored by this name; made when it is first needed."""
        if name not in self._stored:
            self._stored[name] = add_constant(self._program, name, torch.tensor(make()), before=self._first)
        return self._stored[name]

    def _values(self, weight: Node) -> NDArray[Any]:
        tensor: Any = constant_values(self._program, weight)
        values: NDArray[Any] = tensor.numpy()
        return values

    def _call(self, target: Callable[..., Any], *arguments: Any, **options: Any) -> Node:
        return call_operator(self._graph, target, *arguments, **options)
