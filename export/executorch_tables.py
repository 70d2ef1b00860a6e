"""Tables that tokens are looked up in and that the output is a product with, stored once for both."""

from collections.abc import Collection
from typing import Any, Final

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from lite_nlp.export.executorch_edits import add_constant, call_operator, shape_rows

__all__ = ["find_tied_tables", "turn_tables"]

_ATEN: Final = torch.ops.aten


def find_tied_tables(program: ExportedProgram) -> frozenset[int]:
    """The tables of which a program looks up rows, and which its products with rows of features read whole.

    Returns:
        Addresses of their values, by which another program of the same model knows them.
    """
    found = set()
    for node in program.graph.nodes:
        if _is_product(node):
            table = node.args[1]
            values = _parameter(program, table)
            if values is not None and any(_is_lookup(user, table) for user in table.users):
                found.add(values.data_ptr())
    return frozenset(found)


def turn_tables(program: ExportedProgram, tables: Collection[int]) -> None:
    """Store tables (V, D) as (D, V), in place: a product reads them in order, a lookup picks columns.

    XNNPACK would pack a second copy for the product. In ExecuTorch's own kernel x (B, D) @ table (D, V) takes a fifth
    to a half of the time of table (V, D) @ x (D, B), for B of 1 to 4.

    Args:
        program: In the operators of ATen, ``linear`` and ``embedding`` among them. No other program shares its state.
        tables: Of :func:`find_tied_tables`.
    """
    from executorch.backends.transforms.utils import delete_constant_placeholder

    graph = program.graph
    for table in list(graph.nodes):
        values = _parameter(program, table)
        if values is None or values.data_ptr() not in tables:
            continue
        # No view: what is stored has the order of its values.
        data = values.detach().T.contiguous()
        turned = add_constant(program, f"{table.name}_turned", data, before=table)
        for user in list(table.users):
            write = _multiply if _is_product(user) else _look_up if _is_lookup(user, table) else None
            if write is None:
                continue
            with graph.inserting_before(user):
                user.replace_all_uses_with(write(graph, turned, user))
            graph.erase_node(user)
        if not table.users:
            delete_constant_placeholder(program, table)
    graph.lint()
    program.graph_module.recompile()


def _is_product(node: Node) -> bool:
    return node.target is _ATEN.linear.default and len(node.args) == 2 and _value(node.args[0]).dim() == 2


def _is_lookup(node: Node, table: Any) -> bool:
    return node.target is _ATEN.embedding.default and node.args[0] is table


def _parameter(program: ExportedProgram, node: Any) -> Tensor | None:
    """The values of a placeholder that is a parameter."""
    name = program.graph_signature.inputs_to_parameters.get(node.name)
    return None if name is None else program.state_dict[name]


def _multiply(graph: Graph, turned: Node, product: Any) -> Node:
    return call_operator(graph, _ATEN.mm.default, product.args[0], turned)


def _look_up(graph: Graph, turned: Node, lookup: Any) -> Node:
    tokens = lookup.args[1]
    flat = call_operator(graph, _ATEN.view.default, tokens, [-1])
    columns = call_operator(graph, _ATEN.index_select.default, turned, 1, flat)
    rows = call_operator(graph, _ATEN.permute.default, columns, [1, 0])
    if _value(tokens).dim() == 1:
        return rows
    return shape_rows(graph, rows, tokens, _value(turned).shape[0])


def _value(node: Any) -> Any:
    return node.meta["val"]
