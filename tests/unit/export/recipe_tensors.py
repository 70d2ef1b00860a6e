"""Tensors whose bytes are easily written by hand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite_nlp.export.runtime.rounded import RoundedTensor

MATRIX = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
TENSORS: dict[str, NDArray[Any]] = {
    "matrix": MATRIX,
    "kernel": MATRIX[:, None, :],
    "vector": np.array([7.0, 8.0], np.float32),
    "counter": np.array([9, 10], np.int64),
}

#: Rows of two blocks.
ROWS = np.zeros((2, 64), np.float32)
ROWS[0, :3], ROWS[1, 32:35] = (508, -4, 9.9), (64, -8, 0.75)


def rounded_tensors(**bits: int) -> tuple[RoundedTensor, ...]:
    return tuple(RoundedTensor.model_validate({"tensor": name, "bits": size}) for name, size in bits.items())
