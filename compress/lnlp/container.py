"""The ``.lnlp`` container: metadata, embedded files and encoded tensors in one checked file.

``FORMAT.md`` specifies every byte. NumPy only: a container is read without torch.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import Any, Final

from numpy.typing import NDArray

from lite_nlp.compress.lnlp.encodings import EncodedTensor, decode_tensors
from lite_nlp.compress.lnlp.header import (
    FileEntry,
    Header,
    TensorEntry,
    is_plain_file_name,
    make_header,
    parse_header,
)
from lite_nlp.compress.lnlp.limits import MAX_CONTAINER_BYTES, MAX_HEADER_BYTES
from lite_nlp.compress.lnlp.vocabulary import decode_vocabulary, encode_vocabulary
from lite_nlp.core.errors import ContainerError
from lite_nlp.core.files import write_bytes
from lite_nlp.core.parsing import read_document

__all__ = [
    "FORMAT_VERSION",
    "MAGIC",
    "Container",
    "container_bytes",
    "parse_container",
    "quantized_matrices",
    "read_container",
    "write_container",
]

MAGIC: Final = b"\x89LNLP\r\n\x1a"
FORMAT_VERSION: Final = 2
#: magic, version, length of the whole file, stored length of the header's stream, inflated length of its JSON.
_PREAMBLE: Final = Struct("<8sIIII")
#: The file that is stored by its merges where they give it back.
_TOKENIZER_FILE: Final = "tokenizer.json"
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class Container:
    """The contents of a container.

    Attributes:
        metadata: Any JSON object.
        files: Embedded files by name.
        tensors: Encoded tensors by name, each stored once.
        aliases: Further names of tensors (tied weights): alias to the name in ``tensors``.
        stored_bytes: Bytes of the embedded files that have a section of their own; the others are in the header's
            stream.
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


def quantized_matrices(tensors: Mapping[str, EncodedTensor]) -> frozenset[str]:
    """Names of the matrices that are stored with a few values, not as floats."""
    return frozenset(
        name
        for name, tensor in tensors.items()
        if len(tensor.shape) > 1 and tensor.encoding.startswith(("kmeans", "grid"))
    )


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
    coded = {name: encode_vocabulary(content) for name, content in files.items() if name == _TOKENIZER_FILE}
    sections = {name: stored for name, stored in coded.items() if stored is not None}
    header = Header(
        metadata=dict(metadata),
        files=[
            FileEntry(name, len(content), len(sections[name]) if name in sections else None)
            for name, content in files.items()
        ],
        tensors=[
            TensorEntry(name, tensor.shape, tensor.encoding, len(tensor.payload)) for name, tensor in tensors.items()
        ],
        aliases=aliases,
    )
    raw = json.dumps(
        make_header(header), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()
    plain = [content for name, content in files.items() if name not in sections]
    stored = zlib.compress(b"".join([raw, *plain]), 9)
    body = b"".join([stored, *sections.values(), *(tensor.payload for tensor in tensors.values())])
    total = _PREAMBLE.size + len(body) + _DIGEST_BYTES
    # What a reader would refuse is not written.
    parse_header(raw, file_bytes=total)
    if total > MAX_CONTAINER_BYTES:
        raise ContainerError(f"container: expected at most {MAX_CONTAINER_BYTES} bytes, found {total}")
    content = _PREAMBLE.pack(MAGIC, FORMAT_VERSION, total, len(stored), len(raw)) + body
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


def read_container(path: Path) -> Container:
    """Read and check a container.

    Raises:
        ContainerError: If the file is missing, truncated, altered, of another version, or no container at all.
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
    if not content.startswith(MAGIC[: len(content)]):
        raise ContainerError(f"not a container: expected the first bytes {MAGIC!r}, found {content[:8]!r}")
    if len(content) >= len(MAGIC) + 4:
        version = int.from_bytes(content[8:12], "little")
        if version != FORMAT_VERSION:
            age = "newer" if version > FORMAT_VERSION else "older"
            raise ContainerError(f"{age} format: expected version {FORMAT_VERSION}, found {version}")
    if len(content) < _PREAMBLE.size:
        raise ContainerError(f"truncated: expected at least {_PREAMBLE.size} bytes, found {len(content)}")
    _, _, total, stored_length, header_size = _PREAMBLE.unpack_from(content)
    if len(content) != total:
        problem = "truncated" if len(content) < total else "altered"
        raise ContainerError(f"{problem}: expected {total} bytes, found {len(content)}")
    view = memoryview(content)
    end = total - _DIGEST_BYTES
    if end < _PREAMBLE.size or hashlib.sha256(view[:end]).digest() != content[end:]:
        raise ContainerError("altered: the file fails its SHA-256 checksum")
    if stored_length > end - _PREAMBLE.size:
        raise ContainerError(f"header: expected {stored_length} bytes, found {end - _PREAMBLE.size}")
    if header_size > MAX_HEADER_BYTES:
        raise ContainerError(f"header: expected at most {MAX_HEADER_BYTES} bytes, found a size of {header_size}")
    stream = _Stream(view[_PREAMBLE.size : _PREAMBLE.size + stored_length])
    header = parse_header(stream.take(header_size), file_bytes=total)
    sections = _cut_sections(view[_PREAMBLE.size + stored_length : end], header)
    plain = stream.take(header.plain_bytes)
    stream.finish()
    files, at = {}, 0
    for entry in header.files:
        if entry.length is None:
            files[entry.name] = plain[at : at + entry.size]
            at += entry.size
        else:
            files[entry.name] = _vocabulary(next(sections), entry)
    tensors = {
        entry.name: EncodedTensor(entry.shape, entry.encoding, bytes(next(sections))) for entry in header.tensors
    }
    stored_bytes = {entry.name: entry.length for entry in header.files if entry.length is not None}
    return Container(header.metadata, files, tensors, header.aliases, stored_bytes)


def _vocabulary(stored: memoryview, entry: FileEntry) -> bytes:
    try:
        return decode_vocabulary(stored, entry.size)
    except ContainerError as error:
        raise ContainerError(f"file {entry.name!r}: {error}") from error


class _Stream:
    """A zlib stream, inflated as far as is asked for, whatever it holds."""

    def __init__(self, stored: memoryview) -> None:
        self._inflater = zlib.decompressobj()
        self._rest: memoryview | bytes = stored

    def take(self, size: int) -> bytes:
        """The next bytes."""
        content = self._inflate(size) if size else b""
        if len(content) != size:
            raise ContainerError(f"header: expected a zlib stream with {size} bytes more, found {len(content)}")
        return content

    def finish(self) -> None:
        """Check that the stream ends here, and with it its section."""
        if self._inflate(1) or not self._inflater.eof or self._inflater.unused_data:
            raise ContainerError("header: expected the zlib stream to end with the embedded files")

    def _inflate(self, size: int) -> bytes:
        try:
            content = self._inflater.decompress(self._rest, size)
        except zlib.error as error:
            raise ContainerError(f"header: expected a zlib stream: {error}") from error
        self._rest = self._inflater.unconsumed_tail
        return content


def _cut_sections(body: memoryview, header: Header) -> Iterator[memoryview]:
    """Check that the sections fill the body; then hand them out in order."""
    lengths = [entry.length for entry in header.files if entry.length is not None]
    lengths += [entry.length for entry in header.tensors]
    if sum(lengths) != len(body):
        raise ContainerError(f"sections: expected {sum(lengths)} bytes in total, found {len(body)}")
    ends = list(accumulate(lengths))
    return (body[end - length : end] for length, end in zip(lengths, ends, strict=True))
