"""Recurrent layers, wherever their weights are, over tensors and packed sequences, against their closed form."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import lite_nlp
from lite_nlp.budget.traced import count_work

INPUT, HIDDEN, TOKENS, ROWS = 4, 6, 5, 3
GATES: Mapping[type[nn.RNNBase], int] = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"bias": False},
    {"batch_first": True},
    {"bidirectional": True},
    {"num_layers": 3},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
)


def _macs_per_token(
    gates: int, *, num_layers: int = 1, bidirectional: bool = False, proj_size: int = 0, **_: bool
) -> int:
    """Input and hidden weights of every layer and direction, and the projection of its output."""
    directions, output = 1 + bidirectional, proj_size or HIDDEN
    widths = [INPUT, *[directions * output] * (num_layers - 1)]
    return directions * sum(gates * HIDDEN * (width + output) + proj_size * HIDDEN for width in widths)


def _example(options: Mapping[str, Any], device: str = "cpu") -> Tensor:
    sizes = (ROWS, TOKENS) if options.get("batch_first") else (TOKENS, ROWS)
    return torch.zeros(*sizes, INPUT, device=device)


@pytest.mark.parametrize(("kind", "options"), list(product(GATES, OPTIONS)))
@pytest.mark.parametrize("inputs", ["cpu", "meta"])
def test_weights_without_storage(kind: type[nn.RNNBase], options: dict[str, Any], inputs: str) -> None:
    with torch.device("meta"):
        module = kind(INPUT, HIDDEN, **options)
    counted = lite_nlp.count_model(module, _example(options, inputs))
    assert counted.macs["executed"] == TOKENS * ROWS * _macs_per_token(GATES[kind], **options)
    assert counted.macs["kinds"]["matmul"] == counted.macs["executed"]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_projections(options: dict[str, Any]) -> None:
    with torch.device("meta"):
        module = nn.LSTM(INPUT, HIDDEN, proj_size=2, **options)
    work = count_work(module, _example(options))
    assert work.total == TOKENS * ROWS * _macs_per_token(4, proj_size=2, **options)


def test_one_sequence_and_a_first_state() -> None:
    with torch.device("meta"):
        module = nn.GRU(INPUT, HIDDEN)
    assert count_work(module, torch.zeros(TOKENS, INPUT)).total == TOKENS * _macs_per_token(3)
    state = torch.zeros(1, ROWS, HIDDEN)
    assert count_work(module, torch.zeros(TOKENS, ROWS, INPUT), state).total == TOKENS * ROWS * _macs_per_token(3)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)])
def test_cells(kind: type[nn.RNNCellBase], gates: int) -> None:
    with torch.device("meta"):
        module = kind(INPUT, HIDDEN)
    assert count_work(module, torch.zeros(ROWS, INPUT)).total == ROWS * _macs_per_token(gates)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_packed_example_has_the_tokens_of_its_sequences_alone(kind: type[nn.RNNBase], device: str) -> None:
    module = kind(INPUT, HIDDEN, num_layers=2, bidirectional=True, device=device)
    packed = pack_padded_sequence(torch.zeros(TOKENS, ROWS, INPUT), torch.tensor([2, 5, 3]), enforce_sorted=False)
    work = count_work(module, packed)
    assert work.total == (2 + 5 + 3) * _macs_per_token(GATES[kind], num_layers=2, bidirectional=True)


class Packing(nn.Module):
    """Packs its input, as a classifier of sentences does."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=batch_first)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed: PackedSequence = pack_padded_sequence(x, lengths, batch_first=self.batch_first, enforce_sorted=False)
        output, _ = self.lstm(packed)
        padded, found = pad_packed_sequence(output, batch_first=self.batch_first)
        assert padded.shape == (*x.shape[:2], HIDDEN)
        return padded, torch.arange(x.shape[1 if self.batch_first else 0]) < found[:, None]


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_tensor_that_is_packed_counts_with_its_padding(batch_first: bool) -> None:
    with torch.device("meta"):
        module = Packing(batch_first)
    work = count_work(module, _example({"batch_first": batch_first}), torch.tensor([2, 5, 3]))
    assert {name: part.total for name, part in work.by_module().items()} == {"lstm": TOKENS * ROWS * _macs_per_token(4)}
