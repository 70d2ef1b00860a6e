"""Converted models: what is swapped, what stays, and what the swap costs."""

from typing import Any

import pytest
import torch

from lite_nlp.config.model import EncoderDecoderConfig, LanguageModelConfig, ModelConfig
from lite_nlp.config.preset import Config, Reproduces
from lite_nlp.core.errors import ConfigError, ModelError
from lite_nlp.models.build import build_model
from lite_nlp.models.conversion import (
    Conversion,
    constant_state_bytes,
    convert_config,
    convert_model,
    softmax_layers,
)
from tests.unit.models.conftest import KERNELS, randomized, small_config


def _config(**model: Any) -> Config:
    reproduces = Reproduces(paper="P", table="1", row="R")
    return Config(name="small", reproduces=reproduces, model=small_config(**model))


def _converted(config: Config, **conversion: Any) -> ModelConfig:
    return convert_config(config, Conversion(**{"causal": 4, "cross": 8, **conversion}), name="it").model


def test_only_what_was_asked_for_is_swapped() -> None:
    config = _config(family="transformer")
    converted = convert_config(config, Conversion(causal=4, cross=8), name="it")
    assert (converted.name, converted.reproduces) == ("small-t2r", None)
    assert converted.training == config.training
    changed = {
        "family": "t2r",
        "self_attention": "t2r",
        "self_feature_size": 4,
        "cross_attention": "t2r",
        "cross_feature_size": 8,
    }
    assert converted.model == config.model.model_copy(update=changed)
    only_cross = _converted(config, causal=None)
    assert (only_cross.self_attention, only_cross.cross_attention) == ("softmax", "t2r")
    elu = _converted(config, feature_map="elu", causal=0, cross=None)
    assert (elu.self_attention, elu.self_feature_size, elu.cross_attention) == ("elu", 0, "softmax")


def test_other_families_keep_their_name() -> None:
    lsra = _converted(_config(family="lite-transformer", **KERNELS))
    assert (lsra.family, lsra.self_attention) == ("lite-transformer", "t2r")
    lightconv = _converted(_config(family="lightconv", **KERNELS), causal=None)
    assert (lightconv.family, lightconv.cross_attention) == ("lightconv", "t2r")


def test_every_fourth_layer_from_the_top_stays() -> None:
    config = _config(family="transformer", num_decoder_layers=10)
    kept = convert_config(config, Conversion(causal=4, cross=4, keep_every=4), name="it")
    # The top layer is the first of the four, layer 10.
    assert softmax_layers(kept) == (3, 7)
    assert softmax_layers(convert_config(config, Conversion(causal=4, cross=4), name="it")) == ()
    assert softmax_layers(config) == tuple(range(1, 11))
    kinds = [type(layer.mixer.attention).__name__ for layer in build_model(kept.model).decoder]
    assert [number for number, kind in enumerate(kinds, start=1) if kind == "SelfAttention"] == [3, 7]


@pytest.mark.parametrize(
    ("model", "conversion", "error", "message"),
    [
        (
            {"family": "t2r", "self_attention": "elu"},
            {},
            ModelError,
            "it: expected softmax self-attention in the decoder to convert, found 'elu'",
        ),
        (
            {"family": "transformer"},
            {"causal": None, "cross": None},
            ModelError,
            "it: expected self-attention or cross-attention to convert, found neither",
        ),
        ({"family": "lightconv", **KERNELS}, {}, ConfigError, "it: model: self_attention: a lightconv has none"),
        (
            {"family": "transformer"},
            {"keep_every": 3},
            ConfigError,
            r"it: model: keep_softmax_every: expected 0 or 2 to num_decoder_layers \(2\), found 3",
        ),
    ],
)
def test_what_cannot_be_converted(
    model: dict[str, Any], conversion: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        _converted(_config(**model), **conversion)


def test_weights_stay_and_feature_maps_are_new() -> None:
    config = _config(family="transformer")
    model = randomized(config.model)
    converted = convert_model(model, convert_config(config, Conversion(causal=4, cross=8), name="it"))
    before, after = model.state_dict(), converted.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    new = after.keys() - before.keys()
    assert new == {
        f"decoder.{layer}.{attention}.feature_map.{kind}"
        for layer in range(2)
        for attention in ("mixer.attention", "cross")
        for kind in ("weight", "bias")
    }
    assert not converted.training


def test_a_second_conversion_keeps_the_layers_that_the_first_kept() -> None:
    first = convert_config(
        _config(family="transformer", num_decoder_layers=4), Conversion(causal=4, cross=None, keep_every=2), name="it"
    )
    second = convert_config(first, Conversion(causal=None, cross=8), name="it")
    assert softmax_layers(second) == (1, 3)
    before = build_model(first.model)
    new = convert_model(before, second).state_dict().keys() - before.state_dict().keys()
    assert new
    assert not [name for name in new if ".mixer." in name]
    with pytest.raises(ModelError, match=r"it: --keep-every: expected 2, as in its attention .* found 4"):
        convert_config(first, Conversion(causal=None, cross=8, keep_every=4), name="it")
    whole = convert_config(_config(family="transformer"), Conversion(causal=4, cross=None), name="it")
    with pytest.raises(ModelError, match=r"--keep-every: expected none, as in its attention .* found 2"):
        convert_config(whole, Conversion(causal=None, cross=8, keep_every=2), name="it")


def test_the_seed_decides_the_new_maps_and_nothing_else() -> None:
    config = _config(family="transformer")
    model = randomized(config.model)
    linear = convert_config(config, Conversion(causal=4, cross=8), name="it")
    torch.manual_seed(0)
    first, again, other = (convert_model(model, linear, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["decoder.0.cross.feature_map.weight"], other["decoder.0.cross.feature_map.weight"])
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), drawn)


def test_weights_of_another_model_are_refused() -> None:
    config = _config(family="transformer")
    linear = convert_config(config, Conversion(causal=4, cross=8), name="it")
    with pytest.raises(ModelError, match=r"expected only feature maps to be new, found encoder_norm.weight"):
        convert_model(randomized(_config(family="transformer", final_norm=False).model), _with_final_norm(linear))


def _with_final_norm(config: Config) -> Config:
    return config.model_copy(update={"model": config.model.model_copy(update={"final_norm": True})})


def test_the_papers_translation_model() -> None:
    """Transformer-big: 209,911,808 parameters; causal 4 and cross 32 add 224,640, 0.107 %."""
    big = {
        "embed_dim": 1024,
        "ffn_dim": 4096,
        "num_heads": 16,
        "cross_num_heads": 16,
        "src_vocab_size": 32768,
        "tgt_vocab_size": 32768,
        "num_encoder_layers": 6,
        "num_decoder_layers": 6,
    }
    config = Config(name="big", model=EncoderDecoderConfig(family="transformer", **big))
    linear = convert_config(config, Conversion(causal=4, cross=32), name="big")
    with torch.device("meta"):
        before, after = (sum(p.numel() for p in build_model(c.model).parameters()) for c in (config, linear))
    assert (before, after - before) == (209_911_808, 224_640)


def test_the_papers_language_model() -> None:
    """448,473,088 parameters; 32 features in 32 layers add 1,056,768: 0.236 %, where the paper says less than 0.2 %."""
    model = LanguageModelConfig(
        family="transformer",
        tgt_vocab_size=267_744,
        embedding="adaptive",
        adaptive_cutoffs=(20_000, 60_000),
        embed_dim=1024,
        ffn_dim=4096,
        num_heads=8,
        num_decoder_layers=32,
        pre_norm=True,
    )
    config = Config(name="lm", model=model)
    linear = convert_config(config, Conversion(causal=32, cross=None), name="lm")
    with torch.device("meta"):
        before, after = (sum(p.numel() for p in build_model(c.model).parameters()) for c in (config, linear))
    assert (before, after - before) == (448_473_088, 1_056_768)
    assert 0.0020 < (after - before) / before < 0.0025


def test_state_is_constant_and_as_large_as_the_formula() -> None:
    """h k + r k floats a layer: 16 x 4 + 2 x 4 causal, 16 x 8 + 4 x 8 cross, in two layers of 4 bytes each."""
    config = _config(family="transformer")
    linear = convert_config(config, Conversion(causal=4, cross=8), name="it")
    model = convert_model(randomized(config.model), linear)
    assert constant_state_bytes(model) == 2 * 4 * (72 + 160)
    assert constant_state_bytes(randomized(config.model)) == 0
    sizes = set()
    for source, capacity in ((1, 1), (30, 30), (512, 1000)):
        mask = torch.ones(1, source, dtype=torch.bool)
        with torch.no_grad():
            state = model.init_state(model.encode(torch.full((1, source), 3), mask), mask, capacity)
        sizes.add(sum(tensor.numel() for name, tensor in state.items() if name.startswith("layers.")))
    assert sizes == {2 * (72 + 160)}


def test_long_targets_need_no_quadratic_memory() -> None:
    """Elements of the largest tensor in a training step of the whole model double with the length."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(tensor, torch.Tensor):
                    self.elements = max(self.elements, tensor.numel())
            return out

    config = _config(family="transformer", max_positions=8192)
    linear = convert_config(config, Conversion(causal=4, cross=8), name="it")
    with torch.device("meta"):
        model = build_model(linear.model)
        src, mask = torch.zeros(1, 9, dtype=torch.int64), torch.ones(1, 9, dtype=torch.bool)
        sizes = []
        for length in (2048, 4096, 8192):
            with Largest() as largest:
                model(src, mask, torch.zeros(1, length, dtype=torch.int64)).sum().backward()
            sizes.append(largest.elements)
    assert [size // sizes[0] for size in sizes] == [1, 2, 4]
