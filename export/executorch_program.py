"""The traced graphs as one ExecuTorch program, the Linear layers lowered to XNNPACK.

XNNPACK takes the Linear layers and what is attached to them; the rest runs on ExecuTorch's own kernels. A table that is
both embedding and output projection stays with those kernels too: XNNPACK packs its own copy of a Linear's weights,
which would store the largest tensor of the model twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import ModelError
from lite_nlp.export.counting.torch_programs import count_program_work
from lite_nlp.export.exporter import Exporter, RuntimeGraphs
from lite_nlp.export.runtime.executorch import ExecuTorchEntry, start_runtime
from lite_nlp.export.runtime.layout import Precision
from lite_nlp.export.runtime.quiet import quiet_libraries
from lite_nlp.export.tracing import TracedModel

__all__ = ["ENTRY", "EXECUTORCH_EXPORTER", "ExecuTorchProgram", "export_executorch", "prepare_program"]

_ATEN: Final = torch.ops.aten

#: Name in the bundle.
ENTRY: Final = ExecuTorchEntry(program="model.pte")

_METHODS: Final = ("encode", "decode_step")

#: Score of a masked pair: its weight becomes exactly zero, without the infinities that can make nan.
_MASKED: Final = -1e30


@dataclass(frozen=True)
class ExecuTorchProgram:
    """The ExecuTorch part of a bundle.

    Attributes:
        content: The ``.pte`` file.
        work: Mult-Adds of its methods.
    """

    content: bytes
    work: GraphWork


def export_executorch(traced: TracedModel) -> ExecuTorchProgram:
    """Lower both graphs to one program with methods ``encode`` and ``decode_step``.

    Raises:
        ModelError: If the runtime has no kernel for an operator of the program, or the model has recurrent layers.
        CountError: If the work of the program cannot be told.
    """
    for program in (traced.encode, traced.decode_step):
        _refuse_loops(program)
    with quiet_libraries(), torch.no_grad():
        lowered = _lower(traced)
        # Before the file is made: what is in the program is bound to memory then, in place.
        programs = {method: lowered.exported_program(method) for method in _METHODS}
        work = count_program_work(programs, traced.state, traced.bounds)
        content = _write(lowered)
        _check_kernels(content)
    return ExecuTorchProgram(content, work)


def _lower(traced: TracedModel) -> Any:
    """Both graphs in ExecuTorch's edge dialect, with the parts that XNNPACK takes handed to it."""
    from executorch.backends.xnnpack.partition.config import gemm_configs, generic_node_configs
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.exir.backend.backend_details import CompileSpec
    from executorch.exir.backend.partitioner import DelegationSpec

    # An operator delegated alone costs more in the call than it saves; these form groups.
    configs = [gemm_configs.LinearConfig, generic_node_configs.ReLUConfig, generic_node_configs.AddConfig]
    partitioner = XnnpackPartitioner(configs=configs)
    # Of the backend's passes over every group only the one for Linear layers has anything to do here; the others
    # look for images and batch norms, and take half of the time of an export.
    linears_only = CompileSpec("dqlinear_partitioner", b"")
    partitioner.delegation_spec = DelegationSpec(XnnpackBackend.__name__, [linears_only])
    # Every Linear is wanted whole: without this the graphs are decomposed two times more to ask one by one.
    partitioner.ops_to_not_decompose = lambda program: ([_ATEN.linear.default], None)
    return to_edge_transform_and_lower(
        {"encode": prepare_program(traced.encode), "decode_step": prepare_program(traced.decode_step)},
        partitioner=[partitioner],
        # The check reads the length of the tensors that a list-valued operator returns, which fixes their size.
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )


def _write(lowered: Any) -> bytes:
    """The ``.pte`` file of a lowered program."""
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    # Arguments are used where the caller has them, instead of from planned memory of the largest size.
    planning = MemoryPlanningPass(alloc_graph_input=False)
    return bytes(lowered.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).buffer)


def _refuse_loops(program: ExportedProgram) -> None:
    """Refuse what ExecuTorch 1.4 would run wrongly: it keeps the states of a loop at the size of the largest batch."""
    if any(node.target is torch.ops.higher_order.scan for node in program.graph.nodes):
        raise ModelError(
            "executorch: expected a model without recurrent layers, whose loops ExecuTorch runs for one batch size "
            "alone, found one with nn.LSTM, nn.GRU or nn.RNN; runtimes=['onnx'] exports it for ONNX Runtime"
        )


def prepare_program(program: ExportedProgram) -> ExportedProgram:
    """Rewrite operators that ExecuTorch 1.4 lowers wrongly or slowly; the values stay.

    Attention becomes plain matrix products (its own rewriting guards against fully masked rows, which the models do not
    have, with operators that XNNPACK does not take), splits become slices, and a transposition that only moves
    dimensions of size 1 becomes a reshape (its strides otherwise contradict the runtime's idea of the layout).
    """
    rewritten: ExportedProgram = program.run_decompositions(
        {
            _ATEN.scaled_dot_product_attention.default: _attention,
            _ATEN.split_with_sizes.default: _split_with_sizes,
            _ATEN.split.Tensor: _split,
            _ATEN.transpose.int: _transpose,
            _ATEN.permute.default: _permute,
        }
    )
    # Both programs would hold one table of constants, and the lowering takes out of it what XNNPACK packs.
    rewritten._constants = dict(rewritten._constants)
    _keep_tied_table(rewritten)
    return rewritten


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Softmax attention of (B, H, T, D / H) over (B, H, S, D / H) under a boolean mask."""
    if attn_mask is None or attn_mask.dtype != torch.bool or dropout_p or is_causal or enable_gqa:
        return NotImplemented
    rows, heads = query.shape[:2]
    scaled = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    # (B * H, T, D / H) x (B * H, D / H, S) -> (B, H, T, S)
    scores = torch.bmm(scaled.flatten(0, 1), key.flatten(0, 1).transpose(1, 2))
    scores = scores.reshape(rows, heads, query.shape[2], key.shape[2])
    weights = torch.where(attn_mask, scores, _MASKED).softmax(dim=-1)
    return torch.bmm(weights.flatten(0, 1), value.flatten(0, 1)).reshape(query.shape)


def _split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    parts, start = [], 0
    for size in sizes:
        parts.append(x.narrow(dim, start, size))
        start += size
    return parts


def _split(x: Tensor, size: int, dim: int = 0) -> Any:
    length = x.shape[dim]
    if not isinstance(length, int):
        return NotImplemented
    return _split_with_sizes(x, [min(size, length - start) for start in range(0, length, size)], dim)


def _transpose(x: Tensor, first: int, second: int) -> Any:
    order = list(range(x.dim()))
    order[first], order[second] = order[second], order[first]
    return _permute(x, order)


def _permute(x: Tensor, order: Sequence[int]) -> Any:
    axes = [axis % x.dim() for axis in order]
    moved = [axis for axis in axes if not (isinstance(x.shape[axis], int) and x.shape[axis] == 1)]
    if moved != sorted(moved):
        return NotImplemented
    return x.reshape([x.shape[axis] for axis in axes])


def _keep_tied_table(program: ExportedProgram) -> None:
    """Turn a Linear whose weights are also an embedding table into a product that is not delegated.

    The product is taken as table x input, with the input transposed, so that the table is read where it lies.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target is not _ATEN.linear.default or len(node.args) > 2:
            continue
        x, table = node.args
        tied = any(user.target is _ATEN.embedding.default and user.args[0] is table for user in table.users)
        if not tied or x.meta["val"].dim() != 2:
            continue
        with graph.inserting_before(node):
            turned = _call(graph, _ATEN.permute.default, (x, [1, 0]), x.meta["val"].permute(1, 0))
            product = _call(graph, _ATEN.mm.default, (table, turned), node.meta["val"].permute(1, 0).contiguous())
            logits = _call(graph, _ATEN.permute.default, (product, [1, 0]), node.meta["val"])
        node.replace_all_uses_with(logits)
        graph.erase_node(node)
    graph.lint()
    program.graph_module.recompile()


def _call(graph: Any, target: Callable[..., Any], arguments: tuple[Any, ...], value: Any) -> Any:
    node = graph.call_function(target, arguments)
    node.meta["val"] = value
    return node


def _check_kernels(program: bytes) -> None:
    """Check that the runtime has a kernel for every operator, which loading a method resolves."""
    loaded = start_runtime(threads=1).load_program(program)
    for method in _METHODS:
        try:
            loaded.load_method(method)
        except RuntimeError as error:
            raise ModelError(
                f"{method}: expected operators that the ExecuTorch runtime has, found others: {error}"
            ) from error


def _export(traced: TracedModel, search_form: nn.Module, precision: Precision) -> RuntimeGraphs:
    program = export_executorch(traced)
    return RuntimeGraphs(entry=ENTRY, files={ENTRY.program: program.content}, work=program.work)


EXECUTORCH_EXPORTER: Final = Exporter(
    task="lowering to ExecuTorch with XNNPACK",
    export=_export,
    versions=lambda: {"executorch": version("executorch")},
)
