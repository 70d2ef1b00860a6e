"""Tensors before and after encoding: k-means clusters, levels of a uniform grid, and payloads. NumPy only."""

from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAX_EXPONENT",
    "MAX_LEVEL",
    "MAX_VECTOR_VALUE",
    "ClusteredTensor",
    "EncodedTensor",
    "GridScales",
    "GridTensor",
    "convert",
    "matrix_shape",
    "outer_sums",
    "quantize_vector",
]

#: Bounds of levels and of exponents: a float32 holds each level, and each factor, exactly.
MAX_LEVEL: Final = (1 << 23) - 1
#: Greatest level of a quantized vector: below, so that the tables around its center have room.
_MAX_VECTOR_LEVEL: Final = 1 << 22
#: Greatest magnitude in a quantized vector: with a step more, and as a span with its opposite, it is a float32.
MAX_VECTOR_VALUE: Final = 2.0**126
MAX_EXPONENT: Final = 63

#: Weights that are computed at once.
_BLOCK_WEIGHTS: Final = 1 << 18

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class EncodedTensor:
    """A tensor as stored in a file.

    Attributes:
        shape: Its dimensions; empty for a scalar.
        encoding: One of ``lite_nlp.compress.lnlp.encodings.ENCODINGS``.
        payload: Its bytes.
    """

    shape: tuple[int, ...]
    encoding: str
    payload: bytes

    @property
    def num_elements(self) -> int:
        """Number of weights; 1 for a scalar."""
        return prod(self.shape)


@dataclass(frozen=True)
class ClusteredTensor:
    """A tensor whose weights share centroids.

    Attributes:
        codebook: (K,) float32 centroids, K from 1 to 4096.
        assignments: Integer array of the tensor's shape: the centroid of each weight.
    """

    codebook: FloatArray
    assignments: NDArray[np.uint16]

    def values(self) -> FloatArray:
        """The weights that the centroids stand for, in the tensor's shape."""
        return self.codebook[self.assignments]


@dataclass(frozen=True)
class GridTensor:
    """A tensor whose weights lie on a uniform grid, with a step of its own for each row and column.

    A weight is ``level * step * 2 ** ((row exponent + column exponent) / 2)``. Rows are the first dimension, columns
    all others together; a vector, or a scalar, is one row.

    Attributes:
        levels: int32 array of the tensor's shape, each within 2 ** 23 - 1 of zero.
        step: Above 0; used as a float32.
        row_exponents: (rows,) int8, each within 63 of zero.
        column_exponents: (columns,) int8, each within 63 of zero.

    Raises:
        ValueError: If one of them is out of range or of another shape.
    """

    levels: NDArray[np.int32]
    step: float
    row_exponents: NDArray[np.int8]
    column_exponents: NDArray[np.int8]

    def __post_init__(self) -> None:
        shapes = ((self.row_exponents.shape[0],), (self.column_exponents.shape[0],))
        expected = matrix_shape(self.levels.shape)
        if (*shapes[0], *shapes[1]) != expected or self.row_exponents.ndim != 1 or self.column_exponents.ndim != 1:
            raise ValueError(f"exponents: expected {expected[0]} of rows and {expected[1]} of columns, found {shapes}")
        with np.errstate(over="ignore"):
            step = float(np.float32(self.step))
        if not (isfinite(step) and step > 0):
            raise ValueError(f"step: expected a number above 0 that a float32 holds, found {self.step}")
        for what, values, most in (
            ("levels", self.levels, MAX_LEVEL),
            ("row exponents", self.row_exponents, MAX_EXPONENT),
            ("column exponents", self.column_exponents, MAX_EXPONENT),
        ):
            if values.dtype.kind != "i" or (values.size and max(int(values.max()), -int(values.min())) > most):
                raise ValueError(f"{what}: expected integers within {most} of zero, found others")
        GridScales(self.step, self.row_exponents, self.column_exponents)

    @property
    def matrix(self) -> NDArray[np.int32]:
        """The levels as (rows, columns)."""
        return self.levels.reshape(*matrix_shape(self.levels.shape))

    def values(self) -> FloatArray:
        """The weights, in the tensor's shape, exactly as a reader of the file decodes them.

        ``FORMAT.md``, section "Grid": each is one float32 product of its level and of a scale, which depends on the sum
        of both exponents and is a float32 itself.
        """
        scales = GridScales(self.step, self.row_exponents, self.column_exponents)
        return scales.weights(self.levels.reshape(-1)).reshape(self.levels.shape)


class GridScales:
    """The factors between the levels of a grid and its weights; arguments as in ``GridTensor``.

    Raises:
        ValueError: If one of them is infinite.
    """

    def __init__(
        self,
        step: float,
        row_exponents: NDArray[np.signedinteger[Any]],
        column_exponents: NDArray[np.signedinteger[Any]],
    ) -> None:
        self._rows, self._columns = convert(row_exponents, np.int16), convert(column_exponents, np.int16)
        if self._rows.size and self._columns.size:
            self._least = int(self._rows.min()) + int(self._columns.min())
            most = int(self._rows.max()) + int(self._columns.max())
            self._scales = _scales(step, self._least, most)
            if not np.all(np.isfinite(self._scales)):
                raise ValueError(f"step: expected one that is finite with all exponents, found {step} with {most}")

    def weights(self, levels: NDArray[np.signedinteger[Any]], *, center: int = 0) -> FloatArray:
        """The weights of all levels, to which ``center`` is added, in row-major order."""
        values = np.empty(levels.shape, dtype=np.float32)
        # In blocks, so that no other array of the tensor's size is made.
        for start in range(0, len(levels), _BLOCK_WEIGHTS):
            part = slice(start, start + _BLOCK_WEIGHTS)
            self._multiply(levels[part] + np.int32(center), start, values[part])
        return values

    def weights_at(self, levels: NDArray[np.int32], places: NDArray[np.intp]) -> FloatArray:
        """The weights of some levels, by their places in row-major order."""
        width = len(self._columns)
        sums = self._rows[places // width] + self._columns[places % width]
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(levels.astype(np.float32) * self._scales[sums - self._least])

    def _multiply(self, levels: NDArray[np.int32], start: int, out: FloatArray) -> None:
        with np.errstate(over="ignore", under="ignore"):
            if len(self._scales) == 1:
                np.multiply(levels.astype(np.float32), self._scales[0], out=out)
            else:
                sums = outer_sums(self._rows, self._columns, start, len(levels))
                np.multiply(levels.astype(np.float32), self._scales[sums - self._least], out=out)


def convert(
    values: NDArray[np.signedinteger[Any]], dtype: type[np.signedinteger[Any]]
) -> NDArray[np.signedinteger[Any]]:
    """Integers as another type; one that is repeated by a stride of zero still takes no memory."""
    if values.strides == (0,):
        return np.broadcast_to(values[:1].astype(dtype), values.shape)
    return values.astype(dtype)


def outer_sums(
    rows: NDArray[np.signedinteger[Any]], columns: NDArray[np.signedinteger[Any]], start: int, count: int
) -> NDArray[np.signedinteger[Any]]:
    """Sums of a row's and a column's number for ``count`` elements of their matrix, row by row from ``start``."""
    if not count:
        return np.zeros(0, dtype=np.int16)
    width = len(columns)
    top, left = divmod(start, width)
    bottom = (start + count - 1) // width
    if top == bottom:
        return np.asarray(rows[top] + columns[left : left + count])
    return np.asarray((rows[top : bottom + 1, None] + columns).reshape(-1)[left : left + count])


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns that a tensor is seen as: the first dimension and the rest; a vector is one row."""
    return (1, prod(shape)) if len(shape) < 2 else (shape[0], prod(shape[1:]))


def quantize_vector(values: NDArray[Any], bits: int) -> GridTensor:
    """Round a vector, such as a bias or the gains of a normalization, to a grid of at most ``2 ** bits`` levels.

    The step is the span of the values divided by ``2 ** bits - 1``; zero is a level, so that zeros stay zero,
    and a value is at most half a step off, one at an end a whole step.

    Args:
        values: (n,) within 2 ** 126 of zero; any shape is taken as it is.
        bits: 1 to 16.

    Raises:
        ValueError: If a value or ``bits`` is out of range.
    """
    exact = np.asarray(values, dtype=np.float64)
    if not 1 <= bits <= 16:
        raise ValueError(f"bits: expected 1 to 16, found {bits}")
    if not np.all(np.abs(exact) <= MAX_VECTOR_VALUE):
        raise ValueError(f"values: expected numbers within {MAX_VECTOR_VALUE:.1e} of zero, found others")
    rows, columns = matrix_shape(exact.shape)
    low, high = (float(exact.min()), float(exact.max())) if exact.size else (0.0, 0.0)
    # Far from zero a span says little about the size of a level: no level may be beyond its bound.
    step = max((high - low) / ((1 << bits) - 1), max(-low, high) / _MAX_VECTOR_LEVEL, float(np.finfo(np.float32).tiny))
    if low == high and low:
        step = abs(low)
    step = float(np.nextafter(np.float32(step), np.float32(np.inf)))
    first = int(np.rint(low / step))
    levels = np.clip(np.rint(exact / step), first, first + (1 << bits) - 1)
    zeros = np.zeros(rows, dtype=np.int8), np.zeros(columns, dtype=np.int8)
    return GridTensor(levels.astype(np.int32), step, *zeros)


def _scales(step: float, least: int, most: int) -> FloatArray:
    """The scale for each sum of exponents from ``least`` to ``most``."""
    sums = np.arange(least, most + 1)
    with np.errstate(over="ignore", under="ignore"):
        odd = np.where(sums % 2 == 1, np.float32(step) * np.float32(np.sqrt(2.0)), np.float32(step))
        return (odd.astype(np.float32) * np.ldexp(np.float32(1.0), sums // 2)).astype(np.float32)
