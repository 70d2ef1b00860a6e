"""Compact bundles: large members are described by the tensors or files in them instead of being stored.

The graphs of both runtimes hold the same weights, in fp32 or as integers. A compact bundle has them once, in a
container of whatever encoding, and says where in each member each tensor, or what it is rounded to, lies; the rest is a
residual, mostly zeros, that zlib shrinks. Files of the container, such as a vocabulary in a coding of its own, are
found in members likewise.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.matrices import UNROUNDED, Rounding, array_digest
from lite_nlp.export.rounding import MIN_OUTPUTS, quantize_blocks, quantize_rows
from lite_nlp.export.runtime.limits import MAX_CUTS
from lite_nlp.export.runtime.member_maker import (
    ContainerDecoder,
    Contents,
    integer_bytes,
    predict,
    scale_bytes,
    sinusoid_table,
    tensor_bytes,
)
from lite_nlp.export.runtime.recipes import (
    FilePart,
    IntegersPart,
    Packed,
    PackedMember,
    Part,
    Recipes,
    RecipesFile,
    ScalesPart,
    SinusoidPart,
    SinusoidTable,
    TensorPart,
)
from lite_nlp.export.runtime.rounded import RoundedTensor, RoundedWeights
from lite_nlp.export.runtime.scaled import ScaledTensor, Scaling

__all__ = ["CONTAINER_FILE", "Packing", "find_parts", "pack_members", "round_tensors"]

CONTAINER_FILE: Final = "weights.lnlp"
_RECIPES_FILE: Final = "recipes.zlib"
_CODES_FILE: Final = "weights.codes"
_EXPONENTS_FILE: Final = "weights.exponents"
_RESIDUAL_SUFFIX: Final = ".residual"

#: A part costs this much in the manifest: what is shorter is cheaper in the residual.
_MIN_PART_BYTES: Final = 128

#: The angles of a table's rows grow, and with them what the last bit of a rate changes.
_SINUSOID_TOLERANCE: Final = 1e-3
_SINUSOID_BLOCK: Final = 512


@dataclass(frozen=True)
class Packing:
    """The tensors and files that a compact bundle stores in a container.

    Attributes:
        container: Content of that file.
        decode: Decodes it, as a reader will.
        scalings: Of the tensors that the model exported has scaled, by name.
    """

    container: bytes
    decode: ContainerDecoder
    scalings: Mapping[str, Scaling] = field(default_factory=dict)


def round_tensors(tensors: Mapping[str, NDArray[Any]], rounding: Rounding) -> dict[str, RoundedWeights]:
    """What an exporter makes of the matrices that are not to stay in fp32, by name.

    Args:
        tensors: Of a container.
        rounding: Of the weights.
    """
    made, rounded = {"int8": quantize_rows, "int4": quantize_blocks}, {}
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and tensor.dtype == np.float32 and len(tensor) >= MIN_OUTPUTS:
            form = rounding.form(array_digest(tensor))
            if form in made:
                rounded[name] = made[form](tensor)
    return rounded


def pack_members(
    files: Mapping[str, bytes], names: Sequence[str], packing: Packing, rounding: Rounding = UNROUNDED
) -> tuple[dict[str, bytes], Packed]:
    """Describe some of a bundle's members.

    Args:
        files: Content of every member.
        names: Those to describe.
        packing: What they are made of.
        rounding: Of the weights in them.

    Returns:
        The files of the compact bundle, and how the members described are made from them.
    """
    contents = packing.decode(packing.container)
    own = contents.own_tensors
    contents = contents.scaled_by({name: scaling for name, scaling in packing.scalings.items() if name in own})
    if rounding.is_needed:
        contents = replace(contents, rounded=round_tensors(contents.tensors, rounding))
    packed_files = {name: content for name, content in files.items() if name not in names}
    packed_files[CONTAINER_FILE] = packing.container
    members, parts = {}, {}
    for name in names:
        residual = name + _RESIDUAL_SUFFIX
        parts[name] = tuple(find_parts(files[name], contents))
        packed_files[residual] = zlib.compress(_subtract(files[name], parts[name], contents, source=name), 9)
        members[name] = PackedMember(size_bytes=len(files[name]), sha256=sha256_bytes(files[name]), residual=residual)
    found = [part for listed in parts.values() for part in listed]
    used = {part.integers for part in found if isinstance(part, IntegersPart)}
    used |= {part.scales for part in found if isinstance(part, ScalesPart)}
    rounded = {name: weights for name, weights in contents.rounded.items() if name in used}
    used |= {part.tensor for part in found if isinstance(part, TensorPart)}
    scalings = {name: scaling for name, scaling in packing.scalings.items() if name in used}
    if rounded:
        packed_files[_CODES_FILE] = zlib.compress(b"".join(each.codes.tobytes() for each in rounded.values()), 9)
    if scalings:
        packed_files[_EXPONENTS_FILE] = zlib.compress(b"".join(each.to_bytes() for each in scalings.values()), 9)
    recipes = Recipes(
        scaled=tuple(ScaledTensor.of(name, scaling) for name, scaling in scalings.items()),
        rounded=tuple(RoundedTensor(tensor=name, bits=each.bits) for name, each in rounded.items()),
        parts=parts,
    )
    packed_files[_RECIPES_FILE], size_bytes = recipes.to_stream()
    return packed_files, Packed(
        container=CONTAINER_FILE,
        recipes=RecipesFile(file=_RECIPES_FILE, size_bytes=size_bytes),
        exponents=_EXPONENTS_FILE if scalings else None,
        codes=_CODES_FILE if rounded else None,
        members=members,
    )


def _subtract(content: bytes, parts: Sequence[Part], contents: Contents, *, source: str) -> bytes:
    """The residual of a member: what its prediction, by XOR, makes the member of."""
    values, position = np.frombuffer(bytearray(content), dtype=np.uint8), 0
    for length, predicted in predict(parts, len(content), contents, source=source):
        if predicted is not None:
            values[position : position + length] ^= predicted
        position += length
    return values.tobytes()


def find_parts(content: bytes, contents: Contents) -> list[Part]:
    """Find the tensors, files and tables of positions in a member; parts are sorted by offset and do not overlap.

    Args:
        content: The member.
        contents: Of the container. Tensors that are all zeros are not looked for: the prediction is zero as it is.
    """
    search = _Search(content)
    tensors = contents.tensors
    for name, file in contents.files.items():
        search.parts += [FilePart(offset=offset, file=name) for offset in search.take_all(file)]
    # The largest first, so that a short tensor does not take a place within a long one.
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].size):
        if not np.any(tensor):
            continue
        for transposed in (False, True):
            form = tensor_bytes(tensor, transposed=transposed)
            if form is not None:
                for offset in search.take_all(form):
                    search.parts.append(TensorPart(offset=offset, tensor=name, transposed=transposed))
    for columns in sorted({size for tensor in tensors.values() for size in tensor.shape if size >= 2}, reverse=True):
        search.take_sinusoids(columns)
    for name, weights in sorted(contents.rounded.items(), key=lambda item: -item[1].values.size):
        search.take_integers(name, weights)
    for name, weights in sorted(contents.rounded.items(), key=lambda item: -item[1].scales.size):
        search.take_scales(name, weights)
    return sorted(search.parts, key=lambda part: part.offset)


class _Search:
    """Looks for byte strings in a member, each byte of which belongs to one part at most."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._taken = np.zeros(len(content), dtype=np.bool_)
        self.parts: list[Part] = []

    def take_all(self, wanted: bytes) -> Iterator[int]:
        """Take every free place where ``wanted`` occurs; yields the offsets."""
        if len(wanted) < _MIN_PART_BYTES:
            return
        for offset in self._find(wanted):
            self._taken[offset : offset + len(wanted)] = True
            yield offset

    def take_integers(self, name: str, weights: RoundedWeights) -> None:
        """Take the integers of a matrix: turned, or whole or cut as they are."""
        rows = len(weights.values)
        if weights.bits == 8:
            turned = integer_bytes(weights, (0, rows), transposed=True)
            offsets = list(self.take_all(turned.tobytes()))
            self.parts += [IntegersPart(offset=at, rows=(0, rows), integers=name, transposed=True) for at in offsets]
            if offsets:
                return
        for offset, taken in self._take_rows(integer_bytes(weights, (0, rows), transposed=False)):
            self.parts.append(IntegersPart(offset=offset, rows=taken, integers=name))

    def take_scales(self, name: str, weights: RoundedWeights) -> None:
        """Take the scales of a matrix, in fp32 or, of blocks, in bf16, whole or cut."""
        for bf16 in (False, True) if weights.bits == 4 else (False,):
            for offset, taken in self._take_rows(scale_bytes(weights, (0, len(weights.values)), bf16=bf16)):
                self.parts.append(ScalesPart(offset=offset, rows=taken, scales=name, bf16=bf16))

    def _take_rows(self, rows: NDArray[np.uint8]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Take a matrix, or what it is cut into, wherever it is; yields offsets, the first rows and those behind."""
        count, found = len(rows), False
        for cuts in range(1, MAX_CUTS + 1):
            if found or count % cuts:
                continue
            for start in range(0, count, count // cuts):
                end = start + count // cuts
                # A run of one value, such as the scales of rows of zeros, is anywhere, and little in a residual.
                if np.ptp(rows[start:end], axis=0).any():
                    for offset in self.take_all(rows[start:end].tobytes()):
                        found = True
                        yield offset, (start, end)

    def take_sinusoids(self, columns: int) -> None:
        """Take the tables of positions of that width; a table begins with a row of zeros, then ones."""
        first = sinusoid_table(rows=1, columns=columns).astype("<f4").tobytes()
        if len(first) < _MIN_PART_BYTES:
            return
        for offset in self._find(first):
            rows = self._count_rows(offset, columns)
            if rows > 1:
                self._taken[offset : offset + 4 * rows * columns] = True
                self.parts.append(SinusoidPart(offset=offset, sinusoid=SinusoidTable(rows=rows, columns=columns)))

    def _find(self, wanted: bytes) -> Iterator[int]:
        offset = self._content.find(wanted)
        while offset >= 0:
            taken = np.flatnonzero(self._taken[offset : offset + len(wanted)])
            if not len(taken):
                yield offset
            # Behind what is taken: in a long run of one value every step of a single byte would match again.
            offset = self._content.find(wanted, offset + (int(taken[-1]) + 1 if len(taken) else len(wanted)))

    def _count_rows(self, offset: int, columns: int) -> int:
        """Rows from ``offset`` on that are those of a table of positions."""
        row_bytes = 4 * columns
        taken = np.flatnonzero(self._taken[offset:])
        most = (int(taken[0]) if len(taken) else len(self._content) - offset) // row_bytes
        for start in range(0, most, _SINUSOID_BLOCK):
            rows = min(_SINUSOID_BLOCK, most - start)
            found = np.frombuffer(self._content, "<f4", rows * columns, offset + start * row_bytes)
            wanted = sinusoid_table(rows=rows, columns=columns, first_row=start)
            # What is no table may be anything; the comparison of a NaN is false.
            with np.errstate(all="ignore"):
                close = (np.abs(found.reshape(rows, columns) - wanted) < _SINUSOID_TOLERANCE).all(axis=1)
            if not close.all():
                return start + int(np.argmin(close))
        return most
