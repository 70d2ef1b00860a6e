"""The graph of one step as the body of a loop: names of its own, and what is the same in all steps outside it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from onnx import numpy_helper

from lite_nlp.export.matrices import array_digest

__all__ = ["move_invariants", "rename_body", "share_initializers"]


def move_invariants(graph: Any, body: Any, outer: Collection[str]) -> None:
    """Move what is the same in every step to the graph around the body: its initializers, and nodes.

    ONNX Runtime computes a node of constants alone once, when it opens the graph, and the others once for a call.

    Args:
        graph: The graph around the body; changed.
        body: Has names that the graph has not, but for ``outer``; changed.
        outer: Inputs of the body that are values of the graph around it.
    """
    graph.initializer.extend(body.initializer)
    del body.initializer[:]
    changing = {value.name for value in body.input}.difference(outer)
    results = {value.name for value in body.output}
    kept, moved = [], []
    for node in body.node:
        alone = node.input and not any(attribute.HasField("g") for attribute in node.attribute)
        if alone and changing.isdisjoint(node.input) and results.isdisjoint(node.output):
            moved.append(node)
        else:
            changing.update(node.output)
            kept.append(node)
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
