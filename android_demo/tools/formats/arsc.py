"""Compiled resource tables, rewritten so that an aapt2 of 2019 can link against a platform of 2024.

Android's newer tables hold entries in three forms that the older aapt2 does not know: types with 16-bit offsets, sparse
types, and compact values. All say the same as the classic form (ResourceTypes.h: ResTable_type, ResTable_entry), only
in fewer bytes. The chunk of staged aliases, which no app needs, is left out. The result is an input of the build and
is never shipped.
"""

import struct

from tools.base.errors import BuildError

__all__ = ["rewrite_table"]

_TABLE, _PACKAGE, _TYPE, _STAGED_ALIASES = 0x0002, 0x0200, 0x0201, 0x0206
_SPARSE, _OFFSET16 = 0x01, 0x02
_COMPLEX, _COMPACT = 0x0001, 0x0008
_NO_ENTRY, _NO_ENTRY_16 = 0xFFFFFFFF, 0xFFFF
# Bytes: header of a chunk; entry with its value; entry of a map before its items; item of a map.
_CHUNK, _VALUE_ENTRY, _MAP_ENTRY, _MAP_ITEM = 8, 16, 16, 12


def rewrite_table(table: bytes) -> bytes:
    """Convert a table to classic form.

    Args:
        table: A whole resources.arsc.

    Raises:
        BuildError: It is no resource table, or is cut off.
    """
    try:
        kind, header_size, _ = _read_chunk(table, 0, len(table))
        if kind != _TABLE:
            raise BuildError(f"resource table: expected a chunk of type {_TABLE:#06x}, found {kind:#06x}")
        return _rewrite_chunks(table, 0, header_size, len(table))
    except struct.error as error:
        raise BuildError(f"resource table: expected more bytes than its {len(table)}") from error


def _read_chunk(table: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Type, size of the header and size of the chunk at `start`, which must lie before `end`."""
    kind, header_size, size = struct.unpack_from("<HHI", table, start)
    if header_size < _CHUNK or size < header_size or start + size > end:
        raise BuildError(f"resource table: expected a chunk within {end - start} bytes at {start}, found one of {size}")
    return kind, header_size, size


def _rewrite_chunks(table: bytes, start: int, header_size: int, end: int) -> bytes:
    """Rewrite the chunks inside the chunk at `start`, and update its size."""
    header = bytearray(table[start : start + header_size])
    parts: list[bytes] = []
    position = start + header_size
    while position < end:
        kind, inner_header, size = _read_chunk(table, position, end)
        if kind == _PACKAGE:
            parts.append(_rewrite_chunks(table, position, inner_header, position + size))
        elif kind == _TYPE:
            parts.append(_rewrite_type(table[position : position + size], inner_header))
        elif kind != _STAGED_ALIASES:
            parts.append(table[position : position + size])
        position += size
    body = b"".join(parts)
    struct.pack_into("<I", header, 4, header_size + len(body))
    return bytes(header) + body


def _rewrite_type(chunk: bytes, header_size: int) -> bytes:
    """A type (all values of one kind for one configuration) with 32-bit offsets and classic entries."""
    flags = chunk[9]
    count, entries_start = struct.unpack_from("<II", chunk, 12)
    offsets: dict[int, int] = {}
    if flags & _SPARSE:
        for place in range(count):
            index, quarter = struct.unpack_from("<HH", chunk, header_size + 4 * place)
            offsets[index] = 4 * quarter
        count = max(offsets, default=-1) + 1
    elif flags & _OFFSET16:
        quarters = struct.unpack_from(f"<{count}H", chunk, header_size)
        offsets = {index: 4 * quarter for index, quarter in enumerate(quarters) if quarter != _NO_ENTRY_16}
    else:
        words = struct.unpack_from(f"<{count}I", chunk, header_size)
        offsets = {index: word for index, word in enumerate(words) if word != _NO_ENTRY}
    places = [_NO_ENTRY] * count
    entries = bytearray()
    for index, offset in sorted(offsets.items()):
        places[index] = len(entries)
        entries += _classic_entry(chunk, entries_start + offset)
    header = bytearray(chunk[:header_size])
    header[9] = 0
    start = header_size + 4 * count
    struct.pack_into("<I", header, 4, start + len(entries))
    struct.pack_into("<II", header, 12, count, start)
    return bytes(header) + struct.pack(f"<{count}I", *places) + bytes(entries)


def _classic_entry(chunk: bytes, start: int) -> bytes:
    """The entry at `start` with all its bytes, a compact one as an entry and a value."""
    first, flags, data = struct.unpack_from("<HHI", chunk, start)
    if flags & _COMPACT:
        # The first half-word is the key; the high byte of the flags is the value's type.
        return struct.pack("<HHIHBBI", 8, flags & 0xFF & ~_COMPACT, first, 8, 0, flags >> 8, data)
    size = _VALUE_ENTRY
    if flags & _COMPLEX:
        size = _MAP_ENTRY + _MAP_ITEM * struct.unpack_from("<I", chunk, start + 12)[0]
    entry = chunk[start : start + size]
    if len(entry) != size:
        raise BuildError(f"resource table: expected an entry of {size} bytes at {start}, found {len(entry)}")
    return entry
