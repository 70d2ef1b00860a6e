"""The reader and the writer against a reader that follows FORMAT.md word for word."""

import base64
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    GridTensor,
    encode_grid_rans,
    encode_kmeans_rans,
)
from lite_nlp.compress.lnlp.grid_tables import NUM_CLASSES, NUM_SHAPES, build_tables
from tests.fuzz.seeds import make_seeds


def _load_slow() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_lnlp", Path(__file__).with_name("slow_lnlp.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["slow_lnlp"] = module
    spec.loader.exec_module(module)
    return module


slow = _load_slow()


def _compare(content: bytes) -> None:
    header, files, tensors = slow.read(content)
    container = parse_container(content)
    state = container.state_dict()
    assert (header["metadata"], header["aliases"]) == (container.metadata, container.aliases)
    assert files == container.files
    assert list(tensors) == list(container.tensors)
    for name, (shape, values) in tensors.items():
        assert list(state[name].shape) == shape
        expected = np.array(values, dtype=state[name].dtype)
        assert state[name].reshape(-1).tobytes() == expected.tobytes() or np.array_equal(
            state[name].reshape(-1), expected, equal_nan=True
        ), name


@pytest.mark.parametrize("place", range(3))
def test_files_of_every_encoding(place: int) -> None:
    _compare(make_seeds()["container"][place])


def _content(tensors: dict[str, EncodedTensor]) -> bytes:
    return container_bytes(tensors=tensors, files={}, metadata={})


@pytest.mark.parametrize("count", [1, 2, 8192, 8193, 20_000])
def test_streams_of_indices(count: int) -> None:
    rng = np.random.default_rng(count)
    skewed = np.where(rng.random(count) < 0.4, 0, rng.geometric(0.2, count) % 40).astype(np.uint16)
    codebook = np.sort(rng.normal(size=40).astype(np.float16).astype(np.float32))
    _compare(_content(encode_kmeans_rans({"w": ClusteredTensor(codebook, skewed)})))


@pytest.mark.parametrize(
    ("shape", "spread", "step"),
    [
        ((90, 100), 0.3, 0.01),
        ((30, 7, 5), 4.0, 3.3),
        ((50, 40), 500.0, 1e-4),
        ((7,), 9.0, 1e-42),
        ((6, 50), 900.0, 3e35),
        ((), 1.0, 2.0),
    ],
)
def test_levels(shape: tuple[int, ...], spread: float, step: float) -> None:
    rng = np.random.default_rng(5)
    rows = shape[0] if len(shape) > 1 else 1
    columns = int(np.prod(shape)) // rows
    scales = np.exp2(rng.normal(size=(rows, 1)) + rng.normal(size=(1, columns)))
    levels = np.rint(spread * scales * rng.standard_t(3.0, size=(rows, columns))).astype(np.int32).reshape(shape)
    exponents = rng.integers(-9, 10, rows).astype(np.int8), rng.integers(-9, 10, columns).astype(np.int8)
    _compare(_content(encode_grid_rans({"w": GridTensor(levels, step, *exponents)})))


@pytest.mark.parametrize("shape", range(NUM_SHAPES))
def test_tables(shape: int) -> None:
    rng = np.random.default_rng(shape)
    for tilts in (np.zeros(8, np.int64), rng.integers(-32, 32, 8), np.array([31, -32] * 4), np.full(8, 31)):
        classes = np.array([0, NUM_CLASSES - 1, *rng.integers(1, NUM_CLASSES - 1, 6)])
        tables = build_tables(shape, tilts, classes)
        for klass, reach, frequencies in zip(classes, tables.reach, tables.frequencies, strict=True):
            expected = slow.frequencies(shape, int(klass), tuple(tilts.tolist()))
            assert reach == len(expected) // 2 - 1
            assert frequencies[: len(expected)].tolist() == expected
            assert not frequencies[len(expected) :].any()


def test_golden_file() -> None:
    """The file that the Kotlin reader is tested with."""
    import gzip
    import json

    root = Path(__file__).parents[2]
    vectors = root / "android_demo/core/src/test/resources/golden/containers.json.gz"
    _compare(base64.b64decode(json.loads(gzip.decompress(vectors.read_bytes()))["container"]))
