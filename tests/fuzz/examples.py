"""The most expensive containers, each made by a function, with a part of the verdict on it."""

import json
import zlib
from collections.abc import Callable
from typing import Final

import numpy as np

from tests.fuzz.sealed import free_stream, header_of, seal, seal_files, seal_tensors

__all__ = ["EXAMPLES"]


def _random_codes(num_weights: int) -> bytes:
    """A payload of one bit for each weight, of two centroids."""
    return bytes((2, 1, 1, 0, 0, 0, 0, 60)) + np.random.default_rng(0).bytes(num_weights // 8)


def _values(count: int) -> bytes:
    return json.dumps(header_of(metadata={"x": [[{}] for _ in range(count)]})).encode()


#: Files that once cost gigabytes or minutes, and the most expensive ones that are within the limits.
EXAMPLES: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "two streams of different rows": (
        lambda: seal_tensors(
            [([10**6], "kmeans+rans", free_stream(8, 10**6)), ([4096], "kmeans+rans", free_stream(8, 1))]
        ),
        "accepted",
    ),
    "20,000 tables": (
        lambda: seal_tensors([([1], "kmeans+rans", free_stream(15, 1))] * 20_000),
        "at most 100000 values",
    ),
    "10,000 tables": (lambda: seal_tensors([([1], "kmeans+rans", free_stream(15, 1))] * 10_000), "scale bits"),
    "10,000 small tables": (lambda: seal_tensors([([1], "kmeans+rans", free_stream(12, 1))] * 10_000), "accepted"),
    "long lanes": (lambda: seal_tensors([([4096], "kmeans+rans", free_stream(12, 1))] * 4_200), "accepted"),
    "24 files of 64 MB": (
        lambda: seal_files(dict.fromkeys([f"f{i}" for i in range(24)], (zlib.compress(bytes(64 << 20)), 64 << 20))),
        "bytes of embedded files",
    ),
    "a file as large as may be": (lambda: seal_files({"f": (zlib.compress(bytes(16 << 20)), 16 << 20)}), "accepted"),
    "2^28 weights": (lambda: seal_tensors([([1 << 28], "kmeans+rans", free_stream(8, 1 << 16))]), "weights in a file"),
    "2^24 weights": (lambda: seal_tensors([([1 << 24], "kmeans+rans", free_stream(8, 1 << 12))]), "accepted"),
    "a bit for each weight": (lambda: seal_tensors([([1 << 25], "kmeans", _random_codes(1 << 25))]), "accepted"),
    "a bitmap": (lambda: seal_tensors([([1 << 25], "pruned", bytes(1 << 22))]), "accepted"),
    "wide lanes": (lambda: seal_tensors([([1 << 20], "kmeans+rans", free_stream(12, 1 << 20))]), "accepted"),
    "500,000 values": (lambda: seal(_values(250_000)), "at most 100000 values"),
    "100,000 values": (lambda: seal(_values(30_000)), "accepted"),
    "100,000 levels": (lambda: seal(b"[" * 99_999), "at most 256 levels"),
}
