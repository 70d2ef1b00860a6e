"""The closed form against PyTorch: its parameters of the built model, and its own counter of matrix products."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from lite_nlp.budget.closed_form.formulas import ModelCount, count_config
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.config.layers import LayerSpec, decoder_specs, encoder_specs
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.models.build import build_model
from tests.selection import PRESETS

SRC_LEN, TGT_LEN = 7, 5

SMALL = {
    "src_vocab_size": 21,
    "tgt_vocab_size": 19,
    "embed_dim": 16,
    "ffn_dim": 12,
    "num_encoder_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 2,
    "cross_num_heads": 4,
    "tie_embeddings": "none",
}
CONVOLUTION = {
    "kernel_sizes": [3, 5],
    "decoder_kernel_sizes": [2, 3, 6],
    "conv_type": "dynamic",
    "conv_glu": True,
    "conv_num_heads": 2,
}

#: Every option of the three other families, alone and together; widths divide as they must.
SANDWICH = {"sharing": "sandwich", "sandwich_dim": 24, "sandwich_ffn_dim": 20, "num_encoder_layers": 4}
SAFE = {"embedding": "safe", "embedding_dim": 12}
T2R = {"self_attention": "t2r", "self_feature_size": 2, "cross_attention": "t2r", "cross_feature_size": 3}
R2D2 = {"attention_linear": "r2d2", "ffn_linear": "r2d2", "linear_n": 2}
OPTIONS: dict[str, dict[str, object]] = {
    "all": {"family": "subformer", "sharing": "all"},
    "all-but-last": {"family": "subformer", "sharing": "all-but-last"},
    "independent-ffn": {"family": "subformer", "sharing": "independent-ffn"},
    "every-two": {"family": "subformer", "sharing": "every-two"},
    "sandwich": {"family": "subformer", **SANDWICH, "pre_norm": True, "final_norm": True},
    "narrow sandwich": {"family": "subformer", **SANDWICH, "sandwich_dim": 8, "sandwich_ffn_dim": 0},
    # Heads matter to the cost of linear attention.
    "sandwich of derived heads": {
        "family": "subformer",
        **SANDWICH,
        **T2R,
        "sandwich_dim": 0,
        "sandwich_heads": "width",
    },
    "linear": {"family": "subformer", "embedding": "linear", "embedding_dim": 12, "tie_embeddings": "decoder"},
    "square linear": {"family": "subformer", "embedding": "linear"},
    "two-layer linear": {"family": "subformer", "embedding": "two-layer-linear", "embedding_dim": 20},
    "safe": {"family": "subformer", **SAFE},
    "square safe": {"family": "subformer", "embedding": "safe", "tie_embeddings": "decoder"},
    "r2d2": {"family": "r2d2", **R2D2},
    "r2d2 of one": {"family": "r2d2", "ffn_linear": "r2d2"},
    "quaternion": {"family": "r2d2", "attention_linear": "quaternion", "ffn_linear": "quaternion"},
    "low rank": {"family": "r2d2", "attention_linear": "low-rank", "ffn_linear": "low-rank", "linear_rank": 3},
    "t2r, merged": {"family": "t2r", **T2R},
    "t2r, apart": {"family": "t2r", **T2R, "self_feature_size": 30, "cross_feature_size": 30},
    "elu": {"family": "t2r", "self_attention": "elu", "cross_attention": "elu"},
    "random features": {"family": "t2r", **T2R, "self_attention": "random-features", "self_feature_size": 6},
    "softmax kept": {"family": "t2r", **T2R, "keep_softmax_every": 2},
    "low rank t2r": {"family": "t2r", **T2R, "attention_linear": "low-rank", "linear_rank": 3},
    "r2d2 convolution": {"family": "lite-transformer", "conv_linear": "r2d2", "linear_n": 4},
    "expanded r2d2": {"family": "r2d2", **R2D2, **SANDWICH, "attention_expansion": 2},
    "expanded t2r, merged": {"family": "t2r", **T2R, "attention_expansion": 2},
    "expanded t2r, apart": {
        "family": "t2r",
        **T2R,
        "self_feature_size": 30,
        "cross_feature_size": 30,
        "attention_expansion": 3,
    },
    "expanded elu": {"family": "t2r", "self_attention": "elu", "cross_attention": "elu", "attention_expansion": 2},
    "expanded random features": {
        "family": "t2r",
        **T2R,
        "self_attention": "random-features",
        "attention_expansion": 2,
    },
    # Channels of a head that are no divisor of the width, as structured pruning leaves them.
    "few heads": {
        "family": "lite-transformer",
        "num_heads": 3,
        "head_dim": 2,
        "cross_num_heads": 1,
        "cross_head_dim": 6,
        "conv_num_heads": 1,
        "conv_head_dim": 6,
    },
    "few heads, t2r": {
        "family": "t2r",
        **T2R,
        "num_heads": 1,
        "head_dim": 6,
        "cross_num_heads": 3,
        "cross_head_dim": 2,
    },
    "all together": {
        "family": "lite-transformer",
        **SANDWICH,
        **SAFE,
        **T2R,
        **R2D2,
        "conv_linear": "low-rank",
        "linear_rank": 2,
        "kernel_sizes": [3, 5, 5, 3],
    },
}


def _config(family: str, **changes: object) -> ModelConfig:
    convolution = CONVOLUTION if family != "transformer" else {}
    return parse_model({"family": family, **SMALL, **convolution, **changes})


def _option(name: str) -> ModelConfig:
    options = OPTIONS[name]
    convolution = CONVOLUTION if options["family"] == "lite-transformer" else {}
    return parse_model({**SMALL, **convolution, "tgt_vocab_size": 21, **options})


def _linear_self_attention(config: ModelConfig) -> list[LayerSpec]:
    return [spec for spec in decoder_specs(config) if spec.self_attention != "softmax"]


def _features(spec: LayerSpec) -> int:
    """Features of all heads of self-attention."""
    return _inner(spec) if spec.self_attention == "elu" else spec.num_heads * spec.self_feature_size


def _inner(spec: LayerSpec) -> int:
    """Channels of all heads of self-attention."""
    return spec.inner_dim


def _macs_without_norms(count: ModelCount, convention: str) -> int:
    norms = count.by_operation()["layer_norm"]
    return (count.macs_paper - norms.paper) if convention == "paper" else (count.macs_executed - norms.executed)


def _band_macs(config: ModelConfig, *, causal: bool) -> int:
    """Mult-Adds of convolutions over a whole sentence, which the model applies as banded square matrices."""
    encoder = sum(spec.conv_inner_dim for spec in encoder_specs(config)) * SRC_LEN**2
    decoder = sum(spec.conv_inner_dim for spec in decoder_specs(config)) * TGT_LEN**2 if causal else 0
    return encoder + decoder


def _tokens(config: ModelConfig) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    src = torch.ones(1, SRC_LEN, dtype=torch.int64)
    return src, torch.ones(1, SRC_LEN, dtype=torch.bool), torch.ones(1, TGT_LEN, dtype=torch.int64)


@pytest.mark.parametrize("preset", PRESETS)
def test_parameters_equal_those_of_the_built_model(preset: str) -> None:
    config = load_config(preset).model
    with torch.device("meta"):
        model = build_model(config)
    assert count_config(config).params_total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_parameters_of_every_tie_and_norm(family: str, tie: str) -> None:
    config = _config(family, tie_embeddings=tie, tgt_vocab_size=21, pre_norm=True, final_norm=True)
    with torch.device("meta"):
        model = build_model(config)
    assert count_config(config).params_total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("option", OPTIONS)
def test_parameters_of_every_option(option: str) -> None:
    config = _option(option)
    with torch.device("meta"):
        model = build_model(config)
    assert count_config(config).params_total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("option", OPTIONS)
def test_biases_and_norms_of_every_option(option: str) -> None:
    """``vectors`` are the parameters of one dimension; temperatures of random features lie in two, by head."""
    config = _option(option)
    with torch.device("meta"):
        model = build_model(config)
    vectors = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.dim() == 1 or name.endswith(("feature_map.bias", "temperature"))
    )
    assert sum(cost.vectors for cost in count_config(config).costs) == vectors


@pytest.mark.parametrize("option", OPTIONS)
def test_paper_convention_of_every_option(option: str) -> None:
    config = _option(option)
    model = build_model(config).eval()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*_tokens(config))
    count = count_config(config, src_len=SRC_LEN, tgt_len=TGT_LEN)
    expected = _macs_without_norms(count, "paper") + count.by_part()["output"].executed
    expected += _band_macs(config, causal=True)
    for spec in _linear_self_attention(config):
        # The forward computes a chunk's similarities directly, instead of one token after the other.
        features, width = _features(spec), _inner(spec)
        per_head = features // spec.num_heads
        expected += TGT_LEN**2 * (features + width) - TGT_LEN * (2 * per_head * width + features)
    assert counter.get_total_flops() == 2 * expected


@pytest.mark.parametrize("option", OPTIONS)
def test_executed_convention_of_every_option(option: str) -> None:
    config = _option(option)
    model = build_model(config).eval()
    src, src_mask, tgt = _tokens(config)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        state = model.init_state(model.encode(src, src_mask), src_mask, TGT_LEN)
        for tokens in tgt.T:
            _, state = model.decode_step(tokens, state)
    expected = _macs_without_norms(count_config(config, src_len=SRC_LEN, tgt_len=TGT_LEN), "executed")
    for spec in encoder_specs(config):
        expected += spec.conv_inner_dim * (SRC_LEN**2 - spec.kernel_size * SRC_LEN)
    hidden = TGT_LEN * TGT_LEN - TGT_LEN * (TGT_LEN + 1) // 2
    for spec in decoder_specs(config):
        if spec.self_attention == "softmax":
            expected += 2 * _inner(spec) * hidden
        else:
            # PyTorch's counter does not see the state's update, which is no matrix product.
            expected -= TGT_LEN * _features(spec) // spec.num_heads * _inner(spec)
    if config.embedding == "safe":
        expected += 2 * config.table_dim * hidden
    assert counter.get_total_flops() == 2 * expected


@pytest.mark.parametrize("option", OPTIONS)
def test_state_is_as_large_as_the_models(option: str) -> None:
    config = _option(option)
    model = build_model(config).eval()
    src, src_mask, _ = _tokens(config)
    with torch.no_grad():
        state = model.init_state(model.encode(src, src_mask), src_mask, TGT_LEN)
    kept = sum(tensor.numel() for name, tensor in state.items() if name not in ("position", "src_mask"))
    assert sum(count_state(config, src_len=SRC_LEN, tgt_len=TGT_LEN).values()) == kept


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
def test_paper_convention_equals_the_matrix_products_of_a_forward(family: str) -> None:
    config = _config(family)
    model = build_model(config).eval()
    # The fused attention of the CPU is invisible to the counter; the plain one consists of matrix products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*_tokens(config))
    count = count_config(config, src_len=SRC_LEN, tgt_len=TGT_LEN)
    expected = _macs_without_norms(count, "paper") + count.by_part()["output"].executed
    assert counter.get_total_flops() == 2 * (expected + _band_macs(config, causal=True))


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
def test_executed_convention_equals_the_matrix_products_of_a_greedy_decode(family: str) -> None:
    config = _config(family)
    model = build_model(config).eval()
    src, src_mask, tgt = _tokens(config)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        state = model.init_state(model.encode(src, src_mask), src_mask, TGT_LEN)
        for tokens in tgt.T:
            _, state = model.decode_step(tokens, state)
    count = count_config(config, src_len=SRC_LEN, tgt_len=TGT_LEN)
    expected = _macs_without_norms(count, "executed")
    if config.conv_dim:
        # The encoder's taps come as banded matrices.
        expected += _band_macs(config, causal=False) - config.conv_dim * sum(config.kernel_sizes) * SRC_LEN
    # Each step attends over the whole capacity of the cache, of which the mask hides what is still empty.
    hidden = TGT_LEN * TGT_LEN - TGT_LEN * (TGT_LEN + 1) // 2
    expected += 2 * config.num_decoder_layers * config.attention_dim * hidden
    assert counter.get_total_flops() == 2 * expected
