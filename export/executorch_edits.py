"""Additions to a graph for ExecuTorch that keep what the graph knows of its values."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

__all__ = ["add_constant", "call_operator"]


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
