"""Models from configurations: the one place where their parts are built, put together and tied.

The order of the lines is that of the parameters, in which ``initialise`` draws them: it is part of what a seed means.
"""

from typing import Any, Final, overload

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lite_nlp.config.blocks import LayeredConfig
from lite_nlp.config.layers import decoder_specs, encoder_specs, linear_spec
from lite_nlp.config.model import (
    EncoderDecoderConfig,
    LanguageModelConfig,
    LSTMClassifierConfig,
    LSTMReaderConfig,
    ModelConfig,
    PairClassifierConfig,
    SequenceClassifierConfig,
)
from lite_nlp.core.errors import ModelError
from lite_nlp.models.adaptive import AdaptiveVocabulary
from lite_nlp.models.embeddings import (
    PlainVocabulary,
    build_output_projection,
    build_positions,
    build_stack_input,
    token_embedding,
)
from lite_nlp.models.initialisation import initialise
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.models.layers import DecoderLayer, EncoderLayer
from lite_nlp.models.linear import dense_linear
from lite_nlp.models.lstm import LSTM
from lite_nlp.models.lstm_classifiers import LSTMClassifier, LSTMReader, PairClassifier
from lite_nlp.models.roles import Role
from lite_nlp.models.sequence_classifier import SequenceClassifier
from lite_nlp.models.stacks import DecoderStack, EncoderStack
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["Model", "as_classifier", "as_encoder_decoder", "as_language_model", "build_model", "plan_model"]

#: What torch's own layers draw their first weights by.
_DRAWING: Final = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, Tensor.uniform_)

#: A model of any architecture.
Model = EncoderDecoder | LanguageModel | SequenceClassifier | LSTMClassifier | PairClassifier


@overload
def build_model(config: EncoderDecoderConfig) -> EncoderDecoder: ...
@overload
def build_model(config: LanguageModelConfig) -> LanguageModel: ...
@overload
def build_model(config: SequenceClassifierConfig) -> SequenceClassifier: ...
@overload
def build_model(config: LSTMClassifierConfig) -> LSTMClassifier: ...
@overload
def build_model(config: PairClassifierConfig) -> PairClassifier: ...


def build_model(config: ModelConfig) -> Model:
    """Build the model that ``config`` describes, with fresh random weights, in training mode."""
    model = _assemble(config)
    initialise(model, config.init_scheme)
    return model


def plan_model(config: ModelConfig) -> Model:
    """The model that ``config`` describes on the device "meta", which has shapes and takes no memory."""
    with torch.device("meta"), _Undrawn():
        return _assemble(config)


class _Undrawn(TorchFunctionMode):
    """No numbers are drawn: for tensors that have none torch would import its compiler, which takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _assemble(config: ModelConfig) -> Model:
    match config:
        case EncoderDecoderConfig():
            return _build_encoder_decoder(config)
        case LanguageModelConfig():
            return _build_language_model(config)
        case SequenceClassifierConfig():
            return _build_sequence_classifier(config)
        case LSTMClassifierConfig():
            return LSTMClassifier(config=config, **_recurrent_parts(config, sentences=1))
        case PairClassifierConfig():
            return PairClassifier(config=config, **_recurrent_parts(config, sentences=2))


def _build_encoder_decoder(config: EncoderDecoderConfig) -> EncoderDecoder:
    """Source and target share a table if all are tied; output and target share one unless none are."""
    tied, width, embed_dim = config.tie_embeddings, config.table_dim, config.embed_dim
    src_embedding = token_embedding(config.src_vocab_size, width, embed_dim=embed_dim)
    own_target = token_embedding(config.tgt_vocab_size, width, embed_dim=embed_dim) if tied != "all" else None
    own_output = _output_table(width, config.tgt_vocab_size) if tied == "none" else None
    return EncoderDecoder(
        config=config,
        src_embedding=src_embedding,
        own_tgt_embedding=own_target,
        own_output=own_output,
        positions=build_positions(config),
        src_input=build_stack_input(config),
        tgt_input=build_stack_input(config),
        output_proj=build_output_projection(config),
        encoder=_build_encoder(config),
        decoder=_build_decoder(config),
        encoder_norm=_final_norm(config),
        decoder_norm=_final_norm(config),
    )


def _build_language_model(config: LanguageModelConfig) -> LanguageModel:
    return LanguageModel(
        config=config,
        vocabulary=AdaptiveVocabulary(config=config) if config.embedding == "adaptive" else _plain_vocabulary(config),
        positions=build_positions(config),
        stack_input=build_stack_input(config),
        layers=_build_decoder(config),
        norm=_final_norm(config),
    )


def _plain_vocabulary(config: LanguageModelConfig) -> PlainVocabulary:
    """Output and embeddings share a table unless they are untied."""
    width, types = config.table_dim, config.tgt_vocab_size
    return PlainVocabulary(
        table=token_embedding(types, width, embed_dim=config.embed_dim),
        own_output=_output_table(width, types) if config.tie_embeddings == "none" else None,
        output_proj=build_output_projection(config),
    )


def _output_table(width: int, types: int) -> nn.Linear:
    return dense_linear(width, types, role=Role.OUTPUT_TABLE, bias=False)


def _build_sequence_classifier(config: SequenceClassifierConfig) -> SequenceClassifier:
    return SequenceClassifier(
        config=config,
        embedding=token_embedding(config.src_vocab_size, config.table_dim, embed_dim=config.embed_dim),
        positions=build_positions(config),
        stack_input=build_stack_input(config),
        encoder=_build_encoder(config),
        encoder_norm=_final_norm(config),
        output=dense_linear(config.embed_dim, config.num_classes, role=Role.CLASSIFIER_OUTPUT),
    )


def _recurrent_parts(config: LSTMReaderConfig, *, sentences: int) -> dict[str, Any]:
    """The modules of a :class:`~lite_nlp.models.lstm_classifiers.LSTMReader` of examples of so many sentences."""
    width, hidden_dim, mlp_dim = config.table_dim, config.embed_dim, config.ffn_dim
    return {
        "embedding": token_embedding(config.src_vocab_size, width, embed_dim=width),
        "encoder": LSTM(input_dim=width, hidden_dim=hidden_dim, linear=linear_spec(config, config.lstm_linear)),
        # Maximum and mean of the states of each.
        "first_proj": dense_linear(2 * sentences * hidden_dim, mlp_dim, role=Role.CLASSIFIER_HIDDEN),
        "second_proj": dense_linear(mlp_dim, mlp_dim, role=Role.CLASSIFIER_HIDDEN),
        "output": dense_linear(mlp_dim, config.num_classes, role=Role.CLASSIFIER_OUTPUT),
    }


def _build_encoder(config: LayeredConfig) -> EncoderStack:
    return EncoderStack(EncoderLayer(config=config, spec=spec) for spec in encoder_specs(config))


def _build_decoder(config: LayeredConfig) -> DecoderStack:
    return DecoderStack(DecoderLayer(config=config, spec=spec) for spec in decoder_specs(config))


def _final_norm(config: LayeredConfig) -> nn.Module:
    return nn.LayerNorm(config.embed_dim) if config.final_norm else nn.Identity()


def as_encoder_decoder(model: Model, *, source: str) -> EncoderDecoder:
    """Narrow a model to an encoder-decoder.

    Args:
        model: Of any architecture.
        source: Name of the model in the error message.

    Raises:
        ModelError: If it is something else.
    """
    if not isinstance(model, EncoderDecoder):
        raise ModelError(f"{source}: expected an encoder-decoder, found a {model.config.architecture}")
    return model


def as_language_model(model: Model, *, source: str) -> LanguageModel:
    """Narrow a model to a language model; arguments and errors as in ``as_encoder_decoder``."""
    if not isinstance(model, LanguageModel):
        raise ModelError(f"{source}: expected a language-model, found an {model.config.architecture}")
    return model


def as_classifier(model: Model, *, source: str) -> SequenceClassifier | LSTMReader:
    """Narrow a model to a classifier of texts or pairs; arguments and errors as in ``as_encoder_decoder``."""
    if not isinstance(model, (SequenceClassifier, LSTMReader)):
        raise ModelError(f"{source}: expected a classifier, found a model of architecture {model.config.architecture}")
    return model
