"""Models from configs: the one place where an architecture's name becomes a module."""

from lite_nlp.config.model import (
    EncoderDecoderConfig,
    LanguageModelConfig,
    ModelConfig,
    PairClassifierConfig,
    SequenceClassifierConfig,
)
from lite_nlp.core.errors import ModelError
from lite_nlp.models.classifier import PairClassifier
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.models.sequence_classifier import SequenceClassifier
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["Model", "as_classifier", "as_encoder_decoder", "as_language_model", "build_model"]

#: A model of any architecture.
Model = EncoderDecoder | LanguageModel | SequenceClassifier | PairClassifier


def build_model(config: ModelConfig) -> Model:
    """Build the model that ``config`` describes, with fresh random weights, in training mode."""
    match config:
        case EncoderDecoderConfig():
            return EncoderDecoder(config=config)
        case LanguageModelConfig():
            return LanguageModel(config=config)
        case SequenceClassifierConfig():
            return SequenceClassifier(config=config)
        case PairClassifierConfig():
            return PairClassifier(config=config)


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


def as_classifier(model: Model, *, source: str) -> SequenceClassifier | PairClassifier:
    """The same for a classifier of single texts or of pairs."""
    if not isinstance(model, (SequenceClassifier, PairClassifier)):
        raise ModelError(f"{source}: expected a classifier, found a model of architecture {model.config.architecture}")
    return model
