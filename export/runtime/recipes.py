"""Reconstruction of the members that a compact bundle describes instead of storing. Imports no torch.

A member is a prediction, put together from the tensors of one container and tables that a formula gives, XOR a residual
that holds whatever the prediction does not know. ``docs/export.md`` specifies both for readers in other languages.
"""

import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from lite_nlp.core.errors import BundleError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.runtime.layout import ManifestSection

__all__ = [
    "MAX_MADE_BYTES",
    "Packed",
    "PackedMember",
    "Part",
    "SinusoidPart",
    "SinusoidTable",
    "TensorDecoder",
    "TensorPart",
    "make_member",
    "sinusoid_table",
    "tensor_bytes",
    "xor_parts",
]

#: All members made by one bundle; more would fill the memory of what reads it.
MAX_MADE_BYTES: Final = 1 << 30

_FLOAT_BYTES: Final = 4

#: Made members become files wherever a bundle is unpacked.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")

#: Decodes the bytes of a container: tensors by name. What this package does not know is how.
TensorDecoder = Callable[[bytes], Mapping[str, NDArray[Any]]]


class TensorPart(ManifestSection):
    """A tensor of the container, as fp32 values.

    Attributes:
        offset: Of its first byte in the member.
        tensor: Its name.
        transposed: Whether it is written as a matrix transposed; dimensions of size 1 do not count.
    """

    offset: int = Field(ge=0)
    tensor: str
    transposed: bool = False


class SinusoidTable(ManifestSection):
    """Sizes of a table of sinusoidal positions."""

    rows: int = Field(ge=1)
    columns: int = Field(ge=2)


class SinusoidPart(ManifestSection):
    """A table of sinusoidal positions, as fp32 values.

    Attributes:
        offset: Of its first byte in the member.
        sinusoid: Its sizes.
    """

    offset: int = Field(ge=0)
    sinusoid: SinusoidTable


Part = TensorPart | SinusoidPart


class PackedMember(ManifestSection):
    """Description of one member.

    Attributes:
        size_bytes: Of the member.
        sha256: Of the member.
        residual: File with a zlib stream of as many bytes.
        parts: What the prediction is made of, by offset; where there is none it is zero.
    """

    size_bytes: int = Field(ge=0, le=MAX_MADE_BYTES)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    residual: str
    parts: tuple[Annotated[Part, Field(union_mode="left_to_right")], ...]

    @field_validator("parts", mode="before")
    @classmethod
    def _list_to_tuple(cls, parts: Any) -> Any:
        if not isinstance(parts, list):
            return parts
        if any(isinstance(part, dict) and {"tensor", "sinusoid"} <= part.keys() for part in parts):
            raise ValueError("expected a tensor or a sinusoid in each part, found both")
        return tuple(parts)


class Packed(ManifestSection):
    """The members that a compact bundle describes.

    Attributes:
        container: File with the tensors of the members' parts.
        members: By name.
    """

    container: str
    members: dict[str, PackedMember]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for name in self.members:
            if not _PLAIN_NAME.fullmatch(name):
                raise ValueError(f"members: expected plain file names, found {name!r}")
        total = sum(member.size_bytes for member in self.members.values())
        if total > MAX_MADE_BYTES:
            raise ValueError(f"members: expected at most {MAX_MADE_BYTES} bytes in all, found {total}")
        return self


def make_member(member: PackedMember, residual: bytes, tensors: Mapping[str, NDArray[Any]], *, source: str) -> bytes:
    """Reconstruct a member.

    Args:
        member: How.
        residual: Content of the file that ``member.residual`` names.
        tensors: Tensors of the container.
        source: Stands for the member in messages.

    Raises:
        BundleError: If the parts do not fit the member, each other or the tensors, the residual has another length, or
            what is made is not what the manifest says.
    """
    made = xor_parts(_inflate(residual, member, source), member.parts, tensors, source=source)
    found = sha256_bytes(made)
    if found != member.sha256:
        raise BundleError(f"{source}: expected to make a member with SHA-256 {member.sha256}, found {found}")
    return made


def xor_parts(content: bytearray, parts: Sequence[Part], tensors: Mapping[str, NDArray[Any]], *, source: str) -> bytes:
    """XOR a prediction into a residual, which gives the member, or into a member, which gives the residual.

    Args:
        content: Changed in place.
        parts: What the prediction is made of.
        tensors: Tensors of the container.
        source: Stands for the member in messages.

    Raises:
        BundleError: If the parts do not fit the content, each other or the tensors.
    """
    values = np.frombuffer(content, dtype=np.uint8)
    end = 0
    for number, part in enumerate(parts):
        where = f"{source}: part {number}"
        # That parts follow one another bounds the work by the member's size, however many there are.
        if part.offset < end:
            raise BundleError(
                f"{where}: expected an offset of at least {end}, behind the last part, found {part.offset}"
            )
        end = part.offset + _part_bytes(part, tensors, where)
        if end > len(content):
            raise BundleError(f"{where}: expected an end within {len(content)} bytes, found {end}")
        values[part.offset : end] ^= np.frombuffer(_predict(part, tensors, where), dtype=np.uint8)
    return values.tobytes()


def tensor_bytes(tensor: NDArray[Any], *, transposed: bool) -> bytes | None:
    """Bytes of a tensor in a member; None if it has no such form.

    Args:
        tensor: fp32; integers have no form.
        transposed: As a matrix transposed, dimensions of size 1 dropped.
    """
    if tensor.dtype != np.float32:
        return None
    if not transposed:
        return tensor.astype("<f4", copy=False).tobytes()
    matrix = tensor.squeeze()
    return None if matrix.ndim != 2 else matrix.T.astype("<f4", copy=False).tobytes()


def sinusoid_table(*, rows: int, columns: int, first_row: int = 0) -> NDArray[np.float32]:
    """Sinusoidal positions (Vaswani et al. 2017, section 3.5), sines in the first half of the columns.

    Every step is made in double precision and rounded to fp32, so that the last bits of a platform's sine do not show.

    Args:
        rows: How many.
        columns: The last one is zero if they are odd.
        first_row: Position of the first row.
    """
    half = columns // 2
    scale = np.float32(-math.log(10_000.0) / max(half - 1, 1))
    arguments = np.arange(half, dtype=np.float32) * scale
    rates = np.exp(arguments.astype(np.float64)).astype(np.float32)
    positions = np.arange(first_row, first_row + rows, dtype=np.float32)
    angles = (positions[:, None] * rates[None, :]).astype(np.float64)
    table = np.zeros((rows, columns), dtype=np.float32)
    table[:, :half], table[:, half : 2 * half] = np.sin(angles), np.cos(angles)
    return table


def _inflate(residual: bytes, member: PackedMember, source: str) -> bytearray:
    """Inflate a residual to exactly the size of the member, and never to more."""
    inflater = zlib.decompressobj()
    try:
        content = bytearray(inflater.decompress(residual, member.size_bytes + 1))
    except zlib.error as error:
        raise BundleError(f"{source}: {member.residual}: expected a zlib stream, found another: {error}") from error
    if len(content) > member.size_bytes or inflater.unused_data:
        found = "more"
    elif not inflater.eof:
        found = f"{len(content)} without an end"
    elif len(content) < member.size_bytes:
        found = f"{len(content)}"
    else:
        return content
    raise BundleError(
        f"{source}: {member.residual}: expected a zlib stream of exactly {member.size_bytes} bytes, found {found}"
    )


def _part_bytes(part: Part, tensors: Mapping[str, NDArray[Any]], where: str) -> int:
    """Size of a part, known before anything is made."""
    if isinstance(part, SinusoidPart):
        return _FLOAT_BYTES * part.sinusoid.rows * part.sinusoid.columns
    if part.tensor not in tensors:
        raise BundleError(f"{where}: expected a tensor of the container, found {part.tensor!r}")
    return _FLOAT_BYTES * tensors[part.tensor].size


def _predict(part: Part, tensors: Mapping[str, NDArray[Any]], where: str) -> bytes:
    if isinstance(part, SinusoidPart):
        table = sinusoid_table(rows=part.sinusoid.rows, columns=part.sinusoid.columns)
        return table.astype("<f4", copy=False).tobytes()
    tensor = tensors[part.tensor]
    predicted = tensor_bytes(tensor, transposed=part.transposed)
    if predicted is None:
        form = "an fp32 matrix" if part.transposed else "an fp32 tensor"
        raise BundleError(f"{where}: {part.tensor}: expected {form}, found {tensor.dtype} of shape {tensor.shape}")
    return predicted
