"""The ``.lnlp`` container: metadata, embedded files and encoded tensors in one checked file.

``FORMAT.md`` specifies every byte. NumPy only: a container is read without torch.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, Final

from numpy.typing import NDArray

from lite_nlp.compress.lnlp.encodings import EncodedTensor, decode_tensors
from lite_nlp.compress.lnlp.header import FileEntry, Header, TensorEntry, is_plain_file_name, parse_header
from lite_nlp.compress.lnlp.limits import MAX_CONTAINER_BYTES, MAX_HEADER_BYTES
from lite_nlp.core.errors import ContainerError
from lite_nlp.core.files import write_bytes
from lite_nlp.core.parsing import read_document

__all__ = [
    "FORMAT_VERSION",
    "MAGIC",
    "Container",
    "container_bytes",
    "parse_container",
    "read_container",
    "write_container",
]

MAGIC: Final = b"\x89LNLP\r\n\x1a"
FORMAT_VERSION: Final = 1
#: magic, version, stored and inflated length of the header, CRC-32 of the stored header, length of the whole file.
_PREAMBLE: Final = Struct("<8sIIIIQ")
_CRC: Final = Struct("<I")
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class Container:
    """The contents of a container.

    Attributes:
        metadata: Any JSON object.
        files: Embedded files by name.
        tensors: Encoded tensors by name, each stored once.
        aliases: Further names of tensors (tied weights): alias to the name in ``tensors``.
        stored_bytes: Bytes that each embedded file takes in the container.
    """

    metadata: dict[str, Any]
    files: dict[str, bytes]
    tensors: dict[str, EncodedTensor]
    aliases: dict[str, str] = field(default_factory=dict)
    stored_bytes: dict[str, int] = field(default_factory=dict)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Decode every tensor to float32 (integers to int64); aliases share the array of their tensor.

        Raises:
            ContainerError: If a payload does not fit its encoding.
        """
        state = decode_tensors(self.tensors)
        return state | {alias: state[name] for alias, name in self.aliases.items()}


def container_bytes(
    *,
    tensors: Mapping[str, EncodedTensor],
    files: Mapping[str, bytes],
    metadata: Mapping[str, Any],
    aliases: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a container; equal input gives equal bytes.

    Args:
        tensors: Encoded tensors by name.
        files: Small files to embed, by plain file name.
        metadata: JSON object; keys are sorted.
        aliases: Further names of tensors.

    Raises:
        ValueError: If a file name is no plain file name, or an alias names no tensor.
        ContainerError: If this is more than a reader would accept.
    """
    aliases = dict(aliases or {})
    for name in files:
        if not is_plain_file_name(name):
            raise ValueError(f"file {name!r}: expected a plain file name")
    for alias, target in aliases.items():
        if target not in tensors or alias in tensors:
            raise ValueError(f"alias {alias!r}: expected a new name for one of the tensors, found {target!r}")
    sections = [zlib.compress(content, 9) for content in files.values()]
    file_table = [
        {"name": name, "size": len(content), **_section_entry(stored)}
        for (name, content), stored in zip(files.items(), sections, strict=True)
    ]
    tensor_table = [
        {"name": name, "shape": list(tensor.shape), "encoding": tensor.encoding, **_section_entry(tensor.payload)}
        for name, tensor in tensors.items()
    ]
    sections += [tensor.payload for tensor in tensors.values()]
    header = {"aliases": aliases, "files": file_table, "metadata": dict(metadata), "tensors": tensor_table}
    raw = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    stored_header = zlib.compress(raw, 9)
    body = b"".join([stored_header, *sections])
    total = _PREAMBLE.size + _CRC.size + len(body) + _DIGEST_BYTES
    # What a reader would refuse is not written.
    parse_header(raw, file_bytes=total)
    if total > MAX_CONTAINER_BYTES:
        raise ContainerError(f"container: expected at most {MAX_CONTAINER_BYTES} bytes, found {total}")
    preamble = _PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(stored_header), len(raw), zlib.crc32(stored_header), total)
    content = preamble + _CRC.pack(zlib.crc32(preamble)) + body
    return content + hashlib.sha256(content).digest()


def write_container(
    path: Path,
    *,
    tensors: Mapping[str, EncodedTensor],
    files: Mapping[str, bytes],
    metadata: Mapping[str, Any],
    aliases: Mapping[str, str] | None = None,
) -> int:
    """Write a container atomically, replacing ``path``; arguments and errors as for ``container_bytes``.

    Returns:
        The size of the file in bytes.

    Raises:
        OutputError: If the system refuses the write.
    """
    content = container_bytes(tensors=tensors, files=files, metadata=metadata, aliases=aliases)
    write_bytes(path, content)
    return len(content)


def _section_entry(stored: bytes) -> dict[str, int]:
    return {"length": len(stored), "crc32": zlib.crc32(stored)}


def read_container(path: Path) -> Container:
    """Read and check a container.

    Raises:
        ContainerError: If the file is missing, truncated, altered, of a newer version, or no container at all.
    """
    content = read_document(
        path, expected="a compressed model file", error=ContainerError, max_bytes=MAX_CONTAINER_BYTES
    )
    try:
        return parse_container(content)
    except ContainerError as error:
        raise ContainerError(f"{path}: {error}") from error


def parse_container(content: bytes) -> Container:
    """Check and parse the bytes of a container; errors as for ``read_container``."""
    start = _PREAMBLE.size + _CRC.size
    if not content.startswith(MAGIC[: len(content)]):
        raise ContainerError(f"not a container: expected the first bytes {MAGIC!r}, found {content[:8]!r}")
    if len(content) >= len(MAGIC) + 4:
        version = int.from_bytes(content[8:12], "little")
        if version > FORMAT_VERSION:
            raise ContainerError(f"newer format: expected version {FORMAT_VERSION} or older, found {version}")
    if len(content) < start:
        raise ContainerError(f"truncated: expected at least {start} bytes, found {len(content)}")
    _, version, header_length, header_size, header_crc, total = _PREAMBLE.unpack_from(content)
    if version < 1 or _CRC.unpack_from(content, _PREAMBLE.size)[0] != zlib.crc32(content[: _PREAMBLE.size]):
        raise ContainerError("altered: the preamble fails its checksum")
    if len(content) != total:
        problem = "truncated" if len(content) < total else "altered"
        raise ContainerError(f"{problem}: expected {total} bytes, found {len(content)}")
    view = memoryview(content)
    stored = view[start : start + header_length]
    if start + header_length + _DIGEST_BYTES > total or zlib.crc32(stored) != header_crc:
        raise ContainerError("altered: the header fails its checksum")
    if header_size > MAX_HEADER_BYTES:
        raise ContainerError(f"header: expected at most {MAX_HEADER_BYTES} bytes, found a size of {header_size}")
    header = parse_header(_inflate(stored, header_size, "header"), file_bytes=total)
    sections = _cut_sections(view[start + header_length : -_DIGEST_BYTES], header)
    if hashlib.sha256(view[:-_DIGEST_BYTES]).digest() != content[-_DIGEST_BYTES:]:
        raise ContainerError("altered: the file fails its SHA-256 checksum")
    files = {entry.name: _inflate(next(sections), entry.size, f"file {entry.name!r}") for entry in header.files}
    tensors = {
        entry.name: EncodedTensor(entry.shape, entry.encoding, bytes(next(sections))) for entry in header.tensors
    }
    stored_bytes = {entry.name: entry.length for entry in header.files}
    return Container(header.metadata, files, tensors, header.aliases, stored_bytes)


def _inflate(stored: memoryview, size: int, what: str) -> bytes:
    """Inflate to exactly ``size`` bytes, allocating no more than that whatever the stream holds."""
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stored, size + 1)
    except zlib.error as error:
        raise ContainerError(f"{what}: expected a zlib stream: {error}") from error
    if len(content) != size or not inflater.eof or inflater.unused_data:
        raise ContainerError(f"{what}: expected a zlib stream of exactly {size} bytes")
    return content


def _cut_sections(body: memoryview, header: Header) -> Iterator[memoryview]:
    """Check that the sections fill the body, and each section's checksum; then hand them out in order."""
    entries: list[FileEntry | TensorEntry] = [*header.files, *header.tensors]
    expected = sum(entry.length for entry in entries)
    if expected != len(body):
        raise ContainerError(f"altered: expected sections of {expected} bytes in total, found {len(body)}")
    sections = []
    position = 0
    for entry in entries:
        section = body[position : position + entry.length]
        position += entry.length
        if zlib.crc32(section) != entry.crc32:
            raise ContainerError(f"altered: {entry.name!r} fails its checksum")
        sections.append(section)
    return iter(sections)
