"""Parameters and Mult-Adds of language models in closed form. Imports no torch.

Both conventions are those of :mod:`lite_nlp.budget.closed_form.formulas`, without a source: a forward of one text, or
its generation from the first token on.

Of adaptive embeddings ``paper`` counts the head band's projection, as if all tokens were in that band. ``executed``
counts the projections of all bands, which a step computes to choose from, and at the output every band, since greedy
decoding needs the probability of every type.
"""

import itertools
from collections.abc import Iterator

from lite_nlp.budget.closed_form.blocks import Rows
from lite_nlp.budget.closed_form.counts import Cost, ModelCount, sum_costs
from lite_nlp.budget.closed_form.stacks import input_costs, output_costs, stack_costs
from lite_nlp.config.layers import decoder_specs
from lite_nlp.config.model import LanguageModelConfig

__all__ = ["count_language_model"]


def count_language_model(model: LanguageModelConfig, *, tgt_len: int, beam: int) -> ModelCount:
    """Count a decoder-only language model.

    Args:
        model: Of architecture ``language-model``.
        tgt_len: Tokens of the text: the number of steps.
        beam: Hypotheses that every step extends.

    Returns:
        The count, whose ``src_len`` is 0.
    """
    tokens = Rows(paper=tgt_len, executed=tgt_len * beam)
    # Step t of the device attends to t tokens.
    pairs = Rows(paper=tgt_len**2, executed=beam * (tgt_len * (tgt_len + 1) // 2))
    adaptive = model.embedding == "adaptive"
    costs = (
        *(_adaptive_tables(model, tokens) if adaptive else _table(model, tokens, pairs)),
        *stack_costs("decoder", model, decoder_specs(model), tokens, pairs),
        *(_adaptive_output(model, tokens) if adaptive else output_costs(model, tokens)),
    )
    return ModelCount(src_len=0, tgt_len=tgt_len, beam=beam, costs=sum_costs(costs))


def _table(model: LanguageModelConfig, tokens: Rows, pairs: Rows) -> Iterator[Cost]:
    yield Cost(part="embeddings.target", operation="embedding", params=model.tgt_vocab_size * model.table_dim)
    yield from input_costs("embeddings.target_input", model, tokens, pairs)


def _bands(model: LanguageModelConfig) -> list[tuple[int, int]]:
    """Types and width of every band (Baevski and Auli, 2019), the head first."""
    bounds = (0, *model.adaptive_cutoffs, model.tgt_vocab_size)
    sizes = (high - low for low, high in itertools.pairwise(bounds))
    return [(size, model.embed_dim // model.adaptive_factor**band) for band, size in enumerate(sizes)]


def _adaptive_tables(model: LanguageModelConfig, tokens: Rows) -> Iterator[Cost]:
    """The tables with what belongs to them, bands' projections and their scores at the output, and the way in."""
    bands, width = _bands(model), model.embed_dim
    tables = sum(size * narrow for size, narrow in bands)
    projections = sum(narrow * width for _, narrow in bands)
    clusters = (len(bands) - 1) * width
    yield Cost(part="embeddings.target", operation="embedding", params=tables + projections + clusters)
    yield Cost(
        part="embeddings.target_input",
        operation="linear",
        paper=width * width * tokens.paper,
        executed=projections * tokens.executed,
    )


def _adaptive_output(model: LanguageModelConfig, tokens: Rows) -> Iterator[Cost]:
    """The head with a score per other band, then each other band's projection and types."""
    (head, width), *tails = _bands(model)
    step = (head + len(tails)) * width + sum((width + size) * narrow for size, narrow in tails)
    yield Cost(part="output", operation="output", executed=step * tokens.executed)
