"""The traced graphs as one ExecuTorch program, the greater part of it lowered to XNNPACK.

XNNPACK takes Linear layers, attention and the writing of caches; the rest runs on ExecuTorch's own kernels. In fp32 a
table that is both embedding and output projection stays with those kernels too: XNNPACK packs its own copy of a
Linear's weights, which would store the largest tensor of the model twice. As integers two copies take half of that.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import torch
from torch import nn
from torch.export import ExportedProgram

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import ModelError
from lite_nlp.export.counting.torch_programs import count_in_place_work, count_program_work
from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.executorch_tables import find_tied_tables
from lite_nlp.export.exporter import Exporter, Rounding, RuntimeGraphs
from lite_nlp.export.runtime.executorch import ExecuTorchEntry, MethodCalls, load_operators, start_runtime
from lite_nlp.export.runtime.layout import Layout, Precision
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.runtime.signatures import IN_PLACE, IN_PLACE_SIGNATURES, ROWS_IN_PLACE
from lite_nlp.export.searches.in_place_step import KEPT, TracedInPlaceSteps, trace_in_place_steps
from lite_nlp.export.tracing import TracedModel

__all__ = ["ENTRY", "EXECUTORCH_EXPORTER", "ExecuTorchProgram", "export_executorch"]

_ATEN: Final = torch.ops.aten

#: Name in the bundle.
ENTRY: Final = ExecuTorchEntry(program="model.pte")


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
    traced: TracedModel, *, in_place: TracedInPlaceSteps | None = None, precision: Precision = "fp32"
) -> ExecuTorchProgram:
    """Lower the graphs to one program with methods ``encode`` and ``decode_step``, and for steps in place if given.

    Args:
        traced: The model.
        in_place: Its steps whose state stays in the program.
        precision: Of the weights of products and tables.

    Raises:
        ModelError: If the runtime has no kernel for an operator of the program, or the model has recurrent layers.
        CountError: If the work of the program cannot be told.
    """
    graphs = {"encode": traced.encode, "decode_step": traced.decode_step}
    if in_place is not None:
        graphs[IN_PLACE] = in_place.row
        if in_place.rows is not None:
            graphs[ROWS_IN_PLACE] = in_place.rows
    for program in graphs.values():
        _refuse_loops(program)
    with quiet_libraries(), torch.no_grad():
        lowered = _lower(graphs, precision)
        # Before the file is made: what is in the program is bound to memory then, in place.
        programs = {method: lowered.exported_program(method) for method in graphs}
        work = count_program_work(programs, traced.state, traced.bounds)
        layout = Layout(state=traced.state, bounds=traced.bounds, tgt_size=traced.tgt_vocab_size)
        steps = {
            method: count_in_place_work(programs[method], signature(layout), traced.bounds)
            for method, signature in IN_PLACE_SIGNATURES.items()
            if method in programs
        }
        written = _write(lowered)
        content = bytes(written.buffer)
        _check_kernels(content, list(graphs))
    return ExecuTorchProgram(
        content,
        work,
        _count_calls(written.executorch_program, list(graphs)),
        {method: replace(work, decode_step=counted) for method, counted in steps.items()},
    )


def _lower(graphs: Mapping[str, ExportedProgram], precision: Precision) -> Any:
    """The graphs in ExecuTorch's edge dialect, with the parts that XNNPACK takes handed to it."""
    tied = find_tied_tables(graphs["decode_step"])
    return _to_edge(
        {method: prepare_program(program, precision=precision, tied=tied) for method, program in graphs.items()}
    )


def _to_edge(programs: dict[str, ExportedProgram]) -> Any:
    from executorch.backends.xnnpack.partition.config import gemm_configs, generic_node_configs
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir.backend.backend_details import CompileSpec
    from executorch.exir.backend.partitioner import DelegationSpec

    # Those that stand in groups, or read whole caches: a small operator delegated alone costs more in the call than it
    # saves.
    configs = [
        gemm_configs.LinearConfig,
        generic_node_configs.AddConfig,
        generic_node_configs.BMMConfig,
        generic_node_configs.CatConfig,
        generic_node_configs.MulConfig,
        generic_node_configs.PermuteConfig,
        generic_node_configs.ReciprocalSquareRootConfig,
        generic_node_configs.ReLUConfig,
        generic_node_configs.SigmoidConfig,
        generic_node_configs.SoftmaxConfig,
        generic_node_configs.SubConfig,
    ]
    # Changes of shape only where no cache is in it that may become longer than in the call before: in ExecuTorch 1.4
    # XNNPACK computes them wrongly then.
    reshaping = [generic_node_configs.SliceCopyConfig, generic_node_configs.ViewCopyConfig]
    # Of the backend's passes over every group only the one for Linear layers has anything to do here; the others
    # look for images and batch norms, and take half of the time of an export.
    linears_only = CompileSpec("dqlinear_partitioner", b"")
    partitioners = {}
    for method in programs:
        partitioner = XnnpackPartitioner(configs=[*configs, *(reshaping if method == IN_PLACE else ())])
        partitioner.delegation_spec = DelegationSpec(XnnpackBackend.__name__, [linears_only])
        partitioner.partition = partial(_leave_constants, partitioner.partition)
        partitioners[method] = partitioner
    # The check of validity reads the length of the tensors that a list-valued operator returns, which fixes their size.
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[_ATEN.linear.default])
    # ExecuTorch advises to_edge_transform_and_lower, which decomposes every graph once more, so that its writes become
    # values. These have been through that: the program is the same, byte for byte, for three quarters of the time.
    return to_edge(programs, compile_config=config).to_backend(partitioners)


def _leave_constants(partition: Callable[[ExportedProgram], Any], program: ExportedProgram) -> Any:
    """The parts of a program that XNNPACK is to take, without those that are of constants alone.

    ExecuTorch 1.3.1, which the app has, reads freed memory in their place.
    """
    from executorch.backends.transforms.utils import is_param_node

    result = partition(program)
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    parts = defaultdict(set)
    for node in result.tagged_exported_program.graph.nodes:
        if "delegation_tag" in node.meta:
            parts[node.meta["delegation_tag"]].add(node)
    for tag, nodes in parts.items():
        calls = {node for node in nodes if node.op != "placeholder"}
        taken = {one for node in calls for one in node.all_input_nodes} - calls
        buffers = {signature.inputs_to_buffers.get(one.name) for one in taken}
        if buffers.isdisjoint(changed) and all(is_param_node(program, one) for one in taken):
            for node in nodes:
                del node.meta["delegation_tag"]
            del result.partition_tags[tag]
    return result


def _write(lowered: Any) -> Any:
    """A lowered program with its memory planned, as it is in the ``.pte`` file."""
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    # Arguments are used where the caller has them, instead of from planned memory of the largest size.
    planning = MemoryPlanningPass(alloc_graph_input=False)
    # What is multiplied by 0 at the first step must be numbers then; caches are written before they are read.
    passes = [InitializedMutableBufferPass([KEPT])]
    return lowered.to_executorch(ExecutorchBackendConfig(passes=passes, memory_planning_pass=planning))


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


def _refuse_loops(program: ExportedProgram) -> None:
    """Refuse what ExecuTorch 1.4 would run wrongly: it keeps the states of a loop at the size of the largest batch."""
    if any(node.target is torch.ops.higher_order.scan for node in program.graph.nodes):
        raise ModelError(
            "executorch: expected a model without recurrent layers, whose loops ExecuTorch runs for one batch size "
            "alone, found one with nn.LSTM, nn.GRU or nn.RNN; runtimes=['onnx'] exports it for ONNX Runtime"
        )


def _check_kernels(program: bytes, methods: Sequence[str]) -> None:
    """Check that the runtime has a kernel for every operator, which loading a method resolves."""
    load_operators()
    loaded = start_runtime(threads=1).load_program(program)
    for method in methods:
        try:
            loaded.load_method(method)
        except RuntimeError as error:
            raise ModelError(
                f"{method}: expected operators that the ExecuTorch runtime has, found others: {error}"
            ) from error


def _export(traced: TracedModel, search_form: nn.Module, rounding: Rounding, *, compact: bool) -> RuntimeGraphs:
    # The step of several rows is a fiftieth of a compact bundle, and nothing to an app that has one sentence at a time.
    in_place = trace_in_place_steps(search_form, traced.bounds, rows=not compact)
    program = export_executorch(traced, in_place=in_place, precision=rounding.precision)
    methods = {"in_place": IN_PLACE in program.calls, "rows_in_place": ROWS_IN_PLACE in program.calls}
    return RuntimeGraphs(
        entry=ENTRY.model_copy(update={"calls": program.calls, **methods}),
        files={ENTRY.program: program.content},
        work=program.work,
        search_work=program.work_in_place,
    )


EXECUTORCH_EXPORTER: Final = Exporter(
    task="lowering to ExecuTorch with XNNPACK",
    export=_export,
    precisions=("fp32", "int8"),
    versions=lambda: {"executorch": version("executorch")},
)
