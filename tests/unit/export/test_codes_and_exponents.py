"""What recipes say of tensors that are rounded to integers or scaled."""

import zlib
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.recipes import Recipes
from lite_nlp.export.runtime.rounded import STEP, read_codes
from lite_nlp.export.runtime.scaled import ScaledTensor, Scaling, powers, read_scalings
from tests.unit.export.recipe_tensors import MATRIX, ROWS, TENSORS, rounded_tensors


def test_codes_are_read_one_matrix_after_another() -> None:
    tensors = {"one": ROWS, "other": ROWS + 1}
    codes = bytes([127, 16, STEP + 7, STEP + 1, 0, 7])
    found = read_codes(rounded_tensors(one=8, other=4), zlib.compress(codes), tensors, source="c")
    assert found["one"].codes.tolist() == [127, 16]
    assert found["other"].codes.tolist() == [[STEP + 7, STEP + 1], [0, 7]]
    assert found["other"].values is tensors["other"]


@pytest.mark.parametrize(
    ("bits", "stream", "message"),
    [
        ({"none": 8}, zlib.compress(b""), "expected a tensor of the container, found 'none'"),
        (
            {"counter": 8},
            zlib.compress(b"xx"),
            r"counter: expected an fp32 matrix with rows, found int64 of",
        ),
        ({"matrix": 4}, zlib.compress(b""), r"rows of blocks of 32, found float32 of shape \(2, 3\)"),
        ({"matrix": 8}, zlib.compress(b"\x00\x01"), "matrix: expected codes of 8 bits, found 0"),
        ({"matrix": 8}, zlib.compress(b"\x01\x80"), "matrix: expected codes of 8 bits, found 128"),
        ({"rows": 4}, zlib.compress(b"\x01\x08\x01\x01"), "rows: expected codes of 4 bits, found 8"),
        ({"rows": 4}, zlib.compress(b"\x01\x80\x01\x01"), "rows: expected codes of 4 bits, found 128"),
        ({"rows": 4}, zlib.compress(b"\x01\x01\x01\x88"), "rows: expected codes of 4 bits, found 136"),
        ({"matrix": 8}, zlib.compress(b"\x01"), "expected a zlib stream of exactly 2 bytes, found 1"),
        ({"matrix": 8}, zlib.compress(b"\x01\x01\x01"), "expected a zlib stream of exactly 2 bytes"),
        ({"matrix": 8}, zlib.compress(b"\x01\x01")[:-1], "expected a zlib stream of exactly 2 bytes"),
        ({"matrix": 8}, zlib.compress(b"\x01\x01") + b"x", "expected a zlib stream of exactly 2 bytes"),
        ({"matrix": 8}, b"none", "expected a zlib stream, found another"),
    ],
)
def test_codes_that_do_not_fit(bits: dict[str, int], stream: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        read_codes(rounded_tensors(**bits), stream, {**TENSORS, "rows": ROWS}, source="c")


def test_values_are_scaled_by_powers_of_the_root_of_two() -> None:
    # The root itself is rounded once; what is even is exact.
    assert powers(np.array([0, 2, -4, 1, -1], np.int8)).tolist() == [
        1,
        2,
        0.25,
        1.41421353816986083984375,
        0.7071067690849304,
    ]
    scaled = Scaling(rows=np.array([2, -2], np.int8), columns=np.array([0, 4, 1], np.int8)).apply(MATRIX)
    root = np.float32(np.sqrt(2))
    assert scaled.tolist() == [[2, 16, 6 * root], [2, 10, 3 * root]]
    assert Scaling(rows=np.array([2, -4], np.int8)).apply(TENSORS["vector"]).tolist() == [14, 2]


@pytest.mark.parametrize(
    ("entry", "stream", "message"),
    [
        ({"tensor": "none", "rows": True}, b"", "expected a tensor of the container by its own name, found 'none'"),
        ({"tensor": "counter", "rows": True}, b"\0\0", r"counter: expected an fp32 matrix or vector, found int64 of"),
        (
            {"tensor": "kernel", "rows": True},
            b"\0\0",
            r"expected an fp32 matrix or vector, found float32 of shape \(2, 1, 3\)",
        ),
        (
            {"tensor": "vector", "columns": True},
            b"\0\0",
            r"vector: expected an fp32 matrix, found float32 of shape \(2,\)",
        ),
        ({"tensor": "vector", "rows": True}, b"\0\x7f", "vector: expected exponents within 126 of zero, found 127"),
        ({"tensor": "vector", "rows": True}, b"\x81\0", "expected exponents within 126 of zero, found -127"),
        ({"tensor": "vector", "rows": True}, b"\0", "expected a zlib stream of exactly 2 bytes, found 1"),
        ({"tensor": "matrix", "rows": True, "columns": True}, bytes(6), "expected a zlib stream of exactly 5 bytes"),
    ],
)
def test_exponents_that_do_not_fit(entry: dict[str, Any], stream: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        read_scalings([ScaledTensor(**entry)], zlib.compress(stream), TENSORS, source="e")


def test_a_tensor_is_scaled_once_and_at_all() -> None:
    entry = {"tensor": "matrix", "rows": True}
    with pytest.raises(ValidationError, match="scaled: expected each tensor once"):
        Recipes.model_validate({"scaled": [entry, entry], "parts": {}})
    with pytest.raises(ValidationError, match="matrix: expected scaled rows, columns or both, found neither"):
        ScaledTensor(tensor="matrix")


def test_a_matrix_has_codes_once() -> None:
    with pytest.raises(ValidationError, match="expected each tensor once"):
        Recipes(rounded=rounded_tensors(m=8) + rounded_tensors(m=4), parts={})
