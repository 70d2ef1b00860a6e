"""Additions to a graph for ExecuTorch that keep what the graph knows of its values."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

__all__ = ["add_constant", "add_mean", "call_operator", "is_mean"]

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


def call_operator(graph: Graph, target: Callable[..., Any], *arguments: Any) -> Node:
    """Add a call where the graph inserts; its type and sizes are those that the operator gives for its arguments'."""

    def value(argument: Any) -> Any:
        if isinstance(argument, list):
            return [value(item) for item in argument]
        return argument.meta["val"] if isinstance(argument, Node) else argument

    node: Node = graph.call_function(target, arguments)
    node.meta["val"] = target(*map(value, arguments))
    return node


def add_mean(program: ExportedProgram, size: int, *, before: Node) -> Node:
    """Add the weight (1, size) by which a product with one output is the mean; returns its placeholder."""
    return add_constant(program, f"{_MEAN}{size}", torch.full((1, size), 1.0 / size), before=before)


def is_mean(name: str | None) -> bool:
    """Whether a program's state of this name is from :func:`add_mean`."""
    return name is not None and name.startswith(_MEAN)
