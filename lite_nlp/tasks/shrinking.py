"""Structured pruning of a model's feed-forward blocks, and the config of the smaller model. Needs torch."""

from typing import Final

import torch
from torch import nn

from lite_nlp.artifacts.directory import model_from_state
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.compress.prune.channels import prune_channels
from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.core.errors import ModelError
from lite_nlp.models.build import Model

__all__ = ["check_shrinkable", "shrink_feed_forward"]

_TOKENS: Final = torch.full((1, 4), 3)
_MASK: Final = torch.ones_like(_TOKENS, dtype=torch.bool)

#: Arguments of one forward call, to trace the dependencies between layers.
_EXAMPLES: Final = {
    "encoder-decoder": (_TOKENS, _MASK, _TOKENS),
    "language-model": (_TOKENS,),
    "sequence-classifier": (_TOKENS, _MASK),
}


def check_shrinkable(loaded: LoadedModel) -> None:
    """Refuse a model without feed-forward blocks whose channels can be removed.

    Raises:
        ModelError: If it has none, or they are factorized, so that all channels share the factors.
    """
    layers = [name for names in _wide_layers(loaded.model).values() for name in names]
    if not layers:
        raise ModelError(
            f"{loaded.name}: structured pruning: expected a model with feed-forward blocks, found a "
            f"{loaded.config.model.architecture} without"
        )
    model = loaded.config.model
    if isinstance(model, LayeredConfig) and model.ffn_linear != "dense":
        raise ModelError(
            f"{loaded.name}: structured pruning: expected dense feed-forward blocks, found model.ffn_linear = "
            f"{model.ffn_linear!r}"
        )


def shrink_feed_forward(loaded: LoadedModel, model: nn.Module, fraction: float) -> Model:
    """The model without its least important feed-forward channels, rebuilt from the smaller config.

    Args:
        loaded: The loaded model, accepted by ``check_shrinkable``.
        model: Its module, which is changed.
        fraction: Fraction of the channels to remove, above 0 and below 1.
    """
    before = loaded.config.model
    example = _EXAMPLES[before.architecture]
    # The layers inside a sandwich have a different width.
    kept = {
        width: prune_channels(model, example, layers=names, fraction=fraction)
        for width, names in _wide_layers(model).items()
    }
    widths = {key: getattr(before, key) for key in ("ffn_dim", "sandwich_ffn_dim")}
    smaller = before.model_copy(update={key: kept.get(width, width) for key, width in widths.items()})
    config = loaded.config.model_copy(update={"model": smaller})
    return model_from_state(config, model.state_dict(), source=loaded.name)


def _wide_layers(model: nn.Module) -> dict[int, list[str]]:
    """The names of the first Linears of all feed-forward blocks, by their width."""
    wide: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        if name.endswith("ffn.up_proj"):
            wide.setdefault(int(getattr(module, "out_features", 0)), []).append(name)
    return wide
