"""Atomic instructions of ARMv8.1: found unless guarded, and replaced by loops that an interpreter runs beside them."""

import itertools
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("tools", reason="the Android demo is not here")

from tools.base.errors import BuildError
from tools.checks.apk import find_processor_problems
from tools.formats.atomics import find_unguarded, replace_unguarded

RETURN, NOTHING = 0xD65F03C0, 0xD503201F
TEXT, ADDRESS = 64, 0x10040  # where the code is in the file, and in memory
ROOM = 100  # words of the function that nothing calls, after the code
MEMORY, STACK = 0x5000, 0x8000


def ldadd(added: int, result: int, at: int, *, wide: bool = True, acquire: bool = True, release: bool = True) -> int:
    return 0xB8200000 | wide << 30 | acquire << 23 | release << 22 | added << 16 | at << 5 | result


def library(code: Sequence[int], *, room: int = ROOM, data: Sequence[int] = ()) -> bytes:
    """A library of code, the function `unused` after it, data, symbols and their names."""
    text = struct.pack(f"<{len(code) + room}I", *code, *[NOTHING] * room)
    rest = struct.pack(f"<{len(data)}I", *data)
    names = b"\0code\0unused\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, place, size in ((1, 0, len(code)), (6, len(code), room)):
        symbols += struct.pack("<IBBHQQ", name, 18, 0, 1, ADDRESS + 4 * place, 4 * size)
    data_at = TEXT + len(text)
    symbols_at = data_at + len(rest)
    names_at = symbols_at + len(symbols)
    sections_at = names_at + len(names)
    # Type, flags, address, offset, size, link and size of an entry.
    sections = [
        (0, 0, 0, 0, 0, 0, 0),
        (1, 6, ADDRESS, TEXT, len(text), 0, 0),
        (1, 3, 0x20000, data_at, len(rest), 0, 0),
        (11, 2, 0x30000, symbols_at, len(symbols), 4, 24),
        (3, 2, 0x30100, names_at, len(names), 0, 0),
    ]
    head = b"\x7fELF\2\1\1".ljust(40, b"\0") + struct.pack("<QIHHHHHH", sections_at, 0, 64, 56, 0, 64, len(sections), 0)
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, flags, address, offset, size, link, 0, 8, entry)
        for kind, flags, address, offset, size, link, entry in sections
    )
    return head + text + rest + symbols + names + table


def execute(content: bytes, registers: Sequence[int], memory: dict[int, int], *, failures: int = 0) -> list[int]:
    """Run the code from its beginning to its return.

    Args:
        content: A library as above.
        registers: Registers 0 to 30, then the stack pointer.
        memory: 8-byte words by address; changed.
        failures: How many exclusive stores fail, as they do when another core has written.

    Returns:
        The registers afterwards.
    """
    values = list(registers)
    counter = ADDRESS

    def read(number: int) -> int:
        return 0 if number == 31 else values[number]

    def write(number: int, value: int) -> None:
        if number != 31:
            values[number] = value

    def signed(value: int, bits: int) -> int:
        return value - (1 << bits) if value >> bits - 1 else value

    for _ in range(1000):
        (word,) = struct.unpack_from("<I", content, TEXT + counter - ADDRESS)
        first, base, second, third = word & 31, word >> 5 & 31, word >> 10 & 31, word >> 16 & 31
        mask = (1 << 64) - 1 if word >> 30 & 1 else (1 << 32) - 1
        counter += 4
        if word == RETURN:
            return values
        if word == NOTHING:
            continue
        if word >> 26 == 0b000101:  # b
            counter += 4 * signed(word & 0x3FFFFFF, 26) - 4
        elif word >> 24 == 0x35:  # cbnz, 32 bits
            if read(first) & 0xFFFFFFFF:
                counter += 4 * signed(word >> 5 & 0x7FFFF, 19) - 4
        elif word & 0xBF20FC00 == 0xB8200000:  # ldadd
            old = memory[read(base)] & mask
            memory[read(base)] = memory[read(base)] & ~mask | (old + read(third)) & mask
            write(first, old)
        elif word & 0xBFFF7C00 == 0x885F7C00:  # ldxr, ldaxr
            write(first, memory[read(base)] & mask)
        elif word & 0xBFE07C00 == 0x88007C00:  # stxr, stlxr
            if failures == 0:
                memory[read(base)] = memory[read(base)] & ~mask | read(first) & mask
            write(third, int(failures > 0))
            failures = max(0, failures - 1)
        elif word & 0x7FE0FC00 == 0x0B000000:  # add
            wide = (1 << 64 if word >> 31 else 1 << 32) - 1
            write(first, (read(base) + read(third)) & wide)
        elif word & 0x7FE0FFE0 == 0x2A0003E0:  # mov
            write(first, read(third) & ((1 << 64 if word >> 31 else 1 << 32) - 1))
        elif word & 0xFFC003E0 == 0xA98003E0:  # stp, the stack pointer moved before
            values[31] += 8 * signed(word >> 15 & 127, 7)
            memory[values[31]], memory[values[31] + 8] = read(first), read(second)
        elif word & 0xFFC003E0 == 0xA8C003E0:  # ldp, the stack pointer moved after
            write(first, memory[values[31]])
            write(second, memory[values[31] + 8])
            values[31] += 8 * signed(word >> 15 & 127, 7)
        elif word & 0xFFC003E0 == 0xF90003E0:  # str
            memory[values[31] + 8 * (word >> 10 & 0xFFF)] = read(first)
        elif word & 0xFFC003E0 == 0xF94003E0:  # ldr
            write(first, memory[values[31] + 8 * (word >> 10 & 0xFFF)])
        else:
            raise AssertionError(f"{counter - 4:#x}: {word:#010x} is no instruction that belongs here")
    raise AssertionError("it does not end")


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("failures", [0, 1, 3])
def test_loops_do_what_the_instruction_did(wide: bool, failures: int) -> None:
    # The scratch registers begin at 9: operands that take some of them away, and the zero register.
    for added, result, at in itertools.product((8, 9, 10, 12, 22, 31), (8, 9, 11, 22, 31), (8, 9, 10, 11)):
        content = library([NOTHING, ldadd(added, result, at, wide=wide), RETURN])
        registers = [0x1111_0000_0000 + number for number in range(31)] + [STACK]
        registers[at] = MEMORY
        outcomes = []
        for code, failing in ((content, 0), (replace_unguarded(content, "libx.so", "unused"), failures)):
            memory = {MEMORY: 0xFFFF_FFFF_FFFF_FF00}
            after = execute(code, registers, memory, failures=failing)
            outcomes.append((after, memory[MEMORY]))
        assert outcomes[0] == outcomes[1], (added, result, at)


def test_the_order_of_memory_is_kept() -> None:
    for acquire, release in itertools.product((True, False), repeat=2):
        patched = replace_unguarded(
            library([ldadd(9, 8, 8, acquire=acquire, release=release), RETURN]), "libx.so", "unused"
        )
        words = struct.unpack_from("<10I", patched, TEXT + 8)
        loads = [word for word in words if word & 0xBFFF7C00 == 0x885F7C00]
        stores = [word for word in words if word & 0xBFE07C00 == 0x88007C00]
        assert [bool(word >> 15 & 1) for word in (*loads, *stores)] == [acquire, release]


def test_each_has_a_loop_of_its_own_and_nothing_else_changes() -> None:
    code = [ldadd(9, 8, 8), NOTHING, ldadd(22, 8, 8), RETURN]
    content = library(code, data=[ldadd(9, 8, 8)])
    patched = replace_unguarded(content, "libx.so", "unused")
    assert len(patched) == len(content)
    assert patched[:TEXT] == content[:TEXT]
    assert patched[TEXT + 4 * (len(code) + ROOM) :] == content[TEXT + 4 * (len(code) + ROOM) :]
    assert struct.unpack_from("<I", patched, TEXT + 4)[0] == NOTHING
    # What is left of the function cannot be executed.
    assert patched[TEXT + 4 * (len(code) + 20) : TEXT + 4 * (len(code) + ROOM)] == bytes(4 * (ROOM - 20))
    assert find_unguarded(patched, "libx.so") == []


GUARD = 0x34000050  # cbz w16, over the next two


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ([ldadd(0, 0, 1), RETURN], 1),
        ([GUARD, ldadd(0, 0, 1), RETURN], 0),
        ([GUARD, ldadd(0, 0, 1), NOTHING, RETURN], 1),
        ([0x34000051, ldadd(0, 0, 1), RETURN], 1),
        ([0xF8E08020, RETURN], 1),  # swpal x0, x0, [x1]
        ([0x38E0303F, RETURN], 1),  # ldsetalb w0, wzr, [x1]
        ([0xC8E0FC41, RETURN], 1),  # casal x0, x1, [x2]
        ([0x08A07C41, RETURN], 1),  # casb w0, w1, [x2]
        ([0x48607C82, RETURN], 1),  # caspa x0, x1, x2, x3, [x4]
        # What ARMv8.0 has: ldr x0, [x1, x2]; ldaxr; stlxr; ldar; stlr; ldxp; stxp; ldur
        ([0xF8626820, 0xC85FFC20, 0xC800FC41, 0xC8DFFC20, 0xC89FFC20, 0xC87F0440, 0xC8200440, 0xF8400020, RETURN], 0),
    ],
)
def test_what_only_newer_processors_run_is_found(code: Sequence[int], count: int) -> None:
    content = library(code)
    assert len(find_unguarded(content, "libx.so")) == count
    problems = find_processor_problems(Path("lib/arm64-v8a/libx.so"), content)
    assert len(problems) == min(count, 1)


def test_the_problem_says_where() -> None:
    (problem,) = find_processor_problems(Path("lib/x.so"), library([NOTHING, ldadd(0, 0, 1), ldadd(0, 0, 1), RETURN]))
    expected = "expected code that runs on ARMv8.0 too, found 2 atomic instructions of ARMv8.1, the first at 0x10044"
    assert problem == f"lib/x.so: {expected}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (library([ldadd(9, 8, 8), RETURN], room=9), "expected unused to have room for 40 bytes, found 36"),
        (library([0xF8E08020, RETURN]), "expected LDADD of 4 or 8 bytes at 0x10040, found 0xf8e08020"),
        (library([0x38E00020, RETURN]), "expected LDADD of 4 or 8 bytes at 0x10040, found 0x38e00020"),
        (library([ldadd(9, 8, 31), RETURN]), "expected LDADD of 4 or 8 bytes at 0x10040, found 0xf8e903e8"),
    ],
)
def test_what_cannot_be_replaced_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(BuildError, match=rf"libx\.so: {reason}"):
        replace_unguarded(content, "libx.so", "unused")


def test_a_function_that_is_not_there_is_named() -> None:
    with pytest.raises(BuildError, match=r"libx\.so: expected the symbol transcribe, found none"):
        replace_unguarded(library([RETURN]), "libx.so", "transcribe")


def test_instructions_in_the_unused_function_need_no_loop() -> None:
    content = bytearray(library([RETURN]))
    struct.pack_into("<I", content, TEXT + 8, ldadd(9, 8, 8))
    patched = replace_unguarded(bytes(content), "libx.so", "unused")
    assert find_unguarded(patched, "libx.so") == []
    assert struct.unpack_from("<I", patched, TEXT)[0] == RETURN


@pytest.mark.parametrize("keep", [30, 61, -1])
def test_a_library_that_is_cut_off_is_refused(keep: int) -> None:
    with pytest.raises(BuildError, match=r"libx\.so: expected a whole ELF file, found one cut off"):
        find_unguarded(library([RETURN])[:keep], "libx.so")


def test_a_library_without_sections_is_not_taken_for_a_good_one() -> None:
    content = bytearray(library([ldadd(0, 0, 1), RETURN]))
    struct.pack_into("<H", content, 60, 0)
    with pytest.raises(BuildError, match=r"libx\.so: expected sections of code, found none"):
        find_processor_problems(Path("lib/arm64-v8a/libx.so"), bytes(content))
