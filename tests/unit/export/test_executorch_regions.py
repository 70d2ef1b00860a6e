"""Norms and cut products have the same values and the same work in the form that XNNPACK takes."""

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from lite_nlp.export.counting.torch_walk import count_program
from lite_nlp.export.executorch_regions import join_regions
from lite_nlp.export.runtime.quiet import quiet_libraries

ATEN = torch.ops.aten


class Block(nn.Module):
    """A layer with everything that is rewritten: a norm, a product in three parts, a gated unit."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.norm = nn.LayerNorm(8, eps=1e-3)
        self.parts = nn.Linear(8, 24)
        self.gated = nn.Linear(8, 16)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.parts(self.norm(x))
        gated = F.glu(self.gated(parts[..., :8] * parts[..., 8:16] + parts[..., 16:]), dim=-1)
        return (x + gated)[:, 2:]


def rewritten(module: nn.Module) -> tuple[ExportedProgram, ExportedProgram]:
    program = export(module.eval(), (torch.randn(3, 8),), dynamic_shapes=({0: Dim("rows", min=1, max=8)},))
    with quiet_libraries(), torch.no_grad():
        joined = program.run_decompositions({})
        join_regions(joined)
    return program, joined


def operators(program: ExportedProgram) -> Counter[Any]:
    return Counter(node.target for node in program.graph.nodes if node.op == "call_function")


def test_values_stay_and_nothing_is_left_between_products() -> None:
    module = Block()
    _, program = rewritten(module)
    found = operators(program)
    assert not found[ATEN.layer_norm.default] + found[ATEN.glu.default]
    # Two sums of the norm, three parts, two halves of the gated unit; the slice of the result stays.
    assert found[ATEN.linear.default] == 7
    assert found[ATEN.slice.Tensor] == 1
    for rows in (1, 2, 7):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(program.module()(x), module(x), atol=1e-6, rtol=1e-5)


def test_the_sums_of_a_norm_count_as_the_norm() -> None:
    program, rewrote = rewritten(Block())
    x = torch.empty(5, 8, device="meta")
    expected = count_program(program, x).by_kind()
    assert expected == count_program(rewrote, x).by_kind()
    assert expected["layer_norm"] == 5 * 8


def test_layers_that_share_weights_share_their_parts() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: Tensor) -> Tensor:
            return self.block(F.pad(self.block(x), (1, 1)))

    _, once = rewritten(Block())
    _, twice = rewritten(Twice())
    assert _stored(twice) == _stored(once)
    # The whole matrices are gone: parts of 24 and 16 channels, the mean and the offset, the norm's own.
    assert _stored(once) == (24 + 16) * (8 + 1) + 8 + 1 + 2 * 8


@pytest.mark.parametrize(
    ("forward", "stays"),
    [
        (lambda self, x: F.layer_norm(self.a(x).reshape(-1, 2, 4), (2, 4)), ATEN.layer_norm.default),
        (lambda self, x: F.glu(self.a(x).reshape(-1, 2, 4), dim=1), ATEN.glu.default),
        (lambda self, x: (lambda whole: whole[:, :4] * whole.sum())(self.a(x)), ATEN.slice.Tensor),
        (lambda self, x: (lambda whole: F.glu(whole) * whole.sum())(self.a(x)), ATEN.glu.default),
        # 64 channels become integers, 32 would not.
        (lambda self, x: F.glu(self.wide(x)), ATEN.glu.default),
        (lambda self, x: self.wide(x)[:, :63], ATEN.slice.Tensor),
    ],
)
def test_what_has_another_form_stays(forward: Any, stays: Any) -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.wide = nn.Linear(8, 8), nn.Linear(8, 64)

    Other.forward = forward
    module = Other()
    _, program = rewritten(module)
    assert operators(program)[stays] == 1
    x = torch.randn(4, 8)
    torch.testing.assert_close(program.module()(x), module(x), atol=1e-6, rtol=1e-5)


def test_a_norm_without_weights() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.layer_norm(x, (8,))

    _, program = rewritten(Plain())
    x = 3 * torch.randn(4, 8) + 100
    torch.testing.assert_close(program.module()(x), F.layer_norm(x, (8,)), atol=1e-4, rtol=1e-4)


def _stored(program: ExportedProgram) -> int:
    """Values of the state that the program's arguments name."""
    signature = program.graph_signature
    names = {*signature.inputs_to_parameters.values(), *signature.inputs_to_buffers.values()}
    return sum(program.state_dict[name].numel() for name in names)
