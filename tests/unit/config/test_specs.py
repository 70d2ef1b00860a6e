"""Layers as the config describes them: who shares with whom, how wide each layer is, and what does not fit."""

from typing import Any

import pytest
from pydantic import ValidationError

from lite_nlp.config.layers import decoder_specs, derived_heads, encoder_specs, layer_owners
from lite_nlp.config.model import ModelConfig
from tests.unit.models.conftest import small_config

KERNELS = {"kernel_sizes": (3, 3, 3), "decoder_kernel_sizes": (2, 2, 2)}
THREE = {"num_encoder_layers": 3, "num_decoder_layers": 3}


@pytest.mark.parametrize(
    ("sharing", "layers", "owners"),
    [
        ("none", 6, (0, 1, 2, 3, 4, 5)),
        ("all", 6, (0, 0, 0, 0, 0, 0)),
        ("independent-ffn", 6, (0, 0, 0, 0, 0, 0)),
        ("all-but-last", 6, (0, 0, 0, 0, 0, 5)),
        ("all-but-last", 2, (0, 1)),
        ("every-two", 6, (0, 0, 2, 2, 4, 4)),
        ("every-two", 5, (0, 0, 2, 2, 4)),
        ("sandwich", 6, (0, 1, 1, 1, 1, 5)),
        ("sandwich", 3, (0, 1, 2)),
    ],
)
def test_schemes_of_section_3_3(sharing: Any, layers: int, owners: tuple[int, ...]) -> None:
    assert layer_owners(sharing, layers) == owners


@pytest.mark.parametrize(
    ("width", "heads"),
    # 64 channels each, 128 beyond 1024, 640 and 350 as listed in the notes on the released code; below: any divisor.
    [(256, 4), (320, 5), (512, 8), (768, 12), (1024, 16), (2048, 16), (640, 8), (350, 10), (48, 8), (7, 7), (11, 1)],
)
def test_heads_derived_from_a_width(width: int, heads: int) -> None:
    assert derived_heads(width) == heads


def test_a_sandwich_has_its_own_widths_inside() -> None:
    config = small_config(
        family="lite-transformer",
        sharing="sandwich",
        sandwich_dim=20,
        sandwich_ffn_dim=30,
        num_encoder_layers=4,
        num_decoder_layers=3,
        kernel_sizes=(3, 5, 5, 3),
        decoder_kernel_sizes=(2, 4, 6),
        conv_num_heads=2,
    )
    specs = encoder_specs(config)
    assert [(spec.input_dim, spec.embed_dim, spec.ffn_dim) for spec in specs] == [
        (16, 16, 24),
        (16, 20, 30),
        (20, 20, 30),
        (20, 16, 24),
    ]
    assert [(spec.attention_dim, spec.conv_dim, spec.kernel_size) for spec in specs] == [
        (8, 8, 3),
        (10, 10, 5),
        (10, 10, 5),
        (8, 8, 3),
    ]
    assert [spec.num_heads for spec in specs] == [2, 10, 10, 2]
    assert {spec.memory_dim for spec in specs} == {0}
    assert {spec.memory_dim for spec in decoder_specs(config)} == {16}


def test_softmax_is_kept_from_the_top_in_the_decoder() -> None:
    config = small_config(
        family="t2r",
        self_attention="t2r",
        self_feature_size=4,
        cross_attention="elu",
        keep_softmax_every=2,
        num_encoder_layers=2,
        num_decoder_layers=5,
    )
    assert [spec.self_attention for spec in decoder_specs(config)] == ["t2r", "softmax", "t2r", "softmax", "t2r"]
    assert [spec.self_feature_size for spec in decoder_specs(config)] == [4, 0, 4, 0, 4]
    assert [spec.cross_attention for spec in decoder_specs(config)] == ["elu", "softmax", "elu", "softmax", "elu"]
    assert {spec.self_attention for spec in encoder_specs(config)} == {"softmax"}


def test_linear_kinds_take_their_own_number_only() -> None:
    config = small_config(
        family="r2d2", attention_linear="r2d2", ffn_linear="low-rank", linear_n=4, linear_rank=3, cross_num_heads=4
    )
    spec = decoder_specs(config)[0]
    assert (spec.attention_linear.n, spec.attention_linear.rank) == (4, 0)
    assert (spec.ffn_linear.n, spec.ffn_linear.rank) == (1, 3)
    assert spec.conv_linear.kind == "dense"


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
        ({"attention_expansion": 0}, "Input should be greater than or equal to 1"),
        (
            {"attention_expansion": 3, "num_heads": 5},
            "num_heads: expected a divisor of the attention channels (48), found 5",
        ),
        (
            {"attention_expansion": 3, "cross_num_heads": 5},
            "cross_num_heads: expected a divisor of attention_expansion * embed_dim (48), found 5",
        ),
        ({"linear_n": 2}, "linear_n: expected 1 without an r2d2 projection, found 2"),
        ({"linear_rank": 2}, "linear_rank: expected 0 without a low-rank projection, found 2"),
        ({"ffn_linear": "low-rank"}, "linear_rank: expected at least 1 with a low-rank projection, found 0"),
        ({"conv_linear": "quaternion"}, "conv_linear: a transformer has no convolution, found 'quaternion'"),
        (
            {"ffn_linear": "r2d2", "linear_n": 16},
            "ffn_linear = 'r2d2': expected widths that are a multiple of linear_n = 16, found 24",
        ),
        (
            {"attention_linear": "quaternion", "embed_dim": 18, "cross_num_heads": 2},
            "attention_linear = 'quaternion': expected widths that are a multiple of 4, found 18",
        ),
        ({"sharing": "some"}, "Input should be 'none', 'all', 'all-but-last', 'independent-ffn', 'every-two'"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as raised:
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
    assert isinstance(config, ModelConfig)
    assert config.table_dim == 8
