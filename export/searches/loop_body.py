"""The graph of one step as the body of a loop: names of its own, constants of the graph around it."""

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import numpy_helper

from lite_nlp.export.matrices import array_digest
from lite_nlp.export.onnx_conversion import constant_nodes

__all__ = ["move_constants", "rename_body", "share_initializers"]


def move_constants(graph: Any, body: Any) -> None:
    """Move the body's initializers to the graph around it, and the nodes that depend on nothing else.

    ONNX Runtime computes such a node once, when it opens the graph.

    Args:
        graph: The graph around the body; changed.
        body: Has names that the graph has not; changed.
    """
    graph.initializer.extend(body.initializer)
    del body.initializer[:]
    moved = constant_nodes(body, graph.initializer)
    made = {name for node in moved for name in node.output}
    kept = [node for node in body.node if made.isdisjoint(node.output)]
    del body.node[:]
    body.node.extend(kept)
    graph.node.extend(moved)


def share_initializers(graph: Any, body: Any) -> dict[str, str]:
    """Drop the body's initializers that the graph has too; returns the graph's names for them."""
    known = {array_digest(numpy_helper.to_array(tensor)): tensor.name for tensor in graph.initializer}
    digests = {tensor.name: array_digest(numpy_helper.to_array(tensor)) for tensor in body.initializer}
    shared = {name: known[digest] for name, digest in digests.items() if digest in known}
    kept = [tensor for tensor in body.initializer if tensor.name not in shared]
    del body.initializer[:]
    body.initializer.extend(kept)
    return shared


def rename_body(body: Any, outer: Mapping[str, str], *, prefix: str) -> None:
    """Give every value of a body a name that no other graph has.

    Args:
        body: The graph; changed.
        outer: Names that values of the graph around it have there.
        prefix: Of all other names.
    """

    def renamed(name: str) -> str:
        return outer.get(name, prefix + name) if name else name

    own = _names_of((*body.input, *body.initializer)) | {name for node in body.node for name in node.output}
    for node in body.node:
        node.name = prefix + node.name
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
        _rename_captured(node, {name: renamed(name) for name in own})
    for value in (*body.input, *body.output, *body.initializer):
        value.name = renamed(value.name)


def _rename_captured(node: Any, names: Mapping[str, str]) -> None:
    """Rename what the graphs within a node take from the graph around it."""
    for attribute in node.attribute:
        for inner in attribute.g.node:
            inner.input[:] = [names.get(name, name) for name in inner.input]
            _rename_captured(inner, names)


def _names_of(values: Iterable[Any]) -> set[str]:
    return {value.name for value in values}
