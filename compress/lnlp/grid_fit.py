"""Choice of the tables that code the levels of a grid in the fewest bits: classes of rows and columns, shape, tilts."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.bits import list_bits
from lite_nlp.compress.lnlp.grid_tables import NUM_CLASSES, NUM_TILTS, TILT_MAX, TILT_MIN, class_of_magnitude, family
from lite_nlp.compress.lnlp.limits import MAX_LISTED, max_grid_tables
from lite_nlp.compress.lnlp.tensors import MAX_LEVEL

__all__ = ["MAX_CLASS_OFFSET", "GridFit", "fit_grid"]

#: Rounds of proportional fitting; the second changes little.
_ROUNDS: Final = 3
#: Levels seen this many times more than they are, so that a tilt of a rare level is small.
_PRIOR: Final = 2.0
#: Bound of a row's or column's class.
MAX_CLASS_OFFSET: Final = 63
#: Widths of the classes of rows and of columns that are tried, in quarters of an octave; 0 for none.
_WIDTHS: Final = ((0, 0), (2, 2), (3, 3), (4, 4), (2, 0), (0, 2))
#: Magnitudes above are seen as this one, and those above a constant and a multiple of the mean as their sum.
_MAX_MAGNITUDE: Final = 255
_NEAR: Final = 8.0
_FAR: Final = 16.0
#: Levels that a median is taken of.
_MEDIAN_LEVELS: Final = 1 << 14
#: About what an escaped level takes: the rarest symbol, and its number.
_ESCAPE_BITS: Final = 20.0
#: Bits of a tensor's fields besides lists, half of its step among them.
_FIXED_BITS: Final = 38

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GridFit:
    """Tables for a matrix of levels.

    Attributes:
        center: What is subtracted from every level first.
        shape: Number of the shape.
        tilts: (8,) weights of the levels nearest to the center, in eighths of an octave.
        base: Class of the whole matrix.
        widths: Quarters of an octave in a unit of a row's, and of a column's, class; 0 if there are none.
        row_classes: (rows,) added to the base, times the width.
        column_classes: (columns,)
        bits: What the levels and all of this take, about.
    """

    center: int
    shape: int
    tilts: IntArray
    base: int
    widths: tuple[int, int]
    row_classes: IntArray
    column_classes: IntArray
    bits: float


def fit_grid(levels: NDArray[np.int32], *, sample: int | None = None) -> GridFit:
    """Fit tables to a matrix of levels.

    Args:
        levels: (rows, columns), at least one.
        sample: Look at about so many of the levels, for an estimate; left out, at all.
    """
    matrix = _Magnitudes.of(levels, sample)
    widths = _WIDTHS if sample is None else _WIDTHS[:2]
    fits = [fit for rows, columns in widths if (fit := matrix.fit(rows, columns)) is not None]
    return min(fits, key=lambda fit: fit.bits)


@dataclass(frozen=True)
class _Magnitudes:
    """The magnitudes of some levels of a matrix, and means over all of its rows and columns."""

    center: int
    size: int
    magnitudes: IntArray
    rows: IntArray
    columns: IntArray
    mean: float
    row_octaves: FloatArray
    column_octaves: FloatArray

    @classmethod
    def of(cls, levels: NDArray[np.int32], sample: int | None) -> "_Magnitudes":
        height, width = levels.shape
        center = _center(levels)
        absolute = np.abs(levels - np.int32(center)) if center else np.abs(levels)
        # A level far outside must not raise the classes of its row and column.
        exact = np.minimum(absolute, np.int32(_MAX_MAGNITUDE)).astype(np.float32)
        np.minimum(exact, _NEAR + _FAR * exact.mean(), out=exact)
        row_sums = exact @ np.ones(width, dtype=np.float32)
        column_sums = np.ones(height, dtype=np.float32) @ exact
        mean = max(float(row_sums.sum(dtype=np.float64)) / levels.size, 0.25 / levels.size)
        flat = absolute.reshape(-1)
        step = 1 if sample is None else max(1, levels.size // sample)
        while step > 1 and np.gcd(step, width) > 1:
            step += 1
        places = np.arange(0, levels.size, step)
        return cls(
            center,
            levels.size,
            np.minimum(flat[places], _MAX_MAGNITUDE).astype(np.int64),
            places // width,
            places % width,
            mean,
            _octaves(row_sums, width, mean),
            _octaves(column_sums, height, mean),
        )

    def fit(self, row_width: int, column_width: int) -> GridFit | None:
        """The best tables for classes of these widths; none if a reader would refuse so many."""
        if any(
            width and len(octaves) > MAX_LISTED
            for width, octaves in ((row_width, self.row_octaves), (column_width, self.column_octaves))
        ):
            return None
        rows, columns = _classes(self.row_octaves, row_width), _classes(self.column_octaves, column_width)
        base = int(np.clip(class_of_magnitude(np.array(self.mean)), 0, NUM_CLASSES - 1))
        chosen = (base + row_width * rows)[self.rows] + (column_width * columns)[self.columns]
        chosen = np.clip(chosen, 0, NUM_CLASSES - 1)
        reach = int(self.magnitudes.max()) + 1
        counts = np.bincount(chosen * reach + self.magnitudes, minlength=NUM_CLASSES * reach).reshape(NUM_CLASSES, -1)
        present = np.flatnonzero(counts.any(axis=1))
        # A sample may miss a table or two, which an estimate can do without.
        if len(present) > max_grid_tables(self.size):
            return None
        shape, tilts, bits = _fit_tables(counts[present] * np.float64(self.size / len(self.magnitudes)), present)
        sides = [list_bits(classes) for classes, width in ((rows, row_width), (columns, column_width)) if width]
        return GridFit(
            center=self.center,
            shape=shape,
            tilts=tilts,
            base=base,
            widths=(row_width, column_width),
            row_classes=rows,
            column_classes=columns,
            bits=bits + sum(sides) + _FIXED_BITS,
        )


def _center(levels: NDArray[np.int32]) -> int:
    """The level that the others lie around: 0 for weights, more for a vector of gains."""
    if abs(float(levels.mean())) < 0.5:
        return 0
    # Levels far outside move a mean, but no median.
    median = int(np.median(levels.reshape(-1)[:: max(1, levels.size // _MEDIAN_LEVELS)]))
    # The tables reach to both sides of it.
    most = MAX_LEVEL - _MAX_MAGNITUDE
    return min(max(median, -most), most)


def _octaves(sums: NDArray[np.float32], count: int, mean: float) -> FloatArray:
    """How far the mean magnitude of each row or column is above that of all, in octaves."""
    # As if half a level more of the mean magnitude had been seen: no row is expected to be all zeros.
    means = (sums.astype(np.float64) + 0.5 * mean) / (count + 0.5)
    return np.asarray(np.log2(means / mean))


def _classes(octaves: FloatArray, width: int) -> IntArray:
    if not width:
        return np.zeros(len(octaves), dtype=np.int64)
    classes = np.rint(octaves * (4.0 / width)).astype(np.int64)
    return np.clip(classes, -MAX_CLASS_OFFSET, MAX_CLASS_OFFSET)


@lru_cache(maxsize=1)
def _untilted() -> FloatArray:
    return np.exp2(-family() / 256.0)


def _fit_tables(counts: FloatArray, classes: IntArray) -> tuple[int, IntArray, float]:
    """Shape and tilts for counts of magnitudes (classes, magnitudes), and the bits that levels and tilts then take."""
    reach = counts.shape[1]
    tilted = min(reach, NUM_TILTS)
    weights = _untilted()[:, classes]
    rest = 2 * weights[:, :, reach:].sum(axis=2)
    weights = 2 * weights[:, :, :reach]
    weights[:, :, 0] /= 2
    seen = counts.sum(axis=1)
    found = counts[:, :tilted].sum(axis=0) + _PRIOR
    octaves = np.zeros((len(weights), tilted))
    for _ in range(_ROUNDS):
        tilts = np.clip(np.rint(octaves * -8), TILT_MIN, TILT_MAX)
        current = weights.copy()
        current[:, :, :tilted] *= np.exp2(tilts / -8)[:, None]
        totals = rest + current.sum(axis=2)
        expected = np.einsum("t,stl->sl", seen, current[:, :, :tilted] / totals[:, :, None]) + _PRIOR
        octaves = octaves + np.log2(found / expected)
    plain = _level_bits(counts, seen, weights, rest + weights.sum(axis=2))
    fitted = _level_bits(counts, seen, current, totals)
    best, plainest = int(np.argmin(fitted)), int(np.argmin(plain))
    kept = np.zeros(NUM_TILTS, dtype=np.int64)
    plain_bits = float(plain[plainest]) + list_bits(kept)
    kept[:tilted] = tilts[best].astype(np.int64)
    bits = float(fitted[best]) + list_bits(kept)
    if plain_bits <= bits:
        return plainest, np.zeros(NUM_TILTS, dtype=np.int64), plain_bits
    return best, kept, bits


def _level_bits(counts: FloatArray, seen: FloatArray, weights: FloatArray, totals: FloatArray) -> FloatArray:
    """Bits that the levels take for each shape; one that is too rare for a table is escaped."""
    costs = np.minimum(np.log2(totals)[:, :, None] - np.log2(weights + 1e-300), _ESCAPE_BITS)
    return np.asarray(np.einsum("tl,stl->s", counts, costs) + counts[:, 1:].sum())
