"""Mult-Adds of a model's two graphs as torch runs them: the model itself, and the program behind the ``.pte`` file.

The operator-level counter (``lite_nlp.budget.traced.counter``) sees both, on tensors that have sizes and no numbers.
The program counted is the one from which ExecuTorch's file is written: after lowering, with the parts that XNNPACK
takes opened up again, since what a part computes is kept beside what XNNPACK made of it. It is not run: its graph
knows the sizes of all values. There the sums of a layer norm are products with one output; they count as the norm that
they are part of.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.graphs import GraphWork, Polynomial, Work, fit_graphs, fit_polynomials
from lite_nlp.budget.traced.work import WorkCount, WorkKind
from lite_nlp.export.counting.torch_walk import count_program
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.signatures import Signature, TensorForm
from lite_nlp.export.tracing import TORCH_TYPES, DecodeStep, Encode, TracedModel

__all__ = ["count_in_place_work", "count_merged_work", "count_model_work", "count_program_work"]


def count_model_work(
    model: nn.Module, state: Sequence[StateTensor], bounds: Bounds, *, recorded: Work | None = None
) -> GraphWork:
    """Count the Mult-Adds of the model itself, called as the exporters trace it.

    Args:
        model: A ``lite_nlp.decoding.torch_model.SteppedModel`` in evaluation mode.
        state: Layout of its state.
        bounds: Largest sizes.
        recorded: What an earlier count found, held against a count at two sizes instead of made anew.

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
        recorded,
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
    has_source = any("source" in form.shape for form in signature.inputs.values())

    @cache
    def count_step(source: int, capacity: int) -> Any:
        tensors = _empty_tensors(signature.inputs.values(), source=source, capacity=capacity)
        return count_program(program, *tensors, position=capacity - 1).by_kind()

    return fit_polynomials(
        # A language model has no source: what differs in it alone is counted once.
        lambda source, capacity: count_step(source if has_source else 1, capacity),
        max_source=bounds.source,
        max_capacity=bounds.capacity,
    )


def _fit(
    encode: Callable[[Tensor, Tensor], WorkCount],
    decode_step: Callable[[Tensor, tuple[Tensor, ...]], WorkCount],
    state: Sequence[StateTensor],
    bounds: Bounds,
    recorded: Work | None = None,
) -> GraphWork:
    """Polynomials of both graphs, from counts on tensors of one row."""

    def count_sources(source: int) -> Any:
        return encode(_empty((1, source), torch.int64), _empty((1, source), torch.bool)).by_kind()

    def count_step(source: int, capacity: int) -> Any:
        tensors = _empty_tensors(state, source=source, capacity=capacity)
        return decode_step(_empty((1,), torch.int64), tensors).by_kind()

    return fit_graphs(
        encode=count_sources,
        decode_step=count_step,
        max_source=bounds.source,
        max_capacity=bounds.capacity,
        recorded=recorded,
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
