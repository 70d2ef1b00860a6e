"""Vectors of the ``.lnlp`` container: one small file with every encoding, and damaged copies of it."""

import base64
from typing import Any, Final

import numpy as np

from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    GridTensor,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
    quantize_vector,
)
from lite_nlp.compress.lnlp.limits import limits_of
from lite_nlp.compress.lnlp.tensors import MAX_LEVEL, matrix_shape
from lite_nlp.data.tokenizer import Tokenizer
from tools.golden.damaged_containers import damaged_vectors

__all__ = ["container_vectors"]

#: Sizes of a file, of a codebook and of a tensor whose limits are told.
_LIMIT_CASES: Final = (
    (0, 1, 1),
    (100, 512, 255),
    (1_000_000, 513, 256),
    (1 << 26, 1024, 99_999),
    (1 << 40, 4096, 1 << 28),
)


def container_vectors() -> dict[str, Any]:
    """The file, its tensors, and damaged copies with the failure that each must give."""
    tensors = _tensors()
    aliases = {"output.weight": "coded", "äöü.weight": "raw"}
    content = container_bytes(
        tensors=tensors,
        files={
            "config.toml": b'name = "small"\n',
            "empty": b"",
            "notes.txt": "Übung macht den Meister.\n".encode() * 9,
            "tokenizer.json": _tokenizer(),
        },
        metadata={"kind": "model", "name": "kleines Modell ✓", "nested": {"list": [1, 2.5, None, True, "x"]}},
        aliases=aliases,
    )
    parsed = parse_container(content)
    state = parsed.state_dict()
    return {
        "container": _text(content),
        "metadata": parsed.metadata,
        "files": {name: _text(file) for name, file in parsed.files.items()},
        "aliases": parsed.aliases,
        "tensors": {
            name: {
                "encoding": tensor.encoding,
                "shape": list(tensor.shape),
                "values": _text(state[name].astype("<i8" if tensor.encoding == "int64" else "<f4").tobytes()),
            }
            for name, tensor in tensors.items()
        },
        "limits": [[*case, limits_of(*case)] for case in _LIMIT_CASES],
        "damaged": damaged_vectors(content, _tokenizer()),
    }


def _tensors() -> dict[str, EncodedTensor]:
    random = np.random.default_rng(11)
    normal = random.normal(size=(6, 7)).astype(np.float32)
    special = np.array([0.0, -0.0, 1e-45, -1e-40, 3.4e38, -1.5, np.inf, np.nan], np.float32)
    half = np.array([0.0, -0.0, 6e-8, 6.1e-5, 65504.0, -1.5, 0.333251953125, 2.0], np.float32)
    sparse = np.where(random.random((5, 9)) < 0.3, random.normal(size=(5, 9)), 0.0).astype(np.float32)

    def clustered(shape: tuple[int, ...], centroids: int, scale: float = 1.0) -> ClusteredTensor:
        skewed = np.minimum(random.geometric(0.2, size=shape) - 1, centroids - 1)
        skewed.reshape(-1)[:centroids] = np.arange(min(centroids, skewed.size))
        return ClusteredTensor((scale * random.normal(size=centroids)).astype(np.float32), skewed.astype(np.uint16))

    coded = {
        "coded": clustered((40, 61), 30),
        "coded.wide": clustered((3, 1500), 300, 1e6),
        "coded.one": ClusteredTensor(np.array([0.25], np.float32), np.zeros((7,), np.uint16)),
    }
    return {
        "raw": encode_fp32(normal),
        "raw.special": encode_fp32(special),
        "raw.scalar": encode_fp32(np.array(2.5, np.float32)),
        "raw.empty": encode_fp32(np.zeros((0, 4), np.float32)),
        "half": encode_fp16(half.reshape(2, 4)),
        "counter": encode_int64(np.array([0, -1, 1 << 62, -(1 << 63)], np.int64)),
        "pruned": encode_pruned(sparse),
        "pruned.all": encode_pruned(np.zeros((3, 3), np.float32)),
        "clustered": encode_kmeans(clustered((9, 11), 20)),
        "clustered.two": encode_kmeans(clustered((13,), 2)),
        "clustered.one": encode_kmeans(clustered((4,), 1)),
        "clustered.256": encode_kmeans(clustered((300,), 256)),
        "clustered.300": encode_kmeans(clustered((310,), 300, 1e6)),
        **encode_kmeans_rans(coded),
        **_grids(random),
    }


def _grids(random: np.random.Generator) -> dict[str, EncodedTensor]:
    """Tensors on a grid: of every encoding, and with every part of the side information."""

    def levels(shape: tuple[int, ...], spread: float, step: float, exponents: int = 0, center: int = 0) -> GridTensor:
        rows, columns = matrix_shape(shape)
        scales = np.exp2(random.normal(size=(rows, 1)) + random.normal(size=(1, columns)))
        exact = np.rint(spread * scales * random.standard_t(3.0, size=(rows, columns))).reshape(shape) + center
        sides = [random.integers(-exponents, exponents + 1, count).astype(np.int8) for count in (rows, columns)]
        return GridTensor(np.clip(exact, -MAX_LEVEL, MAX_LEVEL).astype(np.int32), step, *sides)

    coded = {
        "grid.sparse": levels((120, 90), 0.2, 0.0123),
        "grid.exponents": levels((60, 8, 10), 1.5, 3.3e-3, exponents=9),
        "grid.escapes": levels((40, 50), 300.0, 1e-4, exponents=63),
        "grid.lanes": levels((170, 100), 0.8, 0.5),
        "grid.vector": quantize_vector(1.0 + 0.1 * random.normal(size=200), 6),
        "grid.scalar": levels((), 3.0, 7.5),
        "grid.zeros": levels((9, 1000), 0.0, 1.0),
        "grid.far": levels((7, 30), 2.0, 1e-30, center=-5_000_000),
        "grid.subnormal": levels((5, 6), 2.0, 1e-42, exponents=3),
        "grid.infinite": levels((5, 6), 50.0, 3e37, exponents=3),
    }
    fixed = {
        "fixed.exponents": levels((11, 3, 4), 2.0, 0.02, exponents=5),
        "fixed.equal": GridTensor(np.full(5, -3, np.int32), 0.1, np.zeros(1, np.int8), np.zeros(5, np.int8)),
        "fixed.wide": levels((60,), 1e5, 1e-7, center=4_000_000),
    }
    return {**encode_grid_rans(coded), **{name: encode_grid(tensor) for name, tensor in fixed.items()}}


def _tokenizer() -> bytes:
    """A small tokenizer, whose characters JSON escapes among others."""
    text = ('"Ein" paar Wörter \\ und "ein" paar mehr', "ein paar \\\\ Wörter")
    return Tokenizer.train(text * 3, vocab_size=330).to_json()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
