"""Compact bundles: large members are described by the tensors or files in them instead of being stored.

The graphs of both runtimes hold the same weights in fp32. A compact bundle has them once, in a container of whatever
encoding, and says where in each member each tensor lies; the rest is a residual, mostly zeros, that zlib shrinks. Files
of the container, such as a vocabulary in a coding of its own, are found in members likewise.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.runtime.recipes import (
    ContainerDecoder,
    Contents,
    FilePart,
    Packed,
    PackedMember,
    Part,
    SinusoidPart,
    SinusoidTable,
    TensorPart,
    predict,
    sinusoid_table,
    tensor_bytes,
)

__all__ = ["CONTAINER_FILE", "Packing", "find_parts", "pack_members"]

CONTAINER_FILE: Final = "weights.lnlp"
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
    """

    container: bytes
    decode: ContainerDecoder


def pack_members(files: Mapping[str, bytes], names: Sequence[str], packing: Packing) -> tuple[dict[str, bytes], Packed]:
    """Describe some of a bundle's members.

    Args:
        files: Content of every member.
        names: Those to describe.
        packing: What they are made of.

    Returns:
        The files of the compact bundle, and how the members described are made from them.
    """
    contents = packing.decode(packing.container)
    packed_files = {name: content for name, content in files.items() if name not in names}
    packed_files[CONTAINER_FILE] = packing.container
    members = {}
    for name in names:
        residual = name + _RESIDUAL_SUFFIX
        parts = find_parts(files[name], contents)
        packed_files[residual] = zlib.compress(_subtract(files[name], parts, contents, source=name), 9)
        members[name] = PackedMember(
            size_bytes=len(files[name]), sha256=sha256_bytes(files[name]), residual=residual, parts=tuple(parts)
        )
    return packed_files, Packed(container=CONTAINER_FILE, members=members)


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
