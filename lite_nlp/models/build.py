"""Models from configs: the one place where an architecture's name becomes a module."""

from collections.abc import Callable
from typing import Final

from lite_nlp.errors import ModelError
from lite_nlp.models.config import ModelConfig
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["Model", "as_encoder_decoder", "as_language_model", "build_model"]

#: A model of any architecture.
Model = EncoderDecoder | LanguageModel

_BUILDERS: Final[dict[str, Callable[..., Model]]] = {
    "encoder-decoder": EncoderDecoder,
    "language-model": LanguageModel,
}


def build_model(config: ModelConfig) -> Model:
    """Build the model that ``config`` describes, with fresh random weights, in training mode.

    Raises:
        ModelError: If there is no module of the architecture.
    """
    builder = _BUILDERS.get(config.architecture)
    if builder is None:
        raise ModelError(f"architecture: expected {' or '.join(_BUILDERS)}, found {config.architecture!r}")
    return builder(config=config)


def as_encoder_decoder(model: Model, *, source: str) -> EncoderDecoder:
    """The model, if it is an encoder-decoder.

    Args:
        model: Of any architecture.
        source: Where it came from, for the error message.

    Raises:
        ModelError: If it is something else.
    """
    if not isinstance(model, EncoderDecoder):
        raise ModelError(f"{source}: expected an encoder-decoder, found a {model.config.architecture}")
    return model


def as_language_model(model: Model, *, source: str) -> LanguageModel:
    """The same for a language model."""
    if not isinstance(model, LanguageModel):
        raise ModelError(f"{source}: expected a language-model, found an {model.config.architecture}")
    return model
