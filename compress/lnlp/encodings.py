"""Encodings of a tensor to bytes: raw, pruned, k-means indices and entropy-coded k-means indices.

``FORMAT.md`` specifies the byte layout of each. ``ENCODINGS`` is the table of all: a new encoding is a function that
makes an ``EncodedTensor``, a function that decodes it, and a row. NumPy only.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.compress.lnlp.bits import BitWriter
from lite_nlp.compress.lnlp.codebooks import (
    fits_fp16,
    fp16_codebook,
    sort_codebook,
    write_codebook,
    write_frequencies,
)
from lite_nlp.compress.lnlp.decoders import decode_kmeans, decode_numbers, decode_pruned, parse_rans
from lite_nlp.compress.lnlp.grid_fixed import decode_grid, encode_grid, grid_exponents
from lite_nlp.compress.lnlp.grid_payload import ParsedGrid, encode_grid_rans, grid_bits, parse_grid_rans
from lite_nlp.compress.lnlp.rans import RansSymbols, encode_streams
from lite_nlp.compress.lnlp.rans_decoder import NamedStream, decode_streams
from lite_nlp.compress.lnlp.tensors import ClusteredTensor, EncodedTensor, GridTensor, quantize_vector
from lite_nlp.core.errors import ContainerError

__all__ = [
    "ENCODINGS",
    "ClusteredTensor",
    "EncodedTensor",
    "GridTensor",
    "column_exponents",
    "decode_tensors",
    "encode_fp16",
    "encode_fp32",
    "encode_grid",
    "encode_grid_rans",
    "encode_int64",
    "encode_kmeans",
    "encode_kmeans_rans",
    "encode_pruned",
    "fp16_codebook",
    "grid_bits",
    "quantize_vector",
]

Array = NDArray[Any]
FloatArray = NDArray[np.float32]


def encode_fp32(values: Array) -> EncodedTensor:
    """Every weight as a 32-bit float."""
    return EncodedTensor(values.shape, "fp32", values.astype("<f4").tobytes())


def encode_fp16(values: Array) -> EncodedTensor:
    """Every weight as a 16-bit float; as a 32-bit float if one is too large for that, or all are too small."""
    if not fits_fp16(values):
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


def encode_kmeans(tensor: ClusteredTensor) -> EncodedTensor:
    """The codebook, then each weight's assignment in ``ceil(log2 K)`` bits."""
    tensor = sort_codebook(tensor)
    writer = BitWriter()
    write_codebook(writer, tensor.codebook)
    width = max(1, (len(tensor.codebook) - 1).bit_length())
    flat = tensor.assignments.reshape(-1)
    if width == 8:
        packed = flat.astype(np.uint8).tobytes()
    else:
        bits = (flat[:, None] >> np.arange(width, dtype=np.uint16)) & np.uint16(1)
        packed = np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()
    return EncodedTensor(tensor.assignments.shape, "kmeans", writer.to_bytes() + packed)


def encode_kmeans_rans(tensors: Mapping[str, ClusteredTensor]) -> dict[str, EncodedTensor]:
    """Several tensors at once: codebook, frequencies, then the assignments coded by rANS with those frequencies."""
    sides, symbols = [], []
    for tensor in map(sort_codebook, tensors.values()):
        writer = BitWriter()
        write_codebook(writer, tensor.codebook)
        places = tensor.assignments.reshape(-1).astype(np.int64)
        frequencies, scale_bits = write_frequencies(writer, np.bincount(places, minlength=len(tensor.codebook)))
        sides.append(writer.to_bytes())
        symbols.append(RansSymbols(places=places, frequencies=frequencies, scale_bits=scale_bits))
    return {
        name: EncodedTensor(tensor.assignments.shape, "kmeans+rans", side + stream.to_bytes())
        for (name, tensor), side, stream in zip(tensors.items(), sides, encode_streams(symbols), strict=True)
    }


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


def column_exponents(tensor: EncodedTensor) -> NDArray[np.signedinteger[Any]] | None:
    """Exponents (columns,) of the square root of 2 in the steps of a grid's columns; None where it is no such matrix.

    Raises:
        ContainerError: If the payload is damaged.
    """
    if len(tensor.shape) != 2 or tensor.encoding not in ("grid", "grid+rans"):
        return None
    if tensor.encoding == "grid":
        return grid_exponents(tensor.payload, tensor.shape)
    return parse_grid_rans(tensor.payload, tensor.shape)[1].column_exponents


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


def _decode_grid(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
    decoded = {}
    for name, tensor in tensors.items():
        with _named(name):
            decoded[name] = decode_grid(tensor.payload, tensor.shape).reshape(tensor.shape)
    return decoded


def _decode_kmeans_rans(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
    """Many streams together, which is much faster than one after the other."""

    def streams() -> Iterator[NamedStream]:
        for name, tensor in tensors.items():
            with _named(name):
                stream, tables = parse_rans(tensor.payload, tensor.num_elements)
            yield NamedStream(name, stream, tables)

    decoded = {}
    for (name, tensor), found in zip(tensors.items(), decode_streams(streams()), strict=True):
        if found.carried:
            raise ContainerError(f"tensor {name!r}: expected every lane to end in its start state, found another state")
        decoded[name] = found.values.reshape(tensor.shape)
    return decoded


def _decode_grid_rans(tensors: Mapping[str, EncodedTensor]) -> dict[str, Array]:
    """Many streams together; what their levels stand for is computed as soon as a group of them is decoded."""
    parsed: dict[str, ParsedGrid] = {}

    def streams() -> Iterator[NamedStream]:
        for name, tensor in tensors.items():
            with _named(name):
                stream, parsed[name] = parse_grid_rans(tensor.payload, tensor.shape)
            yield NamedStream(name, stream, parsed[name].tables)

    decoded = {}
    for (name, tensor), found in zip(tensors.items(), decode_streams(streams()), strict=True):
        with _named(name):
            decoded[name] = parsed.pop(name).weights(found).reshape(tensor.shape)
    return decoded


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
    "grid": _decode_grid,
    "grid+rans": _decode_grid_rans,
}
