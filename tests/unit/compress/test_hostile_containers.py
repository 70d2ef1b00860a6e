"""Well-formed but hostile: whatever a file with valid checksums holds, it is read or refused, within its bounds."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.compress.lnlp.container import container_bytes, parse_container
from lite_nlp.compress.lnlp.encodings import (
    ENCODINGS,
    ClusteredTensor,
    EncodedTensor,
    GridTensor,
    decode_tensors,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
)
from lite_nlp.compress.lnlp.limits import limits_of, max_scale_bits, max_weights
from lite_nlp.compress.lnlp.tensors import matrix_shape
from lite_nlp.compress.lnlp.vocabulary import encode_vocabulary
from lite_nlp.core.errors import ContainerError
from lite_nlp.data.tokenizer import Tokenizer
from tests.fuzz.examples import EXAMPLES
from tests.fuzz.sealed import (
    file_entry,
    free_stream,
    header_of,
    seal,
    seal_tensors,
    split,
    tensor_entry,
    zero_grid,
)
from tests.fuzz.workers import Worker, python_worker

counts = st.integers(-1, 9) | st.sampled_from([1 << 24, 1 << 31, 1 << 63, 1 << 200])
scalars = st.none() | st.booleans() | counts | st.floats(allow_nan=False) | st.text(max_size=8)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=5
)
names = st.sampled_from(["w", "v", "x.toml", ".x", "", "é", "a/b"]) | st.text(max_size=4)
shapes = st.lists(counts, max_size=9)
encodings = st.sampled_from(list(ENCODINGS))

_TOKENIZER = Tokenizer.train(["a few words, and a few more words"] * 3, vocab_size=270).to_json()


def outcome(content: bytes) -> dict[str, np.ndarray] | None:
    """The tensors, or nothing if the file is refused; anything else raised is a failure of the test."""
    try:
        return parse_container(content).state_dict()
    except ContainerError:
        return None


@st.composite
def headers(draw: st.DrawFn) -> tuple[dict[str, Any], bytes, bytes]:
    """A header that mostly fits, the files stored as they are, and the sections."""
    body, plain, files, tensors = b"", b"", [], []
    for _ in range(draw(st.integers(0, 2))):
        content = draw(st.binary(max_size=8))
        if draw(st.booleans()):
            plain += content
            files.append(file_entry(content, name=draw(names)))
        else:
            body += content
            files.append(file_entry(content, name=draw(names), length=len(content)))
    for _ in range(draw(st.integers(0, 3))):
        payload = draw(st.binary(max_size=24))
        body += payload
        tensors.append(tensor_entry(payload, name=draw(names), shape=draw(shapes), encoding=draw(encodings)))
    header = header_of(tensors, files=files, aliases=draw(st.dictionaries(names, names, max_size=2)))
    for _ in range(draw(st.integers(0, 2))):
        _edit(draw, header)
    return header, plain, body


def _edit(draw: st.DrawFn, header: dict[str, Any]) -> None:
    """Put anything in the place of one value."""
    target: Any = header
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if not isinstance(target[key], dict | list) or draw(st.booleans()):
            target[key] = draw(anything)
            return
        target = target[key]


@settings(max_examples=300, deadline=None)
@given(headers())
def test_any_header_is_read_or_refused(file: tuple[dict[str, Any], bytes, bytes]) -> None:
    header, plain, body = file
    state = outcome(seal(header, body, plain=plain))
    if state is not None:
        assert set(state) == set(header["tensors"]["names"]) | set(header["aliases"])


@given(st.binary(max_size=100))
def test_any_bytes_as_a_header_are_refused(raw: bytes) -> None:
    assert outcome(seal(raw)) is None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=3), encodings, st.binary(max_size=60), st.binary(max_size=20))
def test_any_payload_is_decoded_or_refused(shape: list[int], encoding: str, head: bytes, tail: bytes) -> None:
    for payload in (head, free_stream(8, 1) + head, zero_grid(1, 3)[:9] + head + b"\0\0\1\0" + tail):
        state = outcome(seal_tensors([(shape, encoding, payload)]))
        if state is not None:
            assert state["t0"].shape == tuple(shape)
            assert state["t0"].dtype == (np.int64 if encoding == "int64" else np.float32)


@st.composite
def clusters(draw: st.DrawFn) -> ClusteredTensor:
    size = draw(st.integers(1, 40) | st.sampled_from([255, 256, 257, 4096]))
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=3)))
    seed = draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    codebook = rng.normal(size=size).astype(np.float16 if draw(st.booleans()) else np.float32).astype(np.float32)
    return ClusteredTensor(codebook, rng.integers(0, draw(st.integers(1, size)), shape).astype(np.uint16))


@st.composite
def grids(draw: st.DrawFn) -> GridTensor:
    shape = tuple(draw(st.lists(st.integers(1, 12), max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    spread, center = draw(st.sampled_from([0.0, 0.3, 2.0, 90.0, 1e6])), draw(st.sampled_from([0, 0, 17, -5_000_000]))
    levels = np.clip(np.rint(spread * rng.standard_t(2.0, size=shape)), -3_000_000, 3_000_000) + center
    sides = [rng.integers(-most, most + 1, count) for most, count in zip((9, 63), matrix_shape(shape), strict=True)]
    step = draw(st.floats(1e-30, 1e10))
    return GridTensor(np.asarray(levels).astype(np.int32), step, *(side.astype(np.int8) for side in sides))


@settings(max_examples=50, deadline=None)
@given(st.lists(clusters(), min_size=1, max_size=3), st.lists(grids(), max_size=3))
def test_what_is_written_is_read(tensors: list[ClusteredTensor], levels: list[GridTensor]) -> None:
    coded = encode_kmeans_rans({f"rans{index}": tensor for index, tensor in enumerate(tensors)})
    values = {name: tensors[int(name[4:])].values() for name in coded}
    for index, tensor in enumerate(tensors):
        exact, encoded = tensor.values(), {"fp32": encode_fp32, "pruned": encode_pruned}
        coded |= {f"{name}{index}": encode(exact) for name, encode in encoded.items()} | {
            f"kmeans{index}": encode_kmeans(tensor)
        }
        values |= {f"{name}{index}": exact for name in (*encoded, "kmeans")}
        coded |= {f"int{index}": encode_int64(tensor.assignments), f"half{index}": encode_fp16(exact.round())}
        values |= {f"int{index}": tensor.assignments.astype(np.int64), f"half{index}": exact.round()}
    coded |= encode_grid_rans({f"grid{index}": tensor for index, tensor in enumerate(levels)})
    coded |= {f"fixed{index}": encode_grid(tensor) for index, tensor in enumerate(levels)}
    values |= {f"{kind}{index}": tensor.values() for kind in ("grid", "fixed") for index, tensor in enumerate(levels)}
    content = container_bytes(tensors=coded, files={"a": b"b" * 50}, metadata={"a": [1, None, "ü"]})
    state = parse_container(content).state_dict()
    assert list(state) == list(coded)
    for name, expected in values.items():
        assert np.array_equal(state[name], expected), name
        assert state[name].shape == expected.shape
        assert state[name].dtype == (np.int64 if name.startswith("int") else np.float32)


@settings(max_examples=150, deadline=None)
@given(clusters(), grids(), st.sampled_from(["kmeans", "kmeans+rans", "pruned", "grid", "grid+rans"]), st.data())
def test_altered_payloads_are_decoded_or_refused(
    tensor: ClusteredTensor, levels: GridTensor, encoding: str, data: st.DataObject
) -> None:
    encoded = {
        "kmeans": encode_kmeans(tensor),
        "kmeans+rans": encode_kmeans_rans({"w": tensor})["w"],
        "pruned": encode_pruned(tensor.values()),
        "grid": encode_grid(levels),
        "grid+rans": encode_grid_rans({"w": levels})["w"],
    }[encoding]
    payload = bytearray(encoded.payload)
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    end = len(payload) - data.draw(st.integers(0, 3))
    outcome(seal_tensors([(encoded.shape, encoding, bytes(payload[:end]))]))


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=40), st.integers(0, 200), st.integers(0, 100), st.data())
def test_altered_merges_are_decoded_or_refused(tail: bytes, place: int, size: int, data: st.DataObject) -> None:
    stored = encode_vocabulary(_TOKENIZER)
    assert stored is not None
    place = min(place, len(stored))
    altered = stored[:place] + tail + stored[place + data.draw(st.sampled_from([0, len(tail)])) :]
    entry = {"name": "t", "size": data.draw(st.sampled_from([size, len(_TOKENIZER)])), "length": len(altered)}
    assert outcome(seal(header_of(files=[entry]), altered)) in (None, {})


def test_honest_models_are_within_the_limits() -> None:
    # The product's budget of 10M parameters however far pruned, 8 bits for 200M, 18x smaller for both.
    assert max_weights(1000) >= 10_000_000
    assert max_weights(100_000_000) >= 200_000_000
    assert max_weights(4 * 200_000_000 // 18) >= 200_000_000
    for centroids in range(1, 4097):
        assert max_scale_bits(centroids) >= min(15, max(12, (4 * centroids - 1).bit_length()))
    assert limits_of(0, 1, 1)["weights"] == 1 << 24


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A process that reads files and measures itself."""
    worker = python_worker()
    yield worker
    worker.close()


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_file_costs_more_than_200_mb_and_40_times_its_size(name: str, worker: Worker, tmp_path: Path) -> None:
    make, expected = EXAMPLES[name]
    path = tmp_path / "hostile.lnlp"
    path.write_bytes(make())
    verdict = worker.judge("container", path)
    assert verdict is not None
    assert expected in (verdict.outcome if expected == "accepted" else verdict.detail)
    # The process itself and the library take some 60 MB of the 200.
    assert verdict.peak < 140e6 + 40 * path.stat().st_size, f"{name}: {verdict.peak / 1e6:.0f} MB"


def test_sealed_files_are_what_the_writer_writes() -> None:
    """Guards the tests themselves: these files fail for their content, not for their form."""
    content = container_bytes(tensors={"w": encode_fp32(np.ones(3))}, files={"x": b"x"}, metadata={"n": 1})
    header, plain, body = split(content)
    assert seal(json.dumps(header, sort_keys=True, separators=(",", ":")).encode(), body, plain=plain) == content
    (tensor,) = decode_tensors({"w": EncodedTensor((9000,), "kmeans+rans", free_stream(9, 9000))}).values()
    assert tensor.tolist() == [0.0] * 9000
    (tensor,) = decode_tensors({"w": EncodedTensor((16_384,), "grid+rans", zero_grid(1, 8192, repeat=2))}).values()
    assert tensor.tolist() == [0.0] * 16_384
