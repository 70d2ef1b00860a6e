"""Steps of columns leave the matrices, and the model computes what it did."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lite_nlp.artifacts.column_steps import move_column_steps
from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.compress.lnlp.encodings import EncodedTensor, GridTensor, decode_tensors, encode_fp32, encode_grid
from lite_nlp.compress.lnlp.encodings import encode_grid_rans as encode_coded
from lite_nlp.config.model import EncoderDecoderConfig, LanguageModelConfig, SequenceClassifierConfig
from lite_nlp.export.rounding import MIN_OUTPUTS, quantize_rows
from lite_nlp.models.build import Model, build_model
from lite_nlp.models.transformer import EncoderDecoder

TYPES = 90
LITE: dict[str, Any] = {"family": "lite-transformer", "conv_num_heads": 2, "conv_glu": True}

TRANSLATORS: dict[str, dict[str, Any]] = {
    "transformer, post-norm": {"family": "transformer"},
    "transformer, pre-norm": {"family": "transformer", "pre_norm": True, "final_norm": True},
    "no last norm": {"family": "transformer", "pre_norm": True, "final_norm": False},
    "tables apart": {"family": "transformer", "pre_norm": True, "final_norm": True, "tie_embeddings": "none"},
    "narrow tables": {"family": "transformer", "embedding": "two-layer-linear", "embedding_dim": 64},
    "static convolution": {**LITE, "conv_glu": False, "conv_type": "lightweight"},
    # 2 heads of 33 taps have a kernel generator of 66 outputs, which is quantized too.
    "dynamic convolution": {
        **LITE,
        "conv_type": "dynamic",
        "pre_norm": True,
        "final_norm": True,
        "kernel_sizes": (3, 33),
        "decoder_kernel_sizes": (3, 33),
    },
    "subformer": {
        "family": "subformer",
        "embedding": "safe",
        "embedding_dim": 64,
        "sharing": "sandwich",
        "sandwich_dim": 96,
        "sandwich_ffn_dim": 80,
        "num_encoder_layers": 4,
        "num_decoder_layers": 4,
    },
    "shared blocks": {"family": "transformer", "sharing": "all", "pre_norm": True, "final_norm": True},
    "linear attention": {"family": "t2r", "self_attention": "t2r", "self_feature_size": 4},
    "R2D2": {"family": "r2d2", "ffn_linear": "r2d2", "linear_n": 2, "pre_norm": True},
}


def _quantize(model: Model, *, seed: int = 5) -> dict[str, EncodedTensor]:
    """Put every matrix of a model on a grid with steps by row and column; returns its tensors as a file has them."""
    random = np.random.default_rng(seed)
    grids, plain = {}, {}
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=0.3)
        if parameter.dim() != 2:
            plain[name] = encode_fp32(parameter.detach().numpy())
            continue
        rows, columns = (random.integers(-4, 5, size).astype(np.int8) for size in parameter.shape)
        levels = random.integers(-9, 10, parameter.shape).astype(np.int32)
        grids[name] = GridTensor(levels, 0.31 / len(columns) ** 0.5, rows, columns)
    # Small ones have levels of fixed width.
    fixed = {name: encode_grid(grid) for name, grid in grids.items()}
    stored = plain | fixed | encode_coded({name: grids[name] for name in list(grids)[::4]})
    for name, values in decode_tensors(stored).items():
        model.get_parameter(name).data = torch.from_numpy(values)
    return stored


def _inexact(model: nn.Module) -> set[str]:
    """The matrices, those aside that stay in fp32, that are no 8-bit integers with steps by row."""
    found = set()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and len(parameter) >= MIN_OUTPUTS:
            values = parameter.detach().numpy()
            error = np.abs(quantize_rows(values).restored() - values) / np.abs(values).max(axis=1, keepdims=True)
            if error.max() > 1e-6:
                found.add(name)
    return found


def _translator(options: dict[str, Any]) -> tuple[EncoderDecoder, dict[str, EncodedTensor]]:
    torch.manual_seed(3)
    sizes = {"kernel_sizes": (3, 5), "decoder_kernel_sizes": (3, 5)} if "conv_glu" in options else {}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    widths = {"embed_dim": 128, "ffn_dim": 96, "num_heads": 2, "cross_num_heads": 2, "max_positions": 40}
    types = {"src_vocab_size": TYPES, "tgt_vocab_size": TYPES}
    model = build_model(EncoderDecoderConfig(**{**types, **widths, **layers, **sizes, **options})).eval()
    return model, _quantize(model)


def _close(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= 1e-5 * other.abs().max())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_computes_what_it_did(name: str) -> None:
    model, stored = _translator(TRANSLATORS[name])
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    moved, scalings = move_column_steps(model, stored)
    sources, targets = torch.randint(3, TYPES, (3, 11)), torch.randint(3, TYPES, (3, 7))
    mask = torch.arange(11) < torch.tensor([[11], [4], [9]])
    with torch.no_grad():
        wanted = model(sources, mask, targets)
        assert _close(moved(sources, mask, targets), wanted)
        # Step by step, in the form of the graphs.
        fused = FusedDecoder(moved)  # type: ignore[arg-type]
        state = fused.init_state(fused.encode(sources, mask), mask, 7)
        for position in range(7):
            logits, state = fused.decode_step(targets[:, position], state)
            assert _close(logits, wanted[:, position])
    merged = {parameter for parameter in before if name == "linear attention" and ".attention." in parameter}
    assert _inexact(moved) <= merged
    assert len(_inexact(model)) > 10
    for parameter, values in moved.named_parameters():
        scaled = before[parameter].numpy()
        scaled = scalings[parameter].apply(scaled) if parameter in scalings else scaled
        np.testing.assert_array_equal(values.detach().numpy(), scaled)
        assert torch.equal(model.get_parameter(parameter), before[parameter])


@pytest.mark.parametrize(
    "options",
    [
        {"family": "transformer", "pre_norm": True, "final_norm": True},
        {"family": "subformer", "embedding": "safe", "embedding_dim": 64},
        {**LITE, "decoder_kernel_sizes": (3, 5), "tie_embeddings": "none"},
        {"family": "transformer", "embedding": "adaptive", "adaptive_cutoffs": (30, 60), "adaptive_factor": 2},
    ],
)
def test_a_language_model_computes_what_it_did(options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    sizes = {"embed_dim": 128, "ffn_dim": 96, "num_heads": 2, "num_decoder_layers": 2, "max_positions": 40}
    model = build_model(LanguageModelConfig(**{"tgt_vocab_size": TYPES, **sizes, **options})).eval()
    moved, _ = move_column_steps(model, _quantize(model))
    tokens = torch.randint(3, TYPES, (2, 9))
    with torch.no_grad():
        assert _close(moved(tokens), model(tokens))  # type: ignore[operator]
    assert {name.split(".")[0] for name in _inexact(moved)} <= (
        {"vocabulary"} if "adaptive_factor" in options else set()
    )


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_classifier_computes_what_it_did(pre_norm: bool) -> None:
    torch.manual_seed(3)
    sizes = {"embed_dim": 128, "ffn_dim": 96, "num_heads": 2, "num_encoder_layers": 2, "max_positions": 40}
    config = SequenceClassifierConfig(
        src_vocab_size=TYPES, num_classes=3, family="transformer", pre_norm=pre_norm, final_norm=pre_norm, **sizes
    )
    model = build_model(config).eval()
    moved, _ = move_column_steps(model, _quantize(model))
    tokens, mask = torch.randint(3, TYPES, (2, 9)), torch.arange(9) < torch.tensor([[9], [5]])
    with torch.no_grad():
        assert _close(moved(tokens, mask), model(tokens, mask))  # type: ignore[operator]
    assert not _inexact(moved)


def test_a_model_without_grids_stays_as_it_is() -> None:
    model, stored = _translator(TRANSLATORS["transformer, pre-norm"])
    plain = {name: encode_fp32(values) for name, values in decode_tensors(stored).items()}
    for tensors in ({}, plain):
        moved = move_column_steps(model, tensors)
        assert (moved.model is model, moved.scalings) == (True, {})
