import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lite_nlp.compress.lnlp.bits import BitReader, BitWriter, list_bits
from lite_nlp.compress.lnlp.limits import MAX_LISTED
from lite_nlp.core.errors import ContainerError

_NUMBERS = st.integers(-(1 << 31) + 1, (1 << 31) - 1)


def _bits(writer: BitWriter) -> str:
    return "".join(f"{byte:08b}"[::-1] for byte in writer.to_bytes())


def test_golden_bits() -> None:
    writer = BitWriter()
    writer.field(0b01, 2)  # 1 0
    for number in (0, 1, 4):  # 1; 2 is 0 1 0; 5 is 0 0 1 and 01, the lowest first
        writer.number(number)
    writer.signed(-1)  # folded 1: 0 1 0
    writer.signed(1)  # folded 2: 0 1 1
    assert _bits(writer) == "10" + "1" + "010" + "00110" + "010" + "011" + "0" * 7


def test_golden_bits_of_lists() -> None:
    writer = BitWriter()
    writer.numbers([7, 7, 7])  # w = 31, and 7, whose folded form plus 1 is 15: 0 0 0 1 1 1 1
    assert _bits(writer) == "11111" + "0001111" + "0000"
    writer = BitWriter()
    writer.numbers([0, -1, 0, 1])  # b = 0; folded 0 1 0 2 with w = 0 in four and three bits
    assert _bits(writer) == "00000" + "1" + "1" + "01" + "1" + "001" + "000"
    writer = BitWriter()
    writer.numbers([])
    assert writer.to_bytes() == b""


@given(st.lists(_NUMBERS, max_size=40), st.lists(st.integers(0, (1 << 32) - 2), max_size=5))
def test_what_is_written_is_read(values: list[int], numbers: list[int]) -> None:
    writer = BitWriter()
    writer.field(5, 3)
    # The list's base is in between, so that no difference is beyond 32 bits.
    small = [value // 4 for value in values]
    writer.numbers(small)
    for number in numbers:
        writer.number(number)
    reader = BitReader(writer.to_bytes() + b"rest", "test")
    assert reader.field(3) == 5
    assert reader.numbers(len(small), -(1 << 31), 1 << 31).tolist() == small
    assert [reader.number() for _ in numbers] == numbers
    assert reader.finish() == len(writer.to_bytes())
    alone = BitWriter()
    alone.numbers(small)
    assert -(-list_bits(np.array(small, dtype=np.int64)) // 8) == len(alone.to_bytes())


@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("rest", [[], [0], [5, 2**32 - 1]])
def test_lists_of_the_largest_numbers(largest: int, rest: list[int]) -> None:
    # Gaps between centroids of opposite signs in a codebook of 32-bit floats.
    writer = BitWriter()
    writer.numbers([largest, *rest])
    found = BitReader(writer.to_bytes(), "list").numbers(1 + len(rest), 0, 2**32 - 1)
    assert found.tolist() == [largest, *rest]


def test_a_list_of_equal_numbers_takes_no_memory() -> None:
    writer = BitWriter()
    writer.numbers([-3])
    values = BitReader(writer.to_bytes(), "test").numbers(1 << 40, -5, 5)
    assert values.strides == (0,)
    assert values[1 << 39] == -3


def test_defects() -> None:
    long = BitWriter()
    long.numbers([0, 1])
    equal = BitWriter()
    equal.field(2, 5)
    equal.signed(0)
    equal.field(0b11, 2)
    equal.field(0, 4)
    huge = BitWriter()
    huge.field(30, 5)
    huge.signed(0)
    huge.field(1 << 8, 9)
    huge.field(0, 30)
    for content, count, message in (
        (b"", 1, "test: expected 5 bits more, found 0"),
        (b"\0\0\0\0\0", 1, "test: expected numbers of at most 32 bits, found a longer one|expected 32 bits more"),
        (long.to_bytes(), 99, "test: expected 99 numbers, found"),
        (long.to_bytes(), MAX_LISTED + 1, f"test: expected at most {MAX_LISTED} numbers in a list"),
        (equal.to_bytes(), 2, "test: expected a list of equal numbers in its short form"),
        (huge.to_bytes(), 1, "test: expected numbers of at most 32 bits, found a longer one"),
    ):
        with pytest.raises(ContainerError, match=message):
            BitReader(content, "test").numbers(count, -9, 9)
    with pytest.raises(ContainerError, match="test: expected -9 to 0, found 0 to 1"):
        BitReader(long.to_bytes(), "test").numbers(2, -9, 0)
    reader = BitReader(b"\x80", "test")
    reader.field(3)
    with pytest.raises(ContainerError, match="test: expected zeros after the last number"):
        reader.finish()


def test_a_list_that_a_reader_refuses_is_not_written() -> None:
    values = np.zeros(MAX_LISTED + 1, dtype=np.int64)
    BitWriter().numbers(values)
    values[5] = 1
    with pytest.raises(ValueError, match=f"list: expected at most {MAX_LISTED} numbers that are not all equal"):
        BitWriter().numbers(values)
