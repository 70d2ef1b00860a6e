"""Each architecture has the keys of its own blocks, and no others."""

import re
from typing import Any

import pytest

from lite_nlp.config.model import (
    ARCHITECTURES,
    EncoderDecoderConfig,
    LanguageModelConfig,
    LSTMClassifierConfig,
    PairClassifierConfig,
    SequenceClassifierConfig,
)
from lite_nlp.config.preset import Config, parse_config, parse_model
from lite_nlp.core.errors import ConfigError

WIDTHS = {"embed_dim": 32, "ffn_dim": 8}
EXAMPLES: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"family": "transformer", **WIDTHS},
    "language-model": {"architecture": "language-model", "family": "transformer", **WIDTHS},
    "sequence-classifier": {
        "architecture": "sequence-classifier",
        "family": "transformer",
        "num_classes": 2,
        **WIDTHS,
    },
    "lstm-classifier": {"architecture": "lstm-classifier", "family": "lstm", "num_classes": 2, **WIDTHS},
    "pair-classifier": {"architecture": "pair-classifier", "family": "lstm", "num_classes": 3, **WIDTHS},
}
CLASSES = {
    "encoder-decoder": EncoderDecoderConfig,
    "language-model": LanguageModelConfig,
    "sequence-classifier": SequenceClassifierConfig,
    "lstm-classifier": LSTMClassifierConfig,
    "pair-classifier": PairClassifierConfig,
}
FOREIGN = {
    "encoder-decoder": {"num_classes", "lstm_linear", "adaptive_cutoffs", "adaptive_factor"},
    "language-model": {
        *("src_vocab_size", "num_encoder_layers", "kernel_sizes"),
        *("cross_num_heads", "cross_head_dim", "cross_attention", "cross_feature_size", "num_classes", "lstm_linear"),
    },
    "sequence-classifier": {
        *("tgt_vocab_size", "tie_embeddings", "num_decoder_layers", "decoder_kernel_sizes"),
        *("self_attention", "self_feature_size", "keep_softmax_every"),
        *("cross_num_heads", "cross_head_dim", "cross_attention", "cross_feature_size"),
        *("lstm_linear", "adaptive_cutoffs", "adaptive_factor"),
    },
    **{
        architecture: {
            *("tgt_vocab_size", "tie_embeddings", "embedding", "num_encoder_layers", "num_decoder_layers"),
            *("sharing", "sandwich_dim", "sandwich_ffn_dim", "sandwich_heads", "num_heads", "attention_expansion"),
            *("safe_dropout", "head_dim", "cross_head_dim", "conv_head_dim"),
            *("self_attention", "self_feature_size", "keep_softmax_every"),
            *("attention_linear", "ffn_linear", "conv_linear", "kernel_sizes", "decoder_kernel_sizes"),
            *("conv_type", "conv_glu", "conv_num_heads", "pre_norm", "final_norm"),
            *("attention_dropout", "ffn_dropout", "conv_dropout"),
            *("cross_num_heads", "cross_attention", "cross_feature_size", "adaptive_cutoffs", "adaptive_factor"),
        }
        for architecture in ("lstm-classifier", "pair-classifier")
    },
}
KEYS = {key for member in CLASSES.values() for key in member.model_fields}


@pytest.mark.parametrize("architecture", EXAMPLES)
def test_the_class_follows_from_the_architecture(architecture: str) -> None:
    assert set(ARCHITECTURES) == set(CLASSES)
    model = parse_model(EXAMPLES[architecture])
    assert type(model) is ARCHITECTURES[architecture] is CLASSES[architecture]
    assert model.architecture == architecture
    assert parse_model(model.model_dump()) == parse_model(model.model_dump(mode="json")) == model
    assert Config(name="mine", model=model).model is model


@pytest.mark.parametrize("architecture", EXAMPLES)
def test_every_key_of_another_architecture_is_refused_by_name(architecture: str) -> None:
    assert len(KEYS) == 49
    assert KEYS - set(CLASSES[architecture].model_fields) == FOREIGN[architecture]
    article = "an" if architecture.startswith("e") else "a"
    for key in FOREIGN[architecture]:
        # Whatever the value: nothing is said of a block that is not there.
        with pytest.raises(ConfigError, match=rf"mine: {key}: {article} {architecture} has no such key, found 0"):
            parse_model({**EXAMPLES[architecture], key: 0}, name="mine")


@pytest.mark.parametrize(
    ("architecture", "found"), [("perceptron", "'perceptron'"), (3, "3"), (["pair-classifier"], "['pair-classifier']")]
)
def test_an_unknown_architecture_is_refused(architecture: Any, found: str) -> None:
    kinds = "'encoder-decoder', 'language-model', 'sequence-classifier', 'lstm-classifier', 'pair-classifier'"
    expected = f"expected one of {kinds}, found "
    with pytest.raises(ConfigError, match=re.escape(f"mine: model.architecture: {expected}{found}")):
        parse_config(f'name = "mine"\n[model]\narchitecture = {architecture!r}\n', name="mine")
    with pytest.raises(ConfigError, match=re.escape(f"model: architecture: {expected}{found}")):
        parse_model({**EXAMPLES["encoder-decoder"], "architecture": architecture})


def test_a_key_that_no_model_has() -> None:
    with pytest.raises(ConfigError, match=r"^model: unknown key width$"):
        parse_model({**EXAMPLES["encoder-decoder"], "width": 8})


@pytest.mark.parametrize("architecture", EXAMPLES)
def test_missing_and_wrong_values_name_the_architecture(architecture: str) -> None:
    article = "an" if architecture.startswith("e") else "a"
    values = {**EXAMPLES[architecture], "family": "mamba"}
    del values["embed_dim"]
    with pytest.raises(ConfigError) as raised:
        parse_model(values)
    assert f"missing key embed_dim in {article} {architecture}" in str(raised.value)
    assert f"' in {article} {architecture}, found 'mamba'" in str(raised.value)


def test_no_section_at_all() -> None:
    with pytest.raises(ConfigError, match=r"mine: model: .*found 3"):
        parse_config('name = "mine"\nmodel = 3\n', name="mine")
    with pytest.raises(ConfigError, match=r"mine: missing key model"):
        parse_config('name = "mine"\n', name="mine")


@pytest.mark.parametrize(
    ("architecture", "sizes"),
    [
        ("encoder-decoder", {"src_vocab_size": 8000, "tgt_vocab_size": 8000}),
        ("language-model", {"tgt_vocab_size": 8000}),
        ("sequence-classifier", {"src_vocab_size": 8000}),
        ("lstm-classifier", {"src_vocab_size": 8000}),
        ("pair-classifier", {"src_vocab_size": 8000}),
    ],
)
def test_each_architecture_names_its_vocabularies(architecture: str, sizes: dict[str, int]) -> None:
    assert parse_model(EXAMPLES[architecture]).vocab_sizes == sizes


@pytest.mark.parametrize(
    ("architecture", "stacks"),
    [
        ("encoder-decoder", (True, True)),
        ("language-model", (False, True)),
        ("sequence-classifier", (True, False)),
        ("lstm-classifier", (False, False)),
        ("pair-classifier", (False, False)),
    ],
)
def test_each_architecture_says_its_stacks(architecture: str, stacks: tuple[bool, bool]) -> None:
    model = parse_model(EXAMPLES[architecture])
    assert (model.has_encoder, model.has_decoder) == stacks
