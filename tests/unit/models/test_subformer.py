"""The Subformer: printed sizes, sharing by position, and its blocks against their definitions."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.models.build import build_model
from lite_nlp.models.subformer import SafeInput
from tests.unit.models.conftest import randomized, small_config

BASE: dict[str, Any] = {
    "src_vocab_size": 32_768,
    "tgt_vocab_size": 32_768,
    "embed_dim": 512,
    "ffn_dim": 2048,
    "num_heads": 8,
    "cross_num_heads": 8,
}
EN_RO: dict[str, Any] = {**BASE, "src_vocab_size": 35_000, "tgt_vocab_size": 35_000}
CNN_DM: dict[str, Any] = {**BASE, "src_vocab_size": 32_000, "tgt_vocab_size": 32_000, "tie_embeddings": "decoder"}
BIG: dict[str, Any] = {**BASE, "embed_dim": 1024, "ffn_dim": 4096}
EIGHT: dict[str, Any] = {"num_encoder_layers": 8, "num_decoder_layers": 8}


def _sandwich(width: int, ffn: int, **changes: Any) -> dict[str, Any]:
    return {"sharing": "sandwich", "sandwich_dim": width, "sandwich_ffn_dim": ffn, "embedding": "safe", **changes}


# Rows of tables 1 to 4 and 6, with the totals that a build of the released code gives for their dims (only the totals
# of what the code lacks, independent FFN, every two and the Linears of table 1, come from a closed form).
ROWS: dict[str, tuple[dict[str, Any], int]] = {
    "Transformer base": (BASE, 60_915_712),
    "Transformer big": (BIG, 209_911_808),
    "All-Shared": ({**BASE, "sharing": "all"}, 24_159_232),
    "All-Shared (Independent FFN)": ({**BASE, "sharing": "independent-ffn"}, 27_311_104),
    "All-Shared (except last)": ({**BASE, "sharing": "all-but-last"}, 31_510_528),
    "Every 2 layers shared": ({**BASE, "sharing": "every-two"}, 38_861_824),
    "Sandwich 6/6": ({**BASE, "sharing": "sandwich"}, 38_861_824),
    "Sandwich 8/8": ({**BASE, **EIGHT, "sharing": "sandwich"}, 38_872_064),
    "Sandwich-big": ({**BIG, "sharing": "sandwich"}, 121_763_840),
    "de = 128, Linear": ({**BASE, "embedding": "linear", "embedding_dim": 128}, 48_529_408),
    "de = 256, Linear": ({**BASE, "embedding": "linear", "embedding_dim": 256}, 52_920_320),
    "de = 256, 2-Layer Linear": ({**BASE, "embedding": "two-layer-linear", "embedding_dim": 256}, 53_706_752),
    "de = 128, SAFE": ({**BASE, "embedding": "safe", "embedding_dim": 128}, 48_698_240),
    "de = 256, SAFE": ({**BASE, "embedding": "safe", "embedding_dim": 256}, 53_582_592),
    "Subformer-small En-De": ({**BASE, **EIGHT, **_sandwich(768, 2048, embedding_dim=256)}, 38_646_272),
    "Subformer-small En-De, stated ffn": ({**BASE, **EIGHT, **_sandwich(768, 3072, embedding_dim=256)}, 41_794_048),
    "Subformer-base En-De": ({**BASE, **_sandwich(1024, 3072, embedding_dim=320)}, 51_961_024),
    "Subformer-mid": (
        {**BASE, "embed_dim": 768, "ffn_dim": 3072, **_sandwich(768, 3072, embedding_dim=350)},
        63_152_042,
    ),
    "Subformer-xlarge": ({**BIG, **_sandwich(2048, 8192, embedding_dim=512)}, 197_362_176),
    "Transformer base En-Ro": (EN_RO, 62_058_496),
    "Subformer-small En-Ro": (
        {**EN_RO, "embed_dim": 320, "ffn_dim": 1280, **_sandwich(512, 2048, embedding_dim=192)},
        20_755_200,
    ),
    "Subformer-base En-Ro, stated": ({**EN_RO, **_sandwich(640, 2560, embedding_dim=384)}, 43_120_640),
    "Subformer-base En-Ro, fitted": ({**EN_RO, **_sandwich(768, 3072, embedding_dim=384)}, 47_847_808),
    "Subformer-base CNN-DM": ({**CNN_DM, **_sandwich(1024, 3072, embedding_dim=256)}, 57_391_360),
    "Transformer CNN-DM": (CNN_DM, 76_906_496),
}


@pytest.mark.parametrize(("changes", "total"), ROWS.values(), ids=ROWS)
def test_parameters_of_the_papers_rows(changes: dict[str, Any], total: int) -> None:
    with torch.device("meta"):
        model = build_model(EncoderDecoderConfig(family="transformer", **changes))
    assert sum(parameter.numel() for parameter in model.parameters()) == total
    assert sum(tensor.numel() for tensor in model.state_dict().values()) == total


def _safe(table_dim: int, embed_dim: int, *, drops_output: bool = False) -> SafeInput:
    torch.manual_seed(5)
    layer = SafeInput(
        table_dim=table_dim,
        embed_dim=embed_dim,
        dropout=0.1,
        attention_dropout=0.1,
        ffn_dropout=0.1,
        drops_output=drops_output,
    ).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return layer


def _as_state(layer: SafeInput) -> dict[str, Tensor]:
    """Its weights under the names of ``torch.nn.TransformerEncoderLayer``."""
    names = {
        "attention.in_proj.": "self_attn.in_proj_",
        "attention.out_proj.": "self_attn.out_proj.",
        "attention_norm.": "norm1.",
        "up_proj.": "linear1.",
        "down_proj.": "linear2.",
        "ffn_norm.": "norm2.",
    }
    return {
        theirs + name.removeprefix(ours): tensor
        for name, tensor in layer.state_dict().items()
        for ours, theirs in names.items()
        if name.startswith(ours)
    }


@pytest.mark.parametrize("causal", [False, True])
def test_safe_is_a_transformer_layer_where_the_widths_are_one(causal: bool) -> None:
    layer = _safe(64, 64)
    torch_layer = torch.nn.TransformerEncoderLayer(64, 1, dim_feedforward=64, dropout=0.1, batch_first=True).eval()
    torch_layer.load_state_dict(_as_state(layer))
    embedded, positions = torch.randn(2, 7, 64), torch.randn(7, 64)
    mask = torch.ones(7, 7, dtype=torch.bool).tril() if causal else torch.ones(7, 7, dtype=torch.bool)
    # Masks of torch's layer say where not to attend.
    expected = torch_layer(embedded + positions, src_mask=~mask)
    torch.testing.assert_close(layer(embedded, positions, mask[None, None]), expected, rtol=1e-5, atol=1e-5)


def test_safe_has_no_residual_around_a_feed_forward_that_widens() -> None:
    layer = _safe(64, 96)
    with torch.no_grad():
        layer.down_proj.weight.zero_()
    out = layer(torch.randn(2, 7, 64), torch.randn(7, 64), torch.ones(1, 1, 7, 7, dtype=torch.bool))
    # Nothing of the input is left, so that every token is the normalised bias.
    torch.testing.assert_close(out, layer.ffn_norm(layer.down_proj.bias).expand(2, 7, 96))


@pytest.mark.parametrize(
    ("embed_dim", "drops_output", "drops"), [(96, False, False), (96, True, True), (64, False, True), (64, True, True)]
)
def test_safe_drops_from_its_output_beside_a_residual_or_as_asked(
    embed_dim: int, drops_output: bool, drops: bool
) -> None:
    layer = _safe(64, embed_dim, drops_output=drops_output).train()
    with torch.no_grad():
        layer.down_proj.weight.zero_()
        # With a residual connection, this is what is left to see.
        layer.attention_norm.weight.zero_()
    out = layer(torch.randn(2, 7, 64), torch.randn(7, 64), torch.ones(1, 1, 7, 7, dtype=torch.bool))
    kept = layer.down_proj.bias + (layer.attention_norm.bias if layer.has_residual else 0)
    assert torch.allclose(out, layer.ffn_norm(kept).expand_as(out)) is not drops


@pytest.mark.parametrize("embedding", ["linear", "two-layer-linear", "safe"])
def test_sources_are_scaled_by_the_tables_width_and_targets_by_the_models(embedding: str) -> None:
    model = randomized(small_config(family="subformer", embedding=embedding, embedding_dim=4))
    seen: dict[str, Tensor] = {}
    for name in ("src_input", "tgt_input"):
        getattr(model, name).register_forward_pre_hook(
            lambda _, arguments, name=name: seen.update({name: arguments[0]})
        )
    tokens = torch.tensor([[3, 4]])
    with torch.inference_mode():
        model(tokens, torch.ones(1, 2, dtype=torch.bool), tokens)
        rows = model.src_embedding.weight[tokens]
        torch.testing.assert_close(seen["src_input"], rows * 2)  # sqrt(4)
        torch.testing.assert_close(seen["tgt_input"], rows * 4)  # sqrt(16)


def test_tables_are_drawn_with_the_models_width() -> None:
    """N(0, 1 / dm) although the tables are narrower: with 3,000 x 64 draws the estimate is within 1 % (6 sigma)."""
    torch.manual_seed(1)
    model = build_model(
        small_config(
            family="subformer",
            embedding="linear",
            embedding_dim=64,
            embed_dim=256,
            src_vocab_size=3000,
            tgt_vocab_size=3000,
        )
    )
    assert model.src_embedding.weight.std().item() == pytest.approx(256**-0.5, rel=0.01)


def test_the_output_is_narrowed_by_one_linear_with_a_bias_after_safe() -> None:
    safe = build_model(small_config(family="subformer", embedding="safe", embedding_dim=4))
    assert {name: tuple(value.shape) for name, value in safe.state_dict().items() if "output" in name} == {
        "output_proj.weight": (4, 16),
        "output_proj.bias": (4,),
    }
    same_width = build_model(small_config(family="subformer", embedding="safe"))
    assert not [name for name in same_width.state_dict() if "output" in name]
