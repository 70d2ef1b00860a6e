"""One-dimensional k-means against the exact optimum, by dynamic programming over the sorted values."""

import numpy as np
import pytest

from lite_nlp.compress.quantize.kmeans import fit_codebook, squared_error


def exact_squared_error(values: np.ndarray, clusters: int) -> float:
    """The smallest possible sum of squared distances; O(clusters n^2)."""
    ordered = np.sort(values.astype(np.float64))
    first = np.concatenate([[0.0], np.cumsum(ordered)])
    second = np.concatenate([[0.0], np.cumsum(ordered**2)])

    def cost(start: int, end: int) -> float:
        return float(second[end] - second[start] - (first[end] - first[start]) ** 2 / (end - start))

    best = [0.0] + [np.inf] * len(ordered)
    for _ in range(clusters):
        best = [np.inf] + [
            min(best[start] + cost(start, end) for start in range(end)) for end in range(1, len(ordered) + 1)
        ]
    return best[-1]


@pytest.mark.parametrize(("count", "clusters"), [(40, 2), (60, 4), (120, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_error_is_near_the_optimum(count: int, clusters: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    optimum = exact_squared_error(values, clusters)
    found = squared_error(values, fit_codebook(values, clusters))
    assert optimum * (1 - 1e-6) <= found <= optimum * 1.3


def test_separated_clusters_are_found_exactly() -> None:
    rng = np.random.default_rng(5)
    centres = np.array([-3.0, -1.0, 0.5, 2.0, 7.0])
    values = (centres[rng.integers(0, 5, 150)] + rng.normal(scale=0.01, size=150)).astype(np.float32)
    assert squared_error(values, fit_codebook(values, 5)) == pytest.approx(exact_squared_error(values, 5), rel=1e-4)
