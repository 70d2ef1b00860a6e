"""The most expensive containers, each made by a function, with a part of the verdict on it."""

import json
import zlib
from collections.abc import Callable
from typing import Final

import numpy as np

from lite_nlp.compress.lnlp.encodings import ClusteredTensor, GridTensor, encode_grid, encode_kmeans
from tests.fuzz.sealed import free_stream, header_of, seal, seal_files, seal_tensors, zero_grid

__all__ = ["EXAMPLES"]


def _random_codes(num_weights: int) -> bytes:
    """A payload of one bit for each weight, of two centroids."""
    codebook = encode_kmeans(ClusteredTensor(np.array([0.0, 1.0], np.float32), np.array([0, 1], np.uint16))).payload[
        :-1
    ]
    return codebook + np.random.default_rng(0).bytes(num_weights // 8)


def _equal_levels() -> bytes:
    """A payload of levels of no bits."""
    levels = np.full(3, -7, dtype=np.int32)
    return encode_grid(GridTensor(levels, 0.5, np.zeros(1, np.int8), np.zeros(3, np.int8))).payload


def _merges(count: int) -> bytes:
    """A file with a tokenizer of so many merges in no bytes."""
    skeleton = zlib.compress(b"\0\0")
    stored = (3).to_bytes(2, "little") + count.to_bytes(3, "little") + len(skeleton).to_bytes(2, "little") + skeleton
    return seal(header_of(files=[{"name": "t", "size": 16 << 20, "length": len(stored)}]), stored)


def _values(count: int) -> bytes:
    return json.dumps(header_of(metadata={"x": [[{}] for _ in range(count)]})).encode()


#: Files that once cost gigabytes or minutes, and the most expensive ones that are within the limits.
EXAMPLES: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "two streams of different rows": (
        lambda: seal_tensors(
            [([10**6], "kmeans+rans", free_stream(8, 10**6)), ([8192], "kmeans+rans", free_stream(8, 8192))]
        ),
        "accepted",
    ),
    "50,000 tables": (
        lambda: seal_tensors([([1], "kmeans+rans", free_stream(15, 1))] * 50_000),
        "at most 100000 values",
    ),
    "10,000 tables": (lambda: seal_tensors([([1], "kmeans+rans", free_stream(15, 1))] * 10_000), "scale bits"),
    "10,000 small tables": (lambda: seal_tensors([([1], "kmeans+rans", free_stream(12, 1))] * 10_000), "accepted"),
    "2,000 pairs of tables": (
        lambda: seal_tensors([([2, 1], "grid+rans", zero_grid(2, 1, row_classes=(-9, 9)))] * 2_000),
        "accepted",
    ),
    "tables for nothing": (
        lambda: seal_tensors([([9, 1], "grid+rans", zero_grid(9, 1, row_classes=range(9)))] * 500),
        "tables: expected at most 2",
    ),
    "long lanes": (lambda: seal_tensors([([8192], "kmeans+rans", free_stream(12, 8192))] * 2_048), "accepted"),
    "a file of 64 MB": (lambda: seal_files({"f": bytes(64 << 20)}), "bytes of embedded files"),
    "a file as large as may be": (lambda: seal_files({"f": bytes(16 << 20)}), "accepted"),
    "2^28 weights": (lambda: seal_tensors([([1 << 28], "kmeans+rans", free_stream(8, 1 << 28))]), "weights in a file"),
    "2^24 weights": (lambda: seal_tensors([([1 << 24], "kmeans+rans", free_stream(8, 1 << 24))]), "accepted"),
    "2^24 levels": (lambda: seal_tensors([([1 << 24], "grid+rans", zero_grid(1, 8192, repeat=2048))]), "accepted"),
    "2^24 equal levels": (lambda: seal_tensors([([1 << 24], "grid", _equal_levels())]), "accepted"),
    "2^24 levels in rows of one": (
        lambda: seal_tensors([([1 << 24, 1], "grid+rans", zero_grid(1, 8192, repeat=2048))]),
        "accepted",
    ),
    "100,000 merges": (lambda: _merges(100_000), "expected ids of types"),
    "a bit for each weight": (lambda: seal_tensors([([1 << 25], "kmeans", _random_codes(1 << 25))]), "accepted"),
    "a bitmap": (lambda: seal_tensors([([1 << 25], "pruned", bytes(1 << 22))]), "accepted"),
    "500,000 values": (lambda: seal(_values(250_000)), "at most 100000 values"),
    "100,000 values": (lambda: seal(_values(30_000)), "accepted"),
    "100,000 levels": (lambda: seal(b"[" * 99_999), "at most 256 levels"),
}
