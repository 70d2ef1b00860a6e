"""Parameters and Mult-Adds of classifiers in closed form. Imports no torch.

Both conventions are those of :mod:`lite_nlp.budget.closed_form.formulas`: there is no decoder, so they differ only in
the taps of convolutions and in the output, which is a Linear to the classes, applied once per example. Look-ups,
pooling and the products of an LSTM's gates with its states, one per channel, count nothing.
"""

from collections.abc import Iterator
from dataclasses import replace

from lite_nlp.budget.closed_form.blocks import Rows, linear
from lite_nlp.budget.closed_form.counts import Cost, ModelCount, sum_costs
from lite_nlp.budget.closed_form.stacks import input_costs, stack_costs
from lite_nlp.config.blocks import ClassifierConfig
from lite_nlp.config.layers import encoder_specs, linear_spec
from lite_nlp.config.model import LSTMReaderConfig, SequenceClassifierConfig

__all__ = ["count_lstm_classifier", "count_sequence_classifier"]

#: Forget, input and output gate, and the candidate.
_NUM_GATES = 4

#: Once per example, however long it is.
_ONCE = Rows(paper=1, executed=1)


def count_sequence_classifier(model: SequenceClassifierConfig, *, src_len: int) -> ModelCount:
    """Count an encoder with one output per text.

    Args:
        model: Of architecture ``sequence-classifier``.
        src_len: Tokens of the text, end mark included.

    Returns:
        The count, whose ``tgt_len`` is 0.
    """
    tokens = Rows(paper=src_len, executed=src_len)
    pairs = Rows(paper=src_len**2, executed=src_len**2)
    costs = (
        _table(model),
        *input_costs("embeddings.source_input", model, tokens, pairs),
        *stack_costs("encoder", model, encoder_specs(model), tokens, pairs),
        _output(model.embed_dim, model.num_classes),
    )
    return ModelCount(src_len=src_len, tgt_len=0, costs=sum_costs(costs))


def count_lstm_classifier(model: LSTMReaderConfig, *, src_len: int, tgt_len: int) -> ModelCount:
    """Count an LSTM encoder and the MLP over maximum and mean of each sentence's states (R2D2, sections 3.1 and 4.1).

    Args:
        model: Of architecture ``lstm-classifier`` or ``pair-classifier``.
        src_len: Tokens of the text or first sentence, end mark included.
        tgt_len: Tokens of the second; no effect on a classifier of one text.

    Returns:
        The count, whose ``tgt_len`` is 0 without a second sentence.
    """
    lengths = (src_len, tgt_len) if model.has_target else (src_len,)
    tokens = Rows(paper=sum(lengths), executed=sum(lengths))
    hidden = model.ffn_dim
    costs = (
        _table(model),
        *_lstm("encoder.lstm", model, tokens),
        linear("classifier.ffn", 2 * len(lengths) * model.embed_dim, hidden, _ONCE),
        linear("classifier.ffn", hidden, hidden, _ONCE),
        _output(hidden, model.num_classes),
    )
    return ModelCount(src_len=src_len, tgt_len=sum(lengths[1:]), costs=sum_costs(costs))


def _table(model: ClassifierConfig) -> Cost:
    return Cost(part="embeddings.source", operation="embedding", params=model.src_vocab_size * model.table_dim)


def _lstm(part: str, model: LSTMReaderConfig, tokens: Rows) -> Iterator[Cost]:
    """Per gate one Linear of the input and one of the hidden state, and one bias vector for both.

    With a factorized kind each of the eight has factors of its own: the layout with which table 1 comes out.
    """
    kind = linear_spec(model, model.lstm_linear)
    for width in (model.table_dim, model.embed_dim):
        yield from (linear(part, width, model.embed_dim, tokens, kind=kind, bias=False) for _ in range(_NUM_GATES))
    biases = _NUM_GATES * model.embed_dim
    yield Cost(part=part, operation="linear", params=biases, vectors=biases)


def _output(width: int, classes: int) -> Cost:
    return replace(linear("output", width, classes, _ONCE, operation="output"), paper=0)
