"""Tables of the entropy coder for levels on a uniform grid: a family that a few numbers choose from.

A level's probability falls as ``2 ** -((|level| - 1/2) / s) ** b``, a generalised Gaussian of shape ``b`` whose scale
``s`` follows from the expected magnitude; eight weights of a tensor correct it for the levels near zero (iterative
proportional fitting, Deming and Stephan 1940). So tables cost no bytes but those. All of it is integers, square roots,
products and quotients of IEEE 754 doubles, which give the same bits everywhere: ``FORMAT.md``, section "Tables".
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ESCAPE",
    "GRID_SCALE_BITS",
    "NUM_CLASSES",
    "NUM_SHAPES",
    "NUM_TILTS",
    "TILT_MAX",
    "TILT_MIN",
    "GridTables",
    "build_tables",
    "class_of_magnitude",
    "family",
    "tilted_weights",
]

#: Frequencies sum to 2 ** 12.
GRID_SCALE_BITS: Final = 12

#: Exponents b of the shapes, as the text of FORMAT.md numbers them.
NUM_SHAPES: Final = 6

#: Classes of expected magnitude, a quarter of an octave apart: class c expects 2 ** ((c - 48) / 4).
NUM_CLASSES: Final = 73
_FIRST_CLASS: Final = -48

#: Levels 0 to 7 have a weight of their own, in eighths of an octave; positive ones make a level rarer.
NUM_TILTS: Final = 8
TILT_MIN: Final = -32
TILT_MAX: Final = 31

#: Magnitudes above are always escaped.
_MAX_MAGNITUDE: Final = 255

#: What a table holds in the place of an escaped level.
ESCAPE: Final = -(1 << 15)

#: Scales are powers of 2 ** (1 / 32).
_FIRST_SCALE: Final = -320
_NUM_SCALES: Final = 641
#: Exponents of weights are in 256ths of an octave; this much is added to them, so that a tilt leaves none below zero.
_EXPONENT_BIAS: Final = 1024

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class GridTables:
    """Tables of one tensor.

    Attributes:
        reach: (T,) greatest magnitude that each table holds; beyond it a level is escaped.
        frequencies: (T, 512) of the levels 0, 1, -1, 2, -2 and so on up to the reach, then of the escape, then zeros;
            each row sums to 2 ** 12.
    """

    reach: IntArray
    frequencies: IntArray


def class_of_magnitude(magnitude: NDArray[np.float64]) -> IntArray:
    """The class that expects a magnitude, not yet bounded: in quarters of an octave from the first class on."""
    return np.asarray(np.rint(4 * np.log2(magnitude)).astype(np.int64) - _FIRST_CLASS)


@lru_cache(maxsize=1)
def family() -> IntArray:
    """Exponents of the weights: (shapes, classes, magnitudes 0 to 255), in 256ths of an octave, without tilt."""
    scales = np.arange(_FIRST_SCALE, _FIRST_SCALE + _NUM_SCALES)
    inverse = _powers(5)[scales % 32] * np.ldexp(1.0, -(scales // 32))
    roots = np.maximum(np.arange(_MAX_MAGNITUDE + 1) - 0.5, 0.0)[None, :] * inverse[:, None]
    octaves = np.arange(_FIRST_CLASS, _FIRST_CLASS + NUM_CLASSES)
    targets = _powers(2)[-octaves % 4] * np.ldexp(1.0, -(-octaves // 4))
    half = np.sqrt(roots)
    quarter = np.sqrt(half)
    magnitudes = np.arange(_MAX_MAGNITUDE + 1)
    shapes = []
    for powered in (half, half * quarter, roots, roots * quarter, roots * half, roots * roots):
        exponents = np.minimum(np.floor(256.0 * powered), float(1 << 14)).astype(np.int64)
        weights = _weights(exponents)
        total = 2 * weights.sum(axis=1) - weights[:, 0]
        means = (2 * weights @ magnitudes).astype(np.float64) / total.astype(np.float64)
        shapes.append(exponents[np.argmax(means[None, :] >= targets[:, None], axis=1)])
    return np.stack(shapes)


def build_tables(shape: int, tilts: IntArray, classes: IntArray) -> GridTables:
    """The tables of a tensor.

    Args:
        shape: 0 to 5.
        tilts: (8,) by how many eighths of an octave the levels 0 to 7 are rarer, -32 to 31.
        classes: (T,) classes of expected magnitude.
    """
    weights = tilted_weights(shape, tilts, classes)
    doubled = 2 * weights
    doubled[:, 0] = weights[:, 0]
    total = doubled.sum(axis=1)[:, None]
    # A level in the table has a frequency of at least 1; this much is kept for those that a tilt brings below, and for
    # the escape.
    scale = (1 << GRID_SCALE_BITS) - 2 * NUM_TILTS - 2
    reach = _MAX_MAGNITUDE - np.argmax((weights * scale >= total)[:, ::-1], axis=1)
    inside = np.arange(_MAX_MAGNITUDE + 1) <= reach[:, None]
    inside[:, 0] = True
    symbols = np.zeros((len(classes), 2 * _MAX_MAGNITUDE + 2), dtype=np.int64)
    symbols[:, 0] = weights[:, 0]
    symbols[:, 1:-1:2] = symbols[:, 2:-1:2] = np.where(inside, weights, 0)[:, 1:]
    ends = np.cumsum(symbols, axis=1) * scale // total
    frequencies = np.diff(ends, prepend=0, axis=1)
    positions = np.arange(symbols.shape[1])
    escape = 2 * reach + 1
    frequencies = np.where(positions < escape[:, None], np.maximum(frequencies, 1), 0)
    rows = np.arange(len(classes))
    frequencies[rows, escape] = np.maximum(scale - ends[rows, escape - 1], 1)
    frequencies[:, 0] += (1 << GRID_SCALE_BITS) - frequencies.sum(axis=1)
    return GridTables(reach, frequencies)


def tilted_weights(shape: int, tilts: IntArray, classes: IntArray) -> IntArray:
    """(T, 256) weights of the magnitudes 0 to 255; a positive and a negative level have one each."""
    exponents = family()[shape][classes] + _EXPONENT_BIAS
    exponents[:, :NUM_TILTS] += 32 * tilts
    return _weights(exponents)


def _powers(halvings: int) -> NDArray[np.float64]:
    """2 ** (-i / n) for i below n = 2 ** halvings, by square roots and products."""
    step = 0.5
    for _ in range(halvings):
        step = float(np.sqrt(step))
    return np.cumprod(np.concatenate([[1.0], np.full((1 << halvings) - 1, step)]))


@lru_cache(maxsize=1)
def _mantissas() -> IntArray:
    return np.floor(_powers(8) * (1 << 30)).astype(np.int64)


def _weights(exponents: IntArray) -> IntArray:
    return np.asarray(_mantissas()[exponents & 255] >> np.minimum(exponents >> 8, 31))
