"""Bytes by kind: from the layouts of FORMAT.md, counted by hand."""

import math
import zlib
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
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
)
from lite_nlp.compress.lnlp.rans import num_lanes
from lite_nlp.compress.lnlp.tensors import GridTensor
from lite_nlp.data.tokenizer import Tokenizer


def _grid(rows: int, columns: int, levels: int) -> GridTensor:
    drawn = _clustered(rows, columns, levels).assignments.astype(np.int32) - levels // 2
    return GridTensor(drawn, 0.5, np.zeros(rows, np.int8), np.zeros(columns, np.int8))


def _clustered(rows: int, columns: int, centroids: int) -> ClusteredTensor:
    codebook = (1 + np.arange(centroids) / 1024).astype(np.float32)
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
        # 5 neighbouring fp16 centroids: kind in 1 bit, their number in 5, the first in 16, the constant list of gaps in
        # 6; then indices of 3 bits.
        (encode_kmeans(_clustered(16, 6, 5)), {"codebooks": 4, "symbols": 96 * 3 // 8}),
        # A step of 4 bytes; width in 5 bits, least level in 5, two constant lists in 6 each; then levels of 3 bits.
        (encode_grid(_grid(16, 6, 5)), {"codebooks": 4 + 3, "symbols": 96 * 3 // 8}),
        # Vectors, scalars and whole numbers, however they are stored.
        (encode_fp16(np.ones(7)), {"biases": 14}),
        (encode_fp32(np.array(1.0)), {"biases": 4}),
        (encode_int64(np.ones((2, 2), dtype=np.int64)), {"biases": 32}),
    ],
)
def test_parts_of_a_tensor(tensor: EncodedTensor, parts: dict[str, int]) -> None:
    assert tensor_parts(tensor) == parts


@pytest.mark.parametrize("shape", [(16, 6), (64, 64), (100, 300)])
def test_parts_of_entropy_coded_tensors(shape: tuple[int, int]) -> None:
    tensors = {
        "kmeans": encode_kmeans_rans({"w": _clustered(*shape, 9)})["w"],
        "grid": encode_grid_rans({"w": _grid(*shape, 9)})["w"],
    }
    for tensor in tensors.values():
        parts = tensor_parts(tensor)
        assert list(parts) == ["codebooks", "symbols", "tables", "states"]
        assert sum(parts.values()) == len(tensor.payload)
        assert parts["states"] == 4 * num_lanes(tensor.num_elements)
        # Even symbols of 9 kinds; a state carries 16 bits of them.
        ideal = tensor.num_elements * math.log2(9) / 8
        assert 0.9 * ideal - 4 * num_lanes(tensor.num_elements) < parts["symbols"] < 1.1 * ideal + 8
        assert parts["codebooks"] + parts["tables"] < 60


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
    # The header's stream holds the small files too, and the section of the vocabulary is absent: it has no merges.
    assert 100 < found["header"] < size_bytes - 60 - 14
    assert found["vocabulary"] + found["files"] == len(zlib.compress(b"".join(files.values()), 9))
    assert found["vocabulary"] == len(zlib.compress(files["tokenizer.json"], 9))
    assert (found["weights"], found["biases"]) == (60, 14)


def test_a_vocabulary_with_a_section_of_its_own_is_measured_there(tmp_path: Path) -> None:
    path, tokenizer = tmp_path / "model.lnlp", Tokenizer.train(["a few words of a few words"] * 3, vocab_size=270)
    files = {"tokenizer.json": tokenizer.to_json()}
    size_bytes = write_container(path, tensors={}, files=files, metadata={})
    container = read_container(path)
    found = bytes_by_kind(container, size_bytes=size_bytes)
    assert found["vocabulary"] == container.stored_bytes["tokenizer.json"] > 0
    assert found["vocabulary"] + found["header"] == size_bytes
