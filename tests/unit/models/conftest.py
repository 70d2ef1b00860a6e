"""Small models of every family, with weights far from their initial ones."""

from typing import Any

import pytest
import torch

from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.selection import VARIANT_NAMES, select

KERNELS: dict[str, Any] = {"kernel_sizes": (3, 9), "decoder_kernel_sizes": (2, 31)}
THREE: dict[str, Any] = {"num_encoder_layers": 3, "num_decoder_layers": 3}
FOUR: dict[str, Any] = {"num_encoder_layers": 4, "num_decoder_layers": 4}
FOUR_KERNELS: dict[str, Any] = {**FOUR, "kernel_sizes": (3, 5, 5, 9), "decoder_kernel_sizes": (2, 4, 4, 31)}
WIDE: dict[str, Any] = {"sharing": "sandwich", "sandwich_dim": 20, "sandwich_ffn_dim": 40}

T2R: dict[str, Any] = {
    "self_attention": "t2r",
    "self_feature_size": 6,
    "cross_attention": "t2r",
    "cross_feature_size": 4,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer"},
    "transformer-pre-norm": {"family": "transformer", "pre_norm": True, "final_norm": True},
    "lsra-static": {"family": "lite-transformer", **KERNELS},
    "lsra-static-glu": {"family": "lite-transformer", **KERNELS, "conv_glu": True},
    "lsra-dynamic": {"family": "lite-transformer", **KERNELS, "conv_type": "dynamic"},
    "lsra-dynamic-glu": {"family": "lite-transformer", **KERNELS, "conv_type": "dynamic", "conv_glu": True},
    "lsra-pre-norm": {"family": "lite-transformer", **KERNELS, "pre_norm": True},
    "lsra-untied": {"family": "lite-transformer", **KERNELS, "tie_embeddings": "none", "src_vocab_size": 31},
    "lsra-decoder-tied": {"family": "lite-transformer", **KERNELS, "tie_embeddings": "decoder", "src_vocab_size": 31},
    "lightconv": {"family": "lightconv", **KERNELS},
    "dynamicconv": {"family": "lightconv", **KERNELS, "conv_type": "dynamic", "conv_glu": True},
    "all-shared": {"family": "subformer", **THREE, "sharing": "all"},
    "all-but-last": {"family": "subformer", **THREE, "sharing": "all-but-last"},
    "independent-ffn": {"family": "subformer", **THREE, "sharing": "independent-ffn"},
    "every-two": {"family": "subformer", **THREE, "sharing": "every-two"},
    "sandwich": {"family": "subformer", **FOUR, "sharing": "sandwich"},
    "sandwich-heads": {"family": "subformer", **FOUR, "sharing": "sandwich", "sandwich_heads": "width"},
    "sandwich-wide": {"family": "subformer", **FOUR, **WIDE},
    "sandwich-wide-pre-norm": {"family": "subformer", **FOUR, **WIDE, "pre_norm": True, "final_norm": True},
    "embedding-linear": {"family": "subformer", "embedding": "linear", "embedding_dim": 6},
    "embedding-two-layer": {"family": "subformer", "embedding": "two-layer-linear", "embedding_dim": 6},
    "safe": {"family": "subformer", "embedding": "safe", "embedding_dim": 10},
    "safe-as-wide": {"family": "subformer", "embedding": "safe", "tie_embeddings": "decoder"},
    "safe-untied": {"family": "subformer", "embedding": "safe", "embedding_dim": 6, "tie_embeddings": "none"},
    "subformer": {"family": "subformer", **FOUR, **WIDE, "embedding": "safe", "embedding_dim": 10},
    "lsra-sandwich": {"family": "lite-transformer", **FOUR_KERNELS, **WIDE, "conv_type": "dynamic", "conv_glu": True},
    "lightconv-every-two": {
        "family": "lightconv",
        **FOUR,
        "kernel_sizes": (3, 3, 9, 9),
        "decoder_kernel_sizes": (2, 2, 31, 31),
        "sharing": "every-two",
        "embedding": "safe",
        "embedding_dim": 6,
    },
    "t2r": {"family": "t2r", **T2R},
    "t2r-cross-only": {"family": "t2r", "cross_attention": "t2r", "cross_feature_size": 8},
    "t2r-every-second": {"family": "t2r", **T2R, "keep_softmax_every": 2},
    "t2r-low-rank": {"family": "t2r", **T2R, "attention_linear": "low-rank", "linear_rank": 5},
    "elu": {"family": "t2r", "self_attention": "elu", "cross_attention": "elu"},
    "random-features": {
        "family": "t2r",
        **T2R,
        **dict.fromkeys(("self_attention", "cross_attention"), "random-features"),
    },
    "lsra-t2r-r2d2-ffn": {"family": "lite-transformer", **KERNELS, **T2R, "ffn_linear": "r2d2", "linear_n": 2},
    "lightconv-t2r": {"family": "lightconv", **KERNELS, "cross_attention": "t2r", "cross_feature_size": 3},
    "subformer-t2r": {"family": "subformer", **FOUR, **WIDE, **T2R},
}

for _kind, _size in (("r2d2", {"linear_n": 4}), ("quaternion", {}), ("low-rank", {"linear_rank": 3})):
    _attention_and_ffn: dict[str, Any] = {"attention_linear": _kind, "ffn_linear": _kind, **_size}
    VARIANTS[_kind] = {"family": "r2d2", **_attention_and_ffn}
    VARIANTS[f"lsra-{_kind}"] = {"family": "lite-transformer", **KERNELS, **_attention_and_ffn, "conv_linear": _kind}
VARIANTS["lsra-dynamic-glu-r2d2-ffn"] = {**VARIANTS["lsra-dynamic-glu"], "ffn_linear": "r2d2", "linear_n": 2}
VARIANTS["dynamicconv-quaternion-conv"] = {**VARIANTS["dynamicconv"], "conv_linear": "quaternion"}
VARIANTS["sandwich-r2d2"] = {**VARIANTS["r2d2"], **FOUR, **WIDE}
VARIANTS["t2r-r2d2"] = {**VARIANTS["r2d2"], **T2R}
VARIANTS["expanded-sandwich-r2d2"] = {**VARIANTS["sandwich-r2d2"], "attention_expansion": 2}
FEW_HEADS = {"num_heads": 3, "head_dim": 2, "cross_num_heads": 1, "cross_head_dim": 6}
VARIANTS["few-heads"] = {**VARIANTS["lsra-dynamic-glu"], **FEW_HEADS, "conv_num_heads": 1, "conv_head_dim": 6}
VARIANTS["few-heads-t2r"] = {"family": "t2r", **T2R, **FEW_HEADS}
VARIANTS["expanded-lsra-t2r"] = {"family": "lite-transformer", **KERNELS, **T2R, "attention_expansion": 3}


def small_config(**changes: Any) -> ModelConfig:
    values = {
        "embed_dim": 16,
        "ffn_dim": 24,
        "num_heads": 2,
        "cross_num_heads": 4,
        "conv_num_heads": 2,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "src_vocab_size": 37,
        "tgt_vocab_size": 37,
        "dropout": 0.0,
    }
    return parse_model({**values, **changes})


def randomized(config: ModelConfig) -> EncoderDecoder:
    """A model whose biases and norms are random too: with fresh ones, zero biases would hide a padding leak."""
    torch.manual_seed(7)
    model = build_model(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


@pytest.fixture(params=select(VARIANTS, VARIANT_NAMES))
def variant(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each family and option in turn, as keyword arguments of ``small_config``."""
    return VARIANTS[request.param]
