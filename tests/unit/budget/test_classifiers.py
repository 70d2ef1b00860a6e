"""Classifiers in closed form: the papers' figures, arithmetic by hand, and counts of the running modules."""

from typing import Any

import pytest
import torch

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.lengths import growth
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.budget.traced.counter import count_work
from lite_nlp.config.model import LSTMClassifierConfig, ModelConfig, PairClassifierConfig, SequenceClassifierConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.core.errors import ConfigError, UsageError
from lite_nlp.models.build import build_model

SINGLE: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer"},
    "lsra": {"family": "lite-transformer", "kernel_sizes": (3, 5), "final_norm": True},
    "r2d2": {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "r2d2", "linear_n": 4},
    "subformer": {
        "family": "subformer", "sharing": "sandwich", "num_encoder_layers": 3, "sandwich_dim": 20,
        "embedding": "linear", "embedding_dim": 6,
    },
}  # fmt: skip
GATES: dict[str, dict[str, Any]] = {
    "dense": {},
    "r2d2": {"lstm_linear": "r2d2", "linear_n": 4},
    "quaternion": {"lstm_linear": "quaternion"},
    "low-rank": {"lstm_linear": "low-rank", "linear_rank": 3},
}


def _single(variant: str) -> ModelConfig:
    values = {
        "architecture": "sequence-classifier", "embed_dim": 16, "ffn_dim": 24, "num_heads": 2, "conv_num_heads": 2,
        "num_encoder_layers": 2, "src_vocab_size": 37, "num_classes": 3,
    }  # fmt: skip
    return parse_model({**values, **SINGLE[variant]})


def _recurrent(gates: str, kind: type[LSTMClassifierConfig] | type[PairClassifierConfig]) -> ModelConfig:
    return kind(
        family="lstm", src_vocab_size=37, embedding_dim=12, embed_dim=8, ffn_dim=10,
        num_classes=3, **GATES[gates],
    )  # fmt: skip


def _pair(gates: str) -> ModelConfig:
    return _recurrent(gates, PairClassifierConfig)


def _texts(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(1, length, dtype=torch.int64), torch.ones(1, length, dtype=torch.bool)


@pytest.mark.parametrize(
    ("preset", "cells", "weights"),
    [
        # R2D2, table 1: eight Linears of 300 x 300 and 1,200 biases; with n, 90,000 / n + n^3 weights each.
        ("r2d2-lstm-nli-dense", 721_200, 720_000),
        ("r2d2-lstm-nli-quaternion", 181_200, 180_000),
        ("r2d2-lstm-nli-2", 361_264, 360_064),
        ("r2d2-lstm-nli-5", 146_200, 145_000),
        ("r2d2-lstm-nli-10", 81_200, 80_000),
    ],
)
def test_lstm_cells_of_the_paper(preset: str, cells: int, weights: int) -> None:
    count = count_config(load_config(preset).model, src_len=20, tgt_len=10)
    assert (count.params_encoder, count.params_encoder_weights) == (cells, weights)
    # Factors save no work: 720,000 per token of both sentences; MLP of 1200 -> 300 -> 300; output 300 -> 3.
    assert count.macs_paper == 30 * 720_000 + 1200 * 300 + 300 * 300
    assert count.macs_executed == count.macs_paper + 900
    assert count.params_total == 32_768 * 300 + cells + 1201 * 300 + 301 * 300 + 301 * 3


@pytest.mark.parametrize(
    ("preset", "encoder"),
    [
        # R2D2, table 6, with biases of the feed-forward (1,280) and LayerNorms (1,024): 400K, 100K, 200K, 101K, 56K.
        ("r2d2-sva-dense", 395_520),
        ("r2d2-sva-quaternion", 100_608),
        ("r2d2-sva-2", 198_976),
        ("r2d2-sva-4", 101_120),
        ("r2d2-sva-8", 55_552),
    ],
)
def test_agreement_models_of_the_paper(preset: str, encoder: int) -> None:
    count = count_config(load_config(preset).model, src_len=10)
    assert count.params_encoder_partly_biased == encoder
    # Biases of attention: 2 layers of 3 * 128 + 128; output 128 -> 2.
    assert count.params_total == 10_000 * 128 + encoder + 1024 + 258
    # Per layer and token 4 * 128^2 + 2 * 128 * 512, two LayerNorms, and 10 tokens to attend to, twice 128 each.
    assert count.macs_paper == 2 * 10 * (4 * 128**2 + 2 * 128 * 512 + 2 * 128 + 2 * 128 * 10)
    assert count.tgt_len == 0


@pytest.mark.parametrize("variant", SINGLE)
def test_sequence_classifiers_count_as_they_run(variant: str) -> None:
    config = _single(variant)
    with torch.device("meta"):
        model = build_model(config).eval()
    count = count_config(config, src_len=11)
    assert count.params_total == sum(parameter.numel() for parameter in model.parameters())
    work = count_work(model, *_texts(11))
    parts = count.by_part()
    norms = sum(cost.executed for cost in count.costs if cost.operation == "layer_norm")
    assert work.layer_norm == norms
    assert sum(entry.macs for entry in work.entries if entry.module.startswith("output")) == parts["output"].executed
    if variant != "lsra":  # Its convolution is a product with a band matrix, which is more than its taps.
        assert work.total == count.macs_executed


@pytest.mark.parametrize(
    ("kind", "lengths"), [(PairClassifierConfig, (7, 4)), (LSTMClassifierConfig, (7,))], ids=["pair", "text"]
)
@pytest.mark.parametrize("gates", GATES)
def test_recurrent_classifiers_count_as_they_run(gates: str, kind: Any, lengths: tuple[int, ...]) -> None:
    config = _recurrent(gates, kind)
    with torch.device("meta"):
        model = build_model(config).eval()
    count = count_config(config, src_len=7, tgt_len=4)
    assert (count.src_len, count.tgt_len) == (*lengths, 0)[:2]
    assert count.params_total == sum(parameter.numel() for parameter in model.parameters())
    frozen = build_model(config).eval()
    with torch.no_grad():
        work = count_work(frozen, *(tensor for length in lengths for tensor in _texts(length))).by_kind()
    assert work["matmul"] == sum(work.values()) == count.macs_executed


def test_growth_of_a_classifier() -> None:
    single = growth(_single("transformer"))
    assert (single["encoder"], single["ffn"], single["output"]) == ("quadratic", "linear", "constant")
    pair = growth(_pair("dense"))
    assert (pair["encoder"], pair["recurrent"], pair["output"]) == ("constant", "linear", "constant")


def test_nothing_is_kept_between_steps_that_there_are_not() -> None:
    safe = SequenceClassifierConfig(
        family="subformer", embedding="safe", embedding_dim=8, embed_dim=16,
        ffn_dim=8, num_heads=2, num_classes=2,
    )  # fmt: skip
    assert count_state(safe) == count_state(_pair("dense")) == {}


def test_lengths_and_beams_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="beam: expected 1 with a pair-classifier, which searches nothing, found 2"):
        count_config(_pair("dense"), beam=2)
    with pytest.raises(ConfigError, match="target length: expected 1 to 1024 tokens"):
        count_config(_pair("dense"), tgt_len=0)
    with pytest.raises(ConfigError, match="source length: expected 1 to 1024 tokens"):
        count_config(_single("transformer"), src_len=1025)
    assert count_config(_single("transformer"), src_len=5, tgt_len=9999) == count_config(
        _single("transformer"), src_len=5
    )
