"""What graphs for ExecuTorch are rewritten to has the same values, and leaves the traced graph alone."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.runtime.quiet import quiet_libraries

ATEN = torch.ops.aten


class Attention(nn.Module):
    """Attention in plain operators over a cache that the step writes to."""

    def forward(self, query: Tensor, new: Tensor, position: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        slots = torch.arange(cache.shape[2])
        keys = torch.where((slots[None, :] == position[:, None])[:, None, :, None], new, cache)
        mask = (slots[None, :] <= position[:, None])[:, None, None, :]
        scores = torch.matmul(query * 0.5, keys.transpose(-2, -1)).masked_fill(~mask, float("-inf"))
        return torch.matmul(scores.softmax(dim=-1), keys), keys


class Threshold(nn.Module):
    """A choice of the user's own, with an infinite value."""

    def forward(self, x: Tensor, limit: Tensor) -> Tensor:
        return torch.where(x > limit, x, torch.full_like(x, float("-inf"))).amax(dim=-1)


def traced(module: nn.Module, example: tuple[Any, ...], dynamic: Any = None) -> ExportedProgram:
    return export(module.eval(), example, dynamic_shapes=dynamic)


def rewrite(program: ExportedProgram) -> ExportedProgram:
    with quiet_libraries(), torch.no_grad():
        return prepare_program(program)


def operators(program: ExportedProgram) -> Counter[Any]:
    return Counter(node.target for node in program.graph.nodes if node.op == "call_function")


def attention_example(rows: int, capacity: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    query, new = (torch.randn(rows, 2, 1, 8, generator=generator) for _ in range(2))
    return query, new, torch.arange(rows) + 1, torch.randn(rows, 2, capacity, 8, generator=generator)


def test_attention_and_the_cache_are_products_sums_and_a_softmax() -> None:
    rows, capacity = Dim("rows", min=1, max=8), Dim("capacity", min=1, max=64)
    sizes = ({0: rows}, {0: rows}, {0: rows}, {0: rows, 2: capacity})
    program = traced(Attention(), attention_example(3, 7), sizes)
    before = operators(program)
    rewritten = rewrite(program)
    assert operators(program) == before
    found = operators(rewritten)
    assert found[ATEN.bmm.default] == 2
    gone = (
        ATEN.where.self,
        ATEN.masked_fill.Scalar,
        ATEN.matmul.default,
        ATEN.unsqueeze.default,
        ATEN.bitwise_not.default,
    )
    assert not [operator for operator in gone if found[operator]]
    for example in (attention_example(3, 7), attention_example(1, 2), attention_example(5, 30)):
        expected, got = Attention()(*example), rewritten.module()(*example)
        for one, other in zip(expected, got, strict=True):
            torch.testing.assert_close(other, one, atol=1e-6, rtol=1e-5)


def test_what_layers_compute_alike_is_computed_once() -> None:
    class Twice(nn.Module):
        def forward(self, query: Tensor, new: Tensor, position: Tensor, cache: Tensor) -> Tensor:
            return Attention()(query, new, position, cache)[0] + Attention()(2 * query, new, position, cache)[0]

    once = operators(rewrite(traced(Attention(), attention_example(3, 7))))
    twice = operators(rewrite(traced(Twice(), attention_example(3, 7))))
    assert twice[ATEN.le.Tensor] == once[ATEN.le.Tensor] == 1
    assert twice[ATEN.bmm.default] == 2 * once[ATEN.bmm.default]


def test_a_choice_that_writes_no_state_stays() -> None:
    x, limit = torch.tensor([[1.0, 5.0], [3.0, 2.0]]), torch.tensor(2.5)
    rewritten = rewrite(traced(Threshold(), (x, limit)))
    assert operators(rewritten)[ATEN.where.self] == 1
    assert rewritten.module()(x, limit).tolist() == [5.0, 3.0]
