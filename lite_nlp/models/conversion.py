"""Conversion of the decoder's softmax attention to linear attention (T2R, Kasai et al. 2021, section 2.2).

Everything but the feature maps keeps its weights. The encoder is left as it is: its attention runs once per sentence.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from lite_nlp.config.blocks import CrossAttentionConfig, DecoderConfig
from lite_nlp.config.kinds import ATTENTION_KINDS, AttentionKind
from lite_nlp.config.layers import decoder_specs
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import Config, dump_config, parse_config
from lite_nlp.core.errors import ModelError
from lite_nlp.models.build import Model, as_encoder_decoder, build_model
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["Conversion", "constant_state_bytes", "convert_config", "convert_model", "softmax_layers"]

#: The kind of attention that a conversion replaces.
_CONVERTED: Final = "softmax"


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """Choice of the attention that becomes linear, and of its feature map.

    Attributes:
        feature_map: A kind of linear attention, the same for self- and cross-attention.
        causal: Features per head in self-attention, or None to keep softmax; 0 for a kind without that choice.
        cross: The same for cross-attention.
        keep_every: Every n-th layer from the top keeps softmax attention ("T2R 75%" is 4); 0: none does, or those that
            do already where the other attention is linear.
    """

    feature_map: AttentionKind = "t2r"
    causal: int | None
    cross: int | None
    keep_every: int = 0


def convert_config(config: Config, conversion: Conversion, *, name: str) -> Config:
    """The configuration of the converted model. A ``transformer`` becomes a ``t2r``; other families keep their name.

    Args:
        config: Configuration of the model to convert.
        conversion: The attention to convert.
        name: Name of the model in error messages.

    Raises:
        ModelError: If the chosen attention is not softmax attention, the feature map is no kind of linear attention, or
            neither self- nor cross-attention is chosen, or other layers are to keep softmax than those that do already.
        ConfigError: If a size or kept layers do not fit the model.
    """
    model = config.model
    facts = ATTENTION_KINDS.get(conversion.feature_map)
    if facts is None or not facts.is_linear:
        raise ModelError(f"{name}: expected a kind of linear attention to convert to, found {conversion.feature_map!r}")
    kinds = {
        "self": model.self_attention if isinstance(model, DecoderConfig) else None,
        "cross": model.cross_attention if isinstance(model, CrossAttentionConfig) else None,
    }
    overrides = [f"model.keep_softmax_every={_kept_every(model, kinds.values(), conversion.keep_every, name)}"]
    for part, size in (("self", conversion.causal), ("cross", conversion.cross)):
        if size is None:
            continue
        found = kinds[part]
        if found is None:
            raise ModelError(f"{name}: expected {part}-attention to convert, found a {model.architecture}")
        if found != _CONVERTED:
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


def _kept_every(model: ModelConfig, kinds: Iterable[str | None], asked: int, name: str) -> int:
    """Layers that keep softmax: those that do already where one attention is linear, since they have one setting."""
    if all(kind in (None, _CONVERTED) for kind in kinds):
        return asked
    kept: int = getattr(model, "keep_softmax_every", 0)
    if asked not in (0, kept):
        raise ModelError(
            f"{name}: --keep-every: expected {kept or 'none'}, as in its attention that is linear, found {asked}"
        )
    return kept


def convert_model(model: Model, config: Config, *, seed: int = 1) -> Model:
    """A model of the converted configuration with the weights of ``model``, and new feature maps.

    Args:
        model: The model to convert.
        config: From ``convert_config``.
        seed: Seed of the new maps' weights.

    Returns:
        The converted model in evaluation mode.

    Raises:
        ModelError: If the two models differ in more than feature maps.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        converted = build_model(config.model)
    result = converted.load_state_dict(model.state_dict(), strict=False)
    # Any other parameter that the old model lacks would silently stay random.
    strange = [name for name in result.missing_keys if ".feature_map." not in name] + result.unexpected_keys
    if strange:
        raise ModelError(f"{config.name}: expected only feature maps to be new, found {', '.join(strange)}")
    return converted.eval()


def softmax_layers(config: Config) -> tuple[int, ...]:
    """Numbers, from 1 at the bottom, of the decoder layers that have softmax attention of either kind."""
    return tuple(
        spec.position + 1
        for spec in decoder_specs(config.model)
        if (spec.attention_dim and spec.self_attention == _CONVERTED)
        or (spec.memory_dim and spec.cross_attention == _CONVERTED)
    )


def constant_state_bytes(model: Model) -> int:
    """Bytes of the linear attention's states and normalizers for one text of any length."""
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
