from typing import Any

import pytest
import torch

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.overhead import count_overhead
from lite_nlp.budget.traced.counter import count_stepped_model
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.models.build import build_model

BASE: dict[str, Any] = {
    "src_vocab_size": 40,
    "tgt_vocab_size": 40,
    "embed_dim": 16,
    "ffn_dim": 24,
    "num_encoder_layers": 3,
    "num_decoder_layers": 3,
    "num_heads": 2,
    "cross_num_heads": 4,
    "conv_num_heads": 2,
    "max_positions": 64,
}
KERNELS: dict[str, Any] = {"kernel_sizes": (3, 5, 31), "decoder_kernel_sizes": (1, 9, 4)}
LINEAR: dict[str, Any] = {"self_feature_size": 6, "cross_feature_size": 4}
CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer", "pre_norm": True, "final_norm": True},
    "untied": {"family": "transformer", "tie_embeddings": "decoder", "tgt_vocab_size": 50},
    "dynamic": {"family": "lite-transformer", "conv_type": "dynamic", "conv_glu": True, **KERNELS},
    "lightweight": {"family": "lite-transformer", "tie_embeddings": "none", **KERNELS},
    "lightconv": {"family": "lightconv", **KERNELS},
    "sandwich": {"family": "subformer", "sharing": "sandwich", "sandwich_dim": 32, "sandwich_ffn_dim": 40},
    "all": {"family": "subformer", "sharing": "all"},
    "every-two": {"family": "subformer", "sharing": "every-two"},
    "independent-ffn": {"family": "subformer", "sharing": "independent-ffn"},
    "safe": {"family": "subformer", "embedding": "safe", "embedding_dim": 8},
    "two-layer-linear": {"family": "subformer", "embedding": "two-layer-linear", "embedding_dim": 8},
    "r2d2": {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "r2d2", "linear_n": 4},
    "quaternion": {"family": "r2d2", "attention_linear": "quaternion", "ffn_linear": "quaternion"},
    "low-rank": {"family": "r2d2", "attention_linear": "low-rank", "ffn_linear": "low-rank", "linear_rank": 5},
    "t2r": {"family": "t2r", "self_attention": "t2r", "cross_attention": "t2r", **LINEAR},
    "t2r-keep": {"family": "t2r", "self_attention": "t2r", "self_feature_size": 6, "keep_softmax_every": 2},
    "elu": {"family": "t2r", "self_attention": "elu", "cross_attention": "elu"},
    "expanded": {"family": "r2d2", "attention_linear": "r2d2", "linear_n": 4, "attention_expansion": 2},
    "expanded-t2r": {
        "family": "lite-transformer",
        "self_attention": "t2r",
        "cross_attention": "t2r",
        "keep_softmax_every": 2,
        "attention_expansion": 3,
        **LINEAR,
        **KERNELS,
    },
    "few heads": {
        "family": "lite-transformer",
        "num_heads": 1,
        "head_dim": 6,
        "cross_num_heads": 3,
        "cross_head_dim": 2,
        "conv_num_heads": 1,
        "conv_head_dim": 6,
        **KERNELS,
    },
    "random": {"family": "t2r", "self_attention": "random-features", "cross_attention": "random-features", **LINEAR},
}


def _counted(config: ModelConfig, src_len: int, tgt_len: int, beam: int) -> int:
    """What the model itself does, without its numbers."""
    with torch.device("meta"):
        model = build_model(config).eval()
    return count_stepped_model(model, src_len=src_len, tgt_len=tgt_len, beam=beam).total


def _stated(config: ModelConfig, src_len: int, tgt_len: int, beam: int) -> int:
    lengths = {"src_len": src_len, "tgt_len": tgt_len, "beam": beam}
    overhead = sum(item.macs for item in count_overhead(config, **lengths))
    return count_config(config, **lengths).macs_executed + overhead


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("lengths", [(7, 5, 1), (33, 12, 3)])
def test_closed_form_and_overhead_are_what_the_model_does(name: str, lengths: tuple[int, int, int]) -> None:
    config = parse_model({**BASE, **CONFIGS[name]})
    assert _stated(config, *lengths) == _counted(config, *lengths)


def test_the_same_for_the_shipped_model() -> None:
    config = load_config("tatoeba-lite-transformer").model
    assert _stated(config, 30, 30, 1) == _counted(config, 30, 30, 1)


def test_each_difference_by_hand() -> None:
    config = parse_model({**BASE, **CONFIGS["dynamic"]})
    found = {item.name: (item.part, item.macs) for item in count_overhead(config, src_len=7, tgt_len=5, beam=2)}
    assert found == {
        # 3 layers of 8 channels, scores and sums: 2 hypotheses attend to 5 slots in 5 steps instead of 1 + ... + 5.
        "empty cache slots": ("decoder.attention", 3 * 8 * 2 * 2 * (25 - 15)),
        # 8 channels: 7 x 7 entries of the band instead of 7 x 3, 7 x 5 and 7 x 31 taps.
        "band matrix of the convolution": ("encoder.conv_kernel", 8 * 7 * ((7 - 3) + (7 - 5) + (7 - 31))),
    }


def test_linear_attention_has_no_empty_slots() -> None:
    config = parse_model({**BASE, **CONFIGS["t2r"]})
    assert count_overhead(config, src_len=7, tgt_len=5) == ()
