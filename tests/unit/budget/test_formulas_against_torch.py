"""The closed form against PyTorch: its parameters of the built model, and its own counter of matrix products."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from lite_nlp.budget.formulas import ModelCount, count_model
from lite_nlp.configs import list_presets
from lite_nlp.models.build import build_model
from lite_nlp.models.config import ModelConfig, load_config

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


def _config(family: str, **changes: object) -> ModelConfig:
    convolution = CONVOLUTION if family != "transformer" else {}
    return ModelConfig.model_validate({"family": family, **SMALL, **convolution, **changes})


def _macs_without_norms(count: ModelCount, convention: str) -> int:
    norms = count.by_operation()["layer_norm"]
    return (count.macs_paper - norms.paper) if convention == "paper" else (count.macs_executed - norms.executed)


def _band_macs(config: ModelConfig, *, causal: bool) -> int:
    """Mult-Adds of convolutions over a whole sentence, which the model applies as banded square matrices."""
    encoder = config.num_encoder_layers * SRC_LEN**2
    decoder = config.num_decoder_layers * TGT_LEN**2 if causal else 0
    return config.conv_dim * (encoder + decoder)


def _tokens(config: ModelConfig) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    src = torch.ones(1, SRC_LEN, dtype=torch.int64)
    return src, torch.ones(1, SRC_LEN, dtype=torch.bool), torch.ones(1, TGT_LEN, dtype=torch.int64)


@pytest.mark.parametrize("preset", list_presets())
def test_parameters_equal_those_of_the_built_model(preset: str) -> None:
    config = load_config(preset).model
    with torch.device("meta"):
        model = build_model(config)
    assert count_model(config).params_total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_parameters_of_every_tie_and_norm(family: str, tie: str) -> None:
    config = _config(family, tie_embeddings=tie, tgt_vocab_size=21, pre_norm=True, final_norm=True)
    with torch.device("meta"):
        model = build_model(config)
    assert count_model(config).params_total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
def test_paper_convention_equals_the_matrix_products_of_a_forward(family: str) -> None:
    config = _config(family)
    model = build_model(config).eval()
    # The fused attention of the CPU is invisible to the counter; the plain one consists of matrix products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*_tokens(config))
    count = count_model(config, src_len=SRC_LEN, tgt_len=TGT_LEN)
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
    count = count_model(config, src_len=SRC_LEN, tgt_len=TGT_LEN)
    expected = _macs_without_norms(count, "executed")
    if config.conv_dim:
        # The encoder's taps come as banded matrices.
        expected += _band_macs(config, causal=False) - config.conv_dim * sum(config.kernel_sizes) * SRC_LEN
    # Each step attends over the whole capacity of the cache, of which the mask hides what is still empty.
    hidden = TGT_LEN * TGT_LEN - TGT_LEN * (TGT_LEN + 1) // 2
    expected += 2 * config.num_decoder_layers * config.attention_dim * hidden
    assert counter.get_total_flops() == 2 * expected
