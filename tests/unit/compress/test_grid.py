from math import sqrt

import numpy as np
import pytest

from lite_nlp.compress.lnlp.encodings import (
    EncodedTensor,
    GridTensor,
    decode_tensors,
    encode_grid,
    encode_grid_rans,
    grid_bits,
    quantize_vector,
)
from lite_nlp.compress.lnlp.grid_tables import NUM_CLASSES, NUM_SHAPES, build_tables, class_of_magnitude
from lite_nlp.compress.lnlp.rans import entropy_bits
from lite_nlp.compress.lnlp.tensors import MAX_LEVEL


def _decode(tensor: EncodedTensor) -> np.ndarray:
    return decode_tensors({"w": tensor})["w"]


def _tensor(levels: np.ndarray, step: float = 0.5, rows: object = None, columns: object = None) -> GridTensor:
    height, width = (1, levels.size) if levels.ndim < 2 else (levels.shape[0], levels[0].size)
    return GridTensor(
        levels.astype(np.int32),
        step,
        np.zeros(height, np.int8) if rows is None else np.array(rows, np.int8),
        np.zeros(width, np.int8) if columns is None else np.array(columns, np.int8),
    )


def _laplace(shape: tuple[int, int], spread: float, seed: int = 0, uneven: float = 0.7) -> GridTensor:
    rng = np.random.default_rng(seed)
    scales = np.exp2(uneven * (rng.normal(size=(shape[0], 1)) + rng.normal(size=(1, shape[1]))))
    return _tensor(np.rint(rng.laplace(scale=spread * scales)))


def test_values_are_levels_times_powers_of_the_root_of_two() -> None:
    tensor = _tensor(np.array([[1, -2, 3], [0, 5, -7]]), 0.25, [0, 3], [-1, 0, 2])
    expected = np.array([[1 / sqrt(2), -2, 6], [0, 5 * 2 * sqrt(2), -7 * 4 * sqrt(2)]]) * 0.25
    assert np.allclose(tensor.values(), expected, rtol=3e-7)
    # Even exponents are powers of two and cost no bit of precision.
    assert tensor.values()[0, 2] == 1.5
    assert tensor.values().dtype == np.float32


def test_the_arithmetic_to_the_bit() -> None:
    # 0.1 is 3dcccccd; times sqrt2 (3fb504f3) it is 0.14142136 = 3e10d0c2 rounded; times 3 and rounded: 3ed93923.
    step, root = np.float32(0.1), np.uint32(0x3FB504F3).view(np.float32)
    scale = np.float32(np.float64(step) * np.float64(root))
    expected = np.float32(3 * np.float64(scale))
    tensor = _tensor(np.array([3, 0]), 0.1, [1])
    assert tensor.values()[0] == expected
    assert tensor.values().tobytes()[4:] == bytes(4)
    tensor = _tensor(np.array([3]), 0.1, [-60], [-1])
    assert tensor.values()[0] == np.float32(3 * np.float64(scale) * 2.0**-31)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (4, 1, 6), (300, 200)])
@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0, 5e4])
def test_round_trip(shape: tuple[int, ...], spread: float) -> None:
    rng = np.random.default_rng(3)
    levels = np.rint(spread * rng.standard_t(2.0, size=shape)).clip(-(1 << 23) + 1, (1 << 23) - 1)
    tensor = _tensor(np.asarray(levels), 0.013)
    for encoded in (encode_grid(tensor), encode_grid_rans({"w": tensor})["w"]):
        assert encoded.shape == shape
        assert np.array_equal(_decode(encoded), tensor.values())


def test_golden_bytes_of_levels_of_fixed_width() -> None:
    # A step of 0.5; w = 2 and the least level -1 (folded 1: 0 1 0); exponents all 0 (w = 31, 0) twice; levels 0 1 2 3.
    payload = encode_grid(_tensor(np.array([-1, 0, 1, 2]))).payload
    bits = "01000" + "010" + "111111" + "111111" + "0000"
    side = bytes(int(bits[place : place + 8][::-1], 2) for place in range(0, 24, 8))
    assert payload == bytes.fromhex("0000003f") + side + bytes([0b11100100])


def test_columns_and_rows_of_different_size_take_fewer_bits_than_their_entropy() -> None:
    tensor = _laplace((400, 300), 1.0)
    coded = 8 * len(encode_grid_rans({"w": tensor})["w"].payload)
    flat = entropy_bits(np.unique(tensor.levels, return_counts=True)[1])
    assert coded < 0.97 * flat


@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0, 6.0, 40.0])
def test_even_levels_take_little_more_than_their_entropy(spread: float) -> None:
    tensor = _laplace((300, 300), spread, uneven=0.0)
    coded = 8 * len(encode_grid_rans({"w": tensor})["w"].payload)
    assert coded < 1.02 * entropy_bits(np.unique(tensor.levels, return_counts=True)[1]) + 400


def test_zeros_take_next_to_nothing() -> None:
    assert len(encode_grid_rans({"w": _tensor(np.zeros((1000, 1000)))})["w"].payload) < 1200


def test_a_rare_large_level_takes_a_few_bytes() -> None:
    tensor = _laplace((100, 100), 0.3)
    levels = tensor.levels.copy()
    levels[50, 50] = -6_000_000
    before, after = (len(encode_grid_rans({"w": _tensor(array)})["w"].payload) for array in (tensor.levels, levels))
    assert after < before + 150
    assert np.array_equal(_decode(encode_grid_rans({"w": _tensor(levels)})["w"]), _tensor(levels).values())


def test_small_vectors_have_a_small_overhead() -> None:
    rng = np.random.default_rng(1)
    for mean in (0.0, 1.0, -30.0):
        tensor = quantize_vector(mean + 0.1 * rng.normal(size=256), 5)
        entropy = entropy_bits(np.unique(tensor.levels, return_counts=True)[1]) / 8
        assert len(encode_grid_rans({"w": tensor})["w"].payload) < entropy + 24


@pytest.mark.parametrize("bits", [1, 2, 5, 8, 16])
def test_a_vector_is_rounded_to_its_bits(bits: int) -> None:
    values = np.random.default_rng(2).normal(0.4, 1.0, 999)
    tensor = quantize_vector(values, bits)
    assert int(tensor.levels.max()) - int(tensor.levels.min()) < 1 << bits
    assert np.abs(tensor.values() - values).max() <= 1.001 * tensor.step
    assert np.median(np.abs(tensor.values() - values)) <= 0.5 * tensor.step


def test_vectors_of_special_values() -> None:
    assert not quantize_vector(np.zeros(4), 5).values().any()
    assert np.allclose(quantize_vector(np.full(4, -0.3), 5).values(), -0.3, rtol=1e-6)
    assert np.allclose(quantize_vector(np.array([1e6, 1e6 + 1e-3]), 5).values(), 1e6, rtol=1e-6)
    assert quantize_vector(np.array([0.0, 3.0, 0.0]), 2).values()[[0, 2]].tolist() == [0.0, 0.0]
    assert quantize_vector(np.zeros(0), 3).levels.size == 0
    ends = np.array([2.0**126, -(2.0**126)])
    assert np.all(np.isfinite(quantize_vector(ends, 1).values()))
    assert np.allclose(quantize_vector(ends, 5).values(), ends, rtol=0.1)
    for values, bits in (([np.nan], 5), ([np.inf], 5), ([1e38, -1e38], 5), ([1.0], 0), ([1.0], 17)):
        with pytest.raises(ValueError, match="expected"):
            quantize_vector(np.array(values), bits)


def test_estimates_are_near() -> None:
    tensors = {f"w{spread}": _laplace((500, 400), spread) for spread in (0.15, 0.7, 3.0)}
    tensors |= {"bias": quantize_vector(np.random.default_rng(1).normal(size=2000), 6)}
    coded = encode_grid_rans(tensors)
    for name, bits in grid_bits(tensors).items():
        assert bits == pytest.approx(8 * len(coded[name].payload), rel=0.02), name
    assert sum(grid_bits(tensors).values()) == pytest.approx(
        8 * sum(len(tensor.payload) for tensor in coded.values()), rel=0.01
    )


def test_tables_sum_to_their_scale_and_expect_their_magnitude() -> None:
    classes = np.arange(NUM_CLASSES)
    for shape in range(NUM_SHAPES):
        tables = build_tables(shape, np.zeros(8, np.int64), classes)
        assert np.all(tables.frequencies.sum(axis=1) == 4096)
        positions = np.arange(tables.frequencies.shape[1])
        magnitudes = np.where(
            positions < 2 * tables.reach[:, None] + 1, (positions + 1) // 2, tables.reach[:, None] + 1
        )
        means = (tables.frequencies * magnitudes).sum(axis=1) / 4096
        middle = slice(24, 64)
        assert np.all(np.abs(class_of_magnitude(means[middle]) - classes[middle]) <= 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 0.0}, "step: expected a number above 0 that a float32 holds, found 0.0"),
        ({"step": 1e300}, "step: expected a number above 0"),
        ({"step": 1e-60}, "step: expected a number above 0"),
        ({"step": float("nan")}, "step"),
        ({"rows": [0]}, r"exponents: expected 2 of rows and 3 of columns, found \(\(1,\), \(3,\)\)"),
        ({"columns": [0, 64, 0]}, "column exponents: expected integers within 63 of zero"),
        ({"step": 1e38, "rows": [9, 0]}, "step: expected one that is finite with all exponents"),
    ],
)
def test_what_is_no_grid_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _tensor(np.ones((2, 3)), **arguments)


def test_levels_beyond_their_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="levels: expected integers within 8388607 of zero"):
        _tensor(np.array([1 << 23]))
    for encode in (
        encode_grid,
        lambda tensor: encode_grid_rans({"w": tensor}),
        lambda tensor: grid_bits({"w": tensor}),
    ):
        with pytest.raises(ValueError, match=r"levels: expected at least one, found the shape \[0, 3\]"):
            encode(_empty())


def _empty() -> GridTensor:
    return GridTensor(np.zeros((0, 3), np.int32), 1.0, np.zeros(0, np.int8), np.zeros(3, np.int8))


def test_a_vector_whose_values_are_next_to_equal_is_stored() -> None:
    """The gains of a normalization after a few steps: the span is a ten-millionth of the values."""
    values = (1 + 1e-7 * np.random.default_rng(0).standard_normal(64)).astype(np.float32)
    for sign in (1, -1):
        grid = quantize_vector(sign * values, 6)
        found = decode_tensors(encode_grid_rans({"gains": grid}))["gains"]
        np.testing.assert_array_equal(found, grid.values())
        np.testing.assert_allclose(found, sign * values, rtol=3e-7)


@pytest.mark.parametrize("level", [MAX_LEVEL, MAX_LEVEL - 100, -MAX_LEVEL])
def test_levels_at_the_bound_are_stored(level: int) -> None:
    levels = np.full((4, 8), level, dtype=np.int32)
    levels[0] -= np.sign(level)
    grid = GridTensor(
        levels=levels, step=1e-3, row_exponents=np.zeros(4, np.int8), column_exponents=np.zeros(8, np.int8)
    )
    found = decode_tensors(encode_grid_rans({"w": grid}))["w"]
    np.testing.assert_array_equal(found, grid.values())
