"""Conversion of the decoder's softmax attention to linear attention (T2R, Kasai et al. 2021, section 2.2).

Everything but the feature maps keeps its weights. The encoder is left as it is: its attention runs once per sentence.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lite_nlp.config.blocks import CrossAttentionConfig, DecoderConfig
from lite_nlp.config.kinds import AttentionKind
from lite_nlp.config.layers import decoder_specs
from lite_nlp.config.preset import Config, dump_config, parse_config
from lite_nlp.core.errors import ModelError
from lite_nlp.models.build import Model, as_encoder_decoder, build_model
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["Conversion", "constant_state_bytes", "convert_config", "convert_model", "softmax_layers"]


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """What to swap for what.

    Attributes:
        feature_map: The map, the same in both kinds of attention.
        causal: Features per head in self-attention, or None to leave it.
        cross: Features per head in cross-attention, or None to leave it.
        keep_every: Every n-th layer from the top keeps softmax attention ("T2R 75%" is 4); 0: none does.

    A map of as many features as a head has channels (``elu``) takes 0 for the sizes.
    """

    feature_map: AttentionKind = "t2r"
    causal: int | None
    cross: int | None
    keep_every: int = 0


def convert_config(config: Config, conversion: Conversion, *, name: str) -> Config:
    """The config of the converted model. A ``transformer`` becomes a ``t2r``; other families keep their name.

    Args:
        config: Of the model as it is.
        conversion: What to swap.
        name: Stands for the model in error messages.

    Raises:
        ModelError: If attention that is to be swapped is linear already, or nothing is to be swapped.
        ConfigError: If a size or kept layers do not fit the model.
    """
    model = config.model
    overrides = [f"model.keep_softmax_every={conversion.keep_every}"]
    kinds = {
        "self": model.self_attention if isinstance(model, DecoderConfig) else None,
        "cross": model.cross_attention if isinstance(model, CrossAttentionConfig) else None,
    }
    for part, size in (("self", conversion.causal), ("cross", conversion.cross)):
        if size is None:
            continue
        found = kinds[part]
        if found is None:
            raise ModelError(f"{name}: expected {part}-attention to convert, found a {model.architecture}")
        if found != "softmax":
            raise ModelError(f"{name}: expected softmax {part}-attention in the decoder to convert, found {found!r}")
        overrides.append(f'model.{part}_attention="{conversion.feature_map}"')
        overrides.append(f"model.{part}_feature_size={size}")
    if len(overrides) == 1:
        raise ModelError(f"{name}: expected self-attention or cross-attention to convert, found neither")
    if model.family == "transformer":
        overrides.append('model.family="t2r"')
    # A converted model is no longer the published row.
    described = dump_config(config.model_copy(update={"name": f"{config.name}-t2r", "reproduces": None}))
    return parse_config(described, name=name, overrides=overrides)


def convert_model(model: Model, config: Config, *, seed: int = 1) -> Model:
    """A model of the converted config with the weights of ``model``, and new feature maps.

    Args:
        model: As it is.
        config: From ``convert_config``.
        seed: Of the new maps' weights.

    Returns:
        The converted model in evaluation mode.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        converted = build_model(config.model)
    result = converted.load_state_dict(model.state_dict(), strict=False)
    # Names of what was loaded agree by construction; anything else missing would stay random without a word.
    strange = [name for name in result.missing_keys if ".feature_map." not in name] + result.unexpected_keys
    if strange:
        raise ModelError(f"{config.name}: expected only feature maps to be new, found {', '.join(strange)}")
    return converted.eval()


def softmax_layers(config: Config) -> tuple[int, ...]:
    """Numbers, from 1 at the bottom, of the decoder layers that have softmax attention of either kind."""
    return tuple(
        spec.position + 1
        for spec in decoder_specs(config.model)
        if (spec.attention_dim and spec.self_attention == "softmax")
        or (spec.memory_dim and spec.cross_attention == "softmax")
    )


def constant_state_bytes(model: Model) -> int:
    """Bytes of the linear attention's states and normalizers for one text, however long it is."""
    with torch.no_grad():
        if isinstance(model, LanguageModel):
            state = model.init_state(1, 1)
        else:
            state = _translation_state(as_encoder_decoder(model, source="converted model"))
    linear = ("self_state", "self_normalizer", "cross_state", "cross_normalizer")
    return sum(_bytes(tensor) for name, tensor in state.items() if name.rpartition(".")[2] in linear)


def _translation_state(model: EncoderDecoder) -> dict[str, Tensor]:
    """The state for one target token after a source of one token."""
    tokens = torch.zeros(1, 1, dtype=torch.int64, device=next(model.parameters()).device)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    return model.init_state(model.encode(tokens, mask), mask, 1)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
