"""Headers of 64-bit ELF libraries, and the faults that keep one from loading on some Android device."""

import contextlib
import dataclasses
import io
from collections.abc import Collection, Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

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
_MACHINES = {"arm64-v8a": "EM_AARCH64", "x86_64": "EM_X86_64"}
_EXECUTABLE_SEGMENT, _EXECUTABLE_SECTION = 1, 4
_FLAG_TEXT_RELOCATIONS = 4
# Versions of symbols that the oldest supported system has: N came with API 24, O with 26.
_VERSIONS_OF_ANDROID = frozenset({"LIBC", "LIBC_N", "LIBC_O"})


@dataclasses.dataclass(frozen=True)
class Library:
    """Properties of a library that decide where it can be loaded.

    Attributes:
        machine: Instruction set, by its name in the ELF specification.
        alignments: Alignment of each loaded segment, in bytes.
        congruent: Whether each loaded segment lies in the file as in memory, within a page of 16 KB.
        text_relocations: Whether code must be patched when it is loaded.
        executable_stack: Whether it asks for one, or says nothing (which asks too).
        read_only_relocations: Whether tables are protected after loading.
        needed: Libraries that are loaded with it.
        versions: Symbol versions that it asks of them, such as LIBC.
    """

    machine: str
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
    with _opened(content, name) as elf:
        segments = [segment.header for segment in elf.iter_segments()]
        loads = [header for header in segments if header.p_type == "PT_LOAD"]
        dynamics = [segment for segment in elf.iter_segments() if isinstance(segment, DynamicSegment)]
        tags = [tag for dynamic in dynamics for tag in dynamic.iter_tags()]
        kinds = {tag.entry.d_tag for tag in tags}
        flags = [tag.entry.d_val for tag in tags if tag.entry.d_tag == "DT_FLAGS"]
        tables = [section for section in elf.iter_sections() if isinstance(section, GNUVerNeedSection)]
        if "DT_VERNEED" in kinds and not tables:
            raise BuildError(f"{name}: expected a section of the symbol versions that it needs, found none")
        return Library(
            machine=str(elf.header.e_machine),
            alignments=tuple(header.p_align for header in loads),
            congruent=all(header.p_offset % _PAGE == header.p_vaddr % _PAGE for header in loads),
            text_relocations="DT_TEXTREL" in kinds or any(flag & _FLAG_TEXT_RELOCATIONS for flag in flags),
            executable_stack=all(
                header.p_type != "PT_GNU_STACK" or bool(header.p_flags & _EXECUTABLE_SEGMENT) for header in segments
            ),
            read_only_relocations=any(header.p_type == "PT_GNU_RELRO" for header in segments),
            needed=tuple(vars(tag)["needed"] for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
            versions=tuple(
                sorted({one.name for table in tables for _, names in table.iter_versions() for one in names})
            ),
        )


@contextlib.contextmanager
def _opened(content: bytes, name: str) -> Iterator[ELFFile]:
    """Open a library.

    Raises:
        BuildError: It is no 64-bit little-endian ELF file, or is cut off or damaged.
    """
    if content[:6] != b"\x7fELF\x02\x01":
        raise BuildError(f"{name}: expected a 64-bit little-endian ELF file, found {content[:6].hex()}")
    try:
        elf = ELFFile(io.BytesIO(content))
        ends = [segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments()]
        if max(ends, default=0) > len(content):
            raise ELFError(f"segments to byte {max(ends)} of {len(content)}")
        yield elf
    # pyelftools asserts some of what a damaged file does not have.
    except (ELFError, AssertionError, OverflowError, ValueError) as error:
        raise BuildError(f"{name}: expected a whole ELF file, found one cut off or damaged ({error})") from error


@dataclasses.dataclass(frozen=True)
class Span:
    """A contiguous part of a library.

    Attributes:
        offset: Of its first byte in the file.
        address: In memory, from where the library is loaded.
        size: In bytes.
    """

    offset: int
    address: int
    size: int


def code_sections(content: bytes, name: str) -> list[Span]:
    """Locate the sections of code, in the order of the file.

    Args:
        content: A library with its table of sections, which stripping leaves.
        name: Of it, for errors.

    Raises:
        BuildError: The library is cut off or has no such section.
    """
    with _opened(content, name) as elf:
        headers = [section.header for section in elf.iter_sections("SHT_PROGBITS")]
    found = [
        Span(header.sh_offset, header.sh_addr, header.sh_size)
        for header in headers
        if header.sh_flags & _EXECUTABLE_SECTION
    ]
    if not found:
        raise BuildError(f"{name}: expected sections of code, found none")
    return sorted(found, key=lambda span: span.offset)


def find_symbol(content: bytes, name: str, symbol: str) -> Span:
    """Locate an exported symbol.

    Args:
        content: The library.
        name: Of it, for errors.
        symbol: As it is linked to.

    Raises:
        BuildError: There is no such symbol, or the library is cut off.
    """
    with _opened(content, name) as elf:
        for table in elf.iter_sections("SHT_DYNSYM"):
            for found in table.get_symbol_by_name(symbol) or [] if isinstance(table, SymbolTableSection) else []:
                if found["st_size"]:
                    section, address = elf.get_section(found["st_shndx"]), found["st_value"]
                    return Span(section["sh_offset"] + address - section["sh_addr"], address, found["st_size"])
    raise BuildError(f"{name}: expected the symbol {symbol}, found none")


def find_library_problems(path: Path, content: bytes, abi: str, packaged: Collection[str]) -> list[str]:
    """Find faults of a library of the package, a line for each.

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
