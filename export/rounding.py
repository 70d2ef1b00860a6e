"""Rounding of weights to integers of 8 or 4 bits, exactly where they are on a grid already.

Compression leaves many rows of a matrix as integers times one step (``grid`` in ``compress/FORMAT.md``). Rounded to
multiples of another step they would change a second time; with their own step they stay what they are.

Shape letters: N outputs of a matrix, K inputs.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "LEVELS", "MIN_OUTPUTS", "PAIRS", "pack_levels", "quantize_blocks", "quantize_rows"]

#: Fewer output channels save nothing: the kernels of a convolution, which also are sensitive.
MIN_OUTPUTS: Final = 64

#: Weights of a row that share a scale in 4 bits.
BLOCK: Final = 32

#: The largest integer of 8 bits, so that the range is symmetric.
_LARGEST: Final = 127

#: Levels of 4 bits, the least and the greatest; those on a grid are to have a range as symmetric.
LEVELS: Final = (-8, 7)
_LEAST, _GREATEST = LEVELS

#: The two levels in each byte of :func:`pack_levels`, as numbers.
PAIRS: Final = np.array([[byte % 16 + _LEAST, byte // 16 + _LEAST] for byte in range(256)], np.float32)

#: Scales of a block that are tried: its largest magnitude by these. Below the greatest level none is cut, above it the
#: largest are, and all others come nearer to theirs.
_CUTS: Final = (7.0, 7.25, 7.5, 7.75, 8.0, 8.5, 9.0, 9.5)

#: How far a quotient of two fp32 numbers may be from an integer, relative, to be taken for it.
_CLOSE: Final = 4 * np.finfo(np.float32).eps


def quantize_rows(values: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each row of a matrix to integers times a scale.

    The scale is the row's own step where all its values are integers up to 127 times one, to fp32's rounding; else a
    127th of its largest magnitude.

    Args:
        values: (N, K) fp32.

    Returns:
        (N, K) integers, -127 to 127, and the scale (N,) by which they become the values again.
    """
    scales = np.abs(values).max(axis=1).astype(np.float32) / np.float32(_LARGEST)
    # A row of zeros has any scale.
    scales[scales == 0] = 1
    steps = _row_steps(values, _LARGEST)
    scales = np.where(steps > 0, steps, scales)
    return np.rint(values / scales[:, None]).astype(np.int8), scales


def quantize_blocks(values: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round blocks of ``BLOCK`` neighbours in a row to 16 levels times a scale.

    Where all values of a row are integers up to 7 times one step, that is the scale of its blocks. Else it is one of a
    few, by which the largest are cut more or less: that with the least squared error. Those are numbers of bf16, which
    XNNPACK keeps scales in, and above 0, as it wants them.

    Args:
        values: (N, K) fp32, K a multiple of ``BLOCK``.

    Returns:
        (N, K / BLOCK, BLOCK) levels, -8 to 7, and scales (N, K / BLOCK).
    """
    outputs, inputs = values.shape
    blocks = values.reshape(outputs, inputs // BLOCK, BLOCK).astype(np.float32)
    largest = np.abs(blocks).max(axis=2)
    # Blocks of zeros have any scale.
    tried = [np.where(largest > 0, _to_bf16(largest / np.float32(cut)), np.float32(1)) for cut in _CUTS]
    errors = [np.square(_levels(blocks, scales) * scales[:, :, None] - blocks).sum(axis=2) for scales in tried]
    best = np.argmin(errors, axis=0)
    scales = np.take_along_axis(np.stack(tried), best[None], axis=0)[0]
    steps = _row_steps(values, _GREATEST)
    scales = np.where(steps[:, None] > 0, steps[:, None], scales)
    return _levels(blocks, scales).astype(np.int8), scales


def pack_levels(levels: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Levels (..., 2 n) of 4 bits as bytes (..., n) of two, each plus 8, the first in the lower half."""
    offset = (levels - _LEAST).astype(np.uint8)
    return np.bitwise_or(offset[..., 0::2], np.left_shift(offset[..., 1::2], 4)).astype(np.uint8)


def _levels(blocks: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    levels: NDArray[np.float32] = np.clip(np.rint(blocks / scales[:, :, None]), _LEAST, _GREATEST)
    return levels


def _to_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest numbers of which fp32 needs the upper half alone."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)


def _row_steps(values: NDArray[Any], largest: int) -> NDArray[np.float32]:
    """Of each row the step that its values are integers times, up to ``largest``; 0 where there is none."""
    return np.array([_step(np.unique(np.abs(row)), largest) for row in values], np.float32)


def _step(magnitudes: NDArray[Any], largest: int) -> np.float32:
    """The largest number of which ascending magnitudes are integer multiples, up to ``largest``; 0 if there is none."""
    sizes = magnitudes[magnitudes > 0].astype(np.float64)
    nothing = np.float32(0)
    if not 0 < len(sizes) <= largest:
        return nothing
    # The least magnitude is some multiple of the step.
    most = int(largest * sizes[0] / sizes[-1] * (1 + _CLOSE))
    multiples = np.outer(np.arange(1, most + 1), sizes / sizes[0])
    fits = (np.abs(multiples - np.rint(multiples)) <= _CLOSE * multiples).all(axis=1)
    if not fits.any():
        return nothing
    integers = np.rint(multiples[fits.argmax()]).astype(np.float32)
    # By the greatest, whose rounding is the least part of a step.
    step = np.float32(sizes[-1]) / integers[-1]
    exact = np.abs(integers * step - sizes) <= 2 * np.spacing(sizes.astype(np.float32))
    return step if exact.all() else nothing
