"""Payloads of tensors, checked and decoded: ``FORMAT.md`` specifies the bytes.

Each function takes a payload and the number of weights, and allocates the weights only after the payload has the length
that they need. NumPy only; besides the weights, memory is a constant.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.limits import (
    MAX_CENTROIDS,
    MAX_SCALE_BITS,
    MAX_SYMBOLS_PER_LANE,
    MIN_SCALE_BITS,
    max_scale_bits,
)
from lite_nlp.compress.lnlp.rans import STATE_MIN, RansStream
from lite_nlp.core.errors import ContainerError

__all__ = ["decode_kmeans", "decode_numbers", "decode_pruned", "parse_rans"]

#: Weights that are unpacked from bits at once; a multiple of 8.
_BLOCK_WEIGHTS: Final = 1 << 18
#: A frequency is at most 2 ** 15, which takes three groups of seven bits.
_MAX_VARINT_BYTES: Final = 3

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
    cursor = _Cursor(payload)
    codebook, width = _read_codebook(cursor)
    if width != max(1, (len(codebook) - 1).bit_length()):
        raise ContainerError(f"index width: expected that of {len(codebook)} centroids, found {width} bits")
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


def parse_rans(payload: bytes, num_weights: int) -> tuple[RansStream, FloatArray]:
    """The stream of an entropy-coded tensor, and its codebook: the values of its symbols."""
    cursor = _Cursor(payload)
    codebook, scale_bits = _read_codebook(cursor)
    if not MIN_SCALE_BITS <= scale_bits <= MAX_SCALE_BITS:
        raise ContainerError(f"scale bits: expected {MIN_SCALE_BITS} to {MAX_SCALE_BITS}, found {scale_bits}")
    if scale_bits > max_scale_bits(len(codebook)):
        raise ContainerError(
            f"scale bits: expected at most {max_scale_bits(len(codebook))} for {len(codebook)} centroids, "
            f"found {scale_bits}"
        )
    frequencies = np.array([cursor.varint("frequencies") for _ in codebook], dtype=np.int64)
    if int(frequencies.sum()) != 1 << scale_bits:
        raise ContainerError(f"frequencies: expected a sum of {1 << scale_bits}, found {int(frequencies.sum())}")
    lanes = int.from_bytes(cursor.take(4, "number of lanes"), "little")
    if not 1 <= lanes <= num_weights <= lanes * MAX_SYMBOLS_PER_LANE:
        raise ContainerError(
            f"lanes: expected {MAX_SYMBOLS_PER_LANE} weights at most for each, found {lanes} for {num_weights}"
        )
    states = np.frombuffer(cursor.take(4 * lanes, "states"), dtype="<u4")
    if np.any(states < STATE_MIN):
        raise ContainerError(f"states: expected at least {STATE_MIN}, found {int(states.min())}")
    if cursor.left % 2:
        raise ContainerError(f"words: expected an even number of bytes, found {cursor.left}")
    words = np.frombuffer(cursor.take(cursor.left, "words"), dtype="<u2")
    stream = RansStream(
        num_symbols=num_weights, scale_bits=scale_bits, frequencies=frequencies, states=states, words=words
    )
    return stream, codebook


class _Cursor:
    """Reads a payload from front to back, without copies, and says so when it is too short."""

    def __init__(self, payload: bytes) -> None:
        self._payload = memoryview(payload)
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not yet taken."""
        return len(self._payload) - self._at

    def take(self, size: int, what: str) -> memoryview:
        """The next bytes."""
        if size > self.left:
            raise ContainerError(f"expected {size} bytes of {what}, found {self.left}")
        self._at += size
        return self._payload[self._at - size : self._at]

    def rest(self, expected: int, num_weights: int) -> memoryview:
        """All bytes that are left, which must be so many."""
        _check_length(self.left, expected, num_weights)
        return self.take(expected, "rest")

    def varint(self, what: str) -> int:
        """An unsigned LEB128 number in its shortest form: seven bits a byte, the top bit set on all but the last."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.take(1, what)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if byte == 0 and index > 0:
                    raise ContainerError(
                        f"{what}: expected numbers in their shortest form, found one with zeros on top"
                    )
                return value
        raise ContainerError(f"{what}: expected at most {_MAX_VARINT_BYTES} bytes per number")


def _read_codebook(cursor: _Cursor) -> tuple[FloatArray, int]:
    kind, bits, low, high = cursor.take(4, "codebook header")
    size = low + 256 * high + 1
    if kind not in (2, 4) or size > MAX_CENTROIDS:
        raise ContainerError(
            f"codebook: expected kind 2 or 4 and at most {MAX_CENTROIDS} centroids, found {kind}, {size}"
        )
    content = cursor.take(kind * size, "codebook")
    return np.frombuffer(content, dtype=f"<f{kind}").astype(np.float32), bits


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
