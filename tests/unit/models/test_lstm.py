"""The LSTM against PyTorch's and the paper's counts; the classifier of sentence pairs."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from lite_nlp.config.kinds import LinearSpec
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ModelError
from lite_nlp.models.build import build_model
from lite_nlp.models.lstm import LSTM
from lite_nlp.models.lstm_classifiers import PairClassifier, pool_max_mean
from lite_nlp.models.pretrained import fix_embeddings

KINDS = {
    "dense": LinearSpec(),
    "r2d2": LinearSpec(kind="r2d2", n=2),
    "quaternion": LinearSpec(kind="quaternion"),
    "low-rank": LinearSpec(kind="low-rank", rank=3),
}


@pytest.fixture(params=KINDS)
def linear(request: pytest.FixtureRequest) -> LinearSpec:
    return KINDS[request.param]


def _random(model: nn.Module) -> Any:
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return model


def _config(linear: LinearSpec, **changes: Any) -> ModelConfig:
    """19 types, embeddings of 12 channels, an encoder of 8, an MLP of 10, 3 classes."""
    options = {
        "architecture": "pair-classifier", "family": "lstm", "src_vocab_size": 19, "embedding_dim": 12,
        "embed_dim": 8, "ffn_dim": 10, "num_classes": 3, "lstm_linear": linear.kind, "linear_n": linear.n,
        "linear_rank": linear.rank, "dropout": 0.0,
    }  # fmt: skip
    return parse_model({**options, **changes})


def _classifier(linear: LinearSpec, **changes: Any) -> PairClassifier:
    return _random(build_model(_config(linear, **changes)))


def _pairs() -> tuple[torch.Tensor, ...]:
    tokens = torch.randint(3, 19, (4, 2, 7), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([[7, 2], [1, 7], [5, 5], [3, 1]])
    masks = torch.arange(7) < lengths[:, :, None]
    return tokens[:, 0], masks[:, 0], tokens[:, 1], masks[:, 1]


@pytest.mark.parametrize(
    ("linear", "expected"),
    [
        # R2D2, table 1: 721K, 361K, 146K and 81K; one bias vector of 1,200 and eight Linears of 300 x 300.
        (LinearSpec(), 721_200),
        (LinearSpec(kind="r2d2", n=2), 361_264),
        (LinearSpec(kind="r2d2", n=5), 146_200),
        (LinearSpec(kind="r2d2", n=10), 81_200),
        (LinearSpec(kind="quaternion"), 181_200),  # printed without the biases: 180K
        (LinearSpec(kind="low-rank", rank=75), 8 * 75 * 600 + 1_200),
    ],
)
def test_parameters_are_those_of_table_1(linear: LinearSpec, expected: int) -> None:
    with torch.device("meta"):
        cell = LSTM(input_dim=300, hidden_dim=300, linear=linear)
    assert sum(parameter.numel() for parameter in cell.parameters()) == expected


def test_dense_gates_equal_pytorchs_lstm() -> None:
    ours = _random(LSTM(input_dim=5, hidden_dim=4, linear=LinearSpec()))
    theirs = nn.LSTM(5, 4, batch_first=True)
    forget, enter, leave, candidate = range(4)
    order = [enter, forget, candidate, leave]
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(torch.cat([ours.input_gates[gate].weight for gate in order]))
        theirs.weight_hh_l0.copy_(torch.cat([ours.hidden_gates[gate].weight for gate in order]))
        theirs.bias_ih_l0.copy_(torch.cat([ours.bias.chunk(4)[gate] for gate in order]))
        theirs.bias_hh_l0.zero_()
    x = torch.randn(3, 6, 5)
    lengths = torch.tensor([6, 1, 4])
    mask = torch.arange(6) < lengths[:, None]
    states, last = ours(x, mask)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, (expected_last, _) = theirs(packed)
    unpacked, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    torch.testing.assert_close(states * mask[:, :, None], unpacked)
    torch.testing.assert_close(last, expected_last[0])


def test_every_kind_follows_the_equations(linear: LinearSpec) -> None:
    cell = _random(LSTM(input_dim=12, hidden_dim=8, linear=linear))
    x = torch.randn(2, 5, 12)
    states, last = cell(x, torch.ones(2, 5, dtype=torch.bool))
    hidden = memory = torch.zeros(2, 8)
    for t in range(5):
        gates = [
            of_input(x[:, t]) + of_hidden(hidden) + bias
            for of_input, of_hidden, bias in zip(cell.input_gates, cell.hidden_gates, cell.bias.chunk(4), strict=True)
        ]
        memory = gates[0].sigmoid() * memory + gates[1].sigmoid() * gates[3].tanh()
        hidden = gates[2].sigmoid() * memory.tanh()
        torch.testing.assert_close(states[:, t], hidden)
    torch.testing.assert_close(last, hidden)


@pytest.mark.parametrize("side", ["left", "right", "middle"])
def test_padding_changes_no_state(side: str, linear: LinearSpec) -> None:
    cell = _random(LSTM(input_dim=12, hidden_dim=8, linear=linear))
    x = torch.randn(2, 6, 12)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[:, {"left": slice(0, 2), "right": slice(4, 6), "middle": slice(2, 4)}[side]] = False
    short = x[mask].view(2, 4, 12)
    states, last = cell(x, mask)
    expected, expected_last = cell(short, torch.ones(2, 4, dtype=torch.bool))
    torch.testing.assert_close(states[mask].view(2, 4, 8), expected)
    torch.testing.assert_close(last, expected_last)


def test_pooling_takes_real_tokens_only() -> None:
    states = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]])
    pooled = pool_max_mean(states, torch.tensor([[True, True, False]]))
    assert pooled.tolist() == [[3.0, -2.0, 2.0, -3.0]]


def test_padding_and_batch_composition_change_no_logits(linear: LinearSpec) -> None:
    model = _classifier(linear).eval()
    first, first_mask, second, second_mask = _pairs()
    with torch.no_grad():
        together = model(first, first_mask, second, second_mask)
        for row in range(4):
            alone = [
                tokens[row : row + 1, : int(mask[row].sum())]
                for tokens, mask in ((first, first_mask), (second, second_mask))
            ]
            masks = [torch.ones_like(tokens, dtype=torch.bool) for tokens in alone]
            torch.testing.assert_close(model(alone[0], masks[0], alone[1], masks[1])[0], together[row])
        other_padding = (first.masked_fill(~first_mask, 1), second.masked_fill(~second_mask, 2))
        torch.testing.assert_close(model(other_padding[0], first_mask, other_padding[1], second_mask), together)


def test_the_order_of_the_pair_matters_and_the_encoder_is_shared() -> None:
    model = _classifier(LinearSpec())
    first, first_mask, second, second_mask = _pairs()
    logits = model(first, first_mask, second, second_mask)
    swapped = model(second, second_mask, first, first_mask)
    assert not torch.allclose(logits, swapped)
    # Embeddings 19 x 12; encoder 4 (12 + 8 + 1) 8; MLP of 32 -> 10 -> 10 -> 3 with biases.
    assert sum(p.numel() for p in model.parameters()) == 228 + 672 + (32 * 10 + 10) + (10 * 10 + 10) + (10 * 3 + 3)


def _loss(model: PairClassifier, *, bf16: bool) -> torch.Tensor:
    torch.manual_seed(2)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(*_pairs())
    return F.cross_entropy(logits.float(), torch.tensor([0, 1, 2, 1]))


def test_gradients_reach_every_parameter(linear: LinearSpec) -> None:
    model = _classifier(linear, dropout=0.1)
    _loss(model, bf16=False).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_bf16_step_stays_finite(linear: LinearSpec) -> None:
    model = _classifier(linear, dropout=0.1)
    loss = _loss(model, bf16=True)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_loaded_equals_saved_and_frozen_equals_unfrozen(linear: LinearSpec) -> None:
    model = _classifier(linear)
    expected = model(*_pairs()).detach()
    loaded = build_model(_config(linear))
    loaded.load_state_dict(model.state_dict())
    loaded.eval()
    torch.testing.assert_close(loaded(*_pairs()), expected)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(*_pairs()), expected)


def test_pretrained_vectors_stay_fixed() -> None:
    vectors = torch.randn(19, 12)
    model = build_model(_config(LinearSpec()))
    fix_embeddings(model.embedding, vectors)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    before = model.output.weight.detach().clone()
    _loss(model, bf16=False).backward()
    optimizer.step()
    assert torch.equal(model.embedding.weight, vectors)
    assert not torch.equal(model.output.weight, before)
    with pytest.raises(ModelError, match=r"pretrained vectors: expected shape \(19, 12\), found \(19, 11\)"):
        fix_embeddings(model.embedding, vectors[:, :11])


def test_a_graph_of_it_takes_sentences_of_any_length(linear: LinearSpec) -> None:
    model = _classifier(linear).eval()
    sizes = [{0: Dim("batch", min=1, max=8), 1: Dim(name, min=1, max=20)} for name in ("first", "second")]
    first, first_mask, second, second_mask = _pairs()
    example = tuple(side.contiguous() for side in (first[:2], first_mask[:2], second[:2, :5], second_mask[:2, :5]))
    with torch.no_grad():
        exported = torch.export.export(model, example, dynamic_shapes=(sizes[0], sizes[0], sizes[1], sizes[1]))
        pairs = (_pairs(), tuple(side[1:2, :3] for side in _pairs()))
        for arguments in pairs:
            torch.testing.assert_close(exported.module()(*arguments), model(*arguments), rtol=1e-5, atol=1e-5)
