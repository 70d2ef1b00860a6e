"""Reconstruction of the members that a compact bundle describes instead of storing. Imports no torch.

A member is a prediction, put together from the tensors of one container, as they are or rounded, its files, and tables
that a formula gives, XOR a residual that holds whatever the prediction does not know. ``docs/export.md`` specifies both
for readers in other languages.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.inflating import ExactInflater
from lite_nlp.export.runtime.limits import MAX_CUTS
from lite_nlp.export.runtime.recipes import (
    FilePart,
    IntegersPart,
    PackedMember,
    Part,
    ScalesPart,
    SinusoidPart,
    SinusoidTable,
    TensorPart,
)
from lite_nlp.export.runtime.rounded import RoundedWeights, pack_levels, to_bf16
from lite_nlp.export.runtime.scaled import Scaling

__all__ = [
    "Buffer",
    "ContainerDecoder",
    "Contents",
    "integer_bytes",
    "make_member",
    "predict",
    "scale_bytes",
    "sinusoid_table",
    "tensor_bytes",
]

_FLOAT_BYTES: Final = 4

#: Of a prediction or a residual at a time.
_BLOCK_BYTES: Final = 1 << 20

#: Bytes, wherever they are.
Buffer = bytes | memoryview


@dataclass(frozen=True)
class Contents:
    """What a container holds.

    Attributes:
        tensors: By name.
        files: Contents by name.
        rounded: Matrices among the tensors that graphs have as integers, by name.
        aliases: Names among those of the tensors that are further names of others.
    """

    tensors: Mapping[str, NDArray[Any]]
    files: Mapping[str, bytes] = field(default_factory=dict)
    rounded: Mapping[str, RoundedWeights] = field(default_factory=dict)
    aliases: Collection[str] = ()

    @property
    def own_tensors(self) -> dict[str, NDArray[Any]]:
        """Each tensor once, by its own name: copies of these take no more memory than the container's."""
        return {name: tensor for name, tensor in self.tensors.items() if name not in self.aliases}

    def scaled_by(self, scalings: Mapping[str, Scaling]) -> "Contents":
        """The same with some of ``own_tensors`` scaled, of which none is rounded yet."""
        scaled = {name: scaling.apply(self.tensors[name]) for name, scaling in scalings.items()}
        return replace(self, tensors={**self.tensors, **scaled})


#: Decodes the bytes of a container. What this package does not know is how.
ContainerDecoder = Callable[[bytes], Contents]


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
    inflated = ExactInflater(residual, member.size_bytes, source=f"{source}: {member.residual}")
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
