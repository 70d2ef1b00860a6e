"""Additions to a graph for ExecuTorch that keep what the graph knows of its values, and what it knows of a size."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

__all__ = ["add_constant", "add_mean", "call_operator", "constant_values", "is_mean", "shape_rows", "size_expression"]

#: Names of constants begin with it that products with one output take means by.
_MEAN: Final = "mean_of_"


def add_constant(program: ExportedProgram, name: str, data: Tensor, *, before: Node) -> Node:
    """Add a tensor to a program's state; returns its placeholder, which stands before another."""
    from executorch.backends.transforms.utils import create_constant_placeholder

    with program.graph.inserting_before(before):
        added: Node = create_constant_placeholder(
            program, program.graph, name, InputKind.BUFFER, data, persistent_buffer=True
        )
    return added


def call_operator(graph: Graph, target: Callable[..., Any], *arguments: Any, **options: Any) -> Node:
    """Add a call where the graph inserts; its type and sizes are those that the operator gives for its arguments'.

    Args:
        graph: Has been decomposed, and is not once more.
        target: Of core ATen, or of another library.
        *arguments: Nodes, numbers, and lists of them.
        **options: No nodes.
    """

    def value(argument: Any) -> Any:
        if isinstance(argument, list):
            return [value(item) for item in argument]
        return argument.meta["val"] if isinstance(argument, Node) else argument

    node: Node = graph.call_function(target, arguments, options)
    node.meta["val"] = target(*map(value, arguments), **options)
    return node


def add_mean(program: ExportedProgram, size: int, *, before: Node) -> Node:
    """Add the weight (1, size) by which a product with one output is the mean; returns its placeholder."""
    return add_constant(program, f"{_MEAN}{size}", torch.full((1, size), 1.0 / size), before=before)


def is_mean(name: str | None) -> bool:
    """Whether a program's state of this name is from :func:`add_mean`."""
    return name is not None and name.startswith(_MEAN)


def constant_values(program: ExportedProgram, node: Node) -> Tensor | None:
    """The values of a placeholder that is a parameter or a buffer; None if the node is none."""
    from executorch.backends.transforms.utils import get_param_tensor, is_param_node

    if node.op != "placeholder" or not is_param_node(program, node):
        return None
    values: Tensor = get_param_tensor(program, node).detach()
    return values


def shape_rows(graph: Graph, rows: Node, tokens: Node, width: int) -> Node:
    """One row for each token, in whatever shape, in the shape of the tokens: (..., width)."""
    sizes: list[Any] = [-1]
    for axis, size in enumerate(tokens.meta["val"].shape[1:], start=1):
        known = isinstance(size, int)
        sizes.append(size if known else call_operator(graph, torch.ops.aten.sym_size.int, tokens, axis))
    return call_operator(graph, torch.ops.aten.view.default, rows, [*sizes, width])


def size_expression(size: Any) -> Any:
    """A size as a number or an expression of symbols: to compare these asks for the number of none."""
    return size.node.expr if isinstance(size, torch.SymInt) else size
