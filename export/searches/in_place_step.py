"""A decoder step of one row whose changing state stays in the program, traced for ExecuTorch; so a language model's.

A program with the state among its arguments copies a dozen tensors out and in at every step. Here caches are written
where they lie, and attention reads no further than the present token. With one row every size but the source's is
fixed, and a cache is read where it lies; several take a step of their own, ``rows_in_place_step``. A language model
reads one token or several of a row by one graph.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from lite_nlp.export.contrib import caches_in_place
from lite_nlp.export.recurrence import traceable_recurrence
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.programs import graph_sizes
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.runtime.signatures import READ_IN_PLACE, ROWS_IN_PLACE
from lite_nlp.export.searches.growing_state import STEPS, StateExample, state_example
from lite_nlp.export.searches.rows_in_place_step import RowsInPlaceStep
from lite_nlp.export.tracing import SIZES, TORCH_TYPES, trace_graph

__all__ = [
    "KEPT",
    "InPlaceStep",
    "TracedInPlaceSteps",
    "trace_in_place_steps",
    "trace_read_in_place",
    "trace_text_rows_in_place",
]

#: Names of the buffers begin with it that have to be numbers from the first step on: they are multiplied by 0 there.
KEPT: Final = "kept_"


@dataclass(frozen=True, kw_only=True)
class TracedInPlaceSteps:
    """The traced steps. V types.

    Attributes:
        row: From a token (1,), its position (1,), both int64, and the state that does not change, of one row, to logits
            (1, V).
        rows: From the arguments of :class:`~lite_nlp.export.searches.rows_in_place_step.RowsInPlaceStep`, R rows, to
            logits (R, V); None if it was not asked for.
    """

    row: ExportedProgram
    rows: ExportedProgram | None


class InPlaceStep(nn.Module):
    """One step, whose changing state is in buffers; at position 0 it begins anew.

    Args:
        model: A ``SteppedModel`` or ``SteppedText`` whose caches, of which each has the tokens in its third dimension,
            are changed by :func:`~lite_nlp.export.contrib.attend_with_cache` or ``attend_in_slots`` alone.
        layout: Of its state.
        caches: Their names.
        capacity: Tokens that they have place for.
        method: What the model takes the step by: ``decode_step``, or ``read``, several tokens.
    """

    def __init__(
        self,
        model: nn.Module,
        layout: Sequence[StateTensor],
        caches: Collection[str],
        capacity: int,
        method: str = "decode_step",
    ) -> None:
        super().__init__()
        self.model = model
        self.method = method
        self.layout = tuple(layout)
        self.capacity = capacity
        self.caches: dict[str, str] = {}
        self.kept: dict[str, str] = {}
        for place, tensor in enumerate(tensor for tensor in layout if tensor.changes):
            sizes = [1, *cast(tuple[int, ...], tensor.shape[1:])]
            if tensor.name in caches:
                # (1, C, H, d), the tokens before the heads.
                _, heads, _, channels = sizes
                sizes, names, name = [1, capacity, heads, channels], self.caches, f"cache_{place}"
            else:
                names, name = self.kept, f"{KEPT}{place}"
            names[tensor.name] = name
            self.register_buffer(name, torch.zeros(sizes, dtype=TORCH_TYPES[tensor.dtype]))

    def forward(self, tokens: Tensor, position: Tensor, given: tuple[Tensor, ...]) -> Tensor:
        """Feed a token (1,), or several (1, T), from a position (1,) on; returns logits (1, V).

        ``given`` is the state that does not change.
        """
        # A symbol while traced, which int() would ask for its number.
        place = cast(int, position.item())
        torch._check(place >= 0)  # type: ignore[no-untyped-call]
        torch._check(place < self.capacity + 1 - tokens.shape[-1])  # type: ignore[no-untyped-call]
        going = position > 0
        state = dict(zip((tensor.name for tensor in self.layout if not tensor.changes), given, strict=True))
        state |= {name: getattr(self, buffer) for name, buffer in self.caches.items()}
        for name, buffer in self.kept.items():
            value = getattr(self, buffer)
            state[name] = value * going.to(value.dtype)
        with caches_in_place(place):
            logits, new_state = getattr(self.model, self.method)(
                tokens, {tensor.name: state[tensor.name] for tensor in self.layout}
            )
        for name, buffer in self.kept.items():
            getattr(self, buffer).copy_(new_state[name])
        return cast(Tensor, logits)


def trace_in_place_steps(model: nn.Module, bounds: Bounds, *, rows: bool = True) -> TracedInPlaceSteps | None:
    """Trace the steps of ``model`` (in evaluation mode, on the CPU, fp32) for any source length.

    Args:
        model: A ``SteppedModel``; with the attribute ``writes_in_place`` if its caches grow.
        bounds: Largest sizes.
        rows: Whether to trace the step of several rows too.

    Returns:
        None if the model has no such form: its caches have a capacity, or grow in another way, or a changing tensor
        begins as something else than zeros.

    Raises:
        ModelError: If the model breaks the protocol or cannot be traced.
    """
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        example = state_example(model)
        if not _has_form(model, example):
            return None
        given = tuple(tensor for tensor in example.layout if not tensor.changes)
        source = Dim("source", min=1, max=bounds.source)
        return TracedInPlaceSteps(
            row=_trace_row(model, bounds, example, given, source),
            rows=_trace_rows(model, bounds, example, given, source) if rows else None,
        )


def trace_read_in_place(model: nn.Module, layout: Sequence[StateTensor], bounds: Bounds) -> ExportedProgram:
    """Trace a language model's reading of one row, one token or several, whose state stays in the program.

    Args:
        model: A ``SteppedText`` in evaluation mode, on the CPU, in fp32, as for :class:`InPlaceStep`.
        layout: Of its state.
        bounds: Largest sizes.

    Returns:
        From tokens (1, T) and the position (1,) of the first, both int64, to logits (1, V).

    Raises:
        ModelError: If it cannot be traced.
    """
    caches = _caches(layout)
    tokens = Dim("source", min=1, max=graph_sizes(READ_IN_PLACE, bounds)["source"])
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        graph = InPlaceStep(model, layout, caches, bounds.capacity, "read")
        example = torch.ones(1, SIZES[0]["source"], dtype=torch.int64)
        arguments = example, torch.ones(1, dtype=torch.int64), ()
        return trace_graph(READ_IN_PLACE, graph, arguments, ({1: tokens}, {}, ()))


def trace_text_rows_in_place(model: nn.Module, layout: Sequence[StateTensor], bounds: Bounds) -> ExportedProgram:
    """Trace a language model's step of several rows whose state stays in the program.

    Args:
        model: As for :func:`trace_read_in_place`.
        layout: Of its state.
        bounds: Largest sizes; a row has at most ``row_tokens``.

    Returns:
        From the arguments of :class:`~lite_nlp.export.searches.rows_in_place_step.RowsInPlaceStep` to logits (R, V).

    Raises:
        ModelError: If it cannot be traced.
    """
    sizes = bounds.of_rows
    with torch.no_grad(), quiet_libraries(), traceable_recurrence(model):
        graph = RowsInPlaceStep(model, layout, _caches(layout), sizes)
        return _trace_rows_step(graph, torch.ones(SIZES[0]["batch"], dtype=torch.int64), sizes)


def _caches(layout: Sequence[StateTensor]) -> list[str]:
    """The tensors of a language model's state that grow."""
    return [tensor.name for tensor in layout if "capacity" in tensor.shape]


def _trace_row(
    model: nn.Module, bounds: Bounds, example: StateExample, given: Sequence[StateTensor], source: Dim
) -> ExportedProgram:
    graph = InPlaceStep(model, example.layout, example.growing, bounds.capacity)
    tensors = tuple(example.tensors[tensor.name][:1].contiguous() for tensor in given)
    sizes = tuple({axis: source for axis, size in enumerate(tensor.shape) if size == "source"} for tensor in given)
    arguments = example.tokens[:1], torch.ones(1, dtype=torch.int64), tensors
    return trace_graph("decode_in_place", graph, arguments, ({}, {}, sizes))


def _trace_rows(
    model: nn.Module, bounds: Bounds, example: StateExample, given: Sequence[StateTensor], source: Dim
) -> ExportedProgram:
    graph = RowsInPlaceStep(model, example.layout, example.growing, bounds)
    return _trace_rows_step(
        graph, example.tokens, bounds, [(tensor, example.tensors[tensor.name].contiguous()) for tensor in given], source
    )


def _trace_rows_step(
    graph: RowsInPlaceStep,
    tokens: Tensor,
    bounds: Bounds,
    given: Sequence[tuple[StateTensor, Tensor]] = (),
    source: Dim | None = None,
) -> ExportedProgram:
    """Trace a step of rows, fed ``tokens`` (R,), from the state that does not change, of the size ``source``."""
    rows, length = Dim("rows", min=1, max=bounds.executorch_batch), Dim("length", min=1, max=bounds.capacity)
    symbols = {"batch": rows, "source": source}
    sizes = tuple(
        {axis: symbols[size] for axis, size in enumerate(tensor.shape) if isinstance(size, str)} for tensor, _ in given
    )
    count = len(tokens)
    ancestors = torch.arange(count * (STEPS + 1)).reshape(STEPS + 1, count).T.contiguous()
    place = torch.full((1,), count * STEPS)
    arguments = tokens, torch.arange(count), ancestors, place, tuple(tensor for _, tensor in given)
    return trace_graph(ROWS_IN_PLACE, graph, arguments, ({0: rows}, {0: rows}, {0: rows, 1: length}, {}, sizes))


def _has_form(model: nn.Module, example: StateExample) -> bool:
    changing = [tensor for tensor in example.layout if tensor.changes]
    fixed = all(isinstance(size, int) for tensor in changing for size in tensor.shape[1:])
    anew = all(tensor.origin == "zeros" for tensor in changing)
    return fixed and anew and (not example.growing or bool(getattr(model, "writes_in_place", False)))
