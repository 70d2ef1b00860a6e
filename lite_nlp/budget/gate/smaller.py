"""Smaller models that a target for a compressed file has room for. Imports no torch.

The size of a file is taken apart: what its matrices take, in bits for each weight, the vocabulary, in bytes for each
type, and the rest. A smaller model of the same family has fewer of each at the same rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lite_nlp.budget.closed_form.formulas import ModelCount, count_config
from lite_nlp.budget.gate.limits import Limits
from lite_nlp.budget.gate.resizing import Resize, find_resizes
from lite_nlp.config.model import ModelConfig

__all__ = ["COMFORTABLE_BITS", "CompressedSize", "describe_smaller", "find_smaller"]

#: Bits of a weight at which quantization, trained, costs little quality: k-means of 8 values and fewer bits for those
#: that are frequent, or the trained grid.
COMFORTABLE_BITS: Final = 3.0

_BITS_PER_BYTE: Final = 8
#: No limit: only the size matters here.
_ENOUGH: Final = 10**15


@dataclass(frozen=True, kw_only=True)
class CompressedSize:
    """What the size of a compressed file is made of.

    Attributes:
        bits_per_weight: Bits of every weight of a matrix.
        vector_bytes: Bytes of biases and norms, which go with their number.
        vocabulary_bytes: Bytes of the vocabulary, which go with the number of types.
        fixed_bytes: All other bytes.
    """

    bits_per_weight: float
    vector_bytes: int
    vocabulary_bytes: int
    fixed_bytes: int

    def predict(self, model: ModelConfig, count: ModelCount, *, original: ModelConfig, before: ModelCount) -> int:
        """The expected size of the file of a smaller model, in bytes.

        Args:
            model: The smaller model.
            count: Its parameters.
            original: The model whose file has these bytes.
            before: Its parameters.
        """
        matrices = self.bits_per_weight * (count.params_total - _vectors(count)) / _BITS_PER_BYTE
        vectors = self.vector_bytes * _vectors(count) / max(1, _vectors(before))
        vocabulary = self.vocabulary_bytes * _types(model) / _types(original)
        return math.ceil(matrices + vectors + vocabulary + self.fixed_bytes)


def _vectors(count: ModelCount) -> int:
    return sum(cost.vectors for cost in count.costs)


def _types(model: ModelConfig) -> int:
    return max(model.vocab_sizes.values())


def find_smaller(
    model: ModelConfig, size: CompressedSize, *, target_bytes: int, src_len: int, tgt_len: int
) -> tuple[Resize, ...]:
    """Find changes of one dimension, or of two together, after which a compressed file is small enough.

    Args:
        model: The architecture.
        size: What the size of a file is made of.
        target_bytes: Largest size of the file.
        src_len: Source tokens at which Mult-Adds are counted.
        tgt_len: Target tokens, likewise.

    Returns:
        The change of one dimension that keeps most of it, then the best pairs of ``embed_dim`` and layers or
        vocabulary, where they leave more width; empty if nothing that was tried suffices.
    """
    before = count_config(model, src_len=src_len, tgt_len=tgt_len)
    limits = Limits(max_macs=_ENOUGH, max_params=_ENOUGH, count_params="total", max_size_bytes=target_bytes)
    found = find_resizes(
        model,
        limits,
        src_len=src_len,
        tgt_len=tgt_len,
        size_of=lambda smaller, count: size.predict(smaller, count, original=model, before=before),
    )
    singles = [resize for resize in found if resize.dimensions == 1]
    # A pair that leaves no more width than the width alone has to be is no choice.
    enough = max((_width(resize) for resize in singles), default=0)
    return (*singles[:1], *(pair for pair in found if pair.dimensions > 1 and _width(pair) > enough))


def _width(resize: Resize) -> int:
    """The width that is left where it is changed, else 0."""
    widths = (change.after for change in resize.changes if change.key == "model.embed_dim")
    return next((width for width in widths if isinstance(width, int)), 0)


def describe_smaller(rates: Sequence[tuple[str, Sequence[Resize]]]) -> str:
    """Describe smaller models that fit, in lines.

    Args:
        rates: At each rate, its description and the changes found.
    """
    lines = []
    for rate, resizes in rates:
        if resizes:
            any_one = "any one of these changes" if len(resizes) > 1 else "this change"
            lines.append(f"at {rate}, a model with {any_one}, trained anew, would fit:")
            lines += [f"  {_describe(resize)}" for resize in resizes]
        else:
            lines.append(f"at {rate}, no smaller dimension that was tried would fit, nor two of them together")
    return "\n".join(lines)


def _describe(resize: Resize) -> str:
    """The change in one short line; lists by layer follow the number of layers by themselves."""
    changed = ", ".join(
        f"{change.key.removeprefix('model.')} {change.before} -> {change.after}"
        for change in resize.changes
        if isinstance(change.after, int)
    )
    return f"{changed}: {resize.params:,} parameters, about {resize.size_bytes:,} bytes"
