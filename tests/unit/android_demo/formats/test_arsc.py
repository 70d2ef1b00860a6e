"""The newer forms of a resource table's entries become the classic one, and nothing else changes."""

import struct

import pytest

from tools.base.errors import BuildError
from tools.formats.arsc import rewrite_table

SPARSE, OFFSET16 = 1, 2
CONFIG = struct.pack("<I", 64) + bytes(60)


def chunk(kind: int, header: bytes, body: bytes) -> bytes:
    return struct.pack("<HHI", kind, 8 + len(header), 8 + len(header) + len(body)) + header + body


def type_chunk(flags: int, count: int, index: bytes, entries: bytes) -> bytes:
    start = 20 + len(CONFIG) + len(index)
    header = struct.pack("<BBHII", 7, flags, 0, count, start) + CONFIG
    return chunk(0x0201, header, index + entries)


def classic(key: int, value: int, kind: int = 0x10, flags: int = 0) -> bytes:
    return struct.pack("<HHIHBBI", 8, flags, key, 8, 0, kind, value)


def compact(key: int, value: int, kind: int = 0x10, flags: int = 0) -> bytes:
    return struct.pack("<HHI", key, 0x0008 | flags | kind << 8, value)


def style(key: int, parent: int, items: dict[int, int]) -> bytes:
    head = struct.pack("<HHIII", 16, 1, key, parent, len(items))
    return head + b"".join(struct.pack("<IHBBI", name, 8, 0, 0x10, value) for name, value in items.items())


def table(*chunks: bytes) -> bytes:
    strings = chunk(0x0001, bytes(20), b"pool")
    package = chunk(0x0200, bytes(280), b"".join(chunks))
    return chunk(0x0002, struct.pack("<I", 1), strings + package)


def offsets(*values: int | None) -> bytes:
    return b"".join(struct.pack("<I", 0xFFFFFFFF if value is None else value) for value in values)


def test_a_classic_table_stays_as_it_is() -> None:
    entries = classic(3, 42) + style(4, 0x01030005, {1: 2, 3: 4})
    whole = table(chunk(0x0202, bytes(8), b"spec"), type_chunk(0, 3, offsets(0, None, 16), entries))
    assert rewrite_table(whole) == whole


def test_offsets_of_16_bits_become_words() -> None:
    entries = classic(3, 42) + style(4, 0, {1: 2}) + classic(5, 43)
    index = struct.pack("<4H", 0, 0xFFFF, 4, 11)
    expected = type_chunk(0, 4, offsets(0, None, 16, 44), entries)
    assert rewrite_table(table(type_chunk(OFFSET16, 4, index, entries))) == table(expected)


def test_a_sparse_type_gets_a_place_for_each_entry() -> None:
    entries = classic(3, 42) + classic(5, 43)
    index = struct.pack("<4H", 1, 0, 4, 4)
    expected = type_chunk(0, 5, offsets(None, 0, None, None, 16), entries)
    assert rewrite_table(table(type_chunk(SPARSE, 2, index, entries))) == table(expected)


def test_compact_entries_get_their_value_apart() -> None:
    entries = compact(3, 42, kind=0x1C, flags=2) + compact(9, 0xFFFFFFFF, kind=0x10)
    expected = type_chunk(0, 2, offsets(0, 16), classic(3, 42, kind=0x1C, flags=2) + classic(9, 0xFFFFFFFF))
    assert rewrite_table(table(type_chunk(0, 2, offsets(0, 8), entries))) == table(expected)


def test_entries_may_be_shared_and_in_any_order() -> None:
    entries = classic(3, 42) + classic(5, 43)
    expected = type_chunk(0, 3, offsets(0, 16, 32), classic(5, 43) + classic(3, 42) + classic(5, 43))
    assert rewrite_table(table(type_chunk(0, 3, offsets(16, 0, 16), entries))) == table(expected)


def test_staged_aliases_are_left_out() -> None:
    kept = type_chunk(0, 1, offsets(0), classic(1, 2))
    assert rewrite_table(table(chunk(0x0206, struct.pack("<I", 0), b""), kept)) == table(kept)


@pytest.mark.parametrize("size", [4, 40, 330, -1])
def test_a_table_that_is_cut_off_is_refused(size: int) -> None:
    whole = table(type_chunk(0, 1, offsets(0), classic(1, 2)))
    with pytest.raises(BuildError, match="resource table: expected"):
        rewrite_table(whole[:size])


def test_an_entry_beyond_its_type_is_refused() -> None:
    broken = table(type_chunk(0, 1, offsets(0), style(1, 0, {1: 2})[:-4]))
    with pytest.raises(BuildError, match="expected an entry of 28 bytes"):
        rewrite_table(broken)


def test_another_kind_of_chunk_is_refused() -> None:
    with pytest.raises(BuildError, match="expected a chunk of type 0x0002, found 0x0003"):
        rewrite_table(chunk(0x0003, b"", b""))
