"""Rounding of weights to integers of 8 or 4 bits, exactly where they are on a grid already.

Compression leaves many rows of a matrix as integers times one step (``grid`` in ``compress/FORMAT.md``). Rounded to
multiples of another step they would change a second time; with their own step they stay what they are.

Shape letters: N outputs of a matrix, K inputs.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "MIN_OUTPUTS", "quantize_blocks", "quantize_rows"]

#: Fewer output channels save nothing: the kernels of a convolution, which also are sensitive.
MIN_OUTPUTS: Final = 64

#: Weights of a row that share a scale in 4 bits.
BLOCK: Final = 32

#: The largest integer of 8 bits, so that the range is symmetric.
_LARGEST: Final = 127

#: Integers of 4 bits, less their offset, are -8 to 7; those on a grid are to have a range as symmetric.
_LEAST, _GREATEST = -8, 7

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


def quantize_blocks(values: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Round blocks of ``BLOCK`` neighbours in a row to 16 levels, in the layout of ONNX Runtime's ``MatMulNBits``.

    The value of the largest magnitude becomes level -8 of its block, so that none of the 16 is lost; where all values
    of a row are integers up to 7 times one step, that is the scale of its blocks.

    Args:
        values: (N, K) fp32, K a multiple of ``BLOCK``.

    Returns:
        (N, K / BLOCK, BLOCK / 2) bytes of two levels, each plus 8, the first in the lower half; and scales
        (N, K / BLOCK), which may be negative.
    """
    outputs, inputs = values.shape
    blocks = values.reshape(outputs, inputs // BLOCK, BLOCK)
    extremes = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
    scales = (extremes / np.float32(_LEAST)).astype(np.float32)
    scales[scales == 0] = 1
    steps = _row_steps(values, _GREATEST)
    scales = np.where(steps[:, None] > 0, steps[:, None], scales)
    levels = np.clip(np.rint(blocks / scales[:, :, None]), _LEAST, _GREATEST) - _LEAST
    levels = levels.astype(np.uint8)
    return levels[:, :, 0::2] | (levels[:, :, 1::2] << 4), scales


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
