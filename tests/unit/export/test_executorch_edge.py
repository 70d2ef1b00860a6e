"""The edge dialect against ExecuTorch's own way to it."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from lite_nlp.export.executorch_edge import make_edge_program
from lite_nlp.export.runtime.quiet import quiet_libraries

ROWS = Dim("rows", min=1, max=8)


class Numbers(nn.Module):
    """Numbers and sizes where operators take tensors."""

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        rows = x.shape[0]
        return 2.0 * x, tokens + 0.5, 1 - (tokens > 1).int(), x / rows, tokens * rows, x * True


class MixedTypes(nn.Module):
    """Arithmetic of several types."""

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        mask = tokens > 1
        whole = torch.div(tokens, 3, rounding_mode="floor")
        return x * tokens, x - mask.float(), tokens / 2, whole, torch.div(tokens, tokens + 1), tokens + mask


class Views(nn.Module):
    """Views whose values are not in the order of a copy, and what has its order from them."""

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        turned = x.unsqueeze(0).transpose(1, 2)
        first, second = x.split(2, dim=1)
        return turned * 2.0, turned.exp().reshape(-1), first.relu() + second, x[:, 1].neg(), tokens.t().expand(2, 4, -1)


class Needless(nn.Module):
    """What changes nothing: slices, copies, and parts without entries."""

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        joined = torch.cat([x[:, :0], x, x[:, :0]], dim=1)
        return joined, x[:, :4] + 1.0, x.to(torch.float32).relu(), tokens.to(torch.float32, copy=True)


class Stored(nn.Module):
    """Constants in no plain order, weights that nothing uses, and a norm that is decomposed on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(3, 3)
        self.norm = nn.LayerNorm(4)
        self.output = nn.Linear(4, 4)
        self.register_buffer("turned", torch.arange(12.0).reshape(4, 3).t())

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        return self.output(self.norm(x)) @ self.turned.t(), self.turned * 2


class Branches(nn.Module):
    """Graphs within the graph."""

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        return torch.cond(tokens.sum() > 3, lambda x: x.t() * 2.0, lambda x: x.t() - 1.0, (x,)).neg()


def traced(module: nn.Module) -> ExportedProgram:
    inputs = (torch.ones(3, 4), torch.arange(12).reshape(3, 4))
    program = export(module.eval(), inputs, dynamic_shapes=({0: ROWS}, {0: ROWS}))
    return program.run_decompositions({})


def described(program: ExportedProgram) -> dict[str, Any]:
    """All that a program says, by the places of its nodes instead of their names."""
    places = {node: place for place, node in enumerate(program.graph.nodes)}
    nodes = [
        (
            node.op,
            str(node.target) if node.op == "call_function" else "",
            str(torch.fx.map_arg((node.args, dict(node.kwargs)), places.get)),
            None if node.op == "output" else described_value(node.meta.get("val")),
            node.meta.get("debug_handle"),
        )
        for node in program.graph.nodes
    ]
    signature = program.graph_signature
    specs = [(spec.kind, spec.target, getattr(spec, "persistent", None)) for spec in signature.input_specs]
    outputs = [spec.kind for spec in signature.output_specs]
    state = {name: (values.stride(), values.tolist()) for name, values in program.state_dict.items()}
    return {"nodes": nodes, "inputs": specs, "outputs": outputs, "state": state, "dialect": program.dialect}


def described_value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.dtype, str(tuple(value.shape)), str(value.stride())
    return [described_value(part) for part in value] if isinstance(value, Sequence) else str(value)


@pytest.mark.parametrize("module", [Numbers, MixedTypes, Views, Needless, Stored, Branches])
def test_the_program_is_that_of_to_edge(module: type[nn.Module]) -> None:
    torch.manual_seed(0)
    given = module()
    with quiet_libraries(), torch.no_grad():
        from executorch.exir import EdgeCompileConfig, to_edge

        config = EdgeCompileConfig(
            _check_ir_validity=False, _skip_dim_order=True, preserve_ops=[torch.ops.aten.linear.default]
        )
        expected = to_edge(traced(given), compile_config=config).exported_program()
        made = make_edge_program(traced(given), config)
    assert described(made) == described(expected)
