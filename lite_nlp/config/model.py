"""The ``[model]`` section of a configuration: one class per architecture. Imports no torch."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from lite_nlp.config.blocks import (
    BaseModelConfig,
    ClassifierConfig,
    CrossAttentionConfig,
    DecoderConfig,
    EncoderConfig,
)
from lite_nlp.config.checks import check_adaptive_tables, check_layers, check_lstm, check_shared_vocabulary
from lite_nlp.config.kinds import LinearKind
from lite_nlp.config.limits import MAX_LAYERS, MAX_WIDTH

__all__ = [
    "ARCHITECTURES",
    "EncoderDecoderConfig",
    "LSTMClassifierConfig",
    "LSTMReaderConfig",
    "LanguageModelConfig",
    "ModelConfig",
    "ModelSection",
    "PairClassifierConfig",
    "SequenceClassifierConfig",
]


class EncoderDecoderConfig(CrossAttentionConfig, DecoderConfig, EncoderConfig):
    """A model that turns one text into another."""

    architecture: Literal["encoder-decoder"] = "encoder-decoder"
    embedding: Literal["table", "linear", "two-layer-linear", "safe"] = "table"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_shared_vocabulary(self.tie_embeddings, src_types=self.src_vocab_size, tgt_types=self.tgt_vocab_size)
        check_layers(self)
        return self


class LanguageModelConfig(DecoderConfig):
    """A decoder alone, without cross-attention, over ``tgt_vocab_size`` types."""

    has_source: ClassVar[bool] = False

    architecture: Literal["language-model"] = "language-model"
    tie_embeddings: Literal["none", "all"] = "all"
    #: First types of every adaptive table but the first, which begins at type 0; types are ordered by frequency.
    adaptive_cutoffs: tuple[int, ...] = Field(default=(), max_length=MAX_LAYERS)
    #: Ratio of the widths of one adaptive table and the next.
    adaptive_factor: int = Field(default=4, ge=1, le=MAX_WIDTH)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_adaptive_tables(
            self,
            cutoffs=self.adaptive_cutoffs,
            factor=self.adaptive_factor,
            default_factor=type(self).model_fields["adaptive_factor"].default,
        )
        check_layers(self)
        return self


class SequenceClassifierConfig(EncoderConfig, ClassifierConfig):
    """An encoder with one output per text."""

    has_target: ClassVar[bool] = False

    architecture: Literal["sequence-classifier"] = "sequence-classifier"
    # No decoder, so no attention that could be linear.
    family: Literal["transformer", "lite-transformer", "lightconv", "subformer", "r2d2"]
    embedding: Literal["table", "linear", "two-layer-linear", "safe"] = "table"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_layers(self)
        return self


class LSTMReaderConfig(ClassifierConfig):
    """What the classifiers with an LSTM share."""

    family: Literal["lstm", "r2d2"]
    #: Gates of the LSTM.
    lstm_linear: LinearKind = "dense"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_lstm(self, self.lstm_linear)
        return self


class LSTMClassifierConfig(LSTMReaderConfig):
    """An LSTM that encodes a text, and an MLP with one output per text."""

    has_target: ClassVar[bool] = False

    architecture: Literal["lstm-classifier"] = "lstm-classifier"


class PairClassifierConfig(LSTMReaderConfig):
    """An LSTM that encodes two sentences, and an MLP that relates them."""

    architecture: Literal["pair-classifier"] = "pair-classifier"


#: The configuration of a model of any architecture.
ModelConfig = (
    EncoderDecoderConfig | LanguageModelConfig | SequenceClassifierConfig | LSTMClassifierConfig | PairClassifierConfig
)

#: Its class by the value of ``model.architecture``.
ARCHITECTURES: Final[dict[str, type[BaseModelConfig]]] = {
    "encoder-decoder": EncoderDecoderConfig,
    "language-model": LanguageModelConfig,
    "sequence-classifier": SequenceClassifierConfig,
    "lstm-classifier": LSTMClassifierConfig,
    "pair-classifier": PairClassifierConfig,
}


def _with_architecture(values: Any) -> Any:
    """Name the architecture that a section without one means."""
    return {"architecture": "encoder-decoder", **values} if isinstance(values, Mapping) else values


#: ``ModelConfig`` as pydantic reads it: the class is chosen by ``architecture``.
ModelSection = Annotated[ModelConfig, Field(discriminator="architecture"), BeforeValidator(_with_architecture)]
