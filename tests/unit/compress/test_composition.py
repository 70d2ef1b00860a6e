"""Bytes by kind: from the layouts of FORMAT.md, counted by hand."""

from pathlib import Path

import numpy as np
import pytest

from lite_nlp.compress.lnlp.composition import KINDS, PARTS, bytes_by_kind, tensor_parts
from lite_nlp.compress.lnlp.container import read_container, write_container
from lite_nlp.compress.lnlp.encodings import (
    ENCODINGS,
    ClusteredTensor,
    EncodedTensor,
    encode_fp16,
    encode_fp32,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
)


def _clustered(rows: int, columns: int, centroids: int) -> ClusteredTensor:
    codebook = np.linspace(-1, 1, centroids).astype(np.float16).astype(np.float32)
    drawn = np.random.default_rng(0).integers(0, centroids, (rows, columns)).astype(np.uint16)
    drawn.ravel()[:centroids] = np.arange(centroids)
    return ClusteredTensor(codebook, drawn)


def test_every_encoding_states_its_parts() -> None:
    assert list(PARTS) == list(ENCODINGS)


@pytest.mark.parametrize(
    ("tensor", "parts"),
    [
        (encode_fp32(np.ones((3, 4))), {"weights": 48}),
        (encode_fp16(np.ones((3, 4))), {"weights": 24}),
        # A bitmap of 12 bits, and the weights that are left.
        (encode_pruned(np.eye(3, 4, dtype=np.float32)), {"weights": 12, "symbols": 2}),
        # Kind, bits, size and 5 fp16 centroids; then indices of 3 bits.
        (encode_kmeans(_clustered(16, 6, 5)), {"codebooks": 4 + 10, "symbols": 96 * 3 // 8}),
        # Vectors, scalars and whole numbers, however they are stored.
        (encode_fp16(np.ones(7)), {"biases": 14}),
        (encode_fp32(np.array(1.0)), {"biases": 4}),
        (encode_int64(np.ones((2, 2), dtype=np.int64)), {"biases": 32}),
    ],
)
def test_parts_of_a_tensor(tensor: EncodedTensor, parts: dict[str, int]) -> None:
    assert tensor_parts(tensor) == parts


def test_parts_of_an_entropy_coded_tensor() -> None:
    """4096 even symbols of 4 kinds: two bits each, frequencies of 2^P / 4 in two bytes, two lanes."""
    assignments = np.random.default_rng(1).permutation(np.arange(4096) % 4).reshape(64, 64).astype(np.uint16)
    tensor = encode_kmeans_rans({"w": ClusteredTensor(np.arange(4, dtype=np.float32), assignments)})["w"]
    parts = tensor_parts(tensor)
    lanes = int.from_bytes(tensor.payload[20:24], "little")
    assert parts["codebooks"] == 4 + 4 * 2
    scale_bits = tensor.payload[1]
    varint = 1 if 2 ** (scale_bits - 2) < 128 else 2
    assert parts["tables"] == 4 * varint
    lanes = int.from_bytes(tensor.payload[12 + 4 * varint :][:4], "little")
    assert parts["states"] == 4 + 4 * lanes
    assert parts["symbols"] == pytest.approx(4096 * 2 / 8, abs=4 * lanes)
    assert sum(parts.values()) == len(tensor.payload)


def test_the_kinds_of_a_file_sum_to_its_size(tmp_path: Path) -> None:
    path = tmp_path / "model.lnlp"
    tensors = {
        "plain": encode_fp32(np.ones((3, 5))),
        "bias": encode_fp16(np.ones(7)),
        **encode_kmeans_rans({"w": _clustered(50, 60, 9)}),
    }
    files = {"tokenizer.json": b"abc" * 400, "config.toml": b"x = 1\n"}
    size_bytes = write_container(path, tensors=tensors, files=files, metadata={"name": "m"}, aliases={"tied": "w"})
    container = read_container(path)
    found = bytes_by_kind(container, size_bytes=size_bytes)
    assert list(found) == list(KINDS)
    assert sum(found.values()) == path.stat().st_size == size_bytes
    content = path.read_bytes()
    # Preamble, header, SHA-256: FORMAT.md, "The file".
    assert found["header"] == 36 + int.from_bytes(content[12:16], "little") + 32
    assert found["vocabulary"] == container.stored_bytes["tokenizer.json"] < 1200
    assert found["files"] == container.stored_bytes["config.toml"]
    assert (found["weights"], found["biases"]) == (60, 14)
