"""The matrices of a model and the forms that a bundle's graphs can have them in."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from lite_nlp.export.runtime.layout import Precision
from lite_nlp.export.runtime.rounded import BLOCK

__all__ = ["UNROUNDED", "Form", "Matrix", "ProductCall", "ProductShape", "Rounding", "array_digest"]

#: How the weights of a matrix are stored and multiplied.
Form = Literal["fp32", "int8", "int4"]


class Matrix(NamedTuple):
    """A constant matrix that products or look-ups use, in whichever graphs.

    Attributes:
        key: Digest of its values as (outputs, inputs), by which graphs that use it agree on its form.
        name: In the graph where it was found first.
        outputs: Output channels, or rows of a table.
        inputs: Input channels, or columns of a table.
        joined: Digests of the matrices that it is joined of, one below the other; none where it is one itself.
        looped: Whether it is used in a loop of the graph, for each token anew.
    """

    key: bytes
    name: str
    outputs: int
    inputs: int
    joined: tuple[bytes, ...] = ()
    looped: bool = False

    def size_bytes(self, form: Form) -> int:
        """Bytes of the weights and their scales."""
        weights = self.outputs * self.inputs
        if form == "fp32":
            return 4 * weights
        return weights + 4 * self.outputs if form == "int8" else weights // 2 + 4 * weights // BLOCK

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms that it can have: blocks of 4-bit weights fill its rows."""
        return ("fp32", "int8", "int4") if self.inputs % BLOCK == 0 else ("fp32", "int8")


class ProductShape(NamedTuple):
    """(rows, inputs) times (inputs, outputs)."""

    rows: int
    inputs: int
    outputs: int


class ProductCall(Protocol):
    """Makes a run of products of one input (rows, inputs) with weights of their own, in a runtime, by one thread."""

    def __call__(self, shape: ProductShape, products: int, form: Form) -> Callable[[], Any]:
        """The run of so many products, their weights in this form."""
        ...


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What becomes of the matrices of a model.

    Attributes:
        precision: Of the weights.
        forms: Where the precision is mixed, the form of each matrix by its key. One that is not among them stays in
            fp32: what that would lose has not been measured.
    """

    precision: Precision = "fp32"
    forms: Mapping[bytes, Form] = field(default_factory=dict)

    @property
    def is_needed(self) -> bool:
        """Whether any matrix may change."""
        return self.precision != "fp32"

    def form(self, key: bytes) -> Form:
        """The form of the matrix with this key."""
        return self.forms.get(key, "fp32") if self.precision == "mixed" else self.precision


#: All in fp32.
UNROUNDED: Final = Rounding()


def array_digest(values: NDArray[Any]) -> bytes:
    """A digest of type, shape and values, by which equal weights are found."""
    return hashlib.sha256(f"{values.dtype} {values.shape}".encode() + values.tobytes()).digest()
