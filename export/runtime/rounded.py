"""Weights of a container as the integers and scales that graphs have of them, for compact bundles. Imports no torch.

What an exporter chooses for each row, or block of a row, is a code of one byte; integers and scales follow from the
values and the codes. ``docs/export.md`` specifies them for readers in other languages.

Shape letters: N rows of a matrix, outputs of its product, K columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.inflating import inflate
from lite_nlp.export.runtime.layout import ManifestSection

__all__ = [
    "BLOCK",
    "CUTS",
    "GREATEST",
    "LARGEST",
    "LEAST",
    "STEP",
    "RoundedTensor",
    "RoundedWeights",
    "pack_levels",
    "read_codes",
    "to_bf16",
]

#: Weights of a row that share a scale in 4 bits.
BLOCK: Final = 32

#: The largest integer of 8 bits, so that the range is symmetric.
LARGEST: Final = 127

#: The least and the greatest level of 4 bits.
LEAST: Final = -8
GREATEST: Final = 7

#: What the largest magnitude of a block may be divided by for its scale, by code. Below the greatest level none is cut,
#: above it the largest are, and all others come nearer to theirs.
CUTS: Final = (7.0, 7.25, 7.5, 7.75, 8.0, 8.5, 9.0, 9.5)

#: Added, in the code of a block, to the integer that the row's largest magnitude is of the row's own step.
STEP: Final = 128

#: Weights that are rounded at a time.
_AT_ONCE: Final = 1 << 18


#: Bits of an integer.
Bits = Literal[8, 4]


class RoundedTensor(ManifestSection):
    """A matrix of the container of which graphs have integers.

    Attributes:
        tensor: Its name.
        bits: Of an integer: 8 with a scale for each row, or 4 with one for each block of a row.
    """

    tensor: str
    bits: Bits


@dataclass(frozen=True, eq=False)
class RoundedWeights:
    """A matrix and what was chosen for its rows or blocks.

    Attributes:
        values: (N, K) fp32.
        bits: Of an integer, 8 or 4.
        codes: (N,) or (N, K / BLOCK), uint8. In 8 bits the largest magnitude of a row is so many times its scale. In
            4 bits a place in ``CUTS``, or from ``STEP`` on what the largest magnitude of the row is so many times.
    """

    values: NDArray[np.float32]
    bits: Bits
    codes: NDArray[np.uint8]

    @cached_property
    def scales(self) -> NDArray[np.float32]:
        """(N,) or (N, K / BLOCK) factors by which the integers become the values again; 1 where all values are 0."""
        codes = self.codes.astype(np.float32)
        # What a hostile container holds may be no number.
        with np.errstate(all="ignore"):
            if self.bits == 8:
                scales = _largest(self.values) / codes
            else:
                blocks = _largest(self.values.reshape(*self.codes.shape, BLOCK))
                cuts = np.take(np.array(CUTS, np.float32), self.codes, mode="clip")
                steps = blocks.max(axis=1, initial=0)[:, None] / (codes - np.float32(STEP))
                scales = np.where(self.codes >= STEP, steps, to_bf16(blocks / cuts))
        return np.where(scales == 0, np.float32(1), scales).astype(np.float32)

    def integers(self, rows: tuple[int, int] | None = None) -> NDArray[np.int8]:
        """Multiples of the scales that are nearest to the values: -127 to 127, or -8 to 7.

        Args:
            rows: The first and the one behind the last; None for all.

        Returns:
            (rows, K).
        """
        first, end = rows or (0, len(self.values))
        columns = self.values.shape[1]
        integers = np.empty((end - first, columns), np.int8)
        least, greatest = (-LARGEST, LARGEST) if self.bits == 8 else (LEAST, GREATEST)
        step = max(1, _AT_ONCE // max(columns, 1))
        for start in range(first, end, step):
            part = slice(start, min(start + step, end))
            scales = self.scales[part].reshape(part.stop - start, -1, 1)
            with np.errstate(all="ignore"):
                rounded = np.rint(self.values[part].reshape(*scales.shape[:2], -1) / scales)
                integers[start - first : part.stop - first] = np.clip(rounded, least, greatest).reshape(-1, columns)
        return integers

    def restored(self) -> NDArray[np.float32]:
        """(N, K) integers times their scales: the values as graphs compute with them."""
        restored: NDArray[np.float32] = self.integers().reshape(*self.codes.shape, -1) * self.scales[..., None]
        return restored.reshape(self.values.shape)


def _largest(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest magnitudes along the last axis, without a copy of the values."""
    largest: NDArray[np.float32] = np.maximum(values.max(axis=-1, initial=0), -values.min(axis=-1, initial=0))
    return largest


def pack_levels(levels: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Levels (..., 2 n) of 4 bits as bytes (..., n) of two, each plus 8, the first in the lower half."""
    offset = (levels - LEAST).astype(np.uint8)
    return np.bitwise_or(offset[..., 0::2], np.left_shift(offset[..., 1::2], 4)).astype(np.uint8)


def to_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest numbers of which fp32 needs the upper half alone; of two as near, the one with an even last bit."""
    bits = values.astype(np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)).view(np.float32)


def read_codes(
    rounded: Sequence[RoundedTensor], stream: bytes, tensors: Mapping[str, NDArray[Any]], *, source: str
) -> dict[str, RoundedWeights]:
    """The rounded matrices of a container, by name.

    Args:
        rounded: Which, in the order of their codes.
        stream: A zlib stream of the codes, one matrix after another.
        tensors: Of the container.
        source: Stands for the stream's file in messages.

    Raises:
        BundleError: If one is no fp32 matrix that has such integers, or the stream has other codes than theirs.
    """
    shapes = [_codes_shape(entry, tensors, source) for entry in rounded]
    counts = [int(np.prod(shape)) for shape in shapes]
    codes = inflate(stream, sum(counts), source=source)
    found, start = {}, 0
    for entry, shape, count in zip(rounded, shapes, counts, strict=True):
        own = np.frombuffer(codes, np.uint8, count, start).reshape(shape)
        known = (own >= 1) & (own <= LARGEST)
        if entry.bits == 4:
            known = (own < len(CUTS)) | ((own > STEP) & (own <= STEP + GREATEST))
        if not known.all():
            raise BundleError(f"{source}: {entry.tensor}: expected codes of {entry.bits} bits, found {own[~known][0]}")
        found[entry.tensor] = RoundedWeights(tensors[entry.tensor], entry.bits, own)
        start += count
    return found


def _codes_shape(entry: RoundedTensor, tensors: Mapping[str, NDArray[Any]], source: str) -> tuple[int, ...]:
    tensor = tensors.get(entry.tensor)
    if tensor is None:
        raise BundleError(f"{source}: expected a tensor of the container, found {entry.tensor!r}")
    if tensor.dtype != np.float32 or tensor.ndim != 2 or (entry.bits == 4 and tensor.shape[1] % BLOCK):
        row = f"rows of blocks of {BLOCK}" if entry.bits == 4 else "rows"
        raise BundleError(
            f"{source}: {entry.tensor}: expected an fp32 matrix with {row}, found {tensor.dtype} of shape "
            f"{tensor.shape}"
        )
    rows, columns = tensor.shape
    return (rows,) if entry.bits == 8 else (rows, columns // BLOCK)
