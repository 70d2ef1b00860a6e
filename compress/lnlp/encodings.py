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

from lite_nlp.compress.lnlp.decoders import decode_kmeans, decode_numbers, decode_pruned, parse_rans
from lite_nlp.compress.lnlp.limits import MAX_CENTROIDS
from lite_nlp.compress.lnlp.rans import encode_streams
from lite_nlp.compress.lnlp.rans_decoder import NamedStream, decode_streams
from lite_nlp.core.errors import ContainerError

__all__ = [
    "ENCODINGS",
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


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the tensor in an error of the block."""
    try:
        yield
    except ContainerError as error:
        raise ContainerError(f"tensor {name!r}: {error}") from error


def _separately(decode: Callable[[bytes, int], Array]) -> "Decoder":
    """A decoder that decodes one tensor after the other."""

    def decode_all(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
        decoded = {}
        for name, tensor in tensors.items():
            with _named(name):
                decoded[name] = decode(tensor.payload, tensor.num_elements).reshape(tensor.shape)
        return decoded

    return decode_all


def _decode_kmeans_rans(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
    """Many streams together, which is much faster than one after the other."""

    def streams() -> Iterator[NamedStream]:
        for name, tensor in tensors.items():
            with _named(name):
                stream, codebook = parse_rans(tensor.payload, tensor.num_elements)
            yield NamedStream(name, stream, codebook)

    decoded = decode_streams(streams())
    return {name: next(decoded).reshape(tensor.shape) for name, tensor in tensors.items()}


#: Checks and decodes tensors of one encoding, by name; raises ``ContainerError``, naming the tensor.
Decoder = Callable[[Mapping[str, EncodedTensor]], dict[str, Array]]

#: Every encoding that a file may use, and what decodes it.
ENCODINGS: Final[Mapping[str, Decoder]] = {
    "fp32": _separately(partial(decode_numbers, stored="<f4", dtype=np.float32)),
    "fp16": _separately(partial(decode_numbers, stored="<f2", dtype=np.float32)),
    "int64": _separately(partial(decode_numbers, stored="<i8", dtype=np.int64)),
    "pruned": _separately(decode_pruned),
    "kmeans": _separately(decode_kmeans),
    "kmeans+rans": _decode_kmeans_rans,
}
