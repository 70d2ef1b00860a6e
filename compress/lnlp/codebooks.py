"""Codebooks as a file holds them: ascending centroids, by the gaps between neighbours.

The bits of a float, read as an integer, ascend with its value once those of negative numbers are inverted.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.bits import BitWriter
from lite_nlp.compress.lnlp.limits import DEFAULT_SCALE_BITS, MAX_CENTROIDS, MAX_SCALE_BITS, MIN_SCALE_BITS
from lite_nlp.compress.lnlp.rans import quantize_frequencies
from lite_nlp.compress.lnlp.tensors import ClusteredTensor

__all__ = [
    "SCALE_FIELD_BITS",
    "centroids_of",
    "fits_fp16",
    "fp16_codebook",
    "sort_codebook",
    "write_codebook",
    "write_frequencies",
]

#: Width of the field with the scale bits of frequencies, of which the least is taken away.
SCALE_FIELD_BITS: Final = 3

#: The greatest 16-bit float, and the smallest with all of its digits.
_FP16_MAX: Final = 65504.0
_FP16_NORMAL: Final = 2.0**-14

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


def fp16_codebook(codebook: FloatArray) -> FloatArray:
    """The codebook as the file will hold it: rounded to 16-bit floats unless they do not fit."""
    return codebook.astype(np.float16).astype(np.float32) if fits_fp16(codebook) else codebook


def fits_fp16(values: NDArray[np.floating]) -> bool:
    """Whether 16-bit floats hold the values: none is too large, and not all of them so small that they lose digits.

    They hold infinities too.
    """
    greatest = float(np.max(np.abs(values), where=~np.isinf(values), initial=0.0))
    return greatest == 0 or _FP16_NORMAL <= greatest <= _FP16_MAX


def sort_codebook(tensor: ClusteredTensor) -> ClusteredTensor:
    """The same weights with an ascending codebook: each centroid once, and none that no weight is assigned to.

    Raises:
        ValueError: If there are too many centroids, or none.
    """
    if not 1 <= len(tensor.codebook) <= MAX_CENTROIDS:
        raise ValueError(f"codebook: expected 1 to {MAX_CENTROIDS} centroids, found {len(tensor.codebook)}")
    present, used = np.unique(tensor.assignments, return_inverse=True)
    centroids = tensor.codebook[present].astype(np.float32)
    _, first, renumbered = np.unique(_keys_of(centroids, 32), return_index=True, return_inverse=True)
    assignments = renumbered.astype(np.uint16)[used].reshape(tensor.assignments.shape)
    return ClusteredTensor(centroids[first], assignments)


def write_codebook(writer: BitWriter, codebook: FloatArray) -> None:
    """Append an ascending codebook, of 16-bit floats if they hold it exactly."""
    wide = not (fits_fp16(codebook) and np.array_equal(fp16_codebook(codebook), codebook))
    keys = _keys_of(codebook, 32 if wide else 16)
    writer.field(int(wide), 1)
    writer.number(len(codebook) - 1)
    writer.field(int(keys[0]), 32 if wide else 16)
    writer.numbers(np.diff(keys) - 1)


def write_frequencies(writer: BitWriter, counts: IntArray) -> tuple[IntArray, int]:
    """Append the frequencies of symbols that all occur, by their differences; returns them and their scale bits."""
    scale_bits = min(MAX_SCALE_BITS, max(DEFAULT_SCALE_BITS, (4 * len(counts) - 1).bit_length()))
    frequencies = quantize_frequencies(counts, scale_bits)
    writer.field(scale_bits - MIN_SCALE_BITS, SCALE_FIELD_BITS)
    writer.numbers(np.diff(frequencies, prepend=(1 << scale_bits) // len(counts)))
    return frequencies, scale_bits


def centroids_of(keys: IntArray, bits: int) -> FloatArray:
    """Centroids from their numbers in the order of all floats of so many bits, 16 or 32."""
    top = 1 << (bits - 1)
    patterns = np.where(keys & top, keys ^ top, keys ^ (2 * top - 1))
    return patterns.astype(f"<u{bits // 8}").view(f"<f{bits // 8}").astype(np.float32)


def _keys_of(centroids: FloatArray, bits: int) -> IntArray:
    top = 1 << (bits - 1)
    patterns = centroids.astype(f"<f{bits // 8}").view(f"<u{bits // 8}").astype(np.int64)
    return np.where(patterns & top, patterns ^ (2 * top - 1), patterns ^ top)
