"""Weights of a graph for ExecuTorch as 8-bit integers, in the form that XNNPACK takes whole.

Every output channel has a scale. The input of a product is quantized at every call, each row, which is a token, to a
range of its own: its result does not depend on what else is in the batch. Rows of a table that tokens are looked up in
become fp32 in ExecuTorch's general kernels, since not every runtime has its kernel for quantized tables.
"""

import operator
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lite_nlp.export.executorch_edits import add_constant, call_operator
from lite_nlp.export.rounding import MIN_OUTPUTS, quantize_rows

__all__ = ["quantize_program"]

_ATEN: Final = torch.ops.aten

#: Of the integers; those of weights are symmetric and leave out the first.
_RANGE: Final = (-128, 127)


class _Integers(NamedTuple):
    """Placeholders of a quantized matrix: integers (N, K), scales (N,), and zero points (N,), which are zero."""

    values: Node
    scales: Node
    zeros: Node


def quantize_program(program: ExportedProgram) -> None:
    """Replace the products with constant weights, and the tables that tokens are looked up in, in place.

    Weights of fewer than ``MIN_OUTPUTS`` output channels, or rows of a table, stay in fp32.

    Args:
        program: In the operators of ATen, ``linear`` and ``embedding`` among them. No other program shares its state.
    """
    _Quantizer(program).run()


class _Quantizer:
    """One pass over a program."""

    def __init__(self, program: ExportedProgram) -> None:
        # Registers the operators.
        import_module("torch.ao.quantization.fx._decomposed")
        self._program = program
        self._graph = program.graph
        self._made: dict[Node, _Integers] = {}
        self._columns: dict[Node, Node] = {}

    def run(self) -> None:
        """Replace the nodes, drop the weights that none needs any more."""
        from executorch.backends.transforms.utils import delete_constant_placeholder

        replaced = {_ATEN.linear.default: (1, self._multiply), _ATEN.embedding.default: (0, self._look_up)}
        for node in list(self._graph.nodes):
            place, write = replaced.get(node.target, (None, None))
            if place is None or write is None or not self._is_wide(node.args[place]):
                continue
            integers = self._quantize(node.args[place])
            with self._graph.inserting_before(node):
                node.replace_all_uses_with(write(integers, *node.args))
            self._graph.erase_node(node)
        for weight in self._made:
            if not weight.users:
                delete_constant_placeholder(self._program, weight)
        self._graph.lint()
        self._program.graph_module.recompile()

    def _is_wide(self, weight: Any) -> bool:
        from executorch.backends.transforms.utils import is_param_node

        value = weight.meta["val"]
        if not is_param_node(self._program, weight) or value.dim() != 2 or value.dtype != torch.float32:
            return False
        return bool(value.shape[0] >= MIN_OUTPUTS)

    def _quantize(self, weight: Node) -> _Integers:
        from executorch.backends.transforms.utils import get_param_tensor

        if weight not in self._made:
            tensor: Any = get_param_tensor(self._program, weight)
            values, scales = map(torch.from_numpy, quantize_rows(tensor.detach().numpy()))
            add = partial(add_constant, self._program, before=weight)
            self._made[weight] = _Integers(
                values=add(f"{weight.name}_int8", values),
                scales=add(f"{weight.name}_scales", scales),
                zeros=add(f"{weight.name}_zeros", torch.zeros(len(scales), dtype=torch.int64)),
            )
        return self._made[weight]

    def _multiply(self, integers: _Integers, x: Node, weight: Node, *bias: Node) -> Node:
        """``linear`` of the rounded input and the integers, each times its scale: one product in XNNPACK."""
        library = torch.ops.quantized_decomposed
        chosen = self._call(library.choose_qparams_per_token_asymmetric.default, x, torch.int8)
        form = (self._call(operator.getitem, chosen, 0), self._call(operator.getitem, chosen, 1), *_RANGE, torch.int8)
        rounded = self._call(library.quantize_per_token.default, x, *form)
        restored = self._call(library.dequantize_per_token.default, rounded, *form, torch.float32)
        matrix = self._call(library.dequantize_per_channel.default, *integers, 0, *_RANGE, torch.int8)
        return self._call(_ATEN.linear.default, restored, matrix, *bias)

    def _look_up(self, integers: _Integers, table: Node, tokens: Node, *options: Any) -> Node:
        """Rows of integers, each times its scale."""
        rows = self._call(_ATEN.embedding.default, integers.values, tokens)
        factors = self._call(_ATEN.embedding.default, self._column(table), tokens)
        return self._call(_ATEN.mul.Tensor, self._call(_ATEN.to.dtype, rows, torch.float32), factors)

    def _column(self, table: Node) -> Node:
        """Scales (N, 1) of a table that has been quantized, stored in this shape.

        To change their shape would be an instruction of every step, of constants alone, and so none that XNNPACK may
        take.
        """
        from executorch.backends.transforms.utils import get_param_tensor

        if table not in self._columns:
            scales: Any = get_param_tensor(self._program, self._made[table].scales)
            column = add_constant(self._program, f"{table.name}_column", scales[:, None].contiguous(), before=table)
            self._columns[table] = column
        return self._columns[table]

    def _call(self, target: Callable[..., Any], *arguments: Any) -> Node:
        return call_operator(self._graph, target, *arguments)
