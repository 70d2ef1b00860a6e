"""How long an input a bundle takes, by the config of its model."""

from typing import Any

import pytest

from lite_nlp.artifacts.input_length import cut_bound, source_bound
from lite_nlp.config.preset import Config, DecodingConfig, TrainingConfig, parse_model

SMALL = {"embed_dim": 16, "ffn_dim": 16, "src_vocab_size": 300}
PAIR = {**SMALL, "architecture": "pair-classifier", "family": "lstm", "num_classes": 2}
TRANSLATOR = {
    **SMALL, "tgt_vocab_size": 300, "family": "transformer", "num_encoder_layers": 1, "num_decoder_layers": 1,
}  # fmt: skip


def configured(model: dict[str, Any], *, positions: int, max_tokens: int = 300, long_input: str = "") -> Config:
    return Config(
        name="tiny",
        model=parse_model({**model, "max_positions": positions}),
        training=TrainingConfig(max_tokens=max_tokens),
        decoding=DecodingConfig.model_validate({"long_input": long_input}) if long_input else None,
    )


@pytest.mark.parametrize(
    ("options", "cuts", "default"),
    [
        # Without the end mark a summarizer reads so many tokens, a classifier what it has positions for.
        ({"model": TRANSLATOR, "positions": 1024, "max_tokens": 999, "long_input": "truncate"}, 1000, 1000),
        ({"model": TRANSLATOR, "positions": 700, "max_tokens": 999, "long_input": "truncate"}, 700, 700),
        ({"model": TRANSLATOR, "positions": 1024, "max_tokens": 99, "long_input": "truncate"}, 100, 256),
        ({"model": PAIR, "positions": 1024}, 1024, 1024),
        ({"model": PAIR, "positions": 24}, 24, 24),
        # Longer inputs are translated in pieces.
        ({"model": TRANSLATOR, "positions": 1024, "max_tokens": 999, "long_input": "split"}, 0, 256),
        ({"model": TRANSLATOR, "positions": 1024, "max_tokens": 999}, 0, 256),
        ({"model": TRANSLATOR, "positions": 128}, 0, 128),
    ],
)
def test_a_bundle_takes_what_its_model_reads(options: dict[str, Any], cuts: int, default: int) -> None:
    config = configured(**options)
    assert (cut_bound(config), source_bound(config, None)) == (cuts, default)


def test_what_is_asked_for_counts_as_far_as_there_are_positions() -> None:
    config = configured(PAIR, positions=64)
    assert (source_bound(config, 8), source_bound(config, 65)) == (8, 64)
