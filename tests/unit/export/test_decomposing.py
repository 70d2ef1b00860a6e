"""Graphs decomposed operator by operator are what torch makes of them as a whole."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, default_decompositions, export

from lite_nlp.export import decomposing
from lite_nlp.export.contrib import load_in_place_library
from lite_nlp.export.decomposing import decompose_program
from lite_nlp.export.runtime.quiet import quiet_libraries

ATEN = torch.ops.aten
ROWS = Dim("rows", min=1, max=8)
SYMBOLIC = {ATEN.sym_size.int, ATEN.sym_numel.default}


class Norms(nn.Module):
    """Operators of the table, those that torch takes apart itself, parts of several values, and sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.output = nn.Linear(8, 8)

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        first, second = self.output(self.norm(x)).chunk(2, dim=-1)
        rows = x.shape[0]
        moved = (first @ second.transpose(-2, -1)).softmax(dim=-1).reshape(rows * 3, -1)
        mask = (tokens > 1) & (torch.arange(4)[None] < tokens)
        return moved, second.masked_fill(mask[:, None, :], -1.0), x.new_zeros(rows, 2) + rows, tokens.flatten().float()


class Counts(nn.Module):
    """A number that the graph has to compute, and one that it has from a tensor."""

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        place = tokens[0, 0].item()
        torch._check(place >= 0)
        torch._check(place < 3)
        return x.reshape(tokens.numel(), -1), x.narrow(1, place, 1), nn.functional.glu(x, dim=-1)


class Buffers(nn.Module):
    """State that is read, written in part by an operator of ExecuTorch, read again, and written as a whole."""

    def __init__(self) -> None:
        super().__init__()
        load_in_place_library()
        self.register_buffer("cache", torch.zeros(1, 8, 1, 24))
        self.register_buffer("unchanged", torch.ones(24))
        self.register_buffer("total", torch.zeros(24))

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
        before = self.cache.sum(dim=1)
        torch.ops.llama.update_cache(x[:1].reshape(1, 1, 1, 24), self.cache, 2)
        torch.ops.llama.update_cache(-x[:1].reshape(1, 1, 1, 24), self.cache, 5)
        total = self.total + x[0].flatten() * self.unchanged
        self.total.copy_(total)
        return before, self.cache.exp(), self.total.relu()


class Branches(nn.Module):
    """Graphs within the graph."""

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        branch = torch.ops.higher_order.cond
        (chosen,) = branch(tokens.sum() > 3, lambda x: (x * 2.0,), lambda x: (x - 1.0,), (x,))
        return chosen.softmax(dim=-1)


class Slice(nn.Module):
    """Writing to a part of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 8))

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        self.state[0].copy_(x[0, 0])
        return self.state * 2.0


class Views(nn.Module):
    """A view of a buffer that is read after the buffer has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3, 8))

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        (first, *_) = self.state.view(24).chunk(3)
        self.state.copy_(self.state + x[0])
        return first * 2.0


class Cell(nn.Module):
    """An operator that torch writes as the filling of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        return self.cell(x[:, 0], x[:, 1])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with quiet_libraries(), torch.no_grad():
        yield


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[ExportedProgram]:
    """The programs that have been left to torch."""
    left: list[ExportedProgram] = []
    run_whole = decomposing._run_whole

    def run(program: ExportedProgram, table: Any) -> ExportedProgram:
        left.append(program)
        return run_whole(program, table)

    monkeypatch.setattr(decomposing, "_run_whole", run)
    return left


def example(rows: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 3, 8, generator=generator), torch.arange(rows * 4).reshape(rows, 4) % 3


def traced(module: Callable[[], nn.Module]) -> ExportedProgram:
    torch.manual_seed(0)
    return export(module().eval(), example(3), dynamic_shapes=({0: ROWS}, {0: ROWS}))


def table() -> Any:
    """A table with an operator that stays whole and one of our own."""
    made = default_decompositions()
    made.pop(ATEN.linear.default)
    made[ATEN.relu.default] = lambda x: torch.maximum(x, torch.zeros_like(x))
    return made


def operators(program: ExportedProgram) -> Counter[Any]:
    nodes = [node for node in program.graph.nodes if node.op == "call_function" and node.target not in SYMBOLIC]
    return Counter(node.target for node in nodes)


def described_outputs(program: ExportedProgram) -> list[tuple[Any, str | None]]:
    return [(spec.kind, spec.target) for spec in program.graph_signature.output_specs]


def results(program: ExportedProgram, rows: int) -> list[Tensor]:
    """Outputs of two calls, one after the other, and the state after them."""
    module = deepcopy(program).module()
    outputs = [value for _ in range(2) for value in torch.utils._pytree.tree_leaves(module(*example(rows)))]
    return [*outputs, *module.state_dict().values()]


@pytest.mark.parametrize("module", [Norms, Counts, Buffers])
def test_a_graph_has_the_operators_and_the_values_of_torch(
    module: Callable[[], nn.Module], whole: list[ExportedProgram]
) -> None:
    program = traced(module)
    expected, found = program.run_decompositions(table()), decompose_program(program, table())
    assert not whole
    assert operators(found) == operators(expected)
    assert described_outputs(found) == described_outputs(expected)
    for rows in (2, 3, 5):
        for one, other in zip(results(found, rows), results(expected, rows), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("module", [Branches, Slice, Views, Cell])
def test_torch_decomposes_what_is_not_an_operator_after_the_other(
    module: Callable[[], nn.Module], whole: list[ExportedProgram]
) -> None:
    program = traced(module)
    found = decompose_program(program, table())
    assert whole == [program]
    for one, other in zip(results(found, 3), results(program, 3), strict=True):
        torch.testing.assert_close(one, other)


def test_the_traced_graph_stays_what_it_is() -> None:
    program = traced(Buffers)
    before, written = operators(program), str(program.graph)
    decompose_program(program, table())
    assert (operators(program), str(program.graph)) == (before, written)


def test_a_decomposed_graph_may_be_decomposed_again(whole: list[ExportedProgram]) -> None:
    kept = table()
    kept.pop(ATEN.exp.default, None)
    once = decompose_program(traced(Buffers), {})
    twice = decompose_program(once, kept)
    assert not whole
    for one, other in zip(results(once, 3), results(twice, 3), strict=True):
        torch.testing.assert_close(one, other)


def test_sizes_are_computed_once() -> None:
    found = decompose_program(traced(Norms), table())
    sizes = [node.meta["val"].node.expr for node in found.graph.nodes if isinstance(node.meta.get("val"), torch.SymInt)]
    assert len(sizes) == len(set(sizes))
    assert ATEN.sym_numel.default not in {node.target for node in found.graph.nodes}
