"""Small models of every family, with weights far from their initial ones."""

from typing import Any

import pytest
import torch

from lite_nlp.models.build import build_model
from lite_nlp.models.config import ModelConfig
from lite_nlp.models.transformer import EncoderDecoder

KERNELS: dict[str, Any] = {"kernel_sizes": (3, 9), "decoder_kernel_sizes": (2, 31)}

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
}


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
    return ModelConfig(**{**values, **changes})


def randomized(config: ModelConfig) -> EncoderDecoder:
    """A model whose biases and norms are random too: with fresh ones, zero biases would hide a padding leak."""
    torch.manual_seed(7)
    model = build_model(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each family and option in turn, as keyword arguments of ``small_config``."""
    return VARIANTS[request.param]
