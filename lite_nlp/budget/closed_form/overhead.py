"""Work of the exported graphs beyond the ``executed`` convention, by name and in closed form. Imports no torch.

``executed`` counts what decoding with caches has to do. The graphs that run do a little more, or less, for the sake of
fixed shapes and few operators; with these differences added, the closed form equals the work of the graphs to the unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lite_nlp.budget.closed_form.attention import AttentionBlock, self_attention_block
from lite_nlp.config.blocks import DecoderConfig
from lite_nlp.config.layers import decoder_specs, encoder_specs
from lite_nlp.config.model import ModelConfig

__all__ = ["Overhead", "count_overhead"]


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """One difference between the graphs and the ``executed`` convention.

    Attributes:
        name: What causes it.
        part: The part that it belongs to, as in the closed form.
        macs: Mult-Adds beyond ``executed``; negative where the graphs do less.
        reason: Why the implementation does so.
    """

    name: str
    part: str
    macs: int
    reason: str


def count_overhead(model: ModelConfig, *, src_len: int = 30, tgt_len: int = 30, beam: int = 1) -> tuple[Overhead, ...]:
    """Every difference between ``count_config(...).macs_executed`` and the work of the graphs that is not 0.

    Args:
        model: The architecture.
        src_len: Source tokens, end mark included.
        tgt_len: Decoder steps, and slots of the caches.
        beam: Hypotheses of a step.
    """
    found = (*_empty_slots(model, tgt_len, beam), *_band_matrices(model, src_len))
    return tuple(overhead for overhead in found if overhead.macs)


def _empty_slots(model: ModelConfig, tgt_len: int, beam: int) -> Iterator[Overhead]:
    """Step t needs t of the cache's T slots and multiplies all: T^2 pairs instead of T (T + 1) / 2."""
    pairs = beam * tgt_len * (tgt_len - 1) // 2
    attending = [spec for spec in decoder_specs(model) if spec.attention_dim]
    blocks = [self_attention_block("decoder.attention", spec) for spec in attending]
    if isinstance(model, DecoderConfig) and model.embedding == "safe":
        blocks.append(AttentionBlock(part="embeddings.target_input", width=model.table_dim, num_heads=1))
    for part in dict.fromkeys(block.part for block in blocks):
        yield Overhead(
            name="empty cache slots",
            part=part,
            macs=pairs * sum(block.pair_macs for block in blocks if block.part == part),
            reason="a step attends over the whole cache and masks empty slots, so that all steps have one shape",
        )


def _band_matrices(model: ModelConfig, src_len: int) -> Iterator[Overhead]:
    """Convolution as a band matrix: S^2 products per channel instead of K S."""
    taps = sum(spec.conv_inner_dim * src_len * (src_len - spec.kernel_size) for spec in encoder_specs(model))
    yield Overhead(
        name="band matrix of the convolution",
        part="encoder.conv_kernel",
        macs=taps,
        reason="the kernels of all positions are laid out as one banded matrix, zeros included, for one matrix product",
    )
