"""Graphs of ATen operators as those of ExecuTorch's edge dialect, written into the graphs that there are.

ExecuTorch's own ``to_edge`` makes a graph anew for each of its eight rewritings, and computes all sizes of all values
every time, which was a quarter of the time of lowering. Here a value's sizes are computed again where a rewriting can
have changed them.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._export.passes.replace_view_ops_with_view_copy_ops_pass import is_view_op
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.traceback import NodeSource
from torch.utils._python_dispatch import _disable_current_modes

from lite_nlp.export.decomposing import decompose_program
from lite_nlp.export.executorch_edits import call_operator, size_expression

__all__ = ["make_edge_program"]

_ATEN: Final = torch.ops.aten

#: The types that symbolic numbers get as tensors.
_SYMBOL_TYPES: Final = {SymInt: torch.int32, SymFloat: torch.float32, SymBool: torch.bool}

#: Operators whose arguments ExecuTorch wants in one type, and how that follows from theirs.
_PROMOTED: Final = {
    _ATEN.add.Tensor: ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT,
    _ATEN.mul.Tensor: ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT,
    _ATEN.sub.Tensor: ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT,
    _ATEN.minimum.default: ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT,
    _ATEN.div.Tensor: ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT,
    _ATEN.div.Tensor_mode: ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT,
}


def make_edge_program(program: ExportedProgram, config: Any) -> ExportedProgram:
    """A program of core ATen, ``linear`` and further libraries in the edge dialect: what ``to_edge`` makes of it.

    * Views become copies.
    * Numbers in place of tensors become constants, sizes in place of tensors become tensors.
    * Copies and slices that change nothing are dropped, as are empty parts of what is joined.
    * Arithmetic is of one type.

    Args:
        program: No other program shares its state, and it is not used afterwards.
        config: An ``EdgeCompileConfig``.
    """
    from executorch.exir._program_utils import _get_updated_graph_signature
    from executorch.exir.passes import base_post_op_replace_passes, remove_unused_parameters_pass
    from executorch.exir.passes.convert_constant_dim_order_pass import convert_constant_dim_order_pass
    from executorch.exir.passes.prune_empty_tensors_pass import PruneEmptyTensorsPass
    from executorch.exir.passes.remove_graph_asserts_pass import RemoveNonCoreAtenOpGraphAssertsPass
    from executorch.exir.passes.remove_noop_pass import RemoveNoopPass, RemoveToCopyPass
    from executorch.exir.passes.replace_sym_size_op_pass import ReplaceSymSizeOpPass
    from executorch.exir.program._program import _generate_edge_program, _transform, lift_constant_tensor_pass
    from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

    program = _decompose_rest(program, config.preserve_ops)
    edge: ExportedProgram
    if any(isinstance(part, GraphModule) for part in program.graph_module.children()):
        # Graphs of branches, whose values change with what they are given.
        edge = _generate_edge_program(config, program, preserve_ops=config.preserve_ops)
        return edge
    module = remove_unused_parameters_pass(program).graph_module
    for rewrite in (RemoveNonCoreAtenOpGraphAssertsPass(), ReplaceSymSizeOpPass(), _write_values):
        rewrite(module)
    for rewrite in (RemoveNoopPass(), PruneEmptyTensorsPass(), RemoveToCopyPass(), _write_types, _write_dialect):
        rewrite(module)
    verifier = EXIREdgeDialectVerifier(edge_compile_config=config, class_only=True, preserve_ops=config.preserve_ops)
    edge = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=_get_updated_graph_signature(program.graph_signature, module),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=[verifier],
    )
    edge = convert_constant_dim_order_pass(lift_constant_tensor_pass(edge))
    edge = _transform(edge, *base_post_op_replace_passes)
    return edge


def _decompose_rest(program: ExportedProgram, kept: Collection[Any]) -> ExportedProgram:
    """A program of core ATen, but for the operators ``kept``; itself where it is one."""
    from executorch.exir.tracer import _default_decomposition_table

    table: Any = _default_decomposition_table()
    for target in kept:
        table.pop(target, None)
    # Reading a size is in the table, and stays what it is.
    if any(node.target in table and node.target is not _ATEN.sym_size.int for node in program.graph.nodes):
        program = decompose_program(program, table)
    return program


def _write_values(module: GraphModule) -> None:
    """Make views copies, and what stands in place of tensors tensors; what is known of the values stays true."""
    graph = module.graph
    mode: Any = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    # Whose strides or type have become others.
    changed: set[Node] = set()

    def as_tensor(value: Any, argument: Any) -> Any:
        if not isinstance(argument.type, torch.TensorType):
            return value
        if isinstance(value, int | float):
            return _add_number(module, mode, value)
        dtype = _SYMBOL_TYPES.get(type(value.meta["val"])) if isinstance(value, Node) else None
        return value if dtype is None else call_operator(graph, _ATEN.scalar_tensor.default, value, dtype=dtype)

    with mode, enable_python_dispatcher():
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            # What ExecuTorch numbers nodes by; the rewriting of graphs adds nodes without it.
            node.meta.setdefault("from_node", [NodeSource(node)])
            stale = not changed.isdisjoint(node.all_input_nodes)
            if isinstance(node.target, OpOverload):
                copying = _copying_form(node.target)
                # A view in the plain order of its values is in that of a copy.
                stale |= copying is not node.target and not _is_plain(_value(node))
                node.target = copying
                stale |= _map_arguments(node, as_tensor)
            if stale:
                value = node.target(*map_arg(node.args, _value), **map_arg(node.kwargs, _value))
                if not _is_alike(value, _value(node)):
                    changed.add(node)
                node.meta["val"] = value


def _copying_form(target: OpOverload) -> OpOverload:
    """The operator whose result is no view of its first argument's values."""
    if target is _ATEN._unsafe_view.default:
        return _ATEN.view_copy.default
    if not (target.is_view or is_view_op(target._schema)):
        return target
    library: Any = getattr(torch.ops, target.namespace)
    copying: OpOverload = getattr(getattr(library, f"{target._opname}_copy"), target._overloadname)
    return copying


def _write_types(module: GraphModule) -> None:
    """Give arithmetic of several types arguments of one."""
    graph = module.graph
    mode: Any = detect_fake_mode([node.meta.get("val") for node in graph.nodes])
    for node in list(graph.nodes):
        promotion = _PROMOTED.get(node.target)
        if promotion is None:
            continue
        if node.target is _ATEN.div.Tensor_mode and node.kwargs.get("rounding_mode") is None:
            promotion = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
        _, dtype = elementwise_dtypes(*map(_value, node.args), type_promotion_kind=promotion)

        def as_type(value: Any, argument: Any, dtype: torch.dtype = dtype) -> Any:
            if not isinstance(argument.type, torch.TensorType) or _value(value).dtype == dtype:
                return value
            return call_operator(graph, _ATEN._to_copy.default, value, dtype=dtype)

        with mode, enable_python_dispatcher():
            _map_arguments(node, as_type)


def _write_dialect(module: GraphModule) -> None:
    """Call the dialect's operators in place of those that they stand for."""
    from executorch.exir.passes.replace_aten_with_edge_pass import aten_to_edge, should_lower_to_edge

    for node in module.graph.nodes:
        if should_lower_to_edge(node.target):
            node.target = aten_to_edge(node.target)


def _map_arguments(node: Node, function: Callable[[Any, Any], Any]) -> bool:
    """Replace a node's arguments by what ``function`` makes of each and its place in the schema; whether any is new."""
    from executorch.exir.pass_base import map_args

    with node.graph.inserting_before(node):
        args, kwargs = map_args(node.target, function, node.args, node.kwargs)
    changed = bool(args != node.args or kwargs != node.kwargs)
    if changed:
        node.args, node.kwargs = args, kwargs
        for added in node.all_input_nodes:
            added.meta.setdefault("from_node", node.meta["from_node"])
    return changed


def _add_number(module: GraphModule, mode: Any, number: float) -> Node:
    """A constant of a number's own type, where the graph inserts."""
    # One that has its number.
    with _disable_current_modes():
        constant = torch.tensor(number)
    name = f"_number_{sum(1 for _ in module.buffers())}"
    module.register_buffer(name, constant)
    node = module.graph.get_attr(name)
    node.meta["val"] = mode.from_tensor(constant, static_shapes=True)
    return node


def _value(node: Node) -> Any:
    return node.meta["val"]


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor in whose memory each row follows that before it."""
    if not isinstance(value, Tensor):
        return False
    step = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if size_expression(stride) != step:
            return False
        step = step * size_expression(size)
    return True


def _is_alike(value: Any, other: Any) -> bool:
    """Whether two values are tensors of the same type, sizes and strides."""
    if not isinstance(value, Tensor) or not isinstance(other, Tensor) or value.dtype != other.dtype:
        return False
    sizes, others = ([size_expression(size) for size in (*one.shape, *one.stride())] for one in (value, other))
    return sizes == others
