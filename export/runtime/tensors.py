"""Checks of the tensors that go into and come out of graphs. Imports no torch."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.interface import Array, State
from lite_nlp.export.runtime.layout import StateTensor

__all__ = ["check_ids", "expect_tensor", "first_state", "zero_state"]


def first_state(layout: Sequence[StateTensor], encoded: State, src_mask: NDArray[np.bool_], capacity: int) -> State:
    """The state before the first step.

    Args:
        layout: Of the state.
        encoded: What the encoder gave.
        src_mask: (B, S).
        capacity: Most steps.

    Raises:
        BundleError: If the encoder gave other tensors than the layout says.
    """
    sizes = {"batch": src_mask.shape[0], "source": src_mask.shape[1], "capacity": capacity}
    tensors: State = {}
    for tensor in layout:
        shape = _shape(tensor, sizes)
        if tensor.origin == "encode":
            tensors[tensor.name] = expect_tensor(
                f"encode: {tensor.name}", encoded.get(tensor.name), tensor.dtype, shape
            )
        elif tensor.origin == "src_mask":
            tensors[tensor.name] = src_mask
        else:
            tensors[tensor.name] = np.zeros(shape, tensor.dtype)
    return tensors


def zero_state(layout: Sequence[StateTensor], *, rows: int, capacity: int) -> State:
    """The state of a language model before the first step."""
    sizes = {"batch": rows, "capacity": capacity, "source": 0}
    return {tensor.name: np.zeros(_shape(tensor, sizes), tensor.dtype) for tensor in layout}


def _shape(tensor: StateTensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes[size] if isinstance(size, str) else size for size in tensor.shape)


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


def expect_tensor(where: str, found: Array | None, dtype: DTypeLike, shape: tuple[int, ...]) -> Array:
    """Check type and shape of a tensor; returns it.

    Raises:
        BundleError: If they are not what the manifest says, or there is no tensor.
    """
    expected = np.dtype(dtype)
    # Names are for the message alone: NumPy puts them together anew each time, which takes longer than all of this.
    if found is None or found.dtype != expected or found.shape != shape:
        shown = "none" if found is None else f"{found.dtype.name} {found.shape}"
        raise BundleError(f"{where}: expected {expected.name} {shape} as the manifest says, found {shown}")
    return found
