"""Payloads of tensors that do not fit their encoding, each with one defect."""

from collections.abc import Sequence

import numpy as np

from lite_nlp.compress.lnlp.bits import BitWriter
from lite_nlp.compress.lnlp.decoders import parse_rans
from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    GridTensor,
    encode_grid,
    encode_grid_rans,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
)
from lite_nlp.compress.lnlp.grid_payload import parse_grid_rans

__all__ = ["bad_payloads"]


def bad_payloads() -> dict[str, EncodedTensor]:
    """Payloads that do not fit their encoding, each with one defect."""
    pruned = encode_pruned(np.array([0.0, 1.0, 2.0], np.float32)).payload
    bad: dict[str, tuple[str, tuple[int, ...], bytes]] = {
        "fp32 a byte short": ("fp32", (2,), bytes(7)),
        "fp32 a byte long": ("fp32", (2,), bytes(9)),
        "fp16 of the length of fp32": ("fp16", (2,), bytes(8)),
        "int64 short": ("int64", (1,), bytes(4)),
        "pruned without bitmap": ("pruned", (9,), b"\x00"),
        "pruned with a value too few": ("pruned", (3,), pruned[:-4]),
        "pruned with a value too many": ("pruned", (3,), pruned + bytes(4)),
        "pruned with bits after the last weight": ("pruned", (3,), b"\x0e" + pruned[1:] + bytes(4)),
        **_bad_clusters(),
        **_bad_grids(),
    }
    return {name: EncodedTensor(shape, encoding, payload) for name, (encoding, shape, payload) in bad.items()}


#: A defect: encoding, shape and payload.
_Defect = tuple[str, tuple[int, ...], bytes]


def _bad_clusters() -> dict[str, _Defect]:
    random = np.random.default_rng(12)
    clustered = ClusteredTensor(np.array([-1.0, 0.0, 1.0], np.float32), random.integers(0, 3, 50).astype(np.uint16))
    kmeans, rans = encode_kmeans(clustered).payload, encode_kmeans_rans({"x": clustered})["x"].payload
    side, stream = _side_of(rans, 50)

    def codebook(size: int = 3, first: int = 1, gaps: Sequence[int] = (2, 3), wide: bool = False) -> BitWriter:
        writer = BitWriter()
        writer.field(int(wide), 1)
        writer.number(size - 1)
        writer.field(first, 32 if wide else 16)
        writer.numbers(gaps)
        return writer

    def table(scale_bits: int, differences: Sequence[int], size: int = 3) -> bytes:
        writer = codebook(size, gaps=range(size - 1))
        writer.field(scale_bits - 8, 3)
        writer.numbers(differences)
        return writer.to_bytes()

    width_of_gaps = codebook(gaps=())
    width_of_gaps.field(30, 5)
    width_of_gaps.signed(0)
    width_of_gaps.field(0, 32)
    return {
        "kmeans of no byte": ("kmeans", (50,), b""),
        "kmeans with 4097 centroids": ("kmeans", (1,), codebook(4097, gaps=[0] * 4096).to_bytes() + bytes(2)),
        "kmeans with a number without end": ("kmeans", (50,), bytes(20)),
        "kmeans with a gap below zero": ("kmeans", (4,), codebook(gaps=(2, -1)).to_bytes() + b"\0"),
        "kmeans with centroids of 17 bits": ("kmeans", (4,), codebook(first=65_533, gaps=(1, 9)).to_bytes() + b"\0"),
        "kmeans with centroids of 33 bits": (
            "kmeans",
            (4,),
            codebook(first=(1 << 32) - 2, gaps=(0, 1), wide=True).to_bytes() + b"\0",
        ),
        "kmeans with gaps that do not end": ("kmeans", (4,), width_of_gaps.to_bytes() + bytes(9)),
        "kmeans with an index too large": ("kmeans", (50,), kmeans[:-13] + b"\xff" + kmeans[-12:]),
        "kmeans a byte short": ("kmeans", (50,), kmeans[:-1]),
        "kmeans a byte long": ("kmeans", (50,), kmeans + b"\x00"),
        "kmeans with bits after the last index": ("kmeans", (50,), kmeans[:-1] + bytes([kmeans[-1] | 0x80])),
        "rans with scale bits 13 for 3 centroids": ("kmeans+rans", (50,), table(13, (8000, -2730, -2730)) + stream),
        "rans with another sum of frequencies": ("kmeans+rans", (50,), table(12, (1, -1, 0)) + stream),
        "rans with a frequency of zero": ("kmeans+rans", (50,), table(8, (171, -256, 0)) + stream),
        "rans with a frequency below zero": ("kmeans+rans", (50,), table(8, (-86, 129, 128)) + stream),
        "kmeans with a bit after the codebook": ("kmeans", (4,), _with_last_bit(codebook().to_bytes()) + b"\0"),
        "rans without states": ("kmeans+rans", (50,), side),
        "rans of two lanes with one state": ("kmeans+rans", (8193,), side + stream[:4]),
        "rans with a state below 2^16": ("kmeans+rans", (50,), side + b"\xff\xff\x00\x00" + stream[4:]),
        "rans with another state": ("kmeans+rans", (50,), side + b"\x00\x00\x01\x01" + stream[4:]),
        "rans that carries a number": ("kmeans+rans", (1,), _carrying()),
        "rans with half a word": ("kmeans+rans", (50,), rans + b"\x00"),
        "rans with a word too many": ("kmeans+rans", (50,), rans + b"\x00\x00"),
        "rans with a word too few": ("kmeans+rans", (50,), rans[:-2]),
        "rans of no weights": ("kmeans+rans", (0,), rans),
    }


def _carrying() -> bytes:
    """One index of one centroid, which leaves the state as it is, and another state than the first."""
    payload = encode_kmeans_rans({"x": ClusteredTensor(np.zeros(1, np.float32), np.zeros(1, np.uint16))})["x"].payload
    return payload[:-4] + ((1 << 16) + 5).to_bytes(4, "little")


def _with_last_bit(content: bytes) -> bytes:
    """Bits with the last one set, which must be one of those that fill up the last byte."""
    if content[-1] & 0x80:
        raise ValueError("expected bits that fill no whole number of bytes, found others")
    return content[:-1] + bytes([content[-1] | 0x80])


def _side_of(payload: bytes, num_weights: int) -> tuple[bytes, bytes]:
    """What is in front of the stream of indices, and the stream."""
    stream, _ = parse_rans(payload, num_weights)
    size = len(stream.to_bytes())
    return payload[:-size], payload[-size:]


def _bad_grids() -> dict[str, _Defect]:
    levels = np.random.default_rng(13).integers(-3, 4, (20, 30)).astype(np.int32)
    tensor = GridTensor(levels, 0.75, np.arange(20, dtype=np.int8), np.zeros(30, np.int8))
    fixed, coded = encode_grid(tensor).payload, encode_grid_rans({"x": tensor})["x"].payload
    stream = parse_grid_rans(coded, (20, 30))[0].to_bytes()
    zeros = encode_grid_rans({"x": GridTensor(np.zeros(9, np.int32), 1.0, np.zeros(1, np.int8), np.zeros(9, np.int8))})[
        "x"
    ]
    tail = parse_grid_rans(zeros.payload, (9,))[0].to_bytes()

    def side(
        *,
        shape: int = 2,
        center: int = 0,
        base: int = 0,
        widths: Sequence[int] = (0, 0),
        tilt: int = 0,
        classes: Sequence[int] = (),
        exponents: Sequence[int] = (0,),
        escapes: Sequence[int] = (),
        count: int | None = None,
    ) -> bytes:
        """The side information of a vector, and the stream of nine zeros."""
        writer = BitWriter()
        writer.field(shape, 3)
        writer.signed(center)
        writer.field(base, 7)
        for width in widths:
            writer.field(width, 3)
        writer.numbers([tilt] * 8)
        writer.numbers(classes)
        writer.numbers([0])
        writer.numbers(exponents)
        writer.number(len(escapes) if count is None else count)
        writer.numbers(escapes)
        return b"\x80\x3f" + writer.to_bytes() + tail

    def packed(least: int, width: int, content: bytes, *, step: bytes = b"\0\0\x80\x3f") -> bytes:
        writer = BitWriter()
        writer.field(width, 5)
        writer.signed(least)
        writer.numbers([0])
        writer.numbers([0])
        return step + writer.to_bytes() + content

    equal = BitWriter()
    equal.field(0, 5)
    equal.signed(0)
    equal.field(0b11, 2)
    return {
        "grid of three bytes": ("grid", (4,), fixed[:3]),
        "grid with a step of zero": ("grid", (4,), packed(0, 1, b"\x0a", step=bytes(4))),
        "grid with a step below zero": ("grid", (4,), packed(0, 1, b"\x0a", step=b"\0\0\x80\xbf")),
        "grid with a step of NaN": ("grid", (4,), packed(0, 1, b"\x0a", step=b"\0\0\xc0\x7f")),
        "grid with levels of 25 bits": ("grid", (4,), packed(0, 25, b"\xff" * 13)),
        "grid with an infinite scale": ("grid", (4,), b"\xff\xff\x7f\x7f" + _exponents(1) + b"\x0a"),
        "grid without its least level": ("grid", (4,), packed(0, 1, b"\x0f")),
        "grid with a bit too many": ("grid", (4,), packed(0, 2, b"\x44")),
        "grid with a level too large": ("grid", (4,), packed((1 << 23) - 1, 1, b"\x0a")),
        "grid with a least level too small": ("grid", (4,), packed(-(1 << 23), 1, b"\x0a")),
        "grid with bits after the last level": ("grid", (4,), packed(0, 1, b"\x1a")),
        "grid a byte short": ("grid", (20, 30), fixed[:-1]),
        "grid a byte long": ("grid", (20, 30), fixed + b"\0"),
        "grid with an exponent of 64": ("grid", (4,), b"\0\0\x80\x3f" + _exponents(64) + b"\x0a"),
        "grid with equal numbers in a long form": ("grid", (2,), b"\0\0\x80\x3f" + equal.to_bytes() + bytes(1)),
        "grid of no weights": ("grid", (0, 3), fixed),
        "levels of a byte": ("grid+rans", (9,), coded[:1]),
        "levels with shape 6": ("grid+rans", (9,), side(shape=6)),
        "levels with class 73": ("grid+rans", (9,), side(base=73)),
        "levels with a center too large": ("grid+rans", (9,), side(center=1 << 23)),
        "levels with a tilt of 32": ("grid+rans", (9,), side(tilt=32)),
        "levels with an exponent of -64": ("grid+rans", (9,), side(exponents=(-64,))),
        "levels with a class of 64": ("grid+rans", (9,), side(widths=(1, 0), classes=(64,))),
        "levels with too many tables": (
            "grid+rans",
            (9,),
            side(widths=(0, 1), classes=range(9), base=24),
        ),
        "levels with an escape too many": ("grid+rans", (9,), side(escapes=(900,))),
        "levels with more escapes than weights": ("grid+rans", (9,), side(count=10)),
        "levels with escapes that are not there": ("grid+rans", (9,), side(count=9)),
        "levels with an escape of 2^23": ("grid+rans", (9,), side(escapes=(1 << 23,))),
        "levels with a step of zero": ("grid+rans", (9,), b"\0\0" + zeros.payload[2:]),
        "levels with another state": ("grid+rans", (20, 30), coded[: -len(stream)] + b"\0\0\1\1" + stream[4:]),
        "levels with a word too many": ("grid+rans", (20, 30), coded + b"\1\0"),
        "levels with a word too few": ("grid+rans", (20, 30), coded[:-2]),
        "levels with half a word": ("grid+rans", (20, 30), coded[:-1]),
        "levels of no weights": ("grid+rans", (0,), coded),
        "levels of another shape": ("grid+rans", (30, 20), coded),
    }


def _exponents(value: int) -> bytes:
    """Side information of levels of one bit from 0 on, with this exponent for the row."""
    writer = BitWriter()
    writer.field(1, 5)
    writer.signed(0)
    writer.numbers([value])
    writer.numbers([0])
    return writer.to_bytes()
