import numpy as np
import pytest

from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    decode_tensors,
    encode_fp16,
    encode_fp32,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
    fp16_codebook,
)
from lite_nlp.core.errors import ContainerError


def _decode(tensor: EncodedTensor) -> np.ndarray:
    return decode_tensors({"weight": tensor})["weight"]


def _clusters(shape: tuple[int, ...], size: int, seed: int = 0) -> ClusteredTensor:
    rng = np.random.default_rng(seed)
    codebook = fp16_codebook(np.sort(rng.normal(size=size)).astype(np.float32))
    return ClusteredTensor(codebook, rng.integers(0, size, shape).astype(np.uint16))


def test_golden_bytes_of_raw_numbers() -> None:
    values = np.array([[1.0, -2.0]], dtype=np.float32)
    assert encode_fp32(values).payload == bytes.fromhex("0000803f 000000c0")
    assert encode_fp16(values).payload == bytes.fromhex("003c 00c0")
    assert encode_int64(np.array(-2)).payload == bytes.fromhex("feffffffffffffff")


def test_golden_bytes_of_pruned_weights() -> None:
    # Weights 1 and 8 of nine are kept: bits 1 of byte 0 and 0 of byte 1.
    values = np.array([0, 1, 0, 0, 0, 0, 0, 0, -2], dtype=np.float32)
    assert encode_pruned(values).payload == bytes.fromhex("02 01 0000803f 000000c0")


def test_golden_bytes_of_kmeans_indices() -> None:
    # K = 3: two bits each. Indices 2 0 1 2 fill a byte as 2 + 0 * 4 + 1 * 16 + 2 * 64 = 0x92, 1 begins the next.
    clusters = ClusteredTensor(np.array([-2, 0, 1], dtype=np.float32), np.array([2, 0, 1, 2, 1], dtype=np.uint16))
    assert encode_kmeans(clusters).payload == bytes.fromhex("02 02 0200  00c0 0000 003c  92 01")


def test_golden_bytes_of_entropy_coded_indices() -> None:
    # Two symbols that occur equally often: f = (2048, 2048) of 4096, one lane. Indices 0 1, coded backwards:
    # 65536 -> 65536 / 2048 = 32 rest 0 -> 32 * 4096 + 2048 = 133120 -> 65 rest 0 -> 65 * 4096 = 266240 = 0x41000.
    clusters = ClusteredTensor(np.array([0, 1], dtype=np.float32), np.array([0, 1], dtype=np.uint16))
    payload = encode_kmeans_rans({"w": clusters})["w"].payload
    assert payload == bytes.fromhex("02 0c 0100  0000 003c  8010 8010  01000000  00100400")
    assert _decode(EncodedTensor((2,), "kmeans+rans", payload)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 0, 4)])
def test_raw_and_pruned_round_trip(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    values = np.where(np.abs(values) < 0.5, np.float32(0), values)
    assert np.array_equal(_decode(encode_fp32(values)), values)
    assert np.array_equal(_decode(encode_pruned(values)), values)
    assert np.array_equal(_decode(encode_fp16(values)), values.astype(np.float16).astype(np.float32))
    assert _decode(encode_fp32(values)).dtype == np.float32


def test_integers_stay_exact() -> None:
    values = np.array([2**60 + 1, -5])
    assert _decode(encode_int64(values)).tolist() == [2**60 + 1, -5]


def test_weights_too_large_for_16_bits_are_kept_in_32() -> None:
    values = np.array([1e6], dtype=np.float32)
    assert _decode(encode_fp16(values)).tolist() == [1e6]
    clusters = ClusteredTensor(np.array([0, 1e6], dtype=np.float32), np.array([1, 0, 1], dtype=np.uint16))
    assert _decode(encode_kmeans(clusters)).tolist() == [1e6, 0.0, 1e6]


@pytest.mark.parametrize("size", [1, 2, 3, 16, 100, 256, 257, 4096])
@pytest.mark.parametrize("shape", [(1,), (13, 7), (2, 3, 100)])
def test_kmeans_round_trip(size: int, shape: tuple[int, ...]) -> None:
    clusters = _clusters(shape, size)
    assert np.array_equal(_decode(encode_kmeans(clusters)), clusters.values())
    assert np.array_equal(_decode(encode_kmeans_rans({"weight": clusters})["weight"]), clusters.values())


def test_several_tensors_keep_their_order_and_values() -> None:
    clusters = {"b": _clusters((40, 50), 30), "a": _clusters((9,), 4, seed=1)}
    tensors = {"x": encode_fp32(np.ones(3)), **encode_kmeans_rans(clusters), "y": encode_fp16(np.zeros(2))}
    decoded = decode_tensors(tensors)
    assert list(decoded) == ["x", "b", "a", "y"]
    assert np.array_equal(decoded["b"], clusters["b"].values())
    assert np.array_equal(decoded["a"], clusters["a"].values())


def test_unused_centroids_cost_nothing() -> None:
    wide = ClusteredTensor(np.arange(256, dtype=np.float32), np.full(100, 7, dtype=np.uint16))
    narrow = ClusteredTensor(np.array([7], dtype=np.float32), np.zeros(100, dtype=np.uint16))
    assert encode_kmeans_rans({"w": wide}) == encode_kmeans_rans({"w": narrow})


def test_more_zeros_take_fewer_bytes() -> None:
    clusters = _clusters((100, 100), 256)
    half = ClusteredTensor(clusters.codebook, np.where(np.arange(10_000) % 2, 0, clusters.assignments.reshape(-1)))
    full, sparse = (len(encode_kmeans_rans({"w": item})["w"].payload) for item in (clusters, half))
    assert sparse < 0.7 * full


def _payload(encoding: str) -> tuple[tuple[int, ...], bytes]:
    clusters = _clusters((30, 10), 20)
    encoded = {
        "fp32": encode_fp32(clusters.values()),
        "fp16": encode_fp16(clusters.values()),
        "int64": encode_int64(np.arange(5)),
        "pruned": encode_pruned(np.where(clusters.values() < 0, 0, clusters.values())),
        "kmeans": encode_kmeans(clusters),
        "kmeans+rans": encode_kmeans_rans({"w": clusters})["w"],
    }[encoding]
    return encoded.shape, encoded.payload


@pytest.mark.parametrize("encoding", ["fp32", "fp16", "int64", "pruned", "kmeans", "kmeans+rans"])
def test_payloads_that_are_too_short_or_too_long_name_the_tensor(encoding: str) -> None:
    shape, payload = _payload(encoding)
    for end in range(len(payload)):
        with pytest.raises(ContainerError):
            _decode(EncodedTensor(shape, encoding, payload[:end]))
    with pytest.raises(ContainerError):
        _decode(EncodedTensor(shape, encoding, payload + b"\0\0"))


@pytest.mark.parametrize(
    ("encoding", "shape", "payload", "message"),
    [
        ("huffman", (1,), b"", "unknown encoding 'huffman'"),
        ("fp32", (2,), b"\0" * 4, "expected 8 bytes for 2 weights, found 4"),
        ("pruned", (1,), b"\x01", "expected 4 bytes for 1 weights, found 0"),
        ("pruned", (1,), b"\x02\0\0\x80\x3f", "zeros after the last weight"),
        ("kmeans", (1,), b"\x03\x01\0\0", "codebook: expected kind 2 or 4"),
        ("kmeans", (1,), b"\x02\x01\xff\xff", "at most 4096 centroids"),
        ("kmeans", (1,), b"\x02\x05\0\0\0\0\0", "index width"),
        ("kmeans", (1,), b"\x02\x02\x02\0\0\0\0\0\0\0\x03", "index: expected one below 3, found 3"),
        ("kmeans+rans", (1,), b"\x02\x07\0\0\0\0", "scale bits: expected 8 to 15, found 7"),
        ("kmeans+rans", (1,), b"\x02\x08\0\0\0\0\x05", "expected a sum of 256, found 5"),
        ("kmeans", (3,), b"\x02\x01\0\0\0\0\x08", "zeros after the last weight"),
        ("kmeans+rans", (1,), b"\x02\x0d\0\0\0\0\x80\x40", "scale bits: expected at most 12 for 1 centroids, found 13"),
        ("kmeans+rans", (1,), b"\x02\x08\0\0\0\0\xff\xff\xff\x01", "at most 3 bytes"),
        ("kmeans+rans", (1,), b"\x02\x08\0\0\0\0\x80\x82\0", "shortest form"),
        ("kmeans+rans", (9999,), b"\x02\x08\0\0\0\0\x80\x02\x01\0\0\0\0\0\1\0", "4096 weights at most"),
        ("kmeans+rans", (1,), b"\x02\x08\0\0\0\0\x80\x02\x02\0\0\0", "found 2 for 1"),
        ("kmeans+rans", (1,), b"\x02\x08\0\0\0\0\x80\x02\x01\0\0\0\1\0\0\0", "states: expected at least 65536"),
        ("kmeans+rans", (1,), b"\x02\x08\0\0\0\0\x80\x02\x01\0\0\0\0\0\1\0\7", "even number of bytes"),
    ],
)
def test_each_defect_has_its_message(encoding: str, shape: tuple[int, ...], payload: bytes, message: str) -> None:
    with pytest.raises(ContainerError, match=f"tensor 'weight': .*{message}"):
        _decode(EncodedTensor(shape, encoding, payload))


def test_too_many_centroids_are_refused() -> None:
    clusters = ClusteredTensor(np.arange(5000, dtype=np.float32), np.zeros(3, dtype=np.uint16))
    with pytest.raises(ValueError, match="expected 1 to 4096 centroids, found 5000"):
        encode_kmeans(clusters)
