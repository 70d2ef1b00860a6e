"""Checks of the tensors that go into and come out of graphs. Imports no torch."""

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.interface import Array

__all__ = ["check_ids", "expect_tensor"]


def check_ids(where: str, tokens: NDArray[np.int64], types: int, *, least: int = 0) -> None:
    """Check that ids are those of a vocabulary.

    Args:
        where: Stands for the tokens in the message.
        tokens: At least one.
        types: Size of the vocabulary.
        least: The smallest id that may occur.

    Raises:
        BundleError: If one is not.
    """
    if tokens.min() < least or tokens.max() >= types:
        raise BundleError(f"{where}: expected token ids {least} to {types - 1}, found {tokens.min()} to {tokens.max()}")


def expect_tensor(where: str, found: Array | None, dtype: str, shape: tuple[int, ...]) -> Array:
    """Check type and shape of a tensor; returns it.

    Raises:
        BundleError: If they are not what the manifest says, or there is no tensor.
    """
    if found is None or found.dtype.name != dtype or found.shape != shape:
        shown = "none" if found is None else f"{found.dtype.name} {found.shape}"
        raise BundleError(f"{where}: expected {dtype} {shape} as the manifest says, found {shown}")
    return found
