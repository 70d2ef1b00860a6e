"""Atomic instructions of ARMv8.1, found in arm64 libraries and replaced by equivalents that ARMv8.0 has.

ARMv8.1 added atomic instructions (Arm Architecture Reference Manual, FEAT_LSE). Processors without them,
the Cortex-A53, A57, A72 and A73 among them, end a process that executes one. Compilers therefore choose at run time, by
small functions that ask what the processor has; some of the ExecuTorch library was compiled without that choice. Each
such instruction becomes a branch to a loop of load and store exclusive, which does the same on all.
"""

import dataclasses
import struct

import numpy as np

from tools.base.errors import BuildError
from tools.formats.elf import code_sections, find_symbol

__all__ = ["Atomic", "find_unguarded", "replace_unguarded"]

_RETURN = 0xD65F03C0
_STACK_POINTER = 31
# Registers without a part of their own in the calling convention; the loops save those that they use.
_SCRATCH = range(9, 16)


@dataclasses.dataclass(frozen=True)
class Atomic:
    """An atomic instruction.

    Attributes:
        offset: In the file.
        address: In memory, from where the library is loaded.
        word: The instruction.
    """

    offset: int
    address: int
    word: int


def find_unguarded(content: bytes, name: str) -> list[Atomic]:
    """Find atomic instructions of ARMv8.1 that are not guarded by a test for the processor's features.

    Those of the compiler's own functions, which test a byte and go around them, are left out.

    Args:
        content: A library for arm64.
        name: Of it, for errors.

    Raises:
        BuildError: The library is cut off or has no section of code.
    """
    found: list[Atomic] = []
    for section in code_sections(content, name):
        words = np.frombuffer(content, "<u4", section.size // 4, section.offset)
        # LDADD, LDCLR, LDEOR, LDSET, LDSMAX, LDSMIN, LDUMAX, LDUMIN and SWP; CAS; CASP.
        atomic = (words & 0x3F200C00) == 0x38200000
        atomic |= (words & 0x3FA07C00) == 0x08A07C00
        atomic |= (words & 0xBFA07C00) == 0x08207C00
        for place in np.flatnonzero(atomic).tolist():
            before, after = words[max(place - 1, 0)], words[min(place + 1, len(words) - 1)]
            # cbz w16, over it; it; ret
            if before & 0xFF00001F != 0x34000010 or after != _RETURN:
                found.append(Atomic(section.offset + 4 * place, section.address + 4 * place, int(words[place])))
    return found


def replace_unguarded(content: bytes, name: str, room: str) -> bytes:
    """Replace all atomic instructions of `find_unguarded` by loops.

    Args:
        content: A library for arm64.
        name: Of it, for errors.
        room: A function that nothing calls; the loops are written over it.

    Raises:
        BuildError: There is no such function, it is too small, an instruction is none of the LDADD, or the library is
            cut off.
    """
    span = find_symbol(content, name, room)
    code: list[int] = []
    patched = bytearray(content)
    for one in find_unguarded(content, name):
        if span.address <= one.address < span.address + span.size:
            continue
        here = span.address + 4 * len(code)
        struct.pack_into("<I", patched, one.offset, _branch(one.address, here))
        loop = _loop(one, name)
        code += [*loop, _branch(here + 4 * len(loop), one.address + 4)]
    if 4 * len(code) > span.size:
        raise BuildError(f"{name}: expected {room} to have room for {4 * len(code)} bytes, found {span.size}")
    # Zeros, which no processor executes, to the end of the function.
    patched[span.offset : span.offset + span.size] = struct.pack(f"<{len(code)}I", *code).ljust(span.size, b"\0")
    return bytes(patched)


def _loop(one: Atomic, name: str) -> list[int]:
    """LDADD as a loop of ARMv8.0 with the same memory ordering: `result = *at; *at += added`."""
    word = one.word
    is_add = word & 0xBF20FC00 == 0xB8200000
    added, at, result = word >> 16 & 31, word >> 5 & 31, word & 31
    if not is_add or at == _STACK_POINTER:
        raise BuildError(f"{name}: expected LDADD of 4 or 8 bytes at {one.address:#x}, found {word:#010x}")
    wide, acquire, release = word >> 30 & 1, word >> 23 & 1, word >> 22 & 1
    old, new, failed = [number for number in _SCRATCH if number not in (added, at, result)][:3]
    return [
        0xA9BE03E0 | new << 10 | old,  # stp old, new, [sp, #-32]!
        0xF9000BE0 | failed,  # str failed, [sp, #16]
        0x885F7C00 | wide << 30 | acquire << 15 | at << 5 | old,  # ld(a)xr old, [at]
        0x0B000000 | wide << 31 | added << 16 | old << 5 | new,  # add new, old, added
        0x88007C00 | wide << 30 | failed << 16 | release << 15 | at << 5 | new,  # st(l)xr failed, new, [at]
        0x35000000 | (-3 & 0x7FFFF) << 5 | failed,  # cbnz failed, to the load
        0x2A0003E0 | wide << 31 | old << 16 | result,  # mov result, old
        0xF9400BE0 | failed,  # ldr failed, [sp, #16]
        0xA8C203E0 | new << 10 | old,  # ldp old, new, [sp], #32
    ]


def _branch(source: int, target: int) -> int:
    return 0x14000000 | (target - source) // 4 & 0x3FFFFFF
