"""Rounding of weights to integers of 8 or 4 bits, exactly where they are on a grid already.

Compression leaves many rows of a matrix as integers times one step (``grid`` in ``compress/FORMAT.md``). Rounded to
multiples of another step they would change a second time; with their own step they stay what they are.

Shape letters: N outputs of a matrix, K inputs.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.export.runtime.rounded import (
    BLOCK,
    CUTS,
    GREATEST,
    LARGEST,
    LEAST,
    STEP,
    RoundedWeights,
)

__all__ = ["LEVELS", "MIN_OUTPUTS", "PAIRS", "quantize_blocks", "quantize_rows"]

#: Fewer output channels save nothing: the kernels of a convolution, which also are sensitive.
MIN_OUTPUTS: Final = 64

#: The least and the greatest level of 4 bits; those on a grid are to have a range as symmetric as that of 8 bits.
LEVELS: Final = (LEAST, GREATEST)

#: The two levels in each byte of :func:`~lite_nlp.export.runtime.rounded.pack_levels`, as numbers.
PAIRS: Final = np.array([[byte % 16 + LEAST, byte // 16 + LEAST] for byte in range(256)], np.float32)

#: How far a quotient of two fp32 numbers may be from an integer, relative, to be taken for it.
_CLOSE: Final = 8 * np.finfo(np.float32).eps


def quantize_rows(values: NDArray[Any]) -> RoundedWeights:
    """Round each row of a matrix to integers of 8 bits times a scale.

    The scale is the row's own step where all its values are integers up to 127 times one, to fp32's rounding. Else it
    is a 127th of the largest sum of two neighbours' magnitudes: x86 processors without VNNI add the products of two
    neighbours and 8-bit inputs in 16 bits, which hold 255 times 128.

    Args:
        values: (N, K) fp32.
    """
    multiples = _row_multiples(values, LARGEST)
    codes = np.where(multiples > 0, multiples, _paired_multiples(values)).astype(np.uint8)
    return RoundedWeights(values.astype(np.float32), 8, codes)


def quantize_blocks(values: NDArray[Any]) -> RoundedWeights:
    """Round blocks of ``BLOCK`` neighbours in a row to 16 levels times a scale.

    Where all values of a row are integers up to 7 times one step, that is the scale of its blocks. Else it is one of a
    few, by which the largest are cut more or less: that with the least squared error. Those are numbers of bf16, which
    XNNPACK keeps scales in, and above 0, as it wants them.

    Args:
        values: (N, K) fp32, K a multiple of ``BLOCK``.
    """
    values = values.astype(np.float32)
    shape = (len(values), values.shape[1] // BLOCK)
    tried = [RoundedWeights(values, 4, np.full(shape, code, np.uint8)) for code in range(len(CUTS))]
    errors = [np.square(each.restored() - values).reshape(*shape, BLOCK).sum(axis=2) for each in tried]
    best = np.argmin(errors, axis=0)
    multiples = _row_multiples(values, GREATEST)[:, None]
    return RoundedWeights(values, 4, np.where(multiples > 0, STEP + multiples, best).astype(np.uint8))


def _paired_multiples(values: NDArray[Any]) -> NDArray[np.float64]:
    """The largest magnitude of each row, as a multiple of a 127th of its largest sum of two neighbours' magnitudes."""
    magnitudes = np.abs(np.pad(values.astype(np.float64), ((0, 0), (0, values.shape[1] % 2))))
    sums = (magnitudes[:, 0::2] + magnitudes[:, 1::2]).max(axis=1, initial=0)
    largest = magnitudes.max(axis=1, initial=0)
    parts: NDArray[np.float64] = np.divide(largest, sums, out=np.ones_like(sums), where=sums > 0)
    return np.floor(LARGEST * parts)


def _row_multiples(values: NDArray[Any], largest: int) -> NDArray[np.int64]:
    """How many times a step the largest magnitude of each row is, if all of the row are integers times that step.

    0 where there is no step by which none is greater than ``largest``.
    """
    return np.array([_multiple(np.unique(np.abs(row)), largest) for row in values], np.int64)


def _multiple(magnitudes: NDArray[Any], largest: int) -> int:
    """The last of ascending magnitudes over the largest number of which all are integer multiples; 0 if none is."""
    sizes = magnitudes[magnitudes > 0].astype(np.float64)
    if not 0 < len(sizes) <= largest:
        return 0
    # The least magnitude is some multiple of the step.
    most = int(largest * sizes[0] / sizes[-1] * (1 + _CLOSE))
    multiples = np.outer(np.arange(1, most + 1), sizes / sizes[0])
    fits = (np.abs(multiples - np.rint(multiples)) <= _CLOSE * multiples).all(axis=1)
    if not fits.any():
        return 0
    integers = np.rint(multiples[fits.argmax()]).astype(np.float32)
    # By the greatest, whose rounding is the least part of a step.
    step = np.float32(sizes[-1]) / integers[-1]
    exact = np.abs(integers * step - sizes) <= 6 * np.spacing(sizes.astype(np.float32))
    return int(integers[-1]) if exact.all() else 0
