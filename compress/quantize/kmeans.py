"""One-dimensional k-means, which finds the values that weights share (Deep Compression, Han et al. 2016, section 3).

In one dimension a cluster is an interval, so sorted values with prefix sums give every sum that Lloyd's algorithm needs
in O(K log n) per round, whatever the number of values.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import ModelError

__all__ = ["assign", "fit_codebook", "squared_error"]

_LLOYD_ROUNDS: Final = 200
_MOVE_ROUNDS: Final = 50
#: Resolutions at which the density is estimated for the starting centroids; which is best depends on the tails.
_HISTOGRAM_BINS: Final = (64, 256, 1024)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class _Sorted:
    """Sorted distinct values and the prefix sums of their weights, weighted values and weighted squares."""

    values: FloatArray
    mass: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray | None) -> "_Sorted":
        if weights is None:
            ordered = np.sort(values)
            starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
            mass = np.diff(np.append(starts, len(ordered))).astype(np.float64)
            distinct = ordered[starts]
        else:
            order = np.argsort(values, kind="stable")
            ordered = values[order]
            starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
            mass = np.add.reduceat(weights[order], starts)
            distinct = ordered[starts]
        zero = np.zeros(1)
        return cls(
            distinct,
            np.concatenate([zero, np.cumsum(mass)]),
            np.concatenate([zero, np.cumsum(mass * distinct)]),
            np.concatenate([zero, np.cumsum(mass * distinct * distinct)]),
        )

    def means(self, cuts: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Mean and mass of the values between successive cuts; the mean of an empty interval is NaN."""
        mass = np.diff(self.mass[cuts])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(mass > 0, np.diff(self.first[cuts]) / mass, np.nan), mass

    def errors(self, cuts: NDArray[np.intp]) -> FloatArray:
        """Weighted squared distance from the mean, for each interval between successive cuts."""
        mass, first = np.diff(self.mass[cuts]), np.diff(self.first[cuts])
        spread = np.diff(self.second[cuts]) - np.divide(first * first, mass, out=np.zeros_like(mass), where=mass > 0)
        return np.maximum(spread, 0.0)


def fit_codebook(
    values: NDArray[Any], num_centroids: int, *, weights: NDArray[Any] | None = None, keep_zero: bool = True
) -> NDArray[np.float32]:
    """Fit centroids that minimise the (weighted) squared distance to the nearest one.

    Starts from the density that is optimal for many centroids (the cube root of the values' density, Panter and Dite
    1951), runs Lloyd's algorithm to its fixed point, then moves centroids from where they gain little to where
    they gain more, as long as that helps.

    Args:
        values: Weights of any shape, finite, at least one.
        num_centroids: Size of the codebook, at least 1 (at least 2 to keep zero beside other values); fewer come
            back where there are fewer distinct values.
        weights: Importance of each value, of the same shape, at least 0 and not all 0.
        keep_zero: Keep zero itself as a centroid if zero is among the values, so that pruned weights stay zero.

    Returns:
        Ascending centroids (K,) float32, K <= num_centroids.

    Raises:
        ModelError: If there is no value, or one that is not finite.
        ValueError: If ``num_centroids`` or ``weights`` is out of range.
    """
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if not flat.size or not np.all(np.isfinite(flat)):
        raise ModelError(
            f"k-means: expected finite weights, found {int(np.sum(~np.isfinite(flat)))} of {flat.size} not"
        )
    importance = None if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
    if importance is not None and (importance.size != flat.size or importance.min() < 0 or importance.max() <= 0):
        raise ValueError("weights: expected one for each value, at least 0 and not all 0")
    has_zero = keep_zero and bool(np.any(flat == 0.0))
    free = num_centroids - int(has_zero)
    if has_zero:
        kept = flat != 0.0
        importance = None if importance is None else importance[kept]
        flat = flat[kept]
    if free < (1 if flat.size else 0):
        raise ValueError(f"num_centroids: expected at least {1 + int(has_zero)}, found {num_centroids}")
    if importance is not None and flat.size:
        # Values without importance still need a centroid to be near.
        importance = np.maximum(importance, 1e-12 * max(float(importance.max()), 1e-300))
    centroids = _fit(_Sorted.of(flat, importance), free) if flat.size else np.empty(0)
    if has_zero:
        centroids = np.append(centroids, 0.0)
    return np.unique(centroids.astype(np.float32))


def assign(values: NDArray[Any], codebook: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The index of the nearest centroid for each value, in the values' shape; of two as near, the lower.

    Args:
        values: Weights of any shape.
        codebook: (K,) ascending centroids, at most 65,536.
    """
    centroids = codebook.astype(np.float64)
    middles = (centroids[1:] + centroids[:-1]) / 2
    return np.searchsorted(middles, values, side="left").astype(np.uint16)


def squared_error(values: NDArray[Any], codebook: NDArray[np.float32]) -> float:
    """Sum of the squared distances of the values to their nearest centroids."""
    difference = np.asarray(values, dtype=np.float64) - codebook.astype(np.float64)[assign(values, codebook)]
    return float(np.sum(difference * difference))


def _fit(data: _Sorted, size: int) -> FloatArray:
    if len(data.values) <= size:
        return data.values
    starts = [_lloyd(data, _initial(data, size, bins)) for bins in _HISTOGRAM_BINS]
    centroids, cuts = min(starts, key=lambda start: float(data.errors(start[1]).sum()))
    error = float(data.errors(cuts).sum())
    for _ in range(_MOVE_ROUNDS):
        moved, moved_cuts = _lloyd(data, _move_centroids(data, centroids, cuts, spare=size - len(centroids)))
        moved_error = float(data.errors(moved_cuts).sum())
        if moved_error >= error * (1 - 1e-6):
            break
        centroids, cuts, error = moved, moved_cuts, moved_error
    return centroids


def _initial(data: _Sorted, size: int, bins: int) -> FloatArray:
    """Quantiles of the cube root of the density, estimated from a histogram."""
    edges = np.linspace(float(data.values[0]), float(data.values[-1]), bins + 1)
    inside = np.diff(data.mass[np.searchsorted(data.values, edges[1:-1])], prepend=0.0, append=data.mass[-1])
    cumulative = np.concatenate([np.zeros(1), np.cumsum(np.cbrt(inside))])
    wanted = (np.arange(size) + 0.5) / size * cumulative[-1]
    return np.unique(np.interp(wanted, cumulative, edges))


def _lloyd(data: _Sorted, centroids: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Lloyd's algorithm to its fixed point; clusters that fall empty are dropped. Returns centroids and cuts."""
    cuts = _cut(data, centroids)
    for _ in range(_LLOYD_ROUNDS):
        means, mass = data.means(cuts)
        centroids = means[mass > 0]
        changed = _cut(data, centroids)
        if np.array_equal(changed, cuts):
            break
        cuts = changed
    means, mass = data.means(cuts)
    return means[mass > 0], np.unique(cuts)


def _cut(data: _Sorted, centroids: FloatArray) -> NDArray[np.intp]:
    """Where the sorted values change from one nearest centroid to the next, with both ends."""
    inner = np.searchsorted(data.values, (centroids[1:] + centroids[:-1]) / 2, side="right")
    return np.concatenate([[0], inner, [len(data.values)]]).astype(np.intp)


def _move_centroids(data: _Sorted, centroids: FloatArray, cuts: NDArray[np.intp], *, spare: int) -> FloatArray:
    """Split the clusters that gain most: with ``spare`` centroids, then by merging neighbours that lose less."""
    errors = data.errors(cuts)
    halves = _split_cuts(data, centroids, cuts)
    gains = errors - data.errors(halves).reshape(-1, 2).sum(axis=1)
    losses = _merged_errors(data, cuts) - errors[1:] - errors[:-1]
    half_means, _ = data.means(halves)
    merges = iter(np.argsort(losses, kind="stable").tolist())
    kept = np.ones(len(centroids), dtype=bool)
    added: list[float] = []
    for target in np.argsort(-gains, kind="stable")[: spare + len(centroids) // 8 + 1].tolist():
        if gains[target] <= 0.0 or not kept[target]:
            continue
        if spare > 0:
            spare -= 1
        else:
            left = next(
                (left for left in merges if kept[left] and kept[left + 1] and target - left not in (0, 1)), None
            )
            if left is None or gains[target] <= losses[left]:
                break
            kept[[left, left + 1]] = False
            added.append(float(data.means(cuts[[left, left + 2]])[0][0]))
        kept[target] = False
        added += half_means[2 * target : 2 * target + 2].tolist()
    return np.sort(np.concatenate([centroids[kept], np.array(added)]))


def _merged_errors(data: _Sorted, cuts: NDArray[np.intp]) -> FloatArray:
    """The error of each pair of neighbouring clusters as one cluster."""
    mass, first = data.mass[cuts[2:]] - data.mass[cuts[:-2]], data.first[cuts[2:]] - data.first[cuts[:-2]]
    spread: FloatArray = data.second[cuts[2:]] - data.second[cuts[:-2]] - first * first / mass
    return np.maximum(spread, 0.0)


def _split_cuts(data: _Sorted, centroids: FloatArray, cuts: NDArray[np.intp]) -> NDArray[np.intp]:
    """The cuts with one more inside each cluster, at its mean."""
    middle = np.searchsorted(data.values, centroids, side="right")
    return np.insert(cuts, np.arange(1, len(cuts)), middle)
