"""Containers whose checksum is right, whatever they hold."""

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lite_nlp.compress.lnlp.bits import BitWriter
from lite_nlp.compress.lnlp.grid_tables import build_tables
from lite_nlp.compress.lnlp.rans import RansSymbols, encode_streams

MAGIC = b"\x89LNLP\r\n\x1a"


def seal(
    header: Any, body: bytes = b"", *, plain: bytes = b"", header_size: int | None = None, total: int | None = None
) -> bytes:
    """A file with this header, an object or bytes as they are, and these sections.

    Args:
        header: The header.
        body: Its sections, back to back.
        plain: The files that are stored as they are, back to back.
        header_size: Inflated size of the header that the file states; left out, the true one.
        total: Length that the file states; left out, the true one.
    """
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return seal_stored(zlib.compress(raw + plain, 9), body, len(raw) if header_size is None else header_size, total)


def seal_stored(stored: bytes, body: bytes, header_size: int, total: int | None = None) -> bytes:
    """A file with a header's stream as it is."""
    length = 24 + len(stored) + len(body) + 32
    fields = (2, length if total is None else total, len(stored), header_size)
    content = MAGIC + struct.pack("<4I", *fields) + stored + body
    return content + hashlib.sha256(content).digest()


def split(content: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """Header, files stored as they are, and sections of a valid file."""
    _, _, stored, size = struct.unpack_from("<4I", content, 8)
    inflated = zlib.decompress(content[24 : 24 + stored])
    return json.loads(inflated[:size]), inflated[size:], content[24 + stored : -32]


def header_of(tensors: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (), **changes: Any) -> dict[str, Any]:
    """The header of a file with tensors of these entries, or with these lists, and with these fields changed."""
    columns = (
        tensors
        if isinstance(tensors, Mapping)
        else {f"{key}s": [entry[key] for entry in tensors] for key in ("name", "shape", "encoding", "length")}
    )
    return {"aliases": {}, "files": [], "metadata": {}, "tensors": columns, **changes}


def tensor_entry(payload: bytes, **changes: Any) -> dict[str, Any]:
    """The entry of one weight ``w`` in fp32, with these fields changed."""
    return {"name": "w", "shape": [1], "encoding": "fp32", "length": len(payload), **changes}


def file_entry(content: bytes, **changes: Any) -> dict[str, Any]:
    """The entry of a file ``x`` that is stored as it is, with these fields changed."""
    return {"name": "x", "size": len(content), **changes}


def seal_tensors(tensors: Sequence[tuple[Sequence[int], str, bytes]]) -> bytes:
    """A file of tensors: shape, encoding and payload of each."""
    entries = [
        tensor_entry(payload, name=f"t{index}", shape=list(shape), encoding=encoding)
        for index, (shape, encoding, payload) in enumerate(tensors)
    ]
    return seal(header_of(entries), b"".join(payload for _, _, payload in tensors))


def seal_files(files: Mapping[str, bytes]) -> bytes:
    """A file of embedded files."""
    entries = [file_entry(content, name=name) for name, content in files.items()]
    return seal(header_of(files=entries), plain=b"".join(files.values()))


def free_stream(scale_bits: int, num_weights: int, *, lanes: int | None = None) -> bytes:
    """A payload of k-means indices of one centroid, 0, which cost nothing.

    Args:
        scale_bits: Of the table.
        num_weights: Number of indices.
        lanes: Lanes of the stream; left out, those that the format says.
    """
    writer = BitWriter()
    writer.field(0, 1)
    writer.number(0)
    writer.field(1 << 15, 16)
    writer.field((scale_bits - 8) % 8, 3)
    writer.numbers([0])
    count = -(-num_weights // 8192) if lanes is None else lanes
    return writer.to_bytes() + struct.pack("<I", 1 << 16) * count


def zero_grid(
    rows: int, columns: int, *, row_classes: Sequence[int] = (), column_classes: Sequence[int] = (), repeat: int = 1
) -> bytes:
    """A payload of levels that are all zero, coded by rANS, with a step of 1.

    Args:
        rows: Of the matrix.
        columns: Of the matrix.
        row_classes: One for each row, on top of 24; none for none.
        column_classes: One for each column; none for none.
        repeat: As many such streams side by side, for a vector of so many times 8192 levels.
    """
    writer = BitWriter()
    writer.field(2, 3)
    writer.signed(0)
    writer.field(24, 7)
    for classes in (row_classes, column_classes):
        writer.field(1 if classes else 0, 3)
    writer.numbers([0] * 8)
    writer.numbers(row_classes)
    writer.numbers(column_classes)
    writer.numbers([0])
    writer.numbers([0])
    writer.number(0)
    sums = 24 + np.add.outer(np.array(row_classes or [0] * rows), np.array(column_classes or [0] * columns))
    present, chosen = np.unique(np.clip(sums, 0, 72), return_inverse=True)
    tables = build_tables(2, np.zeros(8, dtype=np.int64), present)
    places = chosen.reshape(-1) * tables.frequencies.shape[1]
    (stream,) = encode_streams([RansSymbols(places=places, frequencies=tables.frequencies.reshape(-1), scale_bits=12)])
    coded = stream.states.astype("<u4").tobytes() * repeat + np.repeat(stream.words, repeat).astype("<u2").tobytes()
    return b"\x80\x3f" + writer.to_bytes() + coded
