"""Walks through the graphs of torch's and ExecuTorch's programs, to count their work."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from lite_nlp.budget.traced.calls import call_work, is_counted
from lite_nlp.budget.traced.contractions import ProductTracker
from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.operators import Call, base_name, bind_arguments
from lite_nlp.budget.traced.work import Entry, WorkCount
from lite_nlp.core.errors import CountError
from lite_nlp.export.contrib import IN_PLACE_LIBRARY
from lite_nlp.export.executorch_edits import is_mean, size_expression

__all__ = ["count_program"]

#: Operators that read a number from a tensor.
_READING: Final = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


def count_program(program: ExportedProgram, *inputs: Tensor, merge_equal: bool = False, position: int = 0) -> WorkCount:
    """Count one run of an exported program, before or after lowering, by the sizes that its graph knows of all values.

    Args:
        program: Of ``torch.export``, of ExecuTorch's edge dialect, or lowered to a backend that kept what it took;
            before its operators are bound to memory.
        *inputs: The program's arguments, flat; only shapes and types are looked at.
        merge_equal: Whether nodes that compute the same from the same are counted once (common subexpressions, which
            an exporter may merge), instead of as often as they stand in the program.
        position: The number that the program reads from a tensor, if it reads one.

    Raises:
        CountError: If its work cannot be told.
    """
    walk, calls = _MergingWalk if merge_equal else _Walk, _CallCounter()
    sizes = _Sizes(program, inputs, position)
    _run_program(program, inputs, lambda module, means: walk(module, means, position, calls, sizes))
    return calls.work


def _run_program(
    program: ExportedProgram, inputs: Sequence[Tensor], make: Callable[[fx.GraphModule, list[Tensor]], fx.Interpreter]
) -> list[Any]:
    """Go through ``program``, which needs of its weights no more than their shapes; returns its outputs.

    Args:
        program: The program.
        inputs: Its arguments.
        make: Makes what runs its graph, given that and the weights that means are taken by.
    """
    given = iter(inputs)
    arguments, means = [], []
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            arguments.append(next(given))
        else:
            value = node.meta["val"]
            arguments.append(torch.empty(value.shape, dtype=value.dtype, device="meta"))
            if is_mean(spec.target):
                means.append(arguments[-1])
    return list(make(program.graph_module, means).run(*arguments))


class _CallCounter:
    """Counts calls of operators whose results are known, one after the other, and runs none that has a formula.

    Attributes:
        work: What they took so far, by operator and kind.
    """

    def __init__(self) -> None:
        self._products = ProductTracker()
        self._entries: list[Entry] = []

    @property
    def work(self) -> WorkCount:
        """The work of all calls so far."""
        return WorkCount.from_entries(self._entries)

    def count(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Count one call.

        Args:
            function: An operator. One without a formula is run as by :func:`count_work`, as is any other function.
            args: Its arguments, with tensors on the device ``meta``.
            kwargs: Likewise.
            result: Its result, with such tensors.

        Raises:
            CountError: As :func:`count_work`.
        """
        if not isinstance(function, OpOverload) or not is_counted(function):
            self._entries += count_work(function, *args, **kwargs).entries
            return
        call = Call(arguments=bind_arguments(function, args, kwargs), result=result)
        for kind, macs in call_work(function, call, self._products):
            self._entries.append(Entry(operator=base_name(function), module="", kind=kind, macs=macs, calls=1))


class _Sizes:
    """The sizes of a graph's values at one set of sizes of its inputs, as the graph knows them by their symbols.

    Args:
        program: The program.
        inputs: Its arguments.
        position: What it reads from a tensor.
    """

    def __init__(self, program: ExportedProgram, inputs: Sequence[Tensor], position: int) -> None:
        self._numbers: dict[Any, int] = {}
        given, names = iter(inputs), program.graph_signature.user_inputs
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in names:
                for symbol, size in zip(node.meta["val"].shape, next(given).shape, strict=True):
                    self._numbers[size_expression(symbol)] = size
            elif _of_aten(node.target) in _READING:
                self._numbers[size_expression(node.meta["val"])] = position
        self._symbols = {symbol: size for symbol, size in self._numbers.items() if getattr(symbol, "is_symbol", False)}

    def fix(self, value: Any) -> Any:
        """A value of the graph with numbers for symbols; its tensors have no numbers in them.

        Raises:
            CountError: If a size does not follow from those of the inputs.
        """
        if isinstance(value, Tensor):
            return torch.empty([self.fix(size) for size in value.shape], dtype=value.dtype, device="meta")
        if isinstance(value, list | tuple):
            return [self.fix(part) for part in value]
        if not isinstance(value, torch.SymInt):
            return value
        expression = size_expression(value)
        if expression not in self._numbers:
            size = expression.xreplace(self._symbols)
            if not size.is_Integer:
                raise CountError(f"size in a graph: expected one that follows from its inputs', found {size}")
            self._numbers[expression] = int(size)
        return self._numbers[expression]


class _Walk(fx.Interpreter):
    """Goes through a graph whose values' sizes it knows, and counts without running it.

    The operators are those of ATen, or of the edge dialect, which stand for some of ATen.

    Args:
        module: The graph.
        means: Weights of the products that are sums of layer norms.
        position: What it reads from a tensor, which has no numbers here.
        calls: Counts the calls.
        sizes: Of the values.
    """

    def __init__(
        self, module: fx.GraphModule, means: Sequence[Tensor], position: int, calls: _CallCounter, sizes: _Sizes
    ) -> None:
        super().__init__(module)
        self._means = {id(mean) for mean in means}
        self._position = position
        self._calls = calls
        self._sizes = sizes
        self._value: Any = None

    def run_node(self, n: fx.Node) -> Any:
        """One node, whose value the graph knows."""
        self._value = n.meta.get("val")
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call: a delegate is what it was made of."""
        if getattr(target, "__name__", "") == "executorch_call_delegate":
            return _run_program(args[0].original_module, args[1:], self._inner)
        if target is torch.ops.higher_order.scan:
            body: Any = args[0]
            return target(lambda *inner: self._inner(body).run(*inner), *args[1:])
        library = getattr(target, "namespace", "")
        if _of_aten(target) in _READING:
            return self._position
        if target is torch.ops.higher_order.auto_functionalized_v2:
            # The writing of a cache, which is no work: its result and the cache.
            return (kwargs["value"], *kwargs["_all_bases"])
        if library == IN_PLACE_LIBRARY:
            return self._count(_attend_in_place, args, {})
        if len(args) > 1 and id(args[1]) in self._means:
            x, mean, *offset = args
            # Of the two sums the second has an offset, and stands for the norm.
            if offset:
                self._count(torch.ops.aten.native_layer_norm.default, (x, mean.shape[1:], None, None, 0.0), {})
            return x.new_empty([*x.shape[:-1], 1])
        return self._count(target, args, kwargs)

    def _inner(self, module: fx.GraphModule, means: Sequence[Tensor] = ()) -> "_Walk":
        """What goes through a graph within this one."""
        return type(self)(module, means, self._position, self._calls, self._sizes)

    def _count(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Count an operator, or a function that stands for one; returns its value."""
        if target is operator.getitem:
            return target(*args)
        result = self._sizes.fix(self._value)
        if isinstance(result, list | Tensor):
            self._calls.count(_of_aten(target), args, kwargs, result)
        return result


class _MergingWalk(_Walk):
    """Counts equal nodes with equal inputs once."""

    def __init__(
        self, module: fx.GraphModule, means: Sequence[Tensor], position: int, calls: _CallCounter, sizes: _Sizes
    ) -> None:
        super().__init__(module, means, position, calls, sizes)
        # The arguments are kept too: a tensor that is gone could lend its identity to another.
        self._done: dict[Any, tuple[Any, Any]] = {}

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One node, unless an equal one came before it."""
        if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
            return super().call_function(target, args, kwargs)
        key = target, _identity(args), _identity(sorted(kwargs.items()))
        if key not in self._done:
            self._done[key] = super().call_function(target, args, kwargs), (args, kwargs)
        return self._done[key][0]


def _of_aten(target: Any) -> Any:
    """The operator itself, or that of ATen which one of the edge dialect stands for."""
    return target if isinstance(target, OpOverload) else getattr(target, "_op", target)


def _attend_in_place(query: Tensor, key: Tensor, value: Tensor, position: int, *_: Any) -> Tensor:
    """Attention of tokens (B, T, H, d) in caches (B, C, H, d), the first at a position, to those up to the last."""
    keys, values = (cache[:, : position + query.shape[1]].transpose(1, 2) for cache in (key, value))
    weights = torch.matmul(query.transpose(1, 2), keys.transpose(2, 3)).softmax(dim=-1)
    return torch.matmul(weights, values).transpose(1, 2)


def _identity(value: Any) -> Any:
    """A key of an argument: the identity of a tensor, the type and value of anything else."""
    if isinstance(value, Tensor):
        return "tensor", id(value)
    if isinstance(value, (list, tuple)):
        return tuple(_identity(part) for part in value)
    return type(value), value
