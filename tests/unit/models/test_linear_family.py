"""Models whose projections are R2D2, quaternion or low-rank: the paper's sizes, and frozen weights."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lite_nlp.config.layers import encoder_specs
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ConfigError
from lite_nlp.models.build import build_model
from lite_nlp.models.built_linear import BuiltLinear
from lite_nlp.models.layers import EncoderLayer
from lite_nlp.models.linear import LowRankLinear
from tests.unit.models.conftest import VARIANTS, randomized, small_config

NMT: dict[str, Any] = {"embed_dim": 512, "ffn_dim": 2048, "num_heads": 8, "cross_num_heads": 8}
UPSAMPLED: dict[str, Any] = {"ffn_dim": 4096, "attention_expansion": 2}
SVA: dict[str, Any] = {"embed_dim": 128, "ffn_dim": 512, "num_encoder_layers": 2, "num_decoder_layers": 1}


def _everywhere(kind: str, **sizes: int) -> dict[str, Any]:
    return {"attention_linear": kind, "ffn_linear": kind, **sizes}


def _weights_in_linears(model: nn.Module) -> int:
    """Weights of the layers' projections, without biases, LayerNorms and embeddings."""
    return sum(
        parameter.numel()
        for module in model.modules()
        if isinstance(module, (nn.Linear, BuiltLinear))
        for name, parameter in module.named_parameters(recurse=False)
        if name != "bias"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # R2D2, tables 2, 3 and 5: six layers each, 66 projections whose n^3 weights of A come on top of 44,040,192 / n.
        ({"family": "transformer"}, 44_040_192),
        (_everywhere("r2d2", linear_n=2), 22_020_624),
        (_everywhere("r2d2", linear_n=4), 11_014_272),
        (_everywhere("r2d2", linear_n=8), 5_538_816),
        (_everywhere("r2d2", linear_n=16), 3_022_848),
        (_everywhere("quaternion"), 11_010_048),
        (_everywhere("low-rank", linear_rank=128), 15_335_424),
        # Table 2's up-sampled models: twice the weights, 88,080,384 / n, and the same 66 A of n^3.
        ({**UPSAMPLED, **_everywhere("r2d2", linear_n=2)}, 44_040_720),
        ({**UPSAMPLED, **_everywhere("r2d2", linear_n=4)}, 22_024_320),
        ({**UPSAMPLED, **_everywhere("r2d2", linear_n=8)}, 11_043_840),
    ],
)
def test_weights_of_the_translation_models(changes: dict[str, Any], expected: int) -> None:
    with torch.device("meta"):
        model = build_model(parse_model({"family": "r2d2", **NMT, **changes}))
    assert _weights_in_linears(model) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # R2D2, table 6: 400K, 100K, 200K, 101K and 56K. The paper's encoder has no biases in its attention.
        ({"family": "transformer"}, 395_520),
        (_everywhere("quaternion"), 100_608),
        (_everywhere("r2d2", linear_n=2), 198_976),
        (_everywhere("r2d2", linear_n=4), 101_120),
        (_everywhere("r2d2", linear_n=8), 55_552),
    ],
)
def test_parameters_of_the_agreement_encoders(changes: dict[str, Any], expected: int) -> None:
    config = parse_model({"family": "r2d2", **SVA, **changes})
    with torch.device("meta"):
        layers = nn.ModuleList(EncoderLayer(config=config, spec=spec) for spec in encoder_specs(config))
    attention_biases = 2 * (3 * 128 + 128)
    assert sum(parameter.numel() for parameter in layers.parameters()) - attention_biases == expected


@pytest.mark.parametrize("name", ["r2d2", "quaternion", "low-rank", "lsra-r2d2", "lsra-quaternion", "lsra-low-rank"])
def test_every_projection_is_of_the_kind(name: str) -> None:
    model = build_model(small_config(**VARIANTS[name]))
    others = [
        path
        for path, module in model.named_modules()
        if isinstance(module, nn.Linear) and not isinstance(model.get_submodule(path.rpartition(".")[0]), LowRankLinear)
    ]
    assert others == []


def _batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(3, 31, (3, 9), generator=generator)
    mask = torch.arange(9)[None, :] < torch.tensor([9, 4, 1])[:, None]
    return src, mask, torch.randint(3, 31, (3, 12), generator=generator)


def test_frozen_equals_unfrozen(variant: dict[str, Any]) -> None:
    model = randomized(small_config(**variant))
    unfrozen = model(*_batch())  # with gradients, so from the factors
    with torch.no_grad():
        frozen = model(*_batch())
    torch.testing.assert_close(frozen, unfrozen, rtol=1e-5, atol=1e-5)


def test_loaded_equals_saved(variant: dict[str, Any]) -> None:
    model = randomized(small_config(**variant))
    other = build_model(model.config).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(other(*_batch()), model(*_batch()))


def test_translating_costs_what_the_dense_model_does() -> None:
    work = []
    for changes in ({}, _everywhere("r2d2", linear_n=4), _everywhere("quaternion")):
        model = build_model(small_config(**{"family": "r2d2" if changes else "transformer", **changes})).eval()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(*_batch())
        work.append(counter.get_total_flops())
    assert work[0] == work[1] == work[2]


def test_a_rank_beyond_a_width_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"linear_rank: expected at most the widths of ffn_linear \(16\), found 17"):
        small_config(family="r2d2", ffn_linear="low-rank", linear_rank=17)
