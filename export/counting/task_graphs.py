"""Mult-Adds of the graphs of language models and classifiers: the modules, the traced programs, the ONNX files."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.budget.traced.graphs import Polynomial, TaskWork, Work, fit_polynomials
from lite_nlp.budget.traced.work import WorkCount, WorkKind
from lite_nlp.export.counting.onnx_walk import count_onnx
from lite_nlp.export.counting.torch_walk import count_program
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.programs import graph_sizes, least_tokens
from lite_nlp.export.runtime.signatures import Signature, TensorForm
from lite_nlp.export.task_tracing import TaskGraph
from lite_nlp.export.tracing import TORCH_TYPES

__all__ = [
    "count_lowered",
    "count_modules",
    "count_onnx_graphs",
    "count_programs",
    "count_read_in_place",
    "reads_alone",
]


def count_modules(graphs: Mapping[str, TaskGraph], bounds: Bounds, *, recorded: Work | None = None) -> TaskWork:
    """Count the modules behind the graphs, called as they are traced.

    Args:
        graphs: The graphs.
        bounds: Largest sizes.
        recorded: What an earlier count found, held against a count at two sizes instead of made anew.

    Raises:
        CountError: If the work of one cannot be told, or is no polynomial of the sizes.
    """

    def count(name: str, tensors: list[Tensor]) -> WorkCount:
        graph = graphs[name]
        return count_work(graph.module, *graph.arguments(tensors))

    return _fit({name: graph.signature for name, graph in graphs.items()}, bounds, count, recorded)


def count_programs(
    programs: Mapping[str, ExportedProgram], graphs: Mapping[str, TaskGraph], bounds: Bounds
) -> TaskWork:
    """Count the traced programs with equal computations done once, the least work that an exporter may leave.

    Raises:
        CountError: As ``count_modules``.
    """

    def count(name: str, tensors: list[Tensor]) -> WorkCount:
        return count_program(programs[name], *tensors, merge_equal=True)

    return _fit({name: graph.signature for name, graph in graphs.items()}, bounds, count)


def count_lowered(
    programs: Mapping[str, ExportedProgram], signatures: Mapping[str, Signature], bounds: Bounds
) -> TaskWork:
    """Count the methods of a program for ExecuTorch, lowered, before their operators are bound to memory.

    Raises:
        CountError: As ``count_modules``.
    """
    return _fit(signatures, bounds, lambda name, tensors: count_program(programs[name], *tensors))


def count_read_in_place(program: ExportedProgram, bounds: Bounds) -> dict[str, Mapping[WorkKind, Polynomial]]:
    """Count the two graphs of a language model whose place a program of ``trace_read_in_place`` takes.

    Args:
        program: The program, lowered.
        bounds: Largest sizes.

    Returns:
        The work of ``decode_step``, one token, and of ``read``, several, each the last of a capacity.

    Raises:
        CountError: As ``count_modules``.
    """
    position = torch.empty(1, dtype=torch.int64, device="meta")

    def count(tokens: int, capacity: int) -> WorkCount:
        given = torch.empty((1, tokens), dtype=torch.int64, device="meta")
        return count_program(program, given, position, position=capacity - tokens)

    return _reading(count, bounds, {})


def reads_alone(graphs: Collection[str]) -> bool:
    """Whether ``read`` takes single tokens too, of graphs with these names."""
    return "read" in graphs and "decode_step" not in graphs


def count_onnx_graphs(
    files: Mapping[str, bytes],
    signatures: Mapping[str, Signature],
    bounds: Bounds,
    *,
    recorded: Work | None = None,
) -> TaskWork:
    """Count ONNX graphs, given without their weights.

    Args:
        files: The graphs.
        signatures: Their inputs.
        bounds: Largest sizes.
        recorded: As in ``count_modules``.

    Raises:
        CountError: As ``count_modules``.
    """
    import onnx

    models = {name: onnx.load_from_string(content) for name, content in files.items()}
    work: dict[str, Mapping[WorkKind, Polynomial]] = {}
    known = recorded.graphs if recorded is not None else {}
    if reads_alone(models):
        count = _onnx(models.pop("read"))
        work |= _reading(lambda tokens, room: count({"batch": 1, "source": tokens, "capacity": room}), bounds, known)
    work |= {
        name: _polynomials(name, signatures[name], bounds, _onnx(model), known.get(name))
        for name, model in models.items()
    }
    return TaskWork(work)


def _reading(
    count: Callable[[int, int], WorkCount],
    bounds: Bounds,
    known: Mapping[str, Mapping[WorkKind, Polynomial]],
) -> dict[str, Mapping[WorkKind, Polynomial]]:
    """``decode_step`` and ``read`` of what reads one token or several, counted by tokens and capacity."""
    counted = cache(lambda tokens, capacity: count(tokens, capacity).by_kind())
    limits = {"max_source": graph_sizes("read", bounds)["source"], "max_capacity": bounds.capacity}
    return {
        "decode_step": fit_polynomials(
            lambda _, capacity: counted(1, capacity), **limits, recorded=known.get("decode_step")
        ),
        "read": fit_polynomials(counted, **limits, recorded=known.get("read")),
    }


def _onnx(model: Any) -> Callable[[Mapping[str, int]], WorkCount]:
    return lambda sizes: count_onnx(model, sizes)


def _fit(
    signatures: Mapping[str, Signature],
    bounds: Bounds,
    count: Callable[[str, list[Tensor]], WorkCount],
    recorded: Work | None = None,
) -> TaskWork:
    known = recorded.graphs if recorded is not None else {}

    def counter(name: str) -> Callable[[Mapping[str, int]], WorkCount]:
        forms = signatures[name].inputs.values()
        return lambda sizes: count(name, [_empty(form, sizes) for form in forms])

    return TaskWork(
        {
            name: _polynomials(name, signature, bounds, counter(name), known.get(name))
            for name, signature in signatures.items()
        }
    )


def _polynomials(
    name: str,
    signature: Signature,
    bounds: Bounds,
    count: Callable[[Mapping[str, int]], WorkCount],
    recorded: Mapping[WorkKind, Polynomial] | None = None,
) -> Mapping[WorkKind, Polynomial]:
    """Polynomials of one graph, from counts on tensors of one row, each size at which is counted once."""
    used = {size for form in signature.inputs.values() for size in form.shape if isinstance(size, str)}

    @cache
    def counted(source: int, capacity: int) -> Any:
        return count({"batch": 1, "source": source, "capacity": capacity}).by_kind()

    def at(source: int, capacity: int) -> Any:
        return counted(source if "source" in used else 1, capacity if "capacity" in used else 1)

    largest = graph_sizes(name, bounds)
    return fit_polynomials(
        at,
        max_source=largest["source"],
        max_capacity=largest["capacity"],
        min_source=least_tokens(name),
        recorded=recorded,
    )


def _empty(form: TensorForm, sizes: Mapping[str, int]) -> Tensor:
    shape = [sizes[size] if isinstance(size, str) else int(size or 0) for size in form.shape]
    return torch.empty(shape, dtype=TORCH_TYPES[form.dtype], device="meta")
