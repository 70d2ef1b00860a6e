"""Bit strings of small numbers: the side information of a tensor, such as the classes of its rows.

Bits fill bytes from the lowest up. A list is coded after Rice (Golomb 1966; Rice and Plaunt 1971), all quotients before
all remainders, so that a reader needs no loop over its values. ``FORMAT.md``, section "Bit strings".
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.limits import MAX_LISTED
from lite_nlp.core.errors import ContainerError

__all__ = ["BitReader", "BitWriter", "list_bits"]

#: Width of the field with the number of bits of a remainder; its largest value says that all numbers are equal.
_WIDTH_BITS: Final = 5
_CONSTANT: Final = (1 << _WIDTH_BITS) - 1

#: Bits of the largest number, before its sign goes to the lowest one.
_NUMBER_BITS: Final = 32

#: Of either sign, the base of a list.
_MAX_BASE: Final = (1 << (_NUMBER_BITS - 1)) - 1

IntArray = NDArray[np.int64]


class BitWriter:
    """Appends fields, numbers and lists to a string of bits."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.uint8]] = []

    def field(self, value: int, width: int) -> None:
        """An unsigned number of ``width`` bits."""
        self._parts.append(_bits_of(np.array([value], dtype=np.int64), width))

    def number(self, value: int) -> None:
        """An unsigned number, small ones in few bits: Elias's gamma code of ``value + 1``."""
        above = (value + 1).bit_length() - 1
        self.field(1 << above, above + 1)
        self.field(value + 1 - (1 << above), above)

    def signed(self, value: int) -> None:
        """A number with its sign."""
        self.number(2 * value if value >= 0 else -2 * value - 1)

    def numbers(self, values: Iterable[int] | IntArray) -> None:
        """A list of signed numbers, whose length the reader knows.

        Raises:
            ValueError: If there are more than a reader takes, and not all equal.
        """
        array = np.asarray(values, dtype=np.int64).reshape(-1)
        if not array.size:
            return
        base, width, folded = _plan_list(array)
        self.field(width, _WIDTH_BITS)
        self.signed(base)
        if width == _CONSTANT:
            return
        if array.size > MAX_LISTED:
            raise ValueError(f"list: expected at most {MAX_LISTED} numbers that are not all equal, found {array.size}")
        quotients = folded >> width
        unary = np.zeros(int(quotients.sum()) + folded.size, dtype=np.uint8)
        unary[np.cumsum(quotients + 1) - 1] = 1
        self._parts += [unary, _bits_of(folded & ((1 << width) - 1), width)]

    def to_bytes(self) -> bytes:
        """The bits, and zeros up to the end of the last byte."""
        bits = np.concatenate(self._parts) if self._parts else np.zeros(0, dtype=np.uint8)
        return np.packbits(bits, bitorder="little").tobytes()


class BitReader:
    """Reads what a ``BitWriter`` wrote, and allocates no more than a constant and a multiple of what is there.

    Args:
        content: The bits; other bytes may follow them.
        what: Stands for them in messages.
    """

    def __init__(self, content: bytes | memoryview, what: str) -> None:
        self._content = memoryview(content)
        self._at = 0
        self._what = what

    def field(self, width: int) -> int:
        """An unsigned number of ``width`` bits, at most 32."""
        self._check(width)
        value = self._ahead(width)
        self._at += width
        return value

    def number(self) -> int:
        """An unsigned number below 2 ** 32 - 1."""
        ahead = self._ahead(_NUMBER_BITS)
        if not ahead:
            self._check(_NUMBER_BITS)
            raise ContainerError(f"{self._what}: expected numbers of at most {_NUMBER_BITS} bits, found a longer one")
        above = (ahead & -ahead).bit_length() - 1
        self._at += above + 1
        return (1 << above) + self.field(above) - 1

    def signed(self) -> int:
        """A number with its sign."""
        folded = self.number()
        return folded // 2 if folded % 2 == 0 else -(folded // 2) - 1

    def numbers(self, count: int, low: int, high: int) -> IntArray:
        """A list of ``count`` signed numbers; ``ContainerError`` if one is not within ``low`` and ``high``.

        A list of equal numbers may be of any length, and takes no memory.
        """
        if not count:
            return np.zeros(0, dtype=np.int64)
        width, base = self.field(_WIDTH_BITS), self.signed()
        values = np.broadcast_to(np.int64(base), (count,))
        if width != _CONSTANT:
            if count > MAX_LISTED:
                raise ContainerError(f"{self._what}: expected at most {MAX_LISTED} numbers in a list, found {count}")
            quotients = self._quotients(count)
            if int(quotients.max()) >> (_NUMBER_BITS + 1 - width):
                raise ContainerError(
                    f"{self._what}: expected numbers of at most {_NUMBER_BITS} bits, found a longer one"
                )
            folded = quotients << width
            if width:
                folded += self._take(count * width).reshape(count, width) @ (np.int64(1) << np.arange(width))
            if not folded.any():
                raise ContainerError(f"{self._what}: expected a list of equal numbers in its short form")
            values = base + _unfold(folded)
        least, greatest = (base, base) if width == _CONSTANT else (int(values.min()), int(values.max()))
        if least < low or greatest > high:
            raise ContainerError(f"{self._what}: expected {low} to {high}, found {least} to {greatest}")
        return values

    @property
    def bits_read(self) -> int:
        """Number of bits read so far."""
        return self._at

    def finish(self) -> int:
        """Check that the rest of the last byte is clear; returns the number of bytes read."""
        if self.field(-self._at % 8):
            raise ContainerError(f"{self._what}: expected zeros after the last number")
        return self._at // 8

    def _quotients(self, count: int) -> IntArray:
        """So many runs of zeros, each of which ends with a one."""
        window = 4 * count + 64
        while True:
            bits = self._peek(window)
            ends = np.flatnonzero(bits)
            if len(ends) >= count:
                break
            if len(bits) < window:
                raise ContainerError(f"{self._what}: expected {count} numbers, found {len(ends)}")
            window *= 2
        ends = ends[:count]
        self._at += int(ends[-1]) + 1
        return np.diff(ends, prepend=-1) - 1

    def _ahead(self, width: int) -> int:
        """The next bits as a number; beyond the end they are zeros."""
        first = self._at // 8
        ahead = int.from_bytes(self._content[first : first + width // 8 + 2], "little")
        return ahead >> self._at % 8 & ((1 << width) - 1)

    def _check(self, count: int) -> None:
        left = 8 * len(self._content) - self._at
        if count > left:
            raise ContainerError(f"{self._what}: expected {count} bits more, found {left}")

    def _peek(self, count: int) -> NDArray[np.uint8]:
        """The next bits, fewer if there are fewer."""
        first = self._at // 8
        part = np.frombuffer(self._content[first : (self._at + count + 7) // 8], dtype=np.uint8)
        return np.unpackbits(part, bitorder="little")[self._at - 8 * first :][:count]

    def _take(self, count: int) -> NDArray[np.uint8]:
        self._check(count)
        bits = self._peek(count)
        self._at += count
        return bits


def list_bits(values: IntArray) -> int:
    """Bits that a list takes."""
    if not values.size:
        return 0
    base, width, folded = _plan_list(values)
    ends = 2 * (2 * abs(base) + 1).bit_length() - 1 + _WIDTH_BITS
    return ends if width == _CONSTANT else ends + int((folded >> width).sum()) + (width + 1) * folded.size


def _plan_list(values: IntArray) -> tuple[int, int, IntArray]:
    """Base and width of a list, and its numbers without the base, folded."""
    # A base is a number of its own, of at most so many bits with its sign.
    base = int(np.clip(np.median(values), -_MAX_BASE, _MAX_BASE))
    folded = _fold(values - base)
    if not folded.any():
        return base, _CONSTANT, folded
    # Of a geometric distribution the best width is near the logarithm of the mean.
    guess = int(folded.mean() + 1).bit_length()
    widths = range(min(max(0, guess - 2), _CONSTANT - 1), min(_CONSTANT, guess + 2))
    return base, min(widths, key=lambda width: int((folded >> width).sum()) + width * folded.size), folded


def _bits_of(values: IntArray, width: int) -> NDArray[np.uint8]:
    return ((values[:, None] >> np.arange(width)) & 1).astype(np.uint8).reshape(-1)


def _fold(values: IntArray) -> IntArray:
    """0, -1, 1, -2, 2 to 0, 1, 2, 3, 4."""
    return np.where(values < 0, -2 * values - 1, 2 * values)


def _unfold(values: IntArray) -> NDArray[Any]:
    return np.where(values & 1, -(values >> 1) - 1, values >> 1)
