import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import Config, dump_config, load_config, parse_config
from lite_nlp.configs import list_presets
from lite_nlp.core.errors import ConfigError

PRESET = "lite-transformer-iwslt-160"


def _message(*overrides: str, preset: str = PRESET) -> str:
    with pytest.raises(ConfigError) as raised:
        load_config(preset, overrides)
    return str(raised.value)


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("model.width=8", ["unknown key model.width"]),
        ("optimizer.name=adam", ["unknown key optimizer"]),
        ("training.epochs=3", ["unknown key training.epochs"]),
        ("model.embed_dim=wide", ["model.embed_dim", "valid integer", "found 'wide'"]),
        ("model.embed_dim='160'", ["model.embed_dim", "valid integer", "found '160'"]),
        ("model.embed_dim=160.0", ["model.embed_dim", "valid integer", "found 160.0"]),
        ("model.conv_glu=1", ["model.conv_glu", "valid boolean", "found 1"]),
        ("model.family=mamba", ["model.family", "'transformer', 'lite-transformer'", "'t2r'", "found 'mamba'"]),
        ("model.dropout=1.0", ["model.dropout", "less than 1", "found 1.0"]),
        ("training.learning_rate=0", ["training.learning_rate", "greater than 0"]),
        ("training.learning_rate=nan", ["training.learning_rate"]),
        ("training.max_steps=0", ["training.max_steps", "greater than or equal to 1", "found 0"]),
    ],
)
def test_unknown_keys_and_wrong_values_name_key_expectation_and_finding(override: str, parts: list[str]) -> None:
    message = _message(override)
    assert message.startswith(f"{PRESET}: ")
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("model.num_heads=3", "num_heads: expected a divisor of the attention channels (80), found 3"),
        ("model.cross_num_heads=3", "cross_num_heads: expected a divisor of embed_dim (160), found 3"),
        ("model.conv_num_heads=3", "conv_num_heads: expected a divisor of the convolution channels (80), found 3"),
        ("model.kernel_sizes=[3, 7]", "kernel_sizes: expected 6 sizes for a lite-transformer with 6 layers, found 2"),
        (
            "model.decoder_kernel_sizes=[]",
            "decoder_kernel_sizes: expected 6 sizes for a lite-transformer with 6 layers, found 0",
        ),
        ("model.num_encoder_layers=5", "kernel_sizes: expected 5 sizes for a lite-transformer with 5 layers, found 6"),
        (
            "model.kernel_sizes=[3, 7, 15, 31, 31, 30]",
            "kernel_sizes: expected odd sizes (centred in the encoder), found 30",
        ),
        (
            "model.decoder_kernel_sizes=[0, 1, 1, 1, 1, 1]",
            "decoder_kernel_sizes: expected sizes of at least 1, found 0",
        ),
        (
            "model.embed_dim=161",
            "embed_dim: a lite-transformer splits it in halves, expected an even number, found 161",
        ),
        (
            "model.tie_embeddings=all",
            "needs one vocabulary: expected src_vocab_size = tgt_vocab_size, found 8848 and 6632",
        ),
    ],
)
def test_inconsistent_models_say_what_does_not_fit(override: str, text: str) -> None:
    assert text in _message(override)


def test_a_transformer_has_no_kernels() -> None:
    message = _message("model.kernel_sizes=[3, 3, 3, 3, 3, 3]", preset="transformer-wmt-128")
    assert "kernel_sizes: expected 0 sizes for a transformer with 6 layers, found 6" in message


def test_all_problems_are_reported_at_once() -> None:
    message = _message("model.width=8", "training.epochs=3", "model.dropout=2.0")
    assert "unknown key model.width" in message
    assert "unknown key training.epochs" in message
    assert "model.dropout" in message


@pytest.mark.parametrize("override", ["model.embed_dim", "embed_dim=8", "=8", "model.=8", ""])
def test_malformed_overrides(override: str) -> None:
    assert f"--set {override}: expected section.key=value" in _message(override)


def test_an_override_below_a_plain_value() -> None:
    assert "expected a section, found the plain value name" in _message("name.first=lite")


def test_missing_keys_and_broken_toml() -> None:
    with pytest.raises(ConfigError, match=r"mine: .*missing key model.embed_dim"):
        parse_config('name = "mine"\n[model]\nfamily = "transformer"\nffn_dim = 4\n', name="mine")
    with pytest.raises(ConfigError, match=r"mine: expected TOML, found an error"):
        parse_config("name = ", name="mine")


def test_an_unknown_source_lists_the_presets() -> None:
    with pytest.raises(ConfigError, match=r"nowhere.toml: expected a config file or the name of a preset .*lightconv"):
        load_config("nowhere.toml")


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("model.ffn_dim=320", lambda config: config.model.ffn_dim == 320),
        ("model.kernel_sizes=[3, 3, 3, 3, 3, 5]", lambda config: config.model.kernel_sizes == (3, 3, 3, 3, 3, 5)),
        ("training.precision=bf16", lambda config: config.training.precision == "bf16"),
        ("training.clip_norm=1", lambda config: config.training.clip_norm == 1.0),
        ("model.conv_glu = true", lambda config: config.model.conv_glu is True),
    ],
)
def test_overrides_change_one_key(override: str, found: Callable[[Config], bool]) -> None:
    assert found(load_config(PRESET, [override]))


@pytest.mark.parametrize("preset", list_presets())
def test_dumped_presets_read_back_equal(preset: str) -> None:
    config = load_config(preset)
    assert isinstance(config, Config)
    assert parse_config(dump_config(config), name=preset) == config


LANGUAGE_MODEL = {
    "architecture": "language-model",
    "family": "transformer",
    "embed_dim": 32,
    "ffn_dim": 8,
    "tgt_vocab_size": 100,
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"src_vocab_size": 100}, "src_vocab_size: a language-model has no such block, expected 8000, found 100"),
        ({"num_encoder_layers": 2}, "num_encoder_layers: a language-model has no such block, expected 6, found 2"),
        (
            {"cross_attention": "elu"},
            "cross_attention: a language-model has no such block, expected 'softmax', found 'elu'",
        ),
        (
            {"family": "lightconv", "decoder_kernel_sizes": [3] * 6, "attention_expansion": 2},
            "attention_expansion: expected 1 in a lightconv without cross-attention, which has no attention, found 2",
        ),
        ({"tie_embeddings": "decoder"}, "tie_embeddings: expected 'all' or 'none' in a language-model"),
        ({"family": "lite-transformer"}, "decoder_kernel_sizes: expected 6 sizes for a lite-transformer"),
        ({"adaptive_cutoffs": [10]}, "adaptive_cutoffs: expected none without embedding = 'adaptive', found [10]"),
        ({"adaptive_factor": 2}, "adaptive_factor: expected 4 without embedding = 'adaptive', found 2"),
        ({"embedding": "adaptive"}, "adaptive_cutoffs: expected rising numbers of types between 0 and tgt_vocab_size"),
        ({"embedding": "adaptive", "adaptive_cutoffs": [30, 20]}, "tgt_vocab_size (100), found [30, 20]"),
        ({"embedding": "adaptive", "adaptive_cutoffs": [30, 100]}, "tgt_vocab_size (100), found [30, 100]"),
        ({"embedding": "adaptive", "adaptive_cutoffs": [0]}, "tgt_vocab_size (100), found [0]"),
        (
            {"embedding": "adaptive", "adaptive_cutoffs": [10, 20, 30]},
            "adaptive_factor: expected embed_dim (32) to be a multiple of its power 64, found 4 with 3 cutoffs",
        ),
        (
            {"embedding": "adaptive", "adaptive_cutoffs": [10], "tie_embeddings": "none"},
            "tie_embeddings: expected 'all' with embedding = 'adaptive', found 'none'",
        ),
        (
            {"embedding": "adaptive", "adaptive_cutoffs": [10], "embedding_dim": 16},
            "embedding_dim: expected embed_dim (32) or 0 with embedding = 'adaptive', found 16",
        ),
        (
            {"architecture": "encoder-decoder", "src_vocab_size": 100, "embedding": "adaptive"},
            "embedding = 'adaptive': expected a language-model, found 'encoder-decoder'",
        ),
    ],
)
def test_inconsistent_language_models_say_what_does_not_fit(changes: dict[str, Any], text: str) -> None:
    ModelConfig.model_validate(LANGUAGE_MODEL)
    with pytest.raises(ValidationError, match=re.escape(text)):
        ModelConfig.model_validate({**LANGUAGE_MODEL, **changes})


def test_each_architecture_names_its_vocabularies() -> None:
    assert ModelConfig.model_validate(LANGUAGE_MODEL).vocab_sizes == {"tgt_vocab_size": 100}
    assert load_config(PRESET).model.vocab_sizes == {"src_vocab_size": 8848, "tgt_vocab_size": 6632}
