"""Lowering of graphs to a program for ExecuTorch, the parts that XNNPACK is to take handed to it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils._sympy.value_ranges import ValueRanges

from lite_nlp.export.executorch_edge import make_edge_program
from lite_nlp.export.runtime.signatures import IN_PLACE
from lite_nlp.export.searches.in_place_step import KEPT

__all__ = ["lower_programs", "write_program"]

_ATEN: Final = torch.ops.aten


def lower_programs(programs: dict[str, ExportedProgram]) -> Any:
    """Programs of :func:`~lite_nlp.export.executorch_rewriting.prepare_program`, by method, in the edge dialect."""
    from executorch.backends.xnnpack._passes import XNNPACKPassManager
    from executorch.backends.xnnpack.partition.config import gemm_configs, generic_node_configs
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, EdgeProgramManager

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
    partitioners = {}
    for method in programs:
        partitioner = XnnpackPartitioner(configs=[*configs, *(reshaping if method == IN_PLACE else ())])
        partitioner.partition = partial(_leave_constants, partitioner.partition)
        partitioners[method] = partitioner
    # The check of validity reads the length of the tensors that a list-valued operator returns, which fixes their size.
    # All tensors have the plain order of dimensions: two passes over every graph would say so at every copy.
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True, preserve_ops=[_ATEN.linear.default])
    edges = {method: make_edge_program(program, config) for method, program in programs.items()}
    manager: Any = EdgeProgramManager(edges, compile_config=config)
    # The backend's passes over every group look for images, batch norms, and products that are Linear layers, of which
    # there are none here, and run the group for each.
    with patch.object(XNNPACKPassManager, "transform", _stay):
        lowered = manager.to_backend(partitioners)
    # Which forgets it.
    lowered.compile_config = config
    return lowered


def _stay(passes: Any) -> ExportedProgram:
    """The program that XNNPACK's passes are given."""
    program: ExportedProgram = passes.exported_program
    return program


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
    tagged = result.tagged_exported_program
    tagged._graph_module = _Uncompiled(tagged.graph_module, tagged.graph)
    return result


class _Uncompiled(_LazyGraphModule):
    """A graph that is not compiled each time that a part is taken out of it: to log it is no reason to."""

    __str__ = nn.Module.__str__


def write_program(lowered: Any, rows: Mapping[str, int]) -> Any:
    """A lowered program with its memory planned, as it is in the ``.pte`` file.

    Args:
        lowered: From :func:`lower_programs`.
        rows: By method, the most rows of a call, where that is fewer than it was traced for.
    """
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    # Arguments are used where the caller has them, instead of from planned memory of the largest size.
    planning = MemoryPlanningPass(alloc_graph_input=False)
    config = ExecutorchBackendConfig(passes=[_InitializeKept()], memory_planning_pass=planning)
    with ExitStack() as contexts:
        for method, most in rows.items():
            contexts.enter_context(_at_most(lowered.exported_program(method), most))
        contexts.enter_context(_known_values())
        return lowered.to_executorch(config)


@contextmanager
def _known_values() -> Iterator[None]:
    """Context in which ExecuTorch takes what is known of the values of a graph as it is.

    It runs every graph once more for it, a quarter of the time of a lowering, though the passes before keep it true but
    for the copies to buffers that they add.
    """
    from executorch.exir.passes import spec_prop_pass

    with patch.object(spec_prop_pass, "ExportPass", _Values):
        yield


class _Values(PassBase):
    """Completes what is known of the values of a graph."""

    def call(self, graph_module: GraphModule) -> PassResult:
        """Complete one graph: what is copied to a buffer has the buffer's size and type."""
        for node in graph_module.graph.nodes:
            if node.target is _ATEN.copy_.default:
                buffer, _ = node.args
                node.meta.setdefault("val", buffer.meta["val"])
            value = node.meta.get("val")
            # Looked at where there is no value.
            node.meta["tensor_meta"] = [None] * len(value) if isinstance(value, list | tuple) else None
        # Another module, as what is in the result is moved to the one before.
        return PassResult(copy(graph_module), True)


@contextmanager
def _at_most(program: ExportedProgram, rows: int) -> Iterator[None]:
    """Context in which the first size of a program's arguments is at most ``rows``, while its memory is planned.

    It cannot be traced for one or two rows: of a size that is known to be 1, or 2, torch makes a number.
    """
    inputs = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    sizes = [inputs[name].meta["val"].shape[0] for name in program.graph_signature.user_inputs]
    with ExitStack() as before:
        for size in sizes:
            if isinstance(size, torch.SymInt):
                ranges, symbol = size.node.shape_env.var_to_range, size.node.expr
                before.callback(ranges.__setitem__, symbol, ranges[symbol])
                # The runtime has no use for a least size, and from 1 to 1 it would be known again.
                ranges[symbol] = ValueRanges(0, rows)
        yield


class _InitializeKept(PassBase):
    """Lets buffers of this name begin with their values.

    What is multiplied by 0 at the first step must be numbers then; caches are written before they are read.
    ExecuTorch's own pass of this kind runs the whole graph for it.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        """Mark the buffers of one graph."""
        for node in graph_module.graph.nodes:
            if node.op == "placeholder" and KEPT in node.name:
                node.meta["et_init_buffer"] = True
        return PassResult(graph_module, True)
