"""The Subformer: printed sizes, sharing by position, and its blocks against their definitions."""

from typing import Any

import pytest
import torch

from lite_nlp.models.build import build_model
from lite_nlp.models.config import ModelConfig

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
        model = build_model(ModelConfig(family="transformer", **changes))
    assert sum(parameter.numel() for parameter in model.parameters()) == total
    assert sum(tensor.numel() for tensor in model.state_dict().values()) == total
