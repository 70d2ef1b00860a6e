"""Parameters and Mult-Adds of a model in closed form, from its config alone. Imports no torch.

One Mult-Add is one multiply-accumulate. Two conventions are counted side by side:

* ``paper``: what the published tables of Lite Transformer (Wu et al., 2020) count. A teacher-forced forward of one
  sentence: every weight matrix inside the layers once per token it is applied to, kernel generators, attention scores
  and sums as full rectangles, LayerNorm as one per element. The output projection and the taps of the convolutions
  are left out.
* ``executed``: what a device does to translate one sentence with caches. The encoder over the source, the keys and
  values of cross-attention once over the source, then one decoder step per target token and hypothesis of the beam:
  causal attention over the tokens so far, the taps of every convolution, and the output projection at every step.
  LayerNorm counts as above.

A beam multiplies every step, the first too, though a search may start from a single hypothesis there: encoder and the
projections of the encoded source are shared by the beam, all else in the decoder and the output is not.

Neither counts embedding look-ups, biases, residual sums, softmax, GLU, ReLU or scaling. Shared layers count once as
parameters and every time as work. Weights that stand for larger ones (R2D2, quaternion, feature maps merged into
projections) are built once, before any sentence, and count as what is applied to tokens. Linear attention counts as the
recurrence that T2R describes (section 2.2), in both conventions.
"""

from collections.abc import Iterator
from numbers import Integral

from lite_nlp.budget.closed_form.blocks import Rows
from lite_nlp.budget.closed_form.classifiers import (
    count_lstm_classifier,
    count_sequence_classifier,
)
from lite_nlp.budget.closed_form.counts import Cost, ModelCount, Operation, sum_costs
from lite_nlp.budget.closed_form.language_models import count_language_model
from lite_nlp.budget.closed_form.stacks import Cross, input_costs, output_costs, stack_costs
from lite_nlp.config.layers import decoder_specs, encoder_specs
from lite_nlp.config.model import (
    EncoderDecoderConfig,
    LanguageModelConfig,
    LSTMReaderConfig,
    ModelConfig,
    SequenceClassifierConfig,
)
from lite_nlp.core.bounds import MAX_BEAM
from lite_nlp.core.errors import ConfigError, UsageError

__all__ = ["Cost", "ModelCount", "Operation", "count_config", "whole_number"]


def whole_number(name: str, number: int) -> int:
    """A number of tokens or hypotheses as Python's: NumPy's have 64 bits or fewer, in which products overflow.

    Args:
        name: What it is, for the message.
        number: What was given.

    Raises:
        ConfigError: If it is no whole number.
    """
    if not isinstance(number, Integral):
        raise ConfigError(f"{name}: expected a whole number, found {number!r}")
    return int(number)


def count_config(model: ModelConfig, *, src_len: int = 30, tgt_len: int = 30, beam: int = 1) -> ModelCount:
    """Count the parameters and Mult-Adds of ``model``.

    Args:
        model: The architecture.
        src_len: Source tokens, end mark included; those of a classifier's only or first sentence; a language
            model has none.
        tgt_len: Target tokens, end mark included: the number of decoder steps; those of a pair-classifier's second
            sentence.
        beam: Hypotheses that every step extends; the ``paper`` convention knows no beam and stays as it is.

    Raises:
        ConfigError: If a length is below 1 or beyond the model's ``max_positions``, or the beam is out of range, or one
            of them is no whole number.
        UsageError: If the beam is not 1 although the model searches nothing.
    """
    beam = whole_number("beam", beam)
    src_len, tgt_len = whole_number("source length", src_len), whole_number("target length", tgt_len)
    if beam < 1:
        raise ConfigError(f"beam: expected at least 1 hypothesis, found {beam}")
    if beam > MAX_BEAM:
        raise ConfigError(f"beam: expected at most {MAX_BEAM} hypotheses, found {beam}")
    if beam > 1 and not model.has_decoder:
        raise UsageError(f"beam: expected 1 with a {model.architecture}, which searches nothing, found {beam}")
    lengths = {"source": src_len, "target": tgt_len}
    if not model.has_target:
        del lengths["target"]
    if not model.has_source:
        del lengths["source"]
    for name, length in lengths.items():
        if not 1 <= length <= model.max_positions:
            raise ConfigError(
                f"{name} length: expected 1 to {model.max_positions} tokens (model.max_positions), found {length}"
            )
    match model:
        case SequenceClassifierConfig():
            return count_sequence_classifier(model, src_len=src_len)
        case LSTMReaderConfig():
            return count_lstm_classifier(model, src_len=src_len, tgt_len=tgt_len)
        case LanguageModelConfig():
            return count_language_model(model, tgt_len=tgt_len, beam=beam)
        case EncoderDecoderConfig():
            return _count_encoder_decoder(model, src_len=src_len, tgt_len=tgt_len, beam=beam)


def _count_encoder_decoder(model: EncoderDecoderConfig, *, src_len: int, tgt_len: int, beam: int) -> ModelCount:
    source = Rows(paper=src_len, executed=src_len)
    target = Rows(paper=tgt_len, executed=tgt_len * beam)
    source_pairs = Rows(paper=src_len**2, executed=src_len**2)
    # Step t of the device attends to t tokens.
    target_pairs = Rows(paper=tgt_len**2, executed=beam * (tgt_len * (tgt_len + 1) // 2))
    cross = Cross(
        memory=source, pairs=Rows(paper=target.paper * source.paper, executed=target.executed * source.executed)
    )
    costs = (
        *_tables(model),
        *input_costs("embeddings.source_input", model, source, source_pairs),
        *stack_costs("encoder", model, encoder_specs(model), source, source_pairs),
        *input_costs("embeddings.target_input", model, target, target_pairs),
        *stack_costs("decoder", model, decoder_specs(model), target, target_pairs, cross),
        *output_costs(model, target),
    )
    return ModelCount(src_len=src_len, tgt_len=tgt_len, beam=beam, costs=sum_costs(costs))


def _tables(model: EncoderDecoderConfig) -> Iterator[Cost]:
    """Cost of the look-up tables: parameters alone."""
    yield Cost(part="embeddings.source", operation="embedding", params=model.src_vocab_size * model.table_dim)
    if model.tie_embeddings != "all":
        yield Cost(part="embeddings.target", operation="embedding", params=model.tgt_vocab_size * model.table_dim)
