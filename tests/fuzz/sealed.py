"""Containers whose checksums are all right, whatever they hold."""

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

MAGIC = b"\x89LNLP\r\n\x1a"


def seal(header: Any, body: bytes = b"", *, header_size: int | None = None, total: int | None = None) -> bytes:
    """A file with this header, an object or bytes as they are, and these sections.

    Args:
        header: The header.
        body: Its sections, back to back.
        header_size: Inflated size that the file states; left out, the true one.
        total: Length that the file states; left out, the true one.
    """
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    stored = zlib.compress(raw, 9)
    size = len(raw) if header_size is None else header_size
    length = 36 + len(stored) + len(body) + 32
    preamble = MAGIC + struct.pack("<4IQ", 1, len(stored), size, zlib.crc32(stored), length if total is None else total)
    content = preamble + struct.pack("<I", zlib.crc32(preamble)) + stored + body
    return content + hashlib.sha256(content).digest()


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and sections of a valid file."""
    end = 36 + int.from_bytes(content[12:16], "little")
    return json.loads(zlib.decompress(content[36:end])), content[end:-32]


def header_of(**changes: Any) -> dict[str, Any]:
    """The header of an empty file, with these fields changed."""
    return {"aliases": {}, "files": [], "metadata": {}, "tensors": [], **changes}


def tensor_entry(payload: bytes, **changes: Any) -> dict[str, Any]:
    """The entry of one weight ``w`` in fp32, with these fields changed."""
    entry = {"name": "w", "shape": [1], "encoding": "fp32", "length": len(payload), "crc32": zlib.crc32(payload)}
    return {**entry, **changes}


def file_entry(stored: bytes, size: int, **changes: Any) -> dict[str, Any]:
    """The entry of a file ``x``, with these fields changed."""
    return {"name": "x", "size": size, "length": len(stored), "crc32": zlib.crc32(stored), **changes}


def seal_tensors(tensors: Sequence[tuple[Sequence[int], str, bytes]]) -> bytes:
    """A file of tensors: shape, encoding and payload of each."""
    entries = [
        tensor_entry(payload, name=f"t{index}", shape=list(shape), encoding=encoding)
        for index, (shape, encoding, payload) in enumerate(tensors)
    ]
    return seal(header_of(tensors=entries), b"".join(payload for _, _, payload in tensors))


def seal_files(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """A file of embedded files: zlib stream and size of each."""
    entries = [file_entry(stored, size, name=name) for name, (stored, size) in files.items()]
    return seal(header_of(files=entries), b"".join(stored for stored, _ in files.values()))


def free_stream(scale_bits: int, lanes: int, num_centroids: int = 1) -> bytes:
    """An entropy-coded payload of any number of weights, all of which are the first centroid and cost nothing."""
    total, varint = 1 << scale_bits, bytearray()
    while total > 0x7F:
        varint.append(total & 0x7F | 0x80)
        total >>= 7
    varint.append(total)
    codebook = struct.pack("<BBH", 2, scale_bits, num_centroids - 1) + bytes(2 * num_centroids)
    return codebook + varint + bytes(num_centroids - 1) + struct.pack("<I", lanes) + struct.pack("<I", 1 << 16) * lanes
