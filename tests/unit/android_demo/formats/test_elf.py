"""Headers of native libraries, and what would keep one from loading."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.base.errors import BuildError
from tools.formats.elf import find_library_problems, read_library

LOAD, DYNAMIC, STACK, RELRO = 1, 2, 0x6474E551, 0x6474E552
READ, READ_EXECUTE, READ_WRITE, ALL = 4, 5, 6, 7
PATH = Path("lib/arm64-v8a/libx.so")


def library(
    *,
    machine: int = 183,
    alignment: int = 0x4000,
    address: int = 0,
    stack: int | None = READ_WRITE,
    relro: bool = True,
    needed: Sequence[str] = ("libc.so",),
    versions: Sequence[str] = ("LIBC",),
    tags: Sequence[tuple[int, int]] = (),
) -> bytes:
    """A library of headers, a dynamic table, its strings and its versions, and the sections of these two."""
    strings = b"\0"
    places = {}
    for name in [*needed, *versions]:
        places[name] = len(strings)
        strings += name.encode() + b"\0"
    count = 2 + (stack is not None) + relro
    string_at = 64 + 56 * count
    version_at = string_at + len(strings)
    needs = struct.pack("<HHIII", 1, len(versions), places[needed[0]], 16, 0)
    for index, version in enumerate(versions):
        following = 16 if index + 1 < len(versions) else 0
        needs += struct.pack("<IHHII", 0, 0, 2 + index, places[version], following)
    dynamic_at = version_at + len(needs)
    entries = [(1, places[name]) for name in needed] + [(5, address + string_at)]
    entries += [(0x6FFFFFFE, address + version_at), (0x6FFFFFFF, 1), *tags, (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)
    size = dynamic_at + len(dynamic)
    headers = [
        (LOAD, READ_EXECUTE, 0, address, address, size, size, alignment),
        (DYNAMIC, READ_WRITE, dynamic_at, address + dynamic_at, address + dynamic_at, len(dynamic), len(dynamic), 8),
    ]
    if stack is not None:
        headers.append((STACK, stack, 0, 0, 0, 0, 0, 0))
    if relro:
        headers.append((RELRO, READ, 0, 0, 0, 0, 0, 1))
    sections = [(0, 0, 0, 0, 0), (3, string_at, len(strings), 0, 0), (0x6FFFFFFE, version_at, len(needs), 1, 1)]
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQI", 3, machine, 1, 0, 64, size, 0)
    head += struct.pack("<HHHHHH", 64, 56, count, 64, len(sections), 1)
    head += b"".join(struct.pack("<IIQQQQQQ", *header) for header in headers)
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 2, place, place, length, link, info, 1, 0)
        for kind, place, length, link, info in sections
    )
    return head + strings + needs + dynamic + table


def problems(content: bytes, abi: str = "arm64-v8a") -> list[str]:
    found = find_library_problems(PATH, content, abi, {"libc++_shared.so"})
    return [problem.removeprefix(f"{PATH}: ") for problem in found]


def test_a_good_library_is_read() -> None:
    content = library(needed=("libc.so", "libc++_shared.so"), versions=("LIBC", "LIBC_N"))
    one = read_library(content, "libx.so")
    assert one.needed == ("libc.so", "libc++_shared.so")
    assert one.versions == ("LIBC", "LIBC_N")
    assert one.alignments == (0x4000,)
    assert problems(content) == []
    assert problems(library(machine=62), "x86_64") == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (library(machine=62), "expected machine EM_AARCH64 of arm64-v8a, found EM_X86_64"),
        (library(alignment=0x1000), "expected segments aligned to 16384, found [4096]"),
        (library(address=0x1000), "expected segments to lie in the file as in memory"),
        (library(tags=[(22, 0)]), "expected no text relocations"),
        (library(tags=[(30, 4)]), "expected no text relocations"),
        (library(stack=ALL), "expected a stack that is not executable"),
        (library(stack=None), "expected a stack that is not executable"),
        (library(relro=False), "expected tables that are read-only after loading"),
        (
            library(needed=("libc.so", "libart.so")),
            "expected to need libraries of the package or the platform, found lib",
        ),
        (
            library(versions=("LIBC", "GLIBC_2.17")),
            "expected symbols of Android's versions up to 8.0, found GLIBC_2.17",
        ),
        (library(versions=("LIBC_P",)), "expected symbols of Android's versions up to 8.0, found LIBC_P"),
    ],
)
def test_faults_are_found(content: bytes, problem: str) -> None:
    (found,) = problems(content)
    assert found.startswith(problem)


def test_flags_other_than_text_relocations_are_no_matter() -> None:
    assert problems(library(tags=[(30, 8)])) == []


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\1\1" + bytes(60)])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(BuildError, match=r"libx\.so: expected a 64-bit little-endian ELF file"):
        read_library(content, "libx.so")


def test_a_library_that_is_cut_off_anywhere_is_refused() -> None:
    whole = library()
    for keep in range(6, len(whole)):
        with pytest.raises(BuildError, match=r"libx\.so: expected a whole ELF file"):
            read_library(whole[:keep], "libx.so")


def test_a_library_whose_strings_lie_outside_is_refused() -> None:
    strings = struct.pack("<QQ", 5, 64 + 56 * 4)
    whole = library()
    assert whole.count(strings) == 1
    with pytest.raises(BuildError, match=r"libx\.so: expected a whole ELF file"):
        read_library(whole.replace(strings, struct.pack("<QQ", 5, 1 << 40)), "libx.so")


def test_versions_without_their_section_are_refused() -> None:
    content = bytearray(library())
    struct.pack_into("<QHH", content, 40, 0, 0, 0)
    struct.pack_into("<HHH", content, 58, 0, 0, 0)
    with pytest.raises(
        BuildError, match=r"libx\.so: expected a section of the symbol versions that it needs, found none"
    ):
        read_library(bytes(content), "libx.so")
