import numpy as np
import pytest

from lite_nlp.compress.lnlp.encodings import (
    ENCODINGS,
    ClusteredTensor,
    EncodedTensor,
    decode_tensors,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
    fp16_codebook,
    quantize_vector,
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
    # Kind 0 and K - 1 = 2, whose gamma code is 0 11 (3 in binary, its leading bit first): 0, 0 1 1. Keys of fp16: -2 is
    # c000, so 3fff; 0 is 8000; 1 is 3c00, so bc00. The gaps less 1 are 16384 and 15359, their median 15871; folded, the
    # differences are 1026 and 1023, so w = 9: quotients 2 and 1, remainders 2 and 511.
    # K = 3: two bits each. Indices 2 0 1 2 fill a byte as 2 + 0 * 4 + 1 * 16 + 2 * 64 = 0x92, 1 begins the next.
    clusters = ClusteredTensor(np.array([-2, 0, 1], dtype=np.float32), np.array([2, 0, 1, 2, 1], dtype=np.uint16))
    folded = 2 * 15871 + 1
    bits = (
        "0" + "011" + f"{0x3FFF:016b}"[::-1] + f"{9:05b}"[::-1]
        + "0" * 14 + "1" + f"{folded - (1 << 14):014b}"[::-1]
        + "001" + "01" + f"{2:09b}"[::-1] + f"{511:09b}"[::-1]
    )  # fmt: skip
    bits += "0" * (-len(bits) % 8)
    side = bytes(int(bits[place : place + 8][::-1], 2) for place in range(0, len(bits), 8))
    assert encode_kmeans(clusters).payload == side + bytes.fromhex("92 01")


def test_golden_bytes_of_entropy_coded_indices() -> None:
    # One centroid, 1.0 with key bc00, and one table: P = 12, so 4 in the field; its frequency is 4096 = 2^P / K, so 0
    # above. Bits: kind 0, K - 1 = 0 as 1, the key, P - 8, the list of one: w = 31, b = 0 as 1. The state stays 2^16.
    clusters = ClusteredTensor(np.array([1], dtype=np.float32), np.array([0, 0], dtype=np.uint16))
    bits = "0" + "1" + f"{0xBC00:016b}"[::-1] + f"{4:03b}"[::-1] + "11111" + "1"
    bits += "0" * (-len(bits) % 8)
    side = bytes(int(bits[place : place + 8][::-1], 2) for place in range(0, len(bits), 8))
    payload = encode_kmeans_rans({"w": clusters})["w"].payload
    assert payload == side + bytes.fromhex("00000100")
    assert _decode(EncodedTensor((2,), "kmeans+rans", payload)).tolist() == [1.0, 1.0]


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


@pytest.mark.parametrize("greatest", [2.0**-15, 1e-9, 1e-20])
def test_what_is_too_small_for_fp16_is_kept_as_fp32(greatest: float) -> None:
    values = np.array([0.0, -greatest, greatest / 3], dtype=np.float32)
    assert np.array_equal(_decode(encode_fp16(values)), values)
    assert np.array_equal(fp16_codebook(values), values)
    tensor = ClusteredTensor(values, np.array([0, 1, 2, 1], dtype=np.uint16))
    assert np.array_equal(_decode(encode_kmeans(tensor)), tensor.values())


def test_fp16_holds_zeros_nothing_and_small_values_beside_others() -> None:
    for values in (np.zeros(2), np.zeros(0), np.array([1e-9, 2.0**-14])):
        assert encode_fp16(values).encoding == "fp16"
    clusters = ClusteredTensor(np.array([0, 1e6], dtype=np.float32), np.array([1, 0, 1], dtype=np.uint16))
    assert _decode(encode_kmeans(clusters)).tolist() == [1e6, 0.0, 1e6]


@pytest.mark.parametrize("size", [1, 2, 3, 16, 100, 256, 257, 4096])
@pytest.mark.parametrize("shape", [(1,), (13, 7), (2, 3, 100)])
def test_kmeans_round_trip(size: int, shape: tuple[int, ...]) -> None:
    clusters = _clusters(shape, size)
    assert np.array_equal(_decode(encode_kmeans(clusters)), clusters.values())
    assert np.array_equal(_decode(encode_kmeans_rans({"weight": clusters})["weight"]), clusters.values())


def test_a_codebook_in_any_order_and_with_repetitions_gives_the_same_weights() -> None:
    codebook = np.array([3.0, -0.0, 0.0, 1e6, 3.0, -1.5, np.inf], dtype=np.float32)
    clusters = ClusteredTensor(codebook, np.arange(7, dtype=np.uint16))
    for encoded in (encode_kmeans(clusters), encode_kmeans_rans({"w": clusters})["w"]):
        assert _decode(encoded).tobytes() == clusters.values().tobytes()


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
    levels = quantize_vector(clusters.values().reshape(-1), 5)
    encoded = {
        "fp32": encode_fp32(clusters.values()),
        "fp16": encode_fp16(clusters.values()),
        "int64": encode_int64(np.arange(5)),
        "pruned": encode_pruned(np.where(clusters.values() < 0, 0, clusters.values())),
        "kmeans": encode_kmeans(clusters),
        "kmeans+rans": encode_kmeans_rans({"w": clusters})["w"],
        "grid": encode_grid(levels),
        "grid+rans": encode_grid_rans({"w": levels})["w"],
    }[encoding]
    return encoded.shape, encoded.payload


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_payloads_that_are_too_short_or_too_long_name_the_tensor(encoding: str) -> None:
    shape, payload = _payload(encoding)
    for end in range(len(payload)):
        with pytest.raises(ContainerError, match="weight"):
            _decode(EncodedTensor(shape, encoding, payload[:end]))
    with pytest.raises(ContainerError, match="weight"):
        _decode(EncodedTensor(shape, encoding, payload + b"\0\0"))


@pytest.mark.parametrize(
    ("encoding", "shape", "payload", "message"),
    [
        ("huffman", (1,), b"", "unknown encoding 'huffman'"),
        ("fp32", (2,), b"\0" * 4, "expected 8 bytes for 2 weights, found 4"),
        ("pruned", (1,), b"\x01", "expected 4 bytes for 1 weights, found 0"),
        ("pruned", (1,), b"\x02\0\0\x80\x3f", "zeros after the last weight"),
        ("kmeans", (1,), b"", "codebook: expected 1 bits more, found 0"),
        ("kmeans", (1,), bytes(9), "codebook: expected numbers of at most 32 bits, found a longer one"),
        ("kmeans", (1,), b"\0\x40\0\0", "codebook: expected at most 4096 centroids, found 8192"),
        ("kmeans", (1,), b"\2\0\6", "codebook: expected zeros after the last number"),
        ("kmeans", (3,), b"\2\0\2\x08", "indices: expected zeros after the last weight"),
        ("kmeans", (3,), b"\2\0\2\1", "index: expected one below 1, found 1"),
        ("kmeans", (3,), b"\2\0\2", "expected 1 bytes for 3 weights, found 0"),
        ("kmeans+rans", (1,), b"\2\0\2", "codebook: expected 5 bits more, found 3"),
        ("kmeans+rans", (1,), b"\2\0\xfe\7", "scale bits: expected at most 12 for 1 centroids, found 15"),
        ("kmeans+rans", (1,), b"\2\0\xe2\x1b", "frequencies: expected a sum of 256, found 257"),
        ("kmeans+rans", (1,), b"\2\0\xe2\7", "expected 4 bytes of states for 1 weights and 16-bit words, found 0"),
        ("kmeans+rans", (8193,), b"\2\0\xe2\7\0\0\1\0", "expected 8 bytes of states"),
        ("kmeans+rans", (1,), b"\2\0\xe2\7\1\0\0\0", "states: expected at least 65536"),
        ("kmeans+rans", (1,), b"\2\0\xe2\7\0\0\1\0\7", "16-bit words, found 5"),
        ("grid", (0,), b"", r"expected at least one weight, found the shape \[0\]"),
        ("grid", (2,), b"\0\0\0", "expected 4 bytes of step, found 3"),
        ("grid", (2,), b"\0\0\0\0\0\0", "grid: expected"),
        ("grid+rans", (2, 0), b"", r"expected at least one weight, found the shape \[2, 0\]"),
        ("grid+rans", (2,), b"\0", "expected 2 bytes of step, found 1"),
    ],
)
def test_each_defect_has_its_message(encoding: str, shape: tuple[int, ...], payload: bytes, message: str) -> None:
    with pytest.raises(ContainerError, match=f"tensor 'weight': .*{message}"):
        _decode(EncodedTensor(shape, encoding, payload))


def test_too_many_centroids_are_refused() -> None:
    clusters = ClusteredTensor(np.arange(5000, dtype=np.float32), np.zeros(3, dtype=np.uint16))
    with pytest.raises(ValueError, match="expected 1 to 4096 centroids, found 5000"):
        encode_kmeans(clusters)
