import numpy as np
import pytest

from lite_nlp.compress.lnlp.encodings import GridTensor, decode_tensors, encode_grid_rans
from lite_nlp.export.rounding import PAIRS, quantize_blocks, quantize_rows
from lite_nlp.export.runtime.rounded import BLOCK, CUTS, STEP, pack_levels


def test_rows_are_rounded_to_their_own_multiples() -> None:
    values = np.array([[0.0001, -1.27, 0.512345], [0, 0, 0], [300, 1.1, -254.3], [80.3, 90, 3.77]], np.float32)
    rounded = quantize_rows(values)
    integers = rounded.integers()
    assert integers.dtype == np.int8
    # Of 127 for the largest sum of two neighbours: 1.2701, 301.1 and 170.3.
    np.testing.assert_array_equal(integers, [[0, -126, 51], [0, 0, 0], [126, 0, -107], [60, 67, 3]])
    np.testing.assert_allclose(rounded.scales, [1.27 / 126, 1, 300 / 126, 90 / 67], rtol=1e-6)
    np.testing.assert_array_equal(rounded.restored(), integers * rounded.scales[:, None])
    assert rounded.codes.tolist() == [126, 127, 126, 67]


def test_two_neighbours_add_up_within_sixteen_bits() -> None:
    values = np.random.default_rng(7).standard_normal((200, 33)).astype(np.float32)
    values[:50] = np.abs(values[:50])
    values[50, :2] = (1, -1)
    rounded = quantize_rows(values)
    integers = np.abs(np.pad(rounded.integers().astype(int), ((0, 0), (0, 1))))
    sums = (integers[:, 0::2] + integers[:, 1::2]).max(axis=1)
    # To the nearest, each of the two may be half a step more.
    assert 255 * sums.max() <= np.iinfo(np.int16).max
    assert sums.min() >= 125
    assert np.abs(rounded.restored() - values).max() <= rounded.scales.max() / 2


@pytest.mark.parametrize(
    "levels",
    [[0, 1, -3, 2], [5, -2, 7, 0], [6, 10, 15, -15], [127, -126, 1, 0], [-4, 8, 0, 0], [9, 0, 0, 0]],
)
def test_rows_on_a_grid_stay_what_they_are(levels: list[int]) -> None:
    # Neither the least magnitude nor the least gap need be the step.
    step = np.float32(0.0371)
    values = (np.array([levels], np.float32) * step).astype(np.float32)
    rounded = quantize_rows(values)
    common = int(np.gcd.reduce(levels))
    np.testing.assert_allclose(rounded.restored(), values, rtol=2e-7)
    np.testing.assert_array_equal(rounded.integers()[0], np.array(levels) // common)
    assert rounded.scales[0] == pytest.approx(common * step, rel=1e-6)
    assert rounded.codes[0] == max(map(abs, levels)) // common


@pytest.mark.parametrize("levels", [[128, 0, 3.3], [np.sqrt(2), 0, 1], [1 + 1e-5, 0, 1], [1001, 0, 1000, 0, 1]])
def test_rows_on_no_grid_of_eight_bits_get_a_127th(levels: list[float]) -> None:
    values = np.array([levels], np.float32)
    assert quantize_rows(values).scales[0] == pytest.approx(np.abs(values).max() / 127, rel=1e-6)


def test_what_compression_made_with_steps_by_row_is_exact() -> None:
    random = np.random.default_rng(2)
    levels = random.integers(-9, 10, (70, 64)).astype(np.int32)
    rows = random.integers(-6, 5, 70).astype(np.int8)
    tensors = {
        "by row": GridTensor(levels, 0.0123, rows, np.zeros(64, np.int8)),
        "by column": GridTensor(levels, 0.0123, rows, random.integers(-6, 5, 64).astype(np.int8)),
    }
    errors = {}
    for name, values in decode_tensors(encode_grid_rans(tensors)).items():
        errors[name] = (np.abs(quantize_rows(values).restored() - values) / np.abs(values).max()).max()
    assert errors["by row"] < 2e-7
    assert errors["by column"] > 1e-4


def test_blocks_are_rounded_to_the_nearest_of_sixteen_levels() -> None:
    random = np.random.default_rng(3)
    values = random.standard_normal((5, 3 * BLOCK)).astype(np.float32)
    values[1, :BLOCK] = 0
    # A block with one large value: none of the scales makes the others vanish.
    values[2, BLOCK] = 40
    rounded = quantize_blocks(values)
    levels, scales = rounded.integers().reshape(5, 3, BLOCK), rounded.scales
    assert (levels.dtype, scales.shape) == (np.int8, (5, 3))
    assert rounded.codes.max() < len(CUTS)
    assert (levels.min(), levels.max()) == (-8, 7)
    assert (scales > 0).all()
    # XNNPACK keeps the upper half of a scale.
    assert not (scales.view(np.uint32) & 0xFFFF).any()
    for row in range(5):
        for block in range(3):
            scale = float(scales[row, block])
            wanted = values[row, block * BLOCK : (block + 1) * BLOCK].astype(np.float64)
            nearest = np.clip(np.round(wanted / scale), -8, 7)
            np.testing.assert_array_equal(levels[row, block], nearest)
            error = np.square(levels[row, block] * scale - wanted).sum()
            # No worse than the plain scale, by which the largest magnitude is level 7.
            plain = max(np.abs(wanted).max(), 1e-30) / 7
            assert error <= 1.02 * np.square(np.round(wanted / plain) * plain - wanted).sum()


def test_cutting_the_largest_gains_something() -> None:
    values = np.random.default_rng(5).standard_normal((64, 4 * BLOCK)).astype(np.float32)
    blocks = values.reshape(64, 4, BLOCK)
    plain = np.abs(blocks).max(axis=2)[:, :, None] / 7
    error = np.square(quantize_blocks(values).restored() - values).sum()
    assert error < 0.9 * np.square(np.round(blocks / plain) * plain - blocks).sum()


def test_blocks_of_a_row_on_a_grid_are_exact() -> None:
    random = np.random.default_rng(4)
    wanted = random.integers(-7, 8, (3, 2 * BLOCK))
    wanted[:, 0] = 7
    rounded = quantize_blocks((wanted * np.float32(0.3)).astype(np.float32))
    np.testing.assert_allclose(rounded.scales, 0.3, rtol=1e-6)
    np.testing.assert_array_equal(rounded.integers(), wanted)
    assert (rounded.codes == STEP + 7).all()


def test_levels_are_packed_two_in_a_byte() -> None:
    levels = np.array([[-8, 7, 0, -1], [3, -3, 7, 7]], np.int8)
    packed = pack_levels(levels)
    assert (packed.dtype, packed.shape) == (np.uint8, (2, 2))
    assert packed[0].tolist() == [0 + 16 * 15, 8 + 16 * 7]
    np.testing.assert_array_equal(PAIRS[packed].reshape(2, 4), levels)
