"""Decomposition of traced graphs, operator by operator.

``ExportedProgram.run_decompositions`` runs a whole graph twice to have it without writing and in simpler operators,
whatever the table says: some 20 ms for each node of it, most of which stay what they are. Here a node that stays is
copied with what is known of it, and the others alone are run, on tensors without numbers, and recorded.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, partial, reduce
from typing import Any, Final, cast
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _special_op_to_preserve_cia
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram, decomp_utils, exported_program
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node, Proxy, map_arg
from torch.fx import traceback as node_origins
from torch.fx.experimental.proxy_tensor import (
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    get_proxy_slot,
    track_tensor_tree,
)

from lite_nlp.export.executorch_edits import call_operator, size_expression

__all__ = ["decompose_program", "known_operators"]

_ATEN: Final = torch.ops.aten
_WRITTEN: Final = torch.ops.higher_order.auto_functionalized_v2

#: Numbers of a graph that torch does not know before it runs are symbols, which a second run would make anew.
_NUMBERS: Final = {_ATEN.item.default: _ATEN._local_scalar_dense.default}

#: Kept, as others may let this module stand for it.
_run_whole: Final[Any] = ExportedProgram.run_decompositions

_COLLECT: Final = "_collect_all_valid_cia_ops"
_collect: Final[Any] = getattr(exported_program, _COLLECT)


def decompose_program(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """What ``program.run_decompositions(table)`` gives, in a fraction of the time.

    Args:
        program: Stays as it is. A graph within it, or writing to anything but a whole buffer, is left to torch.
        table: What operators become, by operator.

    Returns:
        A graph that writes nothing: new values of buffers are its first outputs. Sizes that are alike are one node.
    """
    with known_operators():
        nodes, buffers = list(program.graph.nodes), _buffers(program)
        if not any(_is_left_to_torch(node, buffers) for node in nodes) and not _reads_what_changes(nodes, buffers):
            decomposed = _Decomposition(program, table).run()
            # What torch makes of some operators is written as the filling of an empty tensor.
            if not any(_writes(node) for node in decomposed.graph.nodes):
                return decomposed
        return cast(ExportedProgram, _run_whole(program, dict(table)))


@contextmanager
def known_operators() -> Iterator[None]:
    """Let torch list the operators that it could keep whole once for as long as none is added.

    It goes through all of every library for that, twice for each graph that it decomposes: a fourteenth of the time of
    a small model's export, twice that in a mixed precision, whose products are graphs of their own.
    """
    with patch.object(exported_program, _COLLECT, _collect_new), patch.object(decomp_utils, _COLLECT, _collect_new):
        yield


def _collect_new() -> Any:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return set(_collect_once(len(registered), tuple(torch.ops._dir)))


@cache
def _collect_once(registered: int, libraries: tuple[str, ...]) -> Any:
    return _collect()


def _buffers(program: ExportedProgram) -> Mapping[str, str]:
    """Names of the buffers, by those of the nodes that stand for them."""
    return cast(Mapping[str, str], program.graph_signature.inputs_to_buffers)


def _is_left_to_torch(node: Any, buffers: Mapping[str, str]) -> bool:
    if node.target is _WRITTEN:
        return False
    if node.op == "get_attr" or isinstance(node.target, HigherOrderOperator):
        return True
    if not _writes(node):
        return False
    written = _written(node)
    if any(not isinstance(value, Node) or value.name not in buffers for value in written.values()):
        return True
    if node.target is not _ATEN.copy_.default:
        return bool(node.target.namespace == "aten" or len(node.target._schema.returns) != 1)
    whole, new = (value.meta["val"] for value in node.args[:2])
    return bool(whole.dtype != new.dtype or tuple(whole.shape) != tuple(new.shape))


def _reads_what_changes(nodes: Sequence[Any], buffers: Mapping[str, str]) -> bool:
    """Whether a view of a buffer is used after the buffer has been written: it has the new numbers then."""
    places = {node: place for place, node in enumerate(nodes)}
    viewed: dict[Any, Any] = {}
    for node in nodes:
        if node.op == "placeholder" and node.name in buffers:
            viewed[node] = node
        elif _is_view(node) and node.args[0] in viewed:
            viewed[node] = viewed[node.args[0]]
    return any(
        places[view] < places[node] < max(map(places.__getitem__, view.users), default=0)
        for node in nodes
        if _writes(node)
        for written in _written(node).values()
        for view, buffer in viewed.items()
        if buffer is written and view is not written
    )


def _is_view(node: Any) -> bool:
    """Whether a value may be one in the memory of the first argument."""
    if node.target is operator.getitem:
        return True
    return isinstance(node.target, OpOverload) and any(value.alias_info for value in node.target._schema.returns)


def _writes(node: Any) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _arguments(node: Any) -> dict[str, Any]:
    """The arguments of an operator by their names."""
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _written(node: Any) -> dict[str, Any]:
    """What a node writes to, by the name of the argument."""
    given = _arguments(node)
    written = [argument.name for argument in node.target._schema.arguments if argument.is_write]
    return {name: given[name] for name in written if name in given}


class _Decomposition:
    """One graph on its way.

    Args:
        program: Without what :func:`_is_left_to_torch` names.
        table: What operators become.
    """

    def __init__(self, program: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> None:
        self._program = program
        # The first are operators whose parts torch knows itself, with what becomes of them.
        simple: Any
        self._composed, simple = exported_program._split_decomp_table_to_cia_and_python_decomp(dict(table))
        self._whole = {target for target, made in self._composed.items() if made is _special_op_to_preserve_cia}
        self._parts = {*self._composed, *simple} - self._whole
        self._tracer = PythonKeyTracer()
        self._tracer.root = nn.Module()
        self._tracer.graph = Graph()
        self._recording = ProxyTorchDispatchMode(self._tracer, "symbolic", decomposition_table=simple)
        #: By node of the program what stands for it: a node, a list of what stands for several values, or a number.
        self._made: dict[Node, Any] = {}
        #: What those gave that have been run.
        self._results: dict[Node, Any] = {}

    def run(self) -> ExportedProgram:
        nodes = self._program.graph.nodes
        # In which tensors have sizes, but no numbers.
        without_numbers: Any = detect_fake_mode([node.meta["val"] for node in nodes if node.op == "placeholder"])
        overridden = exported_program._override_composite_implicit_decomp(self._composed)
        dispatcher: Any = enable_python_dispatcher()
        with torch.no_grad(), without_numbers, overridden, dispatcher, node_origins.preserve_node_meta():
            for node in nodes:
                if node.op != "output":
                    self._made[node] = self._make(node)
        return self._finish()

    def _make(self, node: Any) -> Any:
        target = node.target
        if target is operator.getitem and node.args[0] in self._results:
            whole, place = node.args
            self._results[node] = self._results[whole][place]
            return self._made[whole][place]
        if _writes(node):
            return self._write(node)
        if isinstance(target, OpOverload) and ("val" not in node.meta or self._has_parts(target)):
            return self._decompose(node)
        made = self._tracer.graph.node_copy(node, self._made.__getitem__)
        made.target = _NUMBERS.get(target, target)
        if node.op == "placeholder" or isinstance(node.meta.get("val"), torch.SymInt):
            self._track(made, node.meta["val"])
        return made

    def _has_parts(self, target: Any) -> bool:
        """Whether an operator becomes others: by the table, or since torch always takes it apart."""
        if target in self._whole or target in _NUMBERS or target.name().startswith("aten::sym_"):
            return False
        return target in self._parts or target._can_decompose()

    def _decompose(self, node: Any) -> Any:
        """Run one operator and record what it does."""
        arguments, options = map_arg((node.args, dict(node.kwargs)), self._value)
        with node_origins.set_current_meta(node), self._recording:
            self._results[node] = node.target(*arguments, **options)
        return self._recorded(self._results[node])

    def _value(self, node: Node) -> Any:
        """The tensor or number that a node stands for, known to the recorder as the one made for it."""
        if node in self._results:
            return self._results[node]
        self._track(self._made[node], node.meta["val"])
        return node.meta["val"]

    def _track(self, made: Node, value: Any) -> None:
        if not self._is_tracked(made, value):
            track_tensor_tree(value, Proxy(made, self._tracer), constant=None, tracer=self._tracer)

    def _is_tracked(self, made: Node, value: Any) -> bool:
        if not isinstance(value, Tensor):
            return False
        known = self._tracer.tensor_tracker.get(value)
        return known is not None and known.proxy.node is made

    def _recorded(self, value: Any) -> Any:
        """What stands for a value that an operator gave."""
        if isinstance(value, Tensor):
            return get_proxy_slot(value, self._tracer).proxy.node
        if isinstance(value, list | tuple):
            return [self._recorded(part) for part in value]
        return get_proxy_slot(value, self._tracer).force().node if isinstance(value, torch.SymInt) else value

    def _write(self, node: Any) -> Any:
        """A value of its own for each buffer that is written, which stands for the buffer from there on."""
        target, written = node.target, _written(node)
        if target is _ATEN.copy_.default:
            self._made[written["self"]] = self._made[node.args[1]]
            return self._made[node.args[1]]
        given = map_arg(_arguments(node), self._made.__getitem__)
        read = {name: value for name, value in given.items() if name not in written}
        places = {f"_{name}_base_index": place for place, name in enumerate(written)}
        buffers = [self._made[buffer] for buffer in written.values()]
        values = [node.meta["val"], *(torch.empty_like(buffer.meta["val"]) for buffer in written.values())]
        made = self._add(node, _WRITTEN, (target,), {**read, **places, "_all_bases": buffers}, tuple(values))
        parts = [self._add(node, operator.getitem, (made, place), {}, value) for place, value in enumerate(values)]
        self._made.update(zip(written.values(), parts[1:], strict=True))
        return parts[0]

    def _add(
        self, node: Node, target: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], value: Any
    ) -> Node:
        """A node in place of one of the program."""
        made = self._tracer.graph.call_function(target, arguments, options)
        # Without the values of the arguments, which were others.
        made.meta = {name: known for name, known in node.meta.items() if name != "eager_input_vals"} | {"val": value}
        return made

    def _finish(self) -> ExportedProgram:
        """The program of what was made; buffers that are written give their values before all else."""
        program, graph = copy(self._program), self._tracer.graph
        signature = program.graph_signature
        output: Any = program.graph.output_node()
        made = {node.name: self._made[node] for node in program.graph.nodes if node.op == "placeholder"}
        new = {
            target: made[name]
            for name, target in _buffers(program).items()
            if isinstance(made[name], Node) and made[name].name != name
        }
        values = [self._made[value] if isinstance(value, Node) else value for value in output.args[0]]
        graph.output((*new.values(), *values)).meta = dict(output.meta)
        _join_sizes(graph)
        graph.eliminate_dead_code()
        graph.lint()
        for node in graph.nodes:
            # Of checks, which give nothing.
            node.meta.setdefault("val", None)
        specs = [
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(value.name), target) for target, value in new.items()
        ]
        specs += [
            replace(spec, arg=replace(spec.arg, name=value.name)) if isinstance(value, Node) else spec
            for spec, value in zip(signature.output_specs, values, strict=True)
        ]
        program._graph_module = GraphModule(program.graph_module, graph)
        program._graph_signature = replace(signature, input_specs=list(signature.input_specs), output_specs=specs)
        program.validate()  # type: ignore[no-untyped-call]
        return program


def _join_sizes(graph: Graph) -> None:
    """Compute each size once, and numbers of elements, which ONNX has no operator for, from sizes."""
    for node in list(graph.nodes):
        if node.target is _ATEN.sym_numel.default:
            with graph.inserting_before(node):
                node.replace_all_uses_with(_product_of_sizes(graph, node))
    first: dict[Any, Node] = {}
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            earlier = first.setdefault(size_expression(value), node)
            if earlier is not node:
                node.replace_all_uses_with(earlier)


def _product_of_sizes(graph: Graph, numel: Any) -> Any:
    """What stands for the number of elements of the tensor that ``numel`` counts."""
    (tensor,) = numel.args

    def call(target: Callable[..., Any], *arguments: Any) -> Node:
        made = call_operator(graph, target, *arguments)
        made.meta = {**numel.meta, **made.meta}
        return made

    factors = [
        call(_ATEN.sym_size.int, tensor, axis) if isinstance(size, torch.SymInt) else size
        for axis, size in enumerate(tensor.meta["val"].shape)
    ]
    return reduce(partial(call, operator.mul), factors)
