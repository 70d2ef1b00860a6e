"""Linear attention by its equations, one vector and one pair at a time, in NumPy and fp64."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FLOOR",
    "attend",
    "elu_features",
    "learned_features",
    "pair_sums",
    "random_features",
]

Array = NDArray[np.float64]

#: Smallest normalizer, and factor of random features, in T2R's released code (``EPS`` and ``SCALE``).
FLOOR = 0.01
SCALE = 0.01


def learned_features(x: Array, weight: Array, bias: Array) -> Array:
    """T2R (Kasai et al. 2021), equation 3b: relu(W x + b) of one vector (d,), with ``weight`` (k, d)."""
    return np.array([max(0.0, float(row @ x) + shift) for row, shift in zip(weight, bias, strict=True)])


def elu_features(x: Array) -> Array:
    """Katharopoulos et al. 2020, equation 7: elu(x) + 1 of one vector (d,)."""
    return np.array([value + 1 if value > 0 else math.exp(value) for value in x])


def random_features(x: Array, projections: Array, temperature: Array) -> Array:
    """Random feature attention (Peng et al. 2021), equations 4 and 6: one vector (d,), scaled to length 1.

    The rows of ``projections`` (k / 2, d) are multiplied by the ``temperature`` (d,) of their channels. The factor of
    their equation 4, (2 / k)^1/2, is that of the released code here.
    """
    unit = x / math.sqrt(float(x @ x))
    angles = [float((row * temperature) @ unit) for row in projections]
    return SCALE * np.array([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])


def pair_sums(
    phi: Callable[[Array], Array], query: Array, keys: Sequence[Array], values: Sequence[Array]
) -> tuple[Array, float]:
    """Numerator (d,) and normalizer of T2R's equation 4 for one query, which the released code divides by sqrt(d)."""
    features = phi(query / math.sqrt(len(query)))
    numerator, normalizer = np.zeros(len(values[0])), 0.0
    for key, value in zip(keys, values, strict=True):
        similarity = float(features @ phi(key))
        numerator = numerator + similarity * value
        normalizer += similarity
    return numerator, normalizer


def attend(numerator: Array, normalizer: float, *, crosses: bool) -> Array:
    """The quotient, as the released code takes it: cross-attention takes the absolute value before the floor."""
    return numerator / max(abs(normalizer) if crosses else normalizer, FLOOR)
