"""The traced graphs as one ExecuTorch program, the greater part of it lowered to XNNPACK.

XNNPACK takes Linear layers, attention and the writing of caches; the rest runs on ExecuTorch's own kernels. In fp32 a
table that is both embedding and output projection stays with those kernels too: XNNPACK packs its own copy of a
Linear's weights, which would store the largest tensor of the model twice. As integers two copies take half of that.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

import torch
from torch import nn
from torch.export import ExportedProgram

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import BundleError, ModelError
from lite_nlp.export.counting.torch_programs import count_in_place_work, count_program_work
from lite_nlp.export.executorch_lowering import lower_programs, write_program
from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.executorch_tables import find_tied_tables
from lite_nlp.export.exporter import RuntimeGraphs
from lite_nlp.export.matrices import UNROUNDED, Rounding
from lite_nlp.export.runtime.executorch import ExecuTorchEntry
from lite_nlp.export.runtime.executorch_methods import LoadedProgram, MethodCalls, load_operators
from lite_nlp.export.runtime.layout import Layout
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.runtime.signatures import IN_PLACE, IN_PLACE_SIGNATURES, ROWS_IN_PLACE
from lite_nlp.export.searches.in_place_step import TracedInPlaceSteps, trace_in_place_steps
from lite_nlp.export.tracing import TracedModel

__all__ = [
    "ENTRY",
    "ExecuTorchProgram",
    "executorch_runtime_graphs",
    "export_executorch",
    "has_loops",
    "make_program",
    "refuse_loops",
]

#: Name in the bundle.
ENTRY: Final = ExecuTorchEntry(program="model.pte")

_Counted = TypeVar("_Counted")


@dataclass(frozen=True)
class ExecuTorchProgram:
    """The ExecuTorch part of a bundle.

    Attributes:
        content: The ``.pte`` file.
        work: Mult-Adds of ``encode`` and ``decode_step``.
        calls: What each method calls.
        work_in_place: Mult-Adds of ``encode`` and each method of steps whose state stays in the program, by the method.
    """

    content: bytes
    work: GraphWork
    calls: dict[str, MethodCalls]
    work_in_place: dict[str, GraphWork] = field(default_factory=dict)


def export_executorch(
    traced: TracedModel, *, in_place: TracedInPlaceSteps | None = None, rounding: Rounding = UNROUNDED
) -> ExecuTorchProgram:
    """Lower the graphs to one program with methods ``encode`` and ``decode_step``, and for steps in place if given.

    Args:
        traced: The model.
        in_place: Its steps whose state stays in the program.
        rounding: Of the weights of products and tables.

    Raises:
        ModelError: If the runtime has no kernel for an operator of the program, or the model has recurrent layers.
        CountError: If the work of the program cannot be told.
    """
    graphs = {"encode": traced.encode, "decode_step": traced.decode_step}
    if in_place is not None:
        graphs[IN_PLACE] = in_place.row
        if in_place.rows is not None:
            graphs[ROWS_IN_PLACE] = in_place.rows
    refuse_loops(graphs.values())
    layout = Layout(state=traced.state, bounds=traced.bounds, tgt_size=traced.tgt_vocab_size)

    def count(programs: Mapping[str, ExportedProgram]) -> tuple[GraphWork, dict[str, GraphWork]]:
        work = count_program_work(programs, traced.state, traced.bounds)
        steps = {
            method: count_in_place_work(programs[method], signature(layout), traced.bounds)
            for method, signature in IN_PLACE_SIGNATURES.items()
            if method in programs
        }
        return work, {method: replace(work, decode_step=counted) for method, counted in steps.items()}

    content, calls, (work, work_in_place) = make_program(graphs, rounding, count=count)
    return ExecuTorchProgram(content, work, calls, work_in_place)


def make_program(
    graphs: Mapping[str, ExportedProgram],
    rounding: Rounding,
    *,
    count: Callable[[Mapping[str, ExportedProgram]], _Counted],
    rows: Mapping[str, int] = MappingProxyType({}),
) -> tuple[bytes, dict[str, MethodCalls], _Counted]:
    """Lower traced graphs to one program, a method for each.

    Args:
        graphs: By the name of the method.
        rounding: Of the weights of products and tables.
        count: Counts the lowered graphs, by method, before their operators are bound to memory.
        rows: By method, the most rows of a call, where that is fewer than it was traced for.

    Returns:
        The ``.pte`` file, what each method calls, and what ``count`` found.

    Raises:
        ModelError: If the runtime has no kernel for an operator of the program.
        CountError: If its work cannot be told.
    """
    tied = frozenset[int]().union(*map(find_tied_tables, graphs.values()))
    with quiet_libraries(), torch.no_grad():
        lowered = lower_programs(
            {method: prepare_program(program, rounding=rounding, tied=tied) for method, program in graphs.items()}
        )
        # Before the file is made: what is in the program is bound to memory then, in place.
        counted = count({method: lowered.exported_program(method) for method in graphs})
        written = write_program(lowered, rows)
        content = bytes(written.buffer)
        _check_kernels(content, list(graphs))
    return content, _count_calls(written.executorch_program, list(graphs)), counted


def refuse_loops(programs: Collection[ExportedProgram]) -> None:
    """Refuse graphs of recurrent layers.

    Raises:
        ModelError: If there is one.
    """
    if has_loops(programs):
        raise ModelError(
            "executorch: expected a model without recurrent layers, whose loops ExecuTorch runs for one batch size "
            "alone, found one with nn.LSTM, nn.GRU or nn.RNN; runtimes=['onnx'] exports it for ONNX Runtime"
        )


def has_loops(programs: Collection[ExportedProgram]) -> bool:
    """Whether a graph has what ExecuTorch 1.4 runs wrongly: it keeps a loop's states at the largest batch's size."""
    return any(node.target is torch.ops.higher_order.scan for program in programs for node in program.graph.nodes)


def _count_calls(program: Any, methods: Sequence[str]) -> dict[str, MethodCalls]:
    from executorch.exir.schema import DelegateCall, KernelCall

    calls, plans = {}, {plan.name: plan for plan in program.execution_plan}
    for method in methods:
        plan = plans[method]
        instructions = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
        operators = [plan.operators[call.op_index] for call in instructions if isinstance(call, KernelCall)]
        kernels = Counter(".".join(filter(None, (operator.name, operator.overload))) for operator in operators)
        delegated = sum(isinstance(call, DelegateCall) for call in instructions)
        calls[method] = MethodCalls(delegated=delegated, kernels=dict(kernels.most_common()))
    return calls


def _check_kernels(program: bytes, methods: Sequence[str]) -> None:
    """Check that the runtime has a kernel for every operator, which loading a method resolves."""
    load_operators()
    loaded = LoadedProgram(program, threads=1)
    for method in methods:
        try:
            loaded.method(method)
        except BundleError as error:
            raise ModelError(
                f"{method}: expected operators that the ExecuTorch runtime has, found others: {error}"
            ) from error


def executorch_runtime_graphs(
    traced: TracedModel, search_form: nn.Module, rounding: Rounding, *, compact: bool
) -> RuntimeGraphs:
    """The program for ExecuTorch; see :class:`~lite_nlp.export.exporter.Export`."""
    # The step of several rows is a fiftieth of a compact bundle, and nothing to an app that has one sentence at a time.
    in_place = trace_in_place_steps(search_form, traced.bounds, rows=not compact)
    program = export_executorch(traced, in_place=in_place, rounding=rounding)
    methods = {"in_place": IN_PLACE in program.calls, "rows_in_place": ROWS_IN_PLACE in program.calls}
    return RuntimeGraphs(
        entry=ENTRY.model_copy(update={"calls": program.calls, **methods}),
        files={ENTRY.program: program.content},
        work=program.work,
        search_work=program.work_in_place,
    )
