"""Allocation of one overall sparsity to the matrices of a model by their sensitivity. NumPy only."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["GRID", "MAX_SPARSITY", "SensitivityCurve", "allocate_sparsity"]

#: No matrix is pruned further than this: it would save little size and cost much quality.
MAX_SPARSITY: Final = 0.95
#: Sparsities at which costs are compared.
GRID: Final = np.linspace(0.0, MAX_SPARSITY, 39)
#: Cost of removing all of a matrix's energy where the scan measured none, in the unit of the loss: breaks ties.
_TIE_COST: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class SensitivityCurve:
    """The increase of the loss when one matrix alone is pruned.

    Attributes:
        num_weights: Elements of the matrix.
        sparsities: The sparsities scanned, ascending, each above 0 and at most 0.95.
        loss_increases: The increase of the loss at each; noise may make one negative.
        energies: The fraction of the matrix's sum of squares that magnitude pruning removes, at each of ``GRID``.
    """

    num_weights: int
    sparsities: tuple[float, ...]
    loss_increases: tuple[float, ...]
    energies: NDArray[np.float64]

    def costs(self) -> NDArray[np.float64]:
        """Estimated loss increase at each of ``GRID``; never falls.

        Between scanned points the cost follows the energy removed (to second order a loss grows with the squared
        change of the weights); beyond the last it goes on at the last slope.
        """
        scanned = np.interp(self.sparsities, GRID, self.energies)
        measured = np.maximum.accumulate(np.maximum(self.loss_increases, 0.0))
        x, y = np.concatenate([[0.0], scanned]), np.concatenate([[0.0], measured])
        costs = np.interp(self.energies, x, y)
        beyond = self.energies > x[-1]
        slope = (y[-1] - y[-2]) / max(float(x[-1] - x[-2]), 1e-12)
        costs[beyond] = y[-1] + slope * (self.energies[beyond] - x[-1])
        return np.maximum.accumulate(costs + _TIE_COST * self.energies)


def allocate_sparsity(curves: Mapping[str, SensitivityCurve], target: float) -> dict[str, float]:
    """Choose a sparsity for each matrix so that together they reach ``target`` at the smallest sum of estimated costs.

    Each matrix's cost is replaced by its lower convex hull; then the cheapest steps, in cost per zero, are taken first
    (optimal for convex costs), the last in part.

    Args:
        curves: One per matrix.
        target: Zeros as a fraction of all weights of these matrices, 0 to 0.95.

    Raises:
        ValueError: If ``target`` is out of range.
    """
    if not 0.0 <= target <= MAX_SPARSITY:
        raise ValueError(f"target sparsity: expected 0 to {MAX_SPARSITY}, found {target}")
    steps: list[tuple[float, float, str, float]] = []
    for name, curve in curves.items():
        costs = curve.costs()
        corners = _lower_hull(GRID, costs)
        for left, right in pairwise(corners):
            zeros = (GRID[right] - GRID[left]) * curve.num_weights
            steps.append((float((costs[right] - costs[left]) / zeros), float(GRID[left]), name, float(GRID[right])))
    wanted = target * sum(curve.num_weights for curve in curves.values())
    sparsities = dict.fromkeys(curves, 0.0)
    # Within a matrix a later step is never cheaper, so sorting keeps them in order; the second key settles ties.
    for _, left_sparsity, name, right_sparsity in sorted(steps):
        available = (right_sparsity - left_sparsity) * curves[name].num_weights
        taken = min(available, wanted)
        if taken <= 0:
            break
        sparsities[name] = left_sparsity + taken / curves[name].num_weights
        wanted -= taken
    return sparsities


def _lower_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[int]:
    """Indices of the corners of the lower convex hull of points with ascending ``x``."""
    corners: list[int] = []
    for point in range(len(x)):
        while len(corners) >= 2:
            before, last = corners[-2], corners[-1]
            if (y[last] - y[before]) * (x[point] - x[before]) < (y[point] - y[before]) * (x[last] - x[before]):
                break
            corners.pop()
        corners.append(point)
    return corners
