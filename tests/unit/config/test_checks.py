"""Keys that do not fit each other are refused with the key, the expectation and what was found."""

import re
from typing import Any

import pytest

from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.core.errors import ConfigError
from tests.unit.models.conftest import small_config

PRESET = "lite-transformer-iwslt-160"
KERNELS = {"kernel_sizes": (3, 3, 3), "decoder_kernel_sizes": (2, 2, 2)}
THREE = {"num_encoder_layers": 3, "num_decoder_layers": 3}


def _message(*overrides: str, preset: str = PRESET) -> str:
    with pytest.raises(ConfigError) as raised:
        load_config(preset, overrides)
    return str(raised.value)


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
        ("model.kernel_sizes=3,7", "kernel_sizes: expected 6 sizes for a lite-transformer with 6 layers, found 2"),
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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"family": "subformer"},
            "family = 'subformer': expected one of these to be set, found sharing = 'none', embedding = 'table'",
        ),
        (
            {"family": "r2d2"},
            "family = 'r2d2': expected one of these to be set, found attention_linear = 'dense', ffn_linear",
        ),
        (
            {"family": "t2r"},
            "family = 't2r': expected one of these to be set, found self_attention = 'softmax', cross_attention",
        ),
        ({"embedding_dim": 8}, "embedding_dim: expected embed_dim (16) or 0 with embedding = 'table', found 8"),
        ({"sandwich_dim": 32}, "sandwich_dim: expected 0 without sharing = 'sandwich', found 32"),
        ({"sandwich_ffn_dim": 32}, "sandwich_ffn_dim: expected 0 without sharing = 'sandwich', found 32"),
        (
            {"sharing": "all", "sandwich_heads": "width"},
            "sandwich_heads: expected 'configured' without sharing = 'sandwich', found 'width'",
        ),
        (
            {"embedding": "linear", "embedding_dim": 8, "safe_dropout": True},
            "safe_dropout: expected false with embedding = 'linear', found true",
        ),
        (
            {"sharing": "sandwich"},
            "num_encoder_layers: expected at least 3 layers with sharing = 'sandwich', found 2",
        ),
        (
            {"sharing": "all-but-last", "num_decoder_layers": 1},
            "num_decoder_layers: expected at least 2 layers with sharing = 'all-but-last', found 1",
        ),
        (
            {"family": "lite-transformer", "sharing": "sandwich", "sandwich_dim": 17, **THREE, **KERNELS},
            "sandwich_dim: a lite-transformer splits it in halves, expected an even number, found 17",
        ),
        (
            {"family": "lite-transformer", "sharing": "sandwich", "sandwich_dim": 18, **THREE, **KERNELS},
            "conv_num_heads: expected a divisor of the convolution channels (9), found 2",
        ),
        (
            {"family": "lightconv", "sharing": "all", **THREE, **KERNELS, "decoder_kernel_sizes": (2, 2, 4)},
            "sharing: decoder layers 1 and 3 share parameters, expected one kernel size, found 2 and 4",
        ),
        (
            {"self_attention": "t2r", "self_feature_size": 4, "keep_softmax_every": 2, "sharing": "all"},
            "keep_softmax_every: decoder layers 1 and 2 share parameters, expected one kind of attention, "
            "found softmax/softmax and t2r/softmax",
        ),
        ({"self_attention": "t2r"}, "self_feature_size: expected at least 1 with self_attention = 't2r', found 0"),
        (
            {"cross_attention": "random-features"},
            "cross_feature_size: expected at least 1 with cross_attention = 'random-features', found 0",
        ),
        (
            {"cross_attention": "elu", "cross_feature_size": 4},
            "cross_feature_size: expected 0 with cross_attention = 'elu', found 4",
        ),
        ({"self_feature_size": 4}, "self_feature_size: expected 0 with self_attention = 'softmax', found 4"),
        (
            {"family": "lightconv", "self_attention": "elu", "kernel_sizes": (3, 3), "decoder_kernel_sizes": (3, 3)},
            "self_attention: a lightconv has none, found 'elu'",
        ),
        ({"keep_softmax_every": 2}, "keep_softmax_every: expected 0 where all attention is softmax, found 2"),
        (
            {"self_attention": "elu", "keep_softmax_every": 3},
            "keep_softmax_every: expected 0 or 2 to num_decoder_layers (2), found 3",
        ),
        ({"attention_expansion": 0}, "attention_expansion: input should be greater than or equal to 1"),
        (
            {"attention_expansion": 3, "num_heads": 5},
            "num_heads: expected a divisor of the attention channels (48), found 5",
        ),
        (
            {"attention_expansion": 3, "cross_num_heads": 5},
            "cross_num_heads: expected a divisor of attention_expansion * embed_dim (48), found 5",
        ),
        ({"conv_head_dim": 4}, "conv_head_dim: expected 0 in a transformer, which has no convolution, found 4"),
        (
            {"family": "lightconv", "kernel_sizes": (3, 3), "decoder_kernel_sizes": (3, 3), "head_dim": 4},
            "head_dim: expected 0 in a lightconv, which has no self-attention, found 4",
        ),
        (
            {"attention_linear": "r2d2", "linear_n": 2, "num_heads": 3, "head_dim": 3},
            "attention_linear = 'r2d2': expected widths that are a multiple of linear_n = 2, found 9",
        ),
        ({"linear_n": 2}, "linear_n: expected 1 without an r2d2 projection, found 2"),
        ({"linear_rank": 2}, "linear_rank: expected 0 without a low-rank projection, found 2"),
        ({"ffn_linear": "low-rank"}, "linear_rank: expected at least 1 with a low-rank projection, found 0"),
        (
            {"conv_linear": "quaternion"},
            "conv_linear: expected 'dense' in a transformer, which has no convolution, found 'quaternion'",
        ),
        (
            {"conv_type": "dynamic"},
            "conv_type: expected 'lightweight' in a transformer, which has no convolution, found 'dynamic'",
        ),
        ({"conv_glu": True}, "conv_glu: expected false in a transformer, which has no convolution, found true"),
        (
            {"ffn_linear": "r2d2", "linear_n": 16},
            "ffn_linear = 'r2d2': expected widths that are a multiple of linear_n = 16, found 24",
        ),
        (
            {"attention_linear": "quaternion", "embed_dim": 18, "cross_num_heads": 2},
            "attention_linear = 'quaternion': expected widths that are a multiple of 4, found 18",
        ),
        ({"sharing": "some"}, "sharing: expected 'none', 'all', 'all-but-last', 'independent-ffn', 'every-two'"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        small_config(**{"family": "transformer", **changes})
    assert text in str(raised.value)


def test_options_of_all_families_go_together() -> None:
    config = small_config(
        family="lite-transformer",
        **THREE,
        **KERNELS,
        sharing="sandwich",
        sandwich_dim=32,
        embedding="safe",
        embedding_dim=8,
        self_attention="t2r",
        self_feature_size=4,
        ffn_linear="r2d2",
        linear_n=2,
    )
    assert isinstance(config, EncoderDecoderConfig)
    assert config.table_dim == 8


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
        ({"src_vocab_size": 100}, "src_vocab_size: a language-model has no such key, found 100"),
        ({"num_encoder_layers": 2}, "num_encoder_layers: a language-model has no such key, found 2"),
        ({"cross_attention": "elu"}, "cross_attention: a language-model has no such key, found 'elu'"),
        (
            {"family": "lightconv", "decoder_kernel_sizes": [3] * 6, "attention_expansion": 2},
            "attention_expansion: expected 1 in a lightconv without cross-attention, which has no attention, found 2",
        ),
        (
            {"tie_embeddings": "decoder"},
            "tie_embeddings: expected 'none' or 'all' in a language-model, found 'decoder'",
        ),
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
            "expected 'table', 'linear', 'two-layer-linear' or 'safe' in an encoder-decoder, found 'adaptive'",
        ),
    ],
)
def test_inconsistent_language_models_say_what_does_not_fit(changes: dict[str, Any], text: str) -> None:
    parse_model(LANGUAGE_MODEL)
    with pytest.raises(ConfigError, match=re.escape(text)):
        parse_model({**LANGUAGE_MODEL, **changes})
