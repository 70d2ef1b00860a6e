"""Tensors of a container with rows and columns scaled by powers of the square root of 2. Imports no torch.

An exporter scales the weights of a model against each other, so that what the matrix of a product has by column stands
before it; members then hold scaled tensors. ``docs/export.md`` specifies them for readers in other languages.

Shape letters: N rows of a matrix or elements of a vector, K columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.inflating import inflate
from lite_nlp.export.runtime.layout import ManifestSection

__all__ = ["MAX_EXPONENT", "ScaledTensor", "Scaling", "powers", "read_scalings"]

#: Largest magnitude of an exponent.
MAX_EXPONENT: Final = 126

_ROOT: Final = np.float32(np.sqrt(2.0))


def powers(exponents: NDArray[np.signedinteger[Any]]) -> NDArray[np.float32]:
    """The square root of 2, in fp32, to these powers: times a power of 2 where an exponent is odd, which is exact."""
    odd = np.where(exponents % 2 == 1, _ROOT, np.float32(1)).astype(np.float32)
    scaled: NDArray[np.float32] = np.ldexp(odd, exponents // 2).astype(np.float32)
    return scaled


class ScaledTensor(ManifestSection):
    """A tensor of the container that members have scaled.

    Attributes:
        tensor: Its name.
        rows: Whether its rows are scaled; of a vector its elements.
        columns: Whether its columns are.
    """

    tensor: str
    rows: bool = False
    columns: bool = False

    @classmethod
    def of(cls, name: str, scaling: "Scaling") -> Self:
        """The entry of a tensor with this scaling."""
        return cls(tensor=name, rows=scaling.rows is not None, columns=scaling.columns is not None)

    @model_validator(mode="after")
    def _any(self) -> Self:
        if not self.rows and not self.columns:
            raise ValueError(f"{self.tensor}: expected scaled rows, columns or both, found neither")
        return self


@dataclass(frozen=True, eq=False)
class Scaling:
    """What a tensor is scaled by.

    Attributes:
        rows: (N,) int8, exponents of the square root of 2; None where rows are as they were.
        columns: (K,) int8, likewise.
    """

    rows: NDArray[np.int8] | None = None
    columns: NDArray[np.int8] | None = None

    def apply(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """A scaled copy of ``values`` (N, K) or (N,): rows first, then columns, each product rounded to fp32."""
        with np.errstate(all="ignore"):
            if self.rows is not None:
                values = values * powers(self.rows).reshape(-1, *[1] * (values.ndim - 1))
            return values if self.columns is None else values * powers(self.columns)

    def to_bytes(self) -> bytes:
        """The exponents, of rows first."""
        return b"".join(side.tobytes() for side in (self.rows, self.columns) if side is not None)


def read_scalings(
    scaled: Sequence[ScaledTensor], stream: bytes, tensors: Mapping[str, NDArray[Any]], *, source: str
) -> dict[str, Scaling]:
    """The scalings of a container's tensors, by name.

    Args:
        scaled: Which, in the order of their exponents.
        stream: A zlib stream of the exponents, one tensor after another.
        tensors: Of the container, by their own names.
        source: Stands for the stream's file in messages.

    Raises:
        BundleError: If one is no tensor that can be scaled so, or the stream has other exponents than theirs.
    """
    sides = [_sides(entry, tensors, source) for entry in scaled]
    exponents = np.frombuffer(inflate(stream, sum(map(sum, sides)), source=source), np.int8)
    found, start = {}, 0
    for entry, (rows, columns) in zip(scaled, sides, strict=True):
        middle, end = start + rows, start + rows + columns
        own = exponents[start:end]
        if (beyond := own[np.abs(own.astype(np.int16)) > MAX_EXPONENT]).size:
            raise BundleError(
                f"{source}: {entry.tensor}: expected exponents within {MAX_EXPONENT} of zero, found {beyond[0]}"
            )
        found[entry.tensor] = Scaling(
            rows=exponents[start:middle] if entry.rows else None,
            columns=exponents[middle:end] if entry.columns else None,
        )
        start = end
    return found


def _sides(entry: ScaledTensor, tensors: Mapping[str, NDArray[Any]], source: str) -> tuple[int, int]:
    """How many exponents there are for rows and for columns."""
    tensor = tensors.get(entry.tensor)
    if tensor is None:
        raise BundleError(f"{source}: expected a tensor of the container by its own name, found {entry.tensor!r}")
    if tensor.dtype != np.float32 or tensor.ndim not in ((2,) if entry.columns else (1, 2)):
        form = "an fp32 matrix" if entry.columns else "an fp32 matrix or vector"
        raise BundleError(f"{source}: {entry.tensor}: expected {form}, found {tensor.dtype} of shape {tensor.shape}")
    return (len(tensor) if entry.rows else 0), (tensor.shape[1] if entry.columns else 0)
