"""Payloads of tensors, checked and decoded: ``FORMAT.md`` specifies the bytes.

Each function takes a payload and the number of weights, and allocates the weights only after the payload has the length
that they need. NumPy only; besides the weights, memory is a constant.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.bits import BitReader
from lite_nlp.compress.lnlp.codebooks import SCALE_FIELD_BITS, centroids_of
from lite_nlp.compress.lnlp.limits import MAX_CENTROIDS, MIN_SCALE_BITS, max_scale_bits
from lite_nlp.compress.lnlp.rans import RansStream
from lite_nlp.compress.lnlp.rans_decoder import SymbolTables
from lite_nlp.compress.lnlp.streams import parse_stream
from lite_nlp.core.errors import ContainerError

__all__ = ["decode_kmeans", "decode_numbers", "decode_pruned", "parse_rans", "read_codebook"]

#: Weights that are unpacked from bits at once; a multiple of 8.
_BLOCK_WEIGHTS: Final = 1 << 18

Array = NDArray[Any]
FloatArray = NDArray[np.float32]


def decode_numbers(payload: bytes, num_weights: int, *, stored: str, dtype: type[np.float32 | np.int64]) -> Array:
    """Plain numbers of the type ``stored``, a NumPy type with its byte order."""
    _check_length(len(payload), num_weights * np.dtype(stored).itemsize, num_weights)
    return np.frombuffer(payload, dtype=stored).astype(dtype)


def decode_pruned(payload: bytes, num_weights: int) -> FloatArray:
    """A bitmap of the weights that are not zero, lowest bit first, then those weights."""
    cursor = _Cursor(payload)
    bitmap = np.frombuffer(cursor.take(-(-num_weights // 8), "bitmap"), dtype=np.uint8)
    _check_clear(bitmap, num_weights, "bitmap")
    kept = np.frombuffer(cursor.rest(4 * int(np.bitwise_count(bitmap).sum(dtype=np.int64)), num_weights), dtype="<f4")
    values = np.zeros(num_weights, dtype=np.float32)
    taken = 0
    for start, block in _blocks(values):
        bits = np.unpackbits(bitmap[start // 8 :], count=len(block), bitorder="little").astype(bool)
        count = int(np.count_nonzero(bits))
        block[bits] = kept[taken : taken + count]
        taken += count
    return values


def decode_kmeans(payload: bytes, num_weights: int) -> FloatArray:
    """A codebook, then the indices in as few bits as name every centroid, packed lowest bit first."""
    reader = BitReader(payload, "codebook")
    codebook = read_codebook(reader)
    width = max(1, (len(codebook) - 1).bit_length())
    cursor = _Cursor(payload, reader.finish())
    packed = np.frombuffer(cursor.rest(-(-num_weights * width // 8), num_weights), dtype=np.uint8)
    _check_clear(packed, num_weights * width, "indices")
    values = np.empty(num_weights, dtype=np.float32)
    places = np.uint16(1) << np.arange(width, dtype=np.uint16)
    for start, block in _blocks(values):
        if width == 8:
            indices = packed[start : start + len(block)].astype(np.uint16)
        else:
            # A block begins with a whole byte, since its start is a multiple of 8.
            bits = np.unpackbits(packed[start * width // 8 :], count=len(block) * width, bitorder="little")
            indices = bits.reshape(-1, width).astype(np.uint16) @ places
        if int(indices.max()) >= len(codebook):
            raise ContainerError(f"index: expected one below {len(codebook)}, found {int(indices.max())}")
        block[:] = codebook[indices]
    return values


def parse_rans(payload: bytes, num_weights: int) -> tuple[RansStream, SymbolTables]:
    """The stream of entropy-coded indices, and its table, whose values are the centroids."""
    reader = BitReader(payload, "codebook")
    codebook = read_codebook(reader)
    scale_bits = MIN_SCALE_BITS + reader.field(SCALE_FIELD_BITS)
    if scale_bits > max_scale_bits(len(codebook)):
        raise ContainerError(
            f"scale bits: expected at most {max_scale_bits(len(codebook))} for {len(codebook)} centroids, "
            f"found {scale_bits}"
        )
    total = 1 << scale_bits
    frequencies = total // len(codebook) + np.cumsum(reader.numbers(len(codebook), -total, total))
    if int(frequencies.min()) < 1 or int(frequencies.sum()) != total:
        raise ContainerError(f"frequencies: expected a sum of {total}, found {int(frequencies.sum())}")
    stream = parse_stream(memoryview(payload)[reader.finish() :], num_weights)
    return stream, SymbolTables(scale_bits=scale_bits, frequencies=frequencies, values=codebook)


def read_codebook(reader: BitReader) -> FloatArray:
    """Ascending centroids (K,)."""
    wide, size = reader.field(1), reader.number() + 1
    if size > MAX_CENTROIDS:
        raise ContainerError(f"codebook: expected at most {MAX_CENTROIDS} centroids, found {size}")
    bits = 32 if wide else 16
    first = reader.field(bits)
    gaps = reader.numbers(size - 1, 0, (1 << bits) - 1)
    keys = first + np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(gaps + 1)])
    if int(keys[-1]) >> bits:
        raise ContainerError(f"codebook: expected centroids of {bits} bits, found more")
    return centroids_of(keys, bits)


class _Cursor:
    """Reads a payload from front to back, without copies, and says so when it is too short."""

    def __init__(self, payload: bytes, at: int = 0) -> None:
        self._payload = memoryview(payload)
        self._at = at

    def take(self, size: int, what: str) -> memoryview:
        """The next bytes."""
        left = len(self._payload) - self._at
        if size > left:
            raise ContainerError(f"expected {size} bytes of {what}, found {left}")
        self._at += size
        return self._payload[self._at - size : self._at]

    def rest(self, expected: int, num_weights: int) -> memoryview:
        """All bytes that are left, which must be so many."""
        _check_length(len(self._payload) - self._at, expected, num_weights)
        return self.take(expected, "rest")


def _blocks(values: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    for start in range(0, len(values), _BLOCK_WEIGHTS):
        yield start, values[start : start + _BLOCK_WEIGHTS]


def _check_length(found: int, expected: int, num_weights: int) -> None:
    if expected != found:
        raise ContainerError(f"expected {expected} bytes for {num_weights} weights, found {found}")


def _check_clear(packed: NDArray[np.uint8], num_bits: int, what: str) -> None:
    """Check that the bits of the last byte beyond ``num_bits`` are clear: one content has one form."""
    if num_bits % 8 and int(packed[-1]) >> num_bits % 8:
        raise ContainerError(f"{what}: expected zeros after the last weight")
