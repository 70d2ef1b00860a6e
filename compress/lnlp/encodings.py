"""Encodings of a tensor to bytes: raw, pruned, k-means indices and entropy-coded k-means indices.

``FORMAT.md`` specifies the byte layout of each. ``ENCODINGS`` is the table of all: a new encoding is a function that
makes an ``EncodedTensor``, a function that decodes it, and a row. NumPy only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.rans import (
    MAX_SCALE_BITS,
    MAX_SYMBOLS_PER_LANE,
    MIN_SCALE_BITS,
    STATE_MIN,
    RansStream,
    decode_streams,
    encode_streams,
)
from lite_nlp.core.errors import ContainerError

__all__ = [
    "ENCODINGS",
    "MAX_CENTROIDS",
    "ClusteredTensor",
    "EncodedTensor",
    "decode_tensors",
    "encode_fp16",
    "encode_fp32",
    "encode_int64",
    "encode_kmeans",
    "encode_kmeans_rans",
    "encode_pruned",
    "fp16_codebook",
]

MAX_CENTROIDS: Final = 4096
_FP16_MAX: Final = 65504.0

Array = NDArray[Any]
FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class EncodedTensor:
    """A tensor as stored in a file.

    Attributes:
        shape: Its dimensions; empty for a scalar.
        encoding: One of ``ENCODINGS``.
        payload: Its bytes.
    """

    shape: tuple[int, ...]
    encoding: str
    payload: bytes

    @property
    def num_elements(self) -> int:
        """Number of weights; 1 for a scalar."""
        return prod(self.shape)


@dataclass(frozen=True)
class ClusteredTensor:
    """A tensor whose weights share centroids.

    Attributes:
        codebook: (K,) float32 centroids, K from 1 to 4096.
        assignments: Integer array of the tensor's shape: the centroid of each weight.
    """

    codebook: FloatArray
    assignments: NDArray[np.uint16]

    def values(self) -> FloatArray:
        """The weights that the centroids stand for, in the tensor's shape."""
        return self.codebook[self.assignments]


def encode_fp32(values: Array) -> EncodedTensor:
    """Every weight as a 32-bit float."""
    return EncodedTensor(values.shape, "fp32", values.astype("<f4").tobytes())


def encode_fp16(values: Array) -> EncodedTensor:
    """Every weight as a 16-bit float; as a 32-bit float if one is too large for that."""
    if not _fits_fp16(values):
        return encode_fp32(values)
    return EncodedTensor(values.shape, "fp16", values.astype("<f2").tobytes())


def encode_int64(values: Array) -> EncodedTensor:
    """Integers and booleans: buffers such as counters, kept exactly."""
    return EncodedTensor(values.shape, "int64", values.astype("<i8").tobytes())


def encode_pruned(values: Array) -> EncodedTensor:
    """A bitmap of the weights that are not zero, then those weights as 32-bit floats."""
    flat = values.astype("<f4").reshape(-1)
    kept = flat != 0.0
    bitmap = np.packbits(kept, bitorder="little").tobytes()
    return EncodedTensor(values.shape, "pruned", bitmap + flat[kept].tobytes())


def fp16_codebook(codebook: FloatArray) -> FloatArray:
    """The codebook as the file will hold it: rounded to 16-bit floats unless one is too large for that."""
    return codebook.astype(np.float16).astype(np.float32) if _fits_fp16(codebook) else codebook


def encode_kmeans(tensor: ClusteredTensor) -> EncodedTensor:
    """The codebook, then each weight's assignment in ``ceil(log2 K)`` bits."""
    width = max(1, (len(tensor.codebook) - 1).bit_length())
    flat = tensor.assignments.reshape(-1)
    if width == 8:
        packed = flat.astype(np.uint8).tobytes()
    else:
        bits = (flat[:, None] >> np.arange(width, dtype=np.uint16)) & np.uint16(1)
        packed = np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()
    return EncodedTensor(tensor.assignments.shape, "kmeans", _codebook_bytes(tensor.codebook, width) + packed)


def encode_kmeans_rans(tensors: Mapping[str, ClusteredTensor]) -> dict[str, EncodedTensor]:
    """Several tensors at once: codebook, frequencies, then the assignments coded by rANS with those frequencies."""
    used = {name: _drop_unused(tensor) for name, tensor in tensors.items()}
    streams = encode_streams([(tensor.assignments.reshape(-1), len(tensor.codebook)) for tensor in used.values()])
    encoded = {}
    for (name, tensor), stream in zip(used.items(), streams, strict=True):
        payload = b"".join(
            (
                _codebook_bytes(tensor.codebook, stream.scale_bits),
                _varints(stream.frequencies),
                len(stream.states).to_bytes(4, "little"),
                stream.states.astype("<u4").tobytes(),
                stream.words.astype("<u2").tobytes(),
            )
        )
        encoded[name] = EncodedTensor(tensor.assignments.shape, "kmeans+rans", payload)
    return encoded


def decode_tensors(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
    """Decode tensors to float32 (int64 for the integer encoding), in order.

    Raises:
        ContainerError: If an encoding is unknown, or a payload does not fit its encoding and shape; the message names
            the tensor.
    """
    groups: dict[str, dict[str, EncodedTensor]] = {}
    for name, tensor in tensors.items():
        with _named(name):
            if tensor.encoding not in ENCODINGS:
                raise ContainerError(f"unknown encoding {tensor.encoding!r}; expected one of {', '.join(ENCODINGS)}")
        groups.setdefault(tensor.encoding, {})[name] = tensor
    decoded: dict[str, Array] = {}
    for encoding, group in groups.items():
        decoded |= ENCODINGS[encoding](group)
    return {name: decoded[name] for name in tensors}


def _drop_unused(tensor: ClusteredTensor) -> ClusteredTensor:
    """Without the centroids that no weight is assigned to: they would cost bytes for nothing."""
    present, renumbered = np.unique(tensor.assignments, return_inverse=True)
    return ClusteredTensor(tensor.codebook[present], renumbered.reshape(tensor.assignments.shape).astype(np.uint16))


def _codebook_bytes(codebook: FloatArray, bits: int) -> bytes:
    if not 1 <= len(codebook) <= MAX_CENTROIDS:
        raise ValueError(f"codebook: expected 1 to {MAX_CENTROIDS} centroids, found {len(codebook)}")
    kind, dtype = (
        (2, "<f2") if np.array_equal(fp16_codebook(codebook), codebook) and _fits_fp16(codebook) else (4, "<f4")
    )
    return bytes((kind, bits)) + (len(codebook) - 1).to_bytes(2, "little") + codebook.astype(dtype).tobytes()


def _fits_fp16(values: Array) -> bool:
    return not values.size or float(np.max(np.abs(values))) <= _FP16_MAX


def _varints(values: Sequence[int] | NDArray[np.int64]) -> bytes:
    """Unsigned LEB128: seven bits a byte, lowest first, the top bit set on all but the last."""
    out = bytearray()
    for value in values:
        rest = int(value)
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


class _Cursor:
    """Reads a payload from front to back and says so when it is too short."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def take(self, size: int, what: str) -> bytes:
        found = len(self._payload) - self._at
        if size > found:
            raise ContainerError(f"expected {size} bytes of {what}, found {found}")
        self._at += size
        return self._payload[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(len(self._payload) - self._at, "rest")

    def varint(self, what: str) -> int:
        value = shift = 0
        while True:
            byte = self.take(1, what)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ContainerError(f"{what}: expected at most 5 bytes per number")


def _read_codebook(cursor: _Cursor) -> tuple[FloatArray, int]:
    kind, bits, low, high = cursor.take(4, "codebook header")
    size = low + 256 * high + 1
    if kind not in (2, 4) or size > MAX_CENTROIDS:
        raise ContainerError(
            f"codebook: expected kind 2 or 4 and at most {MAX_CENTROIDS} centroids, found {kind}, {size}"
        )
    content = cursor.take(kind * size, "codebook")
    return np.frombuffer(content, dtype=f"<f{kind}").astype(np.float32), bits


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the tensor in an error of the block."""
    try:
        yield
    except ContainerError as error:
        raise ContainerError(f"tensor {name!r}: {error}") from error


def _separately(decode: Callable[[EncodedTensor], Array]) -> "Decoder":
    """A decoder that decodes one tensor after the other."""

    def decode_all(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
        decoded = {}
        for name, tensor in tensors.items():
            with _named(name):
                decoded[name] = decode(tensor)
        return decoded

    return decode_all


def _decode_raw(tensor: EncodedTensor, *, stored: str, dtype: type[np.float32 | np.int64]) -> Array:
    _check_length(tensor, tensor.num_elements * np.dtype(stored).itemsize, len(tensor.payload))
    return np.frombuffer(tensor.payload, dtype=stored).astype(dtype).reshape(tensor.shape)


def _decode_pruned(tensor: EncodedTensor) -> Array:
    cursor = _Cursor(tensor.payload)
    bitmap = np.frombuffer(cursor.take(-(-tensor.num_elements // 8), "bitmap"), dtype=np.uint8)
    bits = np.unpackbits(bitmap, bitorder="little").astype(bool)
    rest = cursor.rest()
    _check_length(tensor, 4 * int(np.count_nonzero(bits)), len(rest))
    if np.any(bits[tensor.num_elements :]):
        raise ContainerError("bitmap: expected zeros after the last weight")
    values = np.zeros(tensor.num_elements, dtype=np.float32)
    values[bits[: tensor.num_elements]] = np.frombuffer(rest, dtype="<f4")
    return values.reshape(tensor.shape)


def _decode_kmeans(tensor: EncodedTensor) -> Array:
    cursor = _Cursor(tensor.payload)
    codebook, width = _read_codebook(cursor)
    if width != max(1, (len(codebook) - 1).bit_length()):
        raise ContainerError(f"index width: expected that of {len(codebook)} centroids, found {width} bits")
    packed = np.frombuffer(cursor.rest(), dtype=np.uint8)
    _check_length(tensor, -(-tensor.num_elements * width // 8), len(packed))
    if width == 8:
        indices = packed.astype(np.uint16)
    else:
        bits = np.unpackbits(packed, count=tensor.num_elements * width, bitorder="little").reshape(-1, width)
        indices = bits.astype(np.uint16) @ (np.uint16(1) << np.arange(width, dtype=np.uint16))
    if indices.size and int(indices.max()) >= len(codebook):
        raise ContainerError(f"index: expected one below {len(codebook)}, found {int(indices.max())}")
    return codebook[indices].reshape(tensor.shape)


def _decode_kmeans_rans(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
    """All streams together, which is much faster than one after the other."""
    codebooks, streams = [], []
    for name, tensor in tensors.items():
        with _named(name):
            codebook, stream = _parse_rans(tensor)
        codebooks.append(codebook)
        streams.append(stream)
    indices = decode_streams(streams)
    return {
        name: codebook[symbols].reshape(tensor.shape)
        for (name, tensor), codebook, symbols in zip(tensors.items(), codebooks, indices, strict=True)
    }


def _parse_rans(tensor: EncodedTensor) -> tuple[FloatArray, RansStream]:
    cursor = _Cursor(tensor.payload)
    codebook, scale_bits = _read_codebook(cursor)
    if not MIN_SCALE_BITS <= scale_bits <= MAX_SCALE_BITS:
        raise ContainerError(f"scale bits: expected {MIN_SCALE_BITS} to {MAX_SCALE_BITS}, found {scale_bits}")
    frequencies = np.array([cursor.varint("frequencies") for _ in codebook], dtype=np.int64)
    if int(frequencies.sum()) != 1 << scale_bits:
        raise ContainerError(f"frequencies: expected a sum of {1 << scale_bits}, found {int(frequencies.sum())}")
    lanes = int.from_bytes(cursor.take(4, "number of lanes"), "little")
    symbols = tensor.num_elements
    if not 1 <= lanes <= symbols <= lanes * MAX_SYMBOLS_PER_LANE:
        raise ContainerError(
            f"lanes: expected {MAX_SYMBOLS_PER_LANE} weights at most for each, found {lanes} for {symbols}"
        )
    states = np.frombuffer(cursor.take(4 * lanes, "states"), dtype="<u4").astype(np.uint32)
    if np.any(states < STATE_MIN):
        raise ContainerError(f"states: expected at least {STATE_MIN}, found {int(states.min())}")
    rest = cursor.rest()
    if len(rest) % 2:
        raise ContainerError(f"words: expected an even number of bytes, found {len(rest)}")
    words = np.frombuffer(rest, dtype="<u2").astype(np.uint16)
    stream = RansStream(num_symbols=symbols, scale_bits=scale_bits, frequencies=frequencies, states=states, words=words)
    return codebook, stream


def _check_length(tensor: EncodedTensor, expected: int, found: int) -> None:
    if expected != found:
        raise ContainerError(
            f"shape {list(tensor.shape)} in {tensor.encoding}: expected {expected} bytes, found {found}"
        )


#: Checks and decodes tensors of one encoding, by name; raises ``ContainerError``, naming the tensor.
Decoder = Callable[[Mapping[str, EncodedTensor]], dict[str, Array]]

#: Every encoding that a file may use, and what decodes it.
ENCODINGS: Final[Mapping[str, Decoder]] = {
    "fp32": _separately(partial(_decode_raw, stored="<f4", dtype=np.float32)),
    "fp16": _separately(partial(_decode_raw, stored="<f2", dtype=np.float32)),
    "int64": _separately(partial(_decode_raw, stored="<i8", dtype=np.int64)),
    "pruned": _separately(_decode_pruned),
    "kmeans": _separately(_decode_kmeans),
    "kmeans+rans": _decode_kmeans_rans,
}
