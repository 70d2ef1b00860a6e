"""Codebooks of matrices: fitted by importance, refined, and bounded samples of the weights to do so."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.encodings import fp16_codebook
from lite_nlp.compress.quantize.kmeans import assign, fit_codebook

__all__ = ["CENTROID_BITS", "bounded_importance", "fit", "places_of_sample", "pruned", "refine", "threshold"]

FloatArray = NDArray[np.float32]

#: Bits of a centroid with its frequency in the file.
CENTROID_BITS: Final = 28
#: Importance counts in the fit between these multiples of its mean: a few weights are not to own the codebook.
_LEAST, _MOST = 0.1, 10.0


def fit(values: FloatArray, importance: FloatArray, levels: int) -> FloatArray:
    """At most ``levels`` ascending centroids (K,), each a 16-bit float, zero among them if it is among the values.

    Raises:
        ModelError: If a value is not finite.
    """
    codebook = fit_codebook(values, levels, weights=bounded_importance(importance))
    return np.unique(fp16_codebook(codebook))


def refine(values: FloatArray, importance: FloatArray, codebook: FloatArray) -> FloatArray:
    """The codebook after one round of Lloyd's algorithm; zero stays where it is."""
    assignments = assign(values, codebook)
    mass = np.bincount(assignments, weights=importance, minlength=len(codebook))
    sums = np.bincount(assignments, weights=importance * values, minlength=len(codebook))
    means = np.divide(sums, mass, out=codebook.astype(np.float64), where=mass > 0)
    means[codebook == 0] = 0.0
    return np.unique(fp16_codebook(means.astype(np.float32)))


def bounded_importance(importance: FloatArray) -> FloatArray:
    """Importance within a factor of ten of its mean."""
    mean = float(importance.mean())
    bounded: FloatArray = np.clip(importance, _LEAST * mean, _MOST * mean)
    return bounded


def places_of_sample(size: int, most: int) -> NDArray[np.int64]:
    """At most so many places, evenly spaced over ``size``."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64))


def threshold(values: FloatArray, sparsity: float) -> float:
    """The magnitude below which a fraction ``sparsity`` of the values lies; 0 for none."""
    zeros = round(values.size * sparsity)
    return 0.0 if zeros == 0 else float(np.partition(np.abs(values).reshape(-1), zeros - 1)[zeros - 1]) * (1 + 1e-6)


def pruned(values: FloatArray, smallest: float) -> FloatArray:
    """The values with zeros in place of those below a threshold in magnitude."""
    kept: FloatArray = np.where(np.abs(values) < smallest, np.float32(0), values)
    return kept
