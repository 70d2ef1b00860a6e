"""Reads the headers of 64-bit ELF libraries and says what would keep one from loading on some Android device."""

import dataclasses
import struct
from collections.abc import Collection
from pathlib import Path

from tools.base.errors import BuildError

__all__ = [
    "PLATFORM_LIBRARIES",
    "Library",
    "Span",
    "code_sections",
    "find_library_problems",
    "find_symbol",
    "read_library",
]

# The stable libraries of Android that an app may link to, as far as the app's libraries do: all others are hidden.
PLATFORM_LIBRARIES = frozenset({"libandroid.so", "libc.so", "libdl.so", "liblog.so", "libm.so"})
# Devices have pages of 4 or 16 KB; a segment that is aligned to less than a page cannot be mapped.
_PAGE = 16384
_MACHINES = {"arm64-v8a": 183, "x86_64": 62}
_LOAD, _DYNAMIC, _STACK, _RELRO = 1, 2, 0x6474E551, 0x6474E552
_EXECUTABLE = 1
_PROGRAM, _SYMBOLS, _SECTION_EXECUTABLE = 1, 11, 4
_NEEDED, _STRINGS, _TEXT_RELOCATIONS, _FLAGS = 1, 5, 22, 30
_VERSIONS, _VERSION_COUNT = 0x6FFFFFFE, 0x6FFFFFFF
_FLAG_TEXT_RELOCATIONS = 4
# Versions of symbols that the oldest supported system has: N came with API 24, O with 26.
_VERSIONS_OF_ANDROID = frozenset({"LIBC", "LIBC_N", "LIBC_O"})


@dataclasses.dataclass(frozen=True)
class Library:
    """What a library's headers say.

    Attributes:
        machine: Number of the instruction set.
        alignments: Alignment of each loaded segment, in bytes.
        congruent: Whether each loaded segment lies in the file as in memory, within a page of 16 KB.
        text_relocations: Whether code must be patched when it is loaded.
        executable_stack: Whether it asks for one, or says nothing (which asks too).
        read_only_relocations: Whether tables are protected after loading.
        needed: Libraries that are loaded with it.
        versions: Symbol versions that it asks of them, such as LIBC.
    """

    machine: int
    alignments: tuple[int, ...]
    congruent: bool
    text_relocations: bool
    executable_stack: bool
    read_only_relocations: bool
    needed: tuple[str, ...]
    versions: tuple[str, ...]


def read_library(content: bytes, name: str) -> Library:
    """Read a library's headers.

    Args:
        content: The file.
        name: For errors.

    Raises:
        BuildError: It is no 64-bit little-endian ELF file, or is cut off.
    """
    if content[:6] != b"\x7fELF\x02\x01":
        raise BuildError(f"{name}: expected a 64-bit little-endian ELF file, found {content[:6].hex()}")
    try:
        return _read(content)
    except (struct.error, ValueError) as error:
        raise BuildError(f"{name}: expected a whole ELF file, found one cut off ({error})") from error


def _read(content: bytes) -> Library:
    (machine,) = struct.unpack_from("<H", content, 18)
    (table,) = struct.unpack_from("<Q", content, 32)
    entry_size, count = struct.unpack_from("<HH", content, 54)
    # type, flags, offset, address, physical address, size in file, size in memory, alignment
    headers = [struct.unpack_from("<IIQQQQQQ", content, table + entry_size * index) for index in range(count)]
    loads = [header for header in headers if header[0] == _LOAD]

    def at(address: int) -> int:
        """Where in the file an address of memory is."""
        for _, _, offset, start, _, size, _, _ in loads:
            if start <= address < start + size:
                return int(offset + address - start)
        raise ValueError(f"no segment has the address {address:#x}")

    entries: list[tuple[int, int]] = []
    for kind, _, offset, _, _, size, _, _ in headers:
        if kind == _DYNAMIC:
            entries += [struct.unpack_from("<QQ", content, offset + place) for place in range(0, size, 16)]
    values = dict(reversed(entries))

    def text(offset: int) -> str:
        start = at(values[_STRINGS]) + offset
        return content[start : content.index(b"\0", start)].decode()

    versions = []
    position = at(values[_VERSIONS]) if _VERSIONS in values else 0
    for _ in range(values.get(_VERSION_COUNT, 0)):
        _, auxiliary_count, _, auxiliary, following = struct.unpack_from("<HHIII", content, position)
        place = position + auxiliary
        for _ in range(auxiliary_count):
            _, _, _, version, next_place = struct.unpack_from("<IHHII", content, place)
            versions.append(text(version))
            place += next_place
        position += following
    return Library(
        machine=machine,
        alignments=tuple(header[7] for header in loads),
        congruent=all(header[2] % _PAGE == header[3] % _PAGE for header in loads),
        text_relocations=_TEXT_RELOCATIONS in values or bool(values.get(_FLAGS, 0) & _FLAG_TEXT_RELOCATIONS),
        executable_stack=all(header[0] != _STACK or bool(header[1] & _EXECUTABLE) for header in headers),
        read_only_relocations=any(header[0] == _RELRO for header in headers),
        needed=tuple(text(value) for tag, value in entries if tag == _NEEDED),
        versions=tuple(sorted(set(versions))),
    )


@dataclasses.dataclass(frozen=True)
class Span:
    """A part of a library.

    Attributes:
        offset: Of its first byte in the file.
        address: In memory, from where the library is loaded.
        size: In bytes.
    """

    offset: int
    address: int
    size: int


def code_sections(content: bytes, name: str) -> list[Span]:
    """The sections of code, in the order of the file.

    Args:
        content: A library with its table of sections, which stripping leaves.
        name: Of it, for errors.

    Raises:
        BuildError: The library is cut off or has no such section.
    """
    found = [
        Span(offset, address, size)
        for _, kind, flags, address, offset, size, *_ in _sections(content, name)
        if kind == _PROGRAM and flags & _SECTION_EXECUTABLE
    ]
    if not found:
        raise BuildError(f"{name}: expected sections of code, found none")
    return sorted(found, key=lambda span: span.offset)


def find_symbol(content: bytes, name: str, symbol: str) -> Span:
    """What a library exports under a name.

    Args:
        content: The library.
        name: Of it, for errors.
        symbol: As it is linked to.

    Raises:
        BuildError: There is no such symbol, or the library is cut off.
    """
    sections = _sections(content, name)
    for _, kind, _, _, offset, size, link, _, _, entry_size in sections:
        if kind != _SYMBOLS:
            continue
        strings = content[sections[link][4] : sections[link][4] + sections[link][5]]
        for place in range(offset, offset + size, entry_size):
            text, _, _, section, address, length = struct.unpack_from("<IBBHQQ", content, place)
            if strings[text : strings.index(b"\0", text)] == symbol.encode() and length:
                return Span(sections[section][4] + address - sections[section][3], address, length)
    raise BuildError(f"{name}: expected the symbol {symbol}, found none")


def _sections(content: bytes, name: str) -> list[tuple[int, ...]]:
    """Name, type, flags, address, offset, size, link, information, alignment and size of an entry of each section."""
    try:
        (table,) = struct.unpack_from("<Q", content, 40)
        entry_size, count = struct.unpack_from("<HH", content, 58)
        return [struct.unpack_from("<IIQQQQIIQQ", content, table + entry_size * index) for index in range(count)]
    except struct.error as error:
        raise BuildError(f"{name}: expected a whole ELF file, found one cut off ({error})") from error


def find_library_problems(path: Path, content: bytes, abi: str, packaged: Collection[str]) -> list[str]:
    """What is wrong with a library of the package, a line for each.

    Args:
        path: Its path in the package.
        content: The file.
        abi: Android's name of the instruction set it is for.
        packaged: Names of all libraries of the package.
    """
    library = read_library(content, path.name)
    problems = []
    if library.machine != _MACHINES[abi]:
        problems.append(f"expected machine {_MACHINES[abi]} of {abi}, found {library.machine}")
    if not library.alignments or any(alignment % _PAGE for alignment in library.alignments):
        problems.append(f"expected segments aligned to {_PAGE}, found {list(library.alignments)}")
    if not library.congruent:
        problems.append("expected segments to lie in the file as in memory, found one that does not")
    if library.text_relocations:
        problems.append("expected no text relocations, found some")
    if library.executable_stack:
        problems.append("expected a stack that is not executable, found one that is")
    if not library.read_only_relocations:
        problems.append("expected tables that are read-only after loading (RELRO), found none")
    missing = sorted(set(library.needed) - PLATFORM_LIBRARIES - set(packaged))
    if missing:
        problems.append(f"expected to need libraries of the package or the platform, found {', '.join(missing)}")
    versions = sorted(set(library.versions) - _VERSIONS_OF_ANDROID)
    if versions:
        problems.append(f"expected symbols of Android's versions up to 8.0, found {', '.join(versions)}")
    return [f"{path}: {problem}" for problem in problems]
