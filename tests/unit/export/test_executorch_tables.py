"""A table that lookups and a product share is stored once, turned, and gives the same values."""

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.executorch_tables import find_tied_tables
from lite_nlp.export.runtime.quiet import quiet_libraries

ATEN = torch.ops.aten
TYPES, WIDTH = 7, 4


class Step(nn.Module):
    """A step with a tied table, and a table and a product of its own."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table, self.own, self.layer = table, nn.Embedding(TYPES, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        found = self.layer(self.table(tokens)) + self.own(tokens)
        return nn.functional.linear(found, self.table.weight)


class Encode(nn.Module):
    """Another program of the same model: it looks tokens of several sentences up."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.table = table

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.embedding(tokens, self.table.weight) * 2


@pytest.fixture(scope="module")
def table() -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(TYPES, WIDTH)


@pytest.fixture(scope="module")
def step(table: nn.Embedding) -> tuple[Step, ExportedProgram]:
    module = Step(table).eval()
    return module, export(module, (torch.tensor([1, 2, 3]),), dynamic_shapes={"tokens": {0: Dim("rows", min=1, max=8)}})


@pytest.fixture(scope="module")
def encode(table: nn.Embedding) -> tuple[Encode, ExportedProgram]:
    module, sizes = Encode(table).eval(), {0: Dim("rows", min=1, max=8), 1: Dim("source", min=1, max=9)}
    return module, export(module, (torch.ones(2, 3, dtype=torch.int64),), dynamic_shapes={"tokens": sizes})


def prepared(program: ExportedProgram, tied: frozenset[int]) -> ExportedProgram:
    with quiet_libraries(), torch.no_grad():
        return prepare_program(program, tied=tied)


def operators(program: ExportedProgram) -> Counter[object]:
    return Counter(node.target for node in program.graph.nodes if node.op == "call_function")


def shapes(program: ExportedProgram) -> list[tuple[int, ...]]:
    return sorted(tuple(tensor.shape) for tensor in program.state_dict.values())


def test_the_table_of_a_lookup_and_a_product_is_tied(
    step: tuple[Step, ExportedProgram], encode: tuple[Encode, ExportedProgram], table: nn.Embedding
) -> None:
    assert find_tied_tables(step[1]) == {table.weight.data_ptr()}
    assert find_tied_tables(encode[1]) == frozenset()


def test_both_programs_hold_the_turned_table_alone(
    step: tuple[Step, ExportedProgram], encode: tuple[Encode, ExportedProgram]
) -> None:
    tied, turned, plain = find_tied_tables(step[1]), (WIDTH, TYPES), (TYPES, WIDTH)
    of_step, of_encode = prepared(step[1], tied), prepared(encode[1], tied)
    # The table of the step's own is looked up alone, and stays.
    assert shapes(of_step) == sorted([turned, plain, (WIDTH, WIDTH), (WIDTH,)])
    assert shapes(of_encode) == [turned]
    found = operators(of_step)
    assert found[ATEN.index_select.default] == found[ATEN.mm.default] == found[ATEN.embedding.default] == 1
    assert found[ATEN.linear.default] == 1
    # What was traced is what it was.
    assert operators(step[1])[ATEN.embedding.default] == 2
    assert shapes(encode[1]) == [plain]


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_values_stay_at_all_sizes(
    step: tuple[Step, ExportedProgram], encode: tuple[Encode, ExportedProgram], rows: int
) -> None:
    tied = find_tied_tables(step[1])
    tokens = torch.arange(rows) % TYPES
    torch.testing.assert_close(prepared(step[1], tied).module()(tokens), step[0](tokens))
    for source in (1, 5):
        lines = torch.arange(rows * source).reshape(rows, source) % TYPES
        assert torch.equal(prepared(encode[1], tied).module()(lines), encode[0](lines))


def test_without_a_tied_table_nothing_is_turned(encode: tuple[Encode, ExportedProgram]) -> None:
    program = prepared(encode[1], find_tied_tables(encode[1]))
    assert shapes(program) == [(TYPES, WIDTH)]
    assert operators(program)[ATEN.embedding.default] == 1
