"""Payloads of tensors on a uniform grid with levels of fixed width, and what all payloads of grids have in common.

``FORMAT.md``, section "Grid", specifies the bytes.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.bits import BitReader, BitWriter
from lite_nlp.compress.lnlp.tensors import (
    MAX_EXPONENT,
    MAX_LEVEL,
    EncodedTensor,
    GridScales,
    GridTensor,
    convert,
    matrix_shape,
)
from lite_nlp.core.errors import ContainerError

__all__ = [
    "check_size",
    "checked_matrix",
    "checked_scales",
    "decode_grid",
    "encode_grid",
    "grid_exponents",
    "read_list",
]

#: Width of the field with the width of a level, and the largest width.
_LEVEL_BITS: Final = 5
_MAX_LEVEL_WIDTH: Final = 24
#: Weights that are unpacked from bits at once; a multiple of 8.
_BLOCK_WEIGHTS: Final = 1 << 16

FloatArray = NDArray[np.float32]


def encode_grid(tensor: GridTensor) -> EncodedTensor:
    """Step and exponents, then each level, from the least, in as many bits as the greatest takes.

    Raises:
        ValueError: If there is no level.
    """
    check_size(tensor)
    writer = BitWriter()
    least = int(tensor.levels.min())
    width = (int(tensor.levels.max()) - least).bit_length()
    writer.field(width, _LEVEL_BITS)
    writer.signed(least)
    writer.numbers(tensor.row_exponents)
    writer.numbers(tensor.column_exponents)
    step = np.array([tensor.step], dtype="<f4").tobytes()
    bits = ((tensor.levels.reshape(-1)[:, None] - np.int32(least)) >> np.arange(width, dtype=np.int32)) & 1
    packed = np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()
    return EncodedTensor(tensor.levels.shape, "grid", step + writer.to_bytes() + packed)


def decode_grid(payload: bytes, shape: tuple[int, ...]) -> FloatArray:
    """The weights of a tensor with levels of fixed width, in row-major order."""
    rows, columns = checked_matrix(shape)
    head = _parse_head(payload, shape)
    width, least = head.width, head.least
    scales = checked_scales(head.step, head.row_exponents, head.column_exponents)
    packed = np.frombuffer(payload, dtype=np.uint8)[head.size_bytes :]
    num_bits = rows * columns * width
    if len(packed) != -(-num_bits // 8):
        raise ContainerError(f"expected {-(-num_bits // 8)} bytes for {rows * columns} weights, found {len(packed)}")
    if num_bits % 8 and int(packed[-1]) >> num_bits % 8:
        raise ContainerError("levels: expected zeros after the last weight")
    narrow = width < 15 and abs(least) < 1 << 14
    levels: NDArray[np.signedinteger[Any]] = np.full(rows * columns, least, dtype=np.int16 if narrow else np.int32)
    places = np.left_shift(1, np.arange(width)).astype(levels.dtype)
    for start in range(0, len(levels) if width else 0, _BLOCK_WEIGHTS):
        part = levels[start : start + _BLOCK_WEIGHTS]
        bits = np.unpackbits(packed[start * width // 8 :], count=len(part) * width, bitorder="little")
        np.add(part, bits.reshape(-1, width).astype(part.dtype) @ places, out=part)
    lowest, highest = int(levels.min()), int(levels.max())
    if lowest != least or (highest - least).bit_length() != width or highest > MAX_LEVEL:
        raise ContainerError(
            f"levels: expected {least} among them, and {width} bits to be needed, found {lowest} to {highest}"
        )
    return scales.weights(levels)


def grid_exponents(payload: bytes, shape: tuple[int, ...]) -> NDArray[np.signedinteger[Any]]:
    """The exponents (columns,) of the columns of a tensor with levels of fixed width."""
    return _parse_head(payload, shape).column_exponents


class _Head(NamedTuple):
    """What is in front of the levels.

    Attributes:
        width: Bits of a level.
        least: The level that all zeros stand for.
        step: As a float32.
        row_exponents: (rows,)
        column_exponents: (columns,)
        size_bytes: Of all this.
    """

    width: int
    least: int
    step: np.float32
    row_exponents: NDArray[np.signedinteger[Any]]
    column_exponents: NDArray[np.signedinteger[Any]]
    size_bytes: int


def _parse_head(payload: bytes, shape: tuple[int, ...]) -> _Head:
    rows, columns = checked_matrix(shape)
    if len(payload) < 4:
        raise ContainerError(f"expected 4 bytes of step, found {len(payload)}")
    step = np.frombuffer(payload, dtype="<f4", count=1)[0]
    reader = BitReader(memoryview(payload)[4:], "grid")
    width, least = reader.field(_LEVEL_BITS), reader.signed()
    if width > _MAX_LEVEL_WIDTH or not -MAX_LEVEL <= least <= MAX_LEVEL:
        raise ContainerError(f"levels: expected at most {_MAX_LEVEL_WIDTH} bits, found {width} from {least} on")
    exponents = read_list(reader, rows, MAX_EXPONENT), read_list(reader, columns, MAX_EXPONENT)
    return _Head(width, least, step, *exponents, size_bytes=4 + reader.finish())


def read_list(reader: BitReader, count: int, most: int) -> NDArray[np.signedinteger[Any]]:
    """A list of numbers within ``most`` of zero."""
    return convert(reader.numbers(count, -most, most), np.int8)


def checked_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor that is to be decoded; ``ContainerError`` if it has no weight."""
    rows, columns = matrix_shape(shape)
    if not rows * columns:
        raise ContainerError(f"expected at least one weight, found the shape {list(shape)}")
    return rows, columns


def check_size(tensor: GridTensor) -> None:
    """Check that a tensor has a level to encode; ``ValueError`` if not."""
    if not tensor.levels.size:
        raise ValueError(f"levels: expected at least one, found the shape {list(tensor.levels.shape)}")


def checked_scales(
    step: np.float32, rows: NDArray[np.signedinteger[Any]], columns: NDArray[np.signedinteger[Any]]
) -> GridScales:
    """The scales of a payload; ``ContainerError`` if the step is none."""
    if not (np.isfinite(step) and step > 0):
        raise ContainerError(f"step: expected a number above 0, found {step}")
    try:
        return GridScales(float(step), rows, columns)
    except ValueError as error:
        raise ContainerError(str(error)) from error
