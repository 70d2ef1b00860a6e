"""Reconstruction of the members that a compact bundle describes instead of storing. Imports no torch.

A member is a prediction, put together from the tensors of one container, as they are or rounded, its files, and tables
that a formula gives, XOR a residual that holds whatever the prediction does not know. ``docs/export.md`` specifies both
for readers in other languages.
"""

import hashlib
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FailFast, Field, field_validator, model_validator

from lite_nlp.core.errors import BundleError
from lite_nlp.core.parsing import parse_json, parsing
from lite_nlp.export.runtime.layout import ManifestSection
from lite_nlp.export.runtime.limits import (
    MAX_CUTS,
    MAX_INTEGER,
    MAX_MADE_BYTES,
    MAX_MANIFEST_BYTES,
    MAX_PACKED_MEMBERS,
    MAX_PARTS,
    MAX_SINUSOID_COLUMNS,
    MAX_SINUSOID_ROWS,
    MAX_TEXT,
    at_most,
)
from lite_nlp.export.runtime.rounded import RoundedTensor, RoundedWeights, inflate, pack_levels, to_bf16

__all__ = [
    "Buffer",
    "ContainerDecoder",
    "Contents",
    "FilePart",
    "IntegersPart",
    "Packed",
    "PackedMember",
    "Part",
    "Recipes",
    "RecipesFile",
    "ScalesPart",
    "SinusoidPart",
    "SinusoidTable",
    "TensorPart",
    "integer_bytes",
    "make_member",
    "predict",
    "read_recipes",
    "scale_bytes",
    "sinusoid_table",
    "tensor_bytes",
]

_FLOAT_BYTES: Final = 4

#: Of a prediction or a residual at a time.
_BLOCK_BYTES: Final = 1 << 20

#: Made members become files wherever a bundle is unpacked.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")

#: Bytes, wherever they are.
Buffer = bytes | memoryview


@dataclass(frozen=True)
class Contents:
    """What a container holds.

    Attributes:
        tensors: By name.
        files: Contents by name.
        rounded: Matrices among the tensors that graphs have as integers, by name.
    """

    tensors: Mapping[str, NDArray[Any]]
    files: Mapping[str, bytes] = field(default_factory=dict)
    rounded: Mapping[str, RoundedWeights] = field(default_factory=dict)


#: Decodes the bytes of a container. What this package does not know is how.
ContainerDecoder = Callable[[bytes], Contents]


class _Placed(ManifestSection):
    """What lies somewhere in a member.

    Attributes:
        offset: Of its first byte in the member.
    """

    offset: int = Field(ge=0, le=MAX_INTEGER)


class TensorPart(_Placed):
    """A tensor of the container, as fp32 values.

    Attributes:
        tensor: Its name.
        transposed: Whether it is written as a matrix transposed; dimensions of size 1 do not count.
    """

    tensor: str
    transposed: bool = False


class FilePart(_Placed):
    """A file of the container, as it is.

    Attributes:
        file: Its name.
    """

    file: str


class _RowsPart(_Placed):
    """What stands for some rows of a matrix of the container that is among ``Recipes.rounded``.

    Attributes:
        rows: The first, and the one behind the last.
    """

    rows: tuple[Annotated[int, Field(ge=0, le=MAX_INTEGER)], Annotated[int, Field(ge=0, le=MAX_INTEGER)]]

    @field_validator("rows", mode="before")
    @classmethod
    def _pair(cls, rows: Any) -> Any:
        return tuple(rows) if isinstance(rows, list) else rows


class IntegersPart(_RowsPart):
    """Integers of a matrix: a byte each, or two of 4 bits in a byte.

    Attributes:
        integers: Name of the matrix.
        transposed: Whether they are written column by column; of 8 bits alone.
    """

    integers: str
    transposed: bool = False


class ScalesPart(_RowsPart):
    """Scales of the integers of a matrix.

    Attributes:
        scales: Name of the matrix.
        bf16: Whether they are written as numbers of bf16 instead of fp32.
    """

    scales: str
    bf16: bool = False


class SinusoidTable(ManifestSection):
    """Sizes of a table of sinusoidal positions."""

    rows: int = Field(ge=1, le=MAX_SINUSOID_ROWS)
    columns: int = Field(ge=2, le=MAX_SINUSOID_COLUMNS)


class SinusoidPart(_Placed):
    """A table of sinusoidal positions, as fp32 values.

    Attributes:
        sinusoid: Its sizes.
    """

    sinusoid: SinusoidTable


Part = TensorPart | FilePart | IntegersPart | ScalesPart | SinusoidPart

_Parts = Annotated[tuple[Annotated[Part, Field(union_mode="left_to_right")], ...], FailFast(), at_most(MAX_PARTS)]

#: The keys of which a part has one.
_KINDS: Final = frozenset({"tensor", "file", "integers", "scales", "sinusoid"})


class PackedMember(ManifestSection):
    """Description of one member, but for the parts of its prediction, which are in :class:`Recipes`.

    Attributes:
        size_bytes: Of the member.
        sha256: Of the member.
        residual: File with a zlib stream of as many bytes.
    """

    size_bytes: int = Field(ge=0, le=MAX_MADE_BYTES)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    residual: str


class Recipes(ManifestSection):
    """What the predictions of the members are made of.

    Attributes:
        rounded: Matrices that the members have as integers, in the order of their codes, each once.
        parts: Of each member, by offset; where there is none the prediction is zero.
    """

    rounded: Annotated[tuple[RoundedTensor, ...], FailFast(), at_most(MAX_PARTS)] = ()
    parts: Annotated[dict[str, _Parts], at_most(MAX_PACKED_MEMBERS)]

    @field_validator("parts", mode="before")
    @classmethod
    def _not_both(cls, parts: Any) -> Any:
        for listed in parts.values() if isinstance(parts, dict) else ():
            if isinstance(listed, list) and any(
                isinstance(part, dict) and len(_KINDS & part.keys()) > 1 for part in listed
            ):
                raise ValueError(f"expected one of {', '.join(sorted(_KINDS))} in each part, found more than one")
        return parts

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({rounded.tensor for rounded in self.rounded}) != len(self.rounded):
            raise ValueError("rounded: expected each tensor once, found one twice")
        return self

    def to_stream(self) -> tuple[bytes, int]:
        """The zlib stream of the document, and the document's size."""
        document = self.model_dump_json(exclude_defaults=True).encode("utf-8")
        return zlib.compress(document, 9), len(document)


class RecipesFile(ManifestSection):
    """Where the recipes are.

    Attributes:
        file: With a zlib stream of a JSON document.
        size_bytes: Of the document.
    """

    file: str
    size_bytes: int = Field(ge=0, le=MAX_MANIFEST_BYTES)


class Packed(ManifestSection):
    """The members that a compact bundle describes.

    Attributes:
        container: File with the tensors and files of the members' parts.
        recipes: What the members are made of.
        codes: File with a zlib stream of the codes of ``Recipes.rounded``, one after another; None where none is.
        members: By name.
    """

    container: str
    recipes: RecipesFile
    codes: str | None = None
    members: Annotated[dict[str, PackedMember], at_most(MAX_PACKED_MEMBERS)]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for name in self.members:
            if not _PLAIN_NAME.fullmatch(name):
                raise ValueError(f"members: expected plain file names, found {name[:MAX_TEXT]!r}")
        if self.made_bytes > MAX_MADE_BYTES:
            raise ValueError(f"members: expected at most {MAX_MADE_BYTES} bytes in all, found {self.made_bytes}")
        return self

    @property
    def made_bytes(self) -> int:
        """Bytes of all members."""
        return sum(member.size_bytes for member in self.members.values())

    @property
    def ingredients(self) -> set[str]:
        """Files that the members are made of, and that nothing else needs."""
        named = {self.container, self.recipes.file, *(() if self.codes is None else (self.codes,))}
        return {*named, *(member.residual for member in self.members.values())}


def read_recipes(packed: Packed, stream: bytes, *, source: str) -> Recipes:
    """The recipes of a compact bundle.

    Args:
        packed: The members that they are for.
        stream: Content of the file that ``packed.recipes`` names.
        source: Stands for that file in messages.

    Raises:
        BundleError: If they are no recipes for exactly these members.
    """
    content = inflate(stream, packed.recipes.size_bytes, source=source)
    document = parse_json(content, source=source, error=BundleError, max_bytes=MAX_MANIFEST_BYTES)
    with parsing(source, "recipes of members", BundleError):
        recipes = Recipes.model_validate(document)
    if set(recipes.parts) != set(packed.members):
        raise BundleError(
            f"{source}: expected recipes for {', '.join(sorted(packed.members))}, found some for "
            f"{', '.join(sorted(recipes.parts))[:MAX_TEXT]}"
        )
    return recipes


def make_member(
    member: PackedMember, parts: Sequence[Part], residual: Iterable[bytes], contents: Contents, *, source: str
) -> Iterator[Buffer]:
    """Reconstruct a member, block by block, so that neither it nor its prediction is ever in memory as a whole.

    Args:
        member: Which.
        parts: What its prediction is made of.
        residual: Content of the file that ``member.residual`` names, in blocks of any size.
        contents: Of the container.
        source: Stands for the member in messages.

    Yields:
        Its content; it is what the manifest says only if nothing is raised until the end.

    Raises:
        BundleError: If the parts do not fit the member, each other or the container, the residual has another length,
            or what is made is not what the manifest says.
    """
    inflated = _InflatedResidual(residual, member, source)
    digest = hashlib.sha256()
    for length, predicted in predict(parts, member.size_bytes, contents, source=source):
        block: Buffer = inflated.take(length)
        if predicted is not None:
            block = (np.frombuffer(block, dtype=np.uint8) ^ predicted).data
        digest.update(block)
        yield block
    inflated.expect_end()
    found = digest.hexdigest()
    if found != member.sha256:
        raise BundleError(f"{source}: expected to make a member with SHA-256 {member.sha256}, found {found}")


def predict(
    parts: Sequence[Part], size_bytes: int, contents: Contents, *, source: str
) -> Iterator[tuple[int, NDArray[np.uint8] | None]]:
    """The prediction of a member of ``size_bytes`` bytes, block by block.

    Args:
        parts: What it is made of; all are checked before the first block.
        size_bytes: Of the member.
        contents: Of the container.
        source: Stands for the member in messages.

    Yields:
        Length of a block, and its bytes, or None for zeros.

    Raises:
        BundleError: If the parts do not fit the member, each other or the container.
    """
    ends = _check_parts(parts, size_bytes, contents, source)
    position = 0
    for part, end in zip(parts, ends, strict=True):
        yield from _zeros(part.offset - position)
        for block in _blocks(part, contents):
            yield block.nbytes, block.reshape(-1).view(np.uint8)
        position = end
    yield from _zeros(size_bytes - position)


def tensor_bytes(tensor: NDArray[Any], *, transposed: bool) -> bytes | None:
    """Bytes of a tensor in a member; None if it has no such form.

    Args:
        tensor: fp32; integers have no form.
        transposed: As a matrix transposed, dimensions of size 1 dropped.
    """
    if not _has_form(tensor, transposed=transposed):
        return None
    return (tensor.squeeze().T if transposed else tensor).astype("<f4", copy=False).tobytes()


def integer_bytes(weights: RoundedWeights, rows: tuple[int, int], *, transposed: bool) -> NDArray[np.uint8]:
    """Bytes of the integers of some rows, as an :class:`IntegersPart` has them: (rows, bytes), or transposed."""
    integers = weights.integers(rows)
    if weights.bits == 4:
        return pack_levels(integers)
    return np.ascontiguousarray(integers.T if transposed else integers).view(np.uint8)


def scale_bytes(weights: RoundedWeights, rows: tuple[int, int], *, bf16: bool) -> NDArray[np.uint8]:
    """Bytes of the scales of some rows, as a :class:`ScalesPart` has them: (rows, bytes)."""
    scales = weights.scales[slice(*rows)].reshape(rows[1] - rows[0], -1)
    if bf16:
        return (to_bf16(scales).view(np.uint32) >> np.uint32(16)).astype("<u2").view(np.uint8)
    return np.ascontiguousarray(scales, dtype="<f4").view(np.uint8)


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


def _check_parts(parts: Sequence[Part], size_bytes: int, contents: Contents, source: str) -> list[int]:
    """Check the parts before anything is made of them; returns their ends.

    That they follow one another bounds the work by the member's size, however many there are.
    """
    ends: list[int] = []
    for number, part in enumerate(parts):
        where = f"{source}: part {number}"
        last = ends[-1] if ends else 0
        if part.offset < last:
            raise BundleError(
                f"{where}: expected an offset of at least {last}, behind the last part, found {part.offset}"
            )
        end = part.offset + _part_bytes(part, contents, where)
        if end > size_bytes:
            raise BundleError(f"{where}: expected an end within {size_bytes} bytes, found {end}")
        ends.append(end)
    return ends


def _part_bytes(part: Part, contents: Contents, where: str) -> int:
    if isinstance(part, SinusoidPart):
        return _FLOAT_BYTES * part.sinusoid.rows * part.sinusoid.columns
    if isinstance(part, FilePart):
        if part.file not in contents.files:
            raise BundleError(f"{where}: expected a file of the container, found {part.file!r}")
        return len(contents.files[part.file])
    if isinstance(part, IntegersPart | ScalesPart):
        return _rounded_bytes(part, contents, where)
    if part.tensor not in contents.tensors:
        raise BundleError(f"{where}: expected a tensor of the container, found {part.tensor!r}")
    tensor = contents.tensors[part.tensor]
    if not _has_form(tensor, transposed=part.transposed):
        form = "an fp32 matrix" if part.transposed else "an fp32 tensor"
        raise BundleError(f"{where}: {part.tensor}: expected {form}, found {tensor.dtype} of shape {tensor.shape}")
    return _FLOAT_BYTES * tensor.size


def _rounded_bytes(part: IntegersPart | ScalesPart, contents: Contents, where: str) -> int:
    name = part.integers if isinstance(part, IntegersPart) else part.scales
    weights = contents.rounded.get(name)
    if weights is None:
        raise BundleError(f"{where}: expected a matrix with integers, found {name!r}")
    first, end = part.rows
    rows, columns = weights.values.shape
    if not first <= end <= rows:
        raise BundleError(f"{where}: {name}: expected rows up to {rows}, found {first} to {end}")
    if (end - first) * MAX_CUTS < rows:
        raise BundleError(f"{where}: {name}: expected at least a {MAX_CUTS}th of {rows} rows, found {end - first}")
    if isinstance(part, ScalesPart):
        size = 2 if part.bf16 else _FLOAT_BYTES
        return size * int(weights.codes[first:end].size)
    if part.transposed and weights.bits == 4:
        raise BundleError(f"{where}: {name}: expected integers of 8 bits to transpose, found some of 4")
    return (end - first) * int(columns) * weights.bits // 8


def _has_form(tensor: NDArray[Any], *, transposed: bool) -> bool:
    return tensor.dtype == np.float32 and (not transposed or sum(size != 1 for size in tensor.shape) == 2)


def _zeros(length: int) -> Iterator[tuple[int, None]]:
    for start in range(0, length, _BLOCK_BYTES):
        yield min(_BLOCK_BYTES, length - start), None


def _blocks(part: Part, contents: Contents) -> Iterator[NDArray[Any]]:
    if isinstance(part, SinusoidPart):
        yield from _sinusoid_blocks(part.sinusoid)
    elif isinstance(part, FilePart):
        yield from _cut(np.frombuffer(contents.files[part.file], dtype=np.uint8))
    elif isinstance(part, IntegersPart):
        yield from _cut(integer_bytes(contents.rounded[part.integers], part.rows, transposed=part.transposed))
    elif isinstance(part, ScalesPart):
        yield from _cut(scale_bytes(contents.rounded[part.scales], part.rows, bf16=part.bf16))
    else:
        yield from _tensor_blocks(part, contents.tensors[part.tensor])


def _cut(content: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    content = content.reshape(-1)
    yield from (content[start : start + _BLOCK_BYTES] for start in range(0, len(content), _BLOCK_BYTES))


def _tensor_blocks(part: TensorPart, tensor: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    if not tensor.size:
        return
    # Blocks of whole rows: of the transposed matrix they are columns as stored.
    rows = tensor.squeeze().T if part.transposed else tensor.reshape(-1)
    step = max(1, _BLOCK_BYTES * len(rows) // (_FLOAT_BYTES * tensor.size))
    for start in range(0, len(rows), step):
        yield np.ascontiguousarray(rows[start : start + step], dtype="<f4")


def _sinusoid_blocks(table: SinusoidTable) -> Iterator[NDArray[np.float32]]:
    step = max(1, _BLOCK_BYTES // (_FLOAT_BYTES * table.columns))
    for start in range(0, table.rows, step):
        rows = min(step, table.rows - start)
        yield sinusoid_table(rows=rows, columns=table.columns, first_row=start).astype("<f4", copy=False)


class _InflatedResidual:
    """The zlib stream of a member's residual, inflated to exactly the member's size, never to more."""

    def __init__(self, stored: Iterable[bytes], member: PackedMember, source: str) -> None:
        self._stored = iter(stored)
        self._inflater = zlib.decompressobj()
        self._where = f"{source}: {member.residual}"
        self._size = member.size_bytes
        self._taken = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        pieces = []
        while count:
            piece = self._inflate(count)
            if not piece:
                raise self._wrong_size(f"{self._taken}")
            pieces.append(piece)
            count -= len(piece)
            self._taken += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def expect_end(self) -> None:
        """Check that neither the stream nor the file goes on."""
        if self._inflate(1) or self._inflater.unused_data or any(self._stored):
            raise self._wrong_size("more")
        if not self._inflater.eof:
            raise self._wrong_size(f"{self._taken} without an end")

    def _inflate(self, most: int) -> bytes:
        """At least one byte, unless the stream or the file has ended."""
        try:
            while not self._inflater.eof:
                stored = self._inflater.unconsumed_tail or next(self._stored, b"")
                piece = self._inflater.decompress(stored, most)
                if piece or not stored:
                    return piece
        except zlib.error as error:
            raise BundleError(f"{self._where}: expected a zlib stream, found another: {error}") from error
        return b""

    def _wrong_size(self, found: str) -> BundleError:
        return BundleError(f"{self._where}: expected a zlib stream of exactly {self._size} bytes, found {found}")
