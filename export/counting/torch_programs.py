"""Mult-Adds of a model's two graphs as torch runs them: the model itself, and the program behind the ``.pte`` file.

Both are run on tensors that have sizes and no numbers, under the operator-level counter
(``lite_nlp.budget.traced.counter``). The program counted is the one from which ExecuTorch's file is written: after
lowering, with the parts that XNNPACK takes opened up again, since what a part computes is kept beside what XNNPACK made
of it. There the sums of a layer norm are products with one output; they count as the norm that they are part of.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.graphs import GraphWork, Polynomial, fit_polynomials
from lite_nlp.budget.traced.work import WorkCount, WorkKind
from lite_nlp.export.contrib import IN_PLACE_LIBRARY
from lite_nlp.export.executorch_edits import is_mean
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.signatures import Signature, TensorForm
from lite_nlp.export.tracing import TORCH_TYPES, DecodeStep, Encode, TracedModel

__all__ = ["count_in_place_work", "count_merged_work", "count_model_work", "count_program", "count_program_work"]

#: The operator that reads a number from a tensor.
_READING: Final = "_local_scalar_dense"


def count_model_work(model: nn.Module, state: Sequence[StateTensor], bounds: Bounds) -> GraphWork:
    """Count the Mult-Adds of the model itself, called as the exporters trace it.

    Args:
        model: A ``lite_nlp.decoding.torch_model.SteppedModel`` in evaluation mode.
        state: Layout of its state.
        bounds: Largest sizes.

    Raises:
        CountError: If its work cannot be told, or is no polynomial of the sizes.
    """
    encode = Encode(model, [tensor.name for tensor in state if tensor.origin == "encode"])
    decode_step = DecodeStep(model, state)
    return _fit(
        lambda tokens, mask: count_work(encode, tokens, mask),
        lambda tokens, tensors: count_work(decode_step, tokens, tensors),
        state,
        bounds,
    )


def count_merged_work(traced: TracedModel) -> GraphWork:
    """Count the traced model with equal computations done once, the least work that an exporter may leave.

    Raises:
        CountError: As ``count_model_work``.
    """
    programs = {"encode": traced.encode, "decode_step": traced.decode_step}
    return count_program_work(programs, traced.state, traced.bounds, merge_equal=True)


def count_program_work(
    programs: Mapping[str, ExportedProgram],
    state: Sequence[StateTensor],
    bounds: Bounds,
    *,
    merge_equal: bool = False,
) -> GraphWork:
    """Count a traced or lowered program with the methods ``encode`` and ``decode_step``.

    Args:
        programs: The exported program of each method; a lowered one before its operators are bound to memory.
        state: Layout of the state between them.
        bounds: Largest sizes.
        merge_equal: As in ``count_program``.

    Raises:
        CountError: If its work cannot be told, or is no polynomial of the sizes.
    """
    return _fit(
        lambda tokens, mask: count_program(programs["encode"], tokens, mask, merge_equal=merge_equal),
        lambda tokens, tensors: count_program(programs["decode_step"], tokens, *tensors, merge_equal=merge_equal),
        state,
        bounds,
    )


def count_in_place_work(program: ExportedProgram, signature: Signature, bounds: Bounds) -> dict[WorkKind, Polynomial]:
    """Count a step whose state stays in the program, of one row at the last position of each capacity.

    Args:
        program: Of ``lite_nlp.export.searches.in_place_step``, before or after lowering.
        signature: Its own.
        bounds: Largest sizes.

    Raises:
        CountError: If its work cannot be told, or is no polynomial of the sizes.
    """

    def count_step(source: int, capacity: int) -> Any:
        tensors = _empty_tensors(signature.inputs.values(), source=source, capacity=capacity)
        return count_program(program, *tensors, position=capacity - 1).by_kind()

    return fit_polynomials(count_step, max_source=bounds.source, max_capacity=bounds.capacity)


def count_program(program: ExportedProgram, *inputs: Tensor, merge_equal: bool = False, position: int = 0) -> WorkCount:
    """Count one run of an exported program, before or after lowering.

    Args:
        program: Of ``torch.export``, of ExecuTorch's edge dialect, or lowered to a backend that kept what it took.
        *inputs: The program's arguments, flat; only shapes and types are looked at.
        merge_equal: Whether nodes that compute the same from the same are counted once (common subexpressions, which
            an exporter may merge), instead of as often as they stand in the program.
        position: The number that the program reads from a tensor, if it reads one.

    Raises:
        CountError: If its work cannot be told.
    """

    def run(*inputs: Tensor) -> None:
        _interpret(program, inputs, merge_equal=merge_equal, position=position)

    return count_work(run, *inputs)


def _interpret(
    program: ExportedProgram, inputs: Sequence[Tensor], *, merge_equal: bool = False, position: int = 0
) -> list[Any]:
    """Run ``program``, which needs of its weights no more than their shapes; returns its outputs."""
    given = iter(inputs)
    arguments, means = [], []
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            arguments.append(next(given))
        else:
            value = node.meta["val"]
            arguments.append(torch.empty(value.shape, dtype=value.dtype))
            if is_mean(spec.target):
                means.append(arguments[-1])
    interpreter = _Merging if merge_equal else _Interpreter
    return list(interpreter(program.graph_module, means, position).run(*arguments))


class _Interpreter(fx.Interpreter):
    """Runs a graph of ATen operators, or of the edge dialect by the ATen operators that its own stand for.

    Args:
        module: The graph.
        means: Weights of the products that are sums of layer norms.
        position: What it reads from a tensor, which has no numbers here.
    """

    def __init__(self, module: fx.GraphModule, means: Sequence[Tensor] = (), position: int = 0) -> None:
        super().__init__(module)
        self._means = {id(mean) for mean in means}
        self._position = position

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One node: a delegate is run as what it was made of."""
        if getattr(target, "__name__", "") == "executorch_call_delegate":
            return _interpret(args[0].original_module, args[1:])
        if target is torch.ops.higher_order.scan:
            body: Any = args[0]
            return target(lambda *inner: type(self)(body).run(*inner), *args[1:])
        library = getattr(target, "namespace", "")
        if _READING in getattr(target, "__name__", ""):
            return self._position
        if target is torch.ops.higher_order.auto_functionalized_v2:
            # The writing of a cache, which is no work: its result and the cache.
            return (kwargs["value"], *kwargs["_all_bases"])
        if library == IN_PLACE_LIBRARY:
            return _attend_in_place(*args)
        if len(args) > 1 and id(args[1]) in self._means:
            x, mean, *offset = args
            # Of the two sums the second has an offset, and stands for the norm.
            if offset:
                torch.native_layer_norm(x, mean.shape[1:], None, None, 0.0)
            return x.new_empty([*x.shape[:-1], 1])
        return super().call_function(target, args, kwargs)


def _attend_in_place(query: Tensor, key: Tensor, value: Tensor, position: int, *_: Any) -> Tensor:
    """Attention of one token of each row (B, 1, H, d) to those up to its own in caches (B, C, H, d)."""
    keys, values = (cache[:, : position + 1].transpose(1, 2) for cache in (key, value))
    weights = torch.matmul(query.transpose(1, 2), keys.transpose(2, 3)).softmax(dim=-1)
    return torch.matmul(weights, values).transpose(1, 2)


class _Merging(_Interpreter):
    """Runs a graph, equal nodes with equal inputs once."""

    def __init__(self, module: fx.GraphModule, means: Sequence[Tensor] = (), position: int = 0) -> None:
        super().__init__(module, means, position)
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


def _identity(value: Any) -> Any:
    """A key of an argument: the identity of a tensor, the type and value of anything else."""
    if isinstance(value, Tensor):
        return "tensor", id(value)
    if isinstance(value, (list, tuple)):
        return tuple(_identity(part) for part in value)
    return type(value), value


def _fit(
    encode: Callable[[Tensor, Tensor], WorkCount],
    decode_step: Callable[[Tensor, tuple[Tensor, ...]], WorkCount],
    state: Sequence[StateTensor],
    bounds: Bounds,
) -> GraphWork:
    """Polynomials of both graphs, from counts on tensors of one row."""
    limits = {"max_source": bounds.source, "max_capacity": bounds.capacity}

    @cache
    def count_sources(source: int) -> Any:
        return encode(_empty((1, source), torch.int64), _empty((1, source), torch.bool)).by_kind()

    def count_step(source: int, capacity: int) -> Any:
        tensors = _empty_tensors(state, source=source, capacity=capacity)
        return decode_step(_empty((1,), torch.int64), tensors).by_kind()

    return GraphWork(
        encode=fit_polynomials(lambda source, _: count_sources(source), **limits),
        decode_step=fit_polynomials(count_step, **limits),
    )


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _empty_tensors(forms: Iterable[TensorForm | StateTensor], *, source: int, capacity: int) -> tuple[Tensor, ...]:
    """Tensors of one row."""
    sizes: dict[Any, int] = {"batch": 1, "source": source, "capacity": capacity}
    return tuple(
        _empty([size if isinstance(size, int) else sizes[size] for size in form.shape], TORCH_TYPES[form.dtype])
        for form in forms
    )
