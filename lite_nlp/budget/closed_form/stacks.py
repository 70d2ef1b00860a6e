"""Closed forms of whole stacks of layers, of their input projection and of the output.

Imports no torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lite_nlp.budget.closed_form.attention import AttentionBlock, cross_attention_block, self_attention_block
from lite_nlp.budget.closed_form.blocks import (
    Rows,
    applied_again,
    convolution,
    feed_forward,
    layer_norm,
    linear,
)
from lite_nlp.budget.closed_form.counts import Cost
from lite_nlp.config.blocks import DecoderConfig, LayeredConfig
from lite_nlp.config.layers import LayerSpec, derived_heads

__all__ = ["Cross", "input_costs", "output_costs", "stack_costs"]


@dataclass(frozen=True, kw_only=True)
class Cross:
    """The memory of cross-attention: tokens of the encoded source, and query-key pairs."""

    memory: Rows
    pairs: Rows


def input_costs(part: str, model: LayeredConfig, tokens: Rows, pairs: Rows) -> Iterator[Cost]:
    """Cost of the input projection between the embedding table and a stack (Subformer, section 3.2 and table 1)."""
    width, after = model.table_dim, model.embed_dim
    if model.embedding == "safe":
        block = AttentionBlock(part=part, width=width, num_heads=derived_heads(width))
        yield from block.costs(queries=tokens, keys=tokens, pairs=pairs)
        yield layer_norm(part, width, tokens)
        yield linear(part, width, width, tokens)
        yield linear(part, width, after, tokens)
        yield layer_norm(part, after, tokens)
    elif model.embedding != "table":
        yield linear(part, width, after, tokens, bias=False)
        if model.embedding == "two-layer-linear":
            yield linear(part, after, after, tokens, bias=False)


def stack_costs(
    stack: str,
    model: LayeredConfig,
    specs: Sequence[LayerSpec],
    tokens: Rows,
    pairs: Rows,
    cross: Cross | None = None,
) -> Iterator[Cost]:
    """Cost of all layers of a stack; a shared block is work of every layer and parameters of its owner."""
    for spec in specs:
        if spec.input_dim != spec.embed_dim:
            yield from _projection(f"{stack}.projection", stack, spec.input_dim, spec.embed_dim, tokens)
        blocks = _blocks(stack, model, spec, tokens, pairs, cross)
        yield from blocks if spec.is_owner else map(applied_again, blocks)
        if spec.extra_linear:
            yield linear(f"{stack}.ffn", spec.embed_dim, spec.embed_dim, tokens)
        norms = 2 if cross is None else 3
        yield from (layer_norm(f"{stack}.norm", spec.embed_dim, tokens) for _ in range(norms))
    if model.final_norm:
        yield layer_norm(f"{stack}.norm", model.embed_dim, tokens)


def _projection(part: str, stack: str, width: int, after: int, tokens: Rows) -> Iterator[Cost]:
    """Cost of a change of width at the edges of a sandwich: Linear and LayerNorm."""
    yield linear(part, width, after, tokens)
    yield layer_norm(f"{stack}.norm", after, tokens)


def _blocks(
    stack: str, model: LayeredConfig, spec: LayerSpec, tokens: Rows, pairs: Rows, cross: Cross | None
) -> Iterator[Cost]:
    """Cost of the blocks that layers can share: self-attention, convolution, cross-attention and feed-forward."""
    if spec.attention_dim:
        block = self_attention_block(f"{stack}.attention", spec)
        yield from block.costs(queries=tokens, keys=tokens, pairs=pairs)
    if spec.conv_dim:
        yield from convolution(
            stack,
            spec.conv_dim,
            tokens,
            inner=spec.conv_inner_dim,
            kernel_size=spec.kernel_size,
            num_heads=spec.conv_num_heads,
            dynamic=model.conv_type == "dynamic",
            glu=model.conv_glu,
            kind=spec.conv_linear,
        )
    if cross is not None:
        yield from _cross_attention(f"{stack}.cross_attention", stack, spec, tokens, cross)
    yield from feed_forward(f"{stack}.ffn", spec.embed_dim, spec.ffn_dim, tokens, kind=spec.ffn_linear)


def _cross_attention(part: str, stack: str, spec: LayerSpec, tokens: Rows, cross: Cross) -> Iterator[Cost]:
    """Cost of cross-attention at the encoder's width, with its projections (Subformer, section 3.4)."""
    adapts = spec.embed_dim != spec.memory_dim
    if adapts:
        yield from _projection(part, stack, spec.embed_dim, spec.memory_dim, tokens)
    block = cross_attention_block(part, spec)
    yield from block.costs(queries=tokens, keys=cross.memory, pairs=cross.pairs)
    if adapts:
        yield from _projection(part, stack, spec.memory_dim, spec.embed_dim, tokens)


def output_costs(model: DecoderConfig, tokens: Rows) -> Iterator[Cost]:
    """Cost of the output: projection to the width of the tables, then to the target vocabulary.

    The latter is no part of the paper's Mult-Adds, but a large one of the device's.
    """
    width, before = model.table_dim, model.embed_dim
    if width != before:
        if model.embedding == "two-layer-linear":
            yield linear("output.projection", before, before, tokens, bias=False)
        yield linear("output.projection", before, width, tokens, bias=model.embedding == "safe")
    vocabulary = linear("output", width, model.tgt_vocab_size, tokens, bias=False, operation="output")
    yield replace(vocabulary, params=vocabulary.params if model.tie_embeddings == "none" else 0, paper=0)
